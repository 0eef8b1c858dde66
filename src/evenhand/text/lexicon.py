"""Protected words: which words of a text name a group of people, and what to put in their place.

A lexicon is a TOML file, the same for those that come with the package and for a user's own (docs/lexicons.md).
"""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from evenhand.choices import DEFAULT_LEXICON, Ambiguous
from evenhand.errors import EvenhandError, unknown_name
from evenhand.text.lexicon_file import Attribute, Form, Key, LexiconFile, after_word, key_of, parsed
from evenhand.text.tokens import Tokens, match_case

SHIPPED = Path(str(resources.files("evenhand.text") / "lexicons"))


@dataclass(frozen=True)
class Mention:
    """A protected term in a text: tokens [start, end), whose value it names, and its place in the lexicon."""

    start: int
    end: int
    value: int
    form: str
    index: int


@dataclass(frozen=True)
class _Term:
    """A term, its value, and each form it stands in with its place there, in the order of the file.

    A phrase that holds a term without meaning it has no places.
    """

    key: Key
    value: int
    places: list[tuple[Form, int]] = field(default_factory=list)


class ProtectedWords:
    """A protected attribute of texts: finds the mentions of its values and knows what may replace them."""

    def __init__(self, attribute: Attribute, word_lists: dict[str, list[str]] | None = None) -> None:
        self.name = attribute.name
        self.title = attribute.title or attribute.name
        self.note = attribute.note
        self.values = tuple(attribute.values)
        self._lists = {name: frozenset(word.lower() for word in words) for name, words in (word_lists or {}).items()}
        self._forms = {form.name: form for form in attribute.all_forms}
        self._terms = self._collected()
        self._starts: dict[str, list[_Term]] = defaultdict(list)
        others = [_Term(key_of(phrase), -1) for phrase in attribute.phrases]
        for term in sorted([*self._terms.values(), *others], key=lambda term: -len(term.key)):
            self._starts[term.key[0]].append(term)
        self._rules = {key_of(word): rule for rule in attribute.ambiguous for word in rule.terms}

    def _collected(self) -> dict[Key, _Term]:
        terms: dict[Key, _Term] = {}
        for form in self._forms.values():
            for number, value in enumerate(self.values):
                for index, word in enumerate(form.words.get(value, [])):
                    term = terms.setdefault(key_of(word), _Term(key_of(word), number))
                    if all(known is not form for known, _ in term.places):  # an aligned list may repeat a word
                        term.places.append((form, index))
        return terms

    @property
    def forms(self) -> tuple[str, ...]:
        """The names of the grammatical forms."""
        return tuple(self._forms)

    def mentions(self, tokens: Tokens, ambiguous: Ambiguous = "keep") -> list[Mention]:
        """The protected terms of a text from left to right, the longest at each place, none overlapping.

        With "exclude", a term that the lexicon calls ambiguous counts only where its context speaks for it.
        """
        found: list[Mention] = []
        free = 0  # tokens before here are taken
        for start, word in enumerate(tokens.words):
            if word in self._starts and start >= free and (term := self._term_at(tokens, start, ambiguous)):
                free = start + len(term.key)
                if term.places:
                    form, index = self._place(tokens, start, term)
                    found.append(Mention(start, free, term.value, form.name, index))
        return found

    def _term_at(self, tokens: Tokens, start: int, ambiguous: Ambiguous) -> _Term | None:
        """The longest term or phrase that begins here and counts."""
        for term in self._starts[tokens.words[start]]:
            end = start + len(term.key)
            if tuple(tokens.words[start:end]) != term.key:
                continue
            rule = self._rules.get(term.key) if ambiguous == "exclude" else None
            if rule is None or rule.meant(tokens, start, end, self._lists):
                return term
        return None

    def _place(self, tokens: Tokens, start: int, term: _Term) -> tuple[Form, int]:
        """The first of the term's forms with a context that holds; the last one if there is none."""
        for form, index in term.places[:-1]:
            if any(context.holds(tokens, start, start + len(term.key), self._lists) for context in form.contexts):
                return form, index
        return term.places[-1]

    def replacement(self, mention: Mention, value: int) -> str | None:
        """The word of another value in the mention's form, as the lexicon writes it; None if there is none."""
        form = self._forms[mention.form]
        words = form.words.get(self.values[value])
        if not words:
            return None
        return words[mention.index] if form.aligned or value == mention.value else words[0]

    def replacement_words(self, mention: Mention, value: int) -> Key | None:
        """The replacement as the tokenizer cuts it."""
        word = self.replacement(mention, value)
        return None if word is None else key_of(word)

    def surface(self, tokens: Tokens, mention: Mention, value: int) -> str | None:
        """The replacement in the case of the mention, ready for `rendered`."""
        word = self.replacement(mention, value)
        if word is None:
            return None
        like = tokens.surface(mention.start, mention.end)
        own = self.replacement(mention, mention.value) or like
        if own.isupper() and like.isupper():
            like = like.capitalize()  # "USA" does not shout
        if own[0].isupper() and like[0].isupper() and not like.isupper() and after_word(tokens, mention.start):
            return word  # the capital is that of a name, not of a sentence's start: "atheist" stays as it is
        return match_case(word, like)

    def terms_of(self, value: int) -> tuple[str, ...]:
        """Every term of a value in all forms, as the lexicon writes it, without repetition."""
        name = self.values[value]
        return tuple(dict.fromkeys(word for form in self._forms.values() for word in form.words.get(name, [])))

    def value_index(self, name: str) -> int:
        """The number of a value, whatever its case; an unknown name is an error that says the nearest one."""
        names = [value.lower() for value in self.values]
        if name.lower() not in names:
            raise unknown_name(f"value of {self.name} called", name, self.values)
        return names.index(name.lower())

    @cached_property
    def all_words(self) -> frozenset[str]:
        """Every word that is part of any term; punctuation within terms is left out."""
        return frozenset(word for key in self._terms for word in key if word[-1].isalnum())

    @cached_property
    def pattern(self) -> str:
        """An RE2 expression that matches every text with a mention, and a few others: a quick first sieve."""
        return _sieve(self._terms)


class Lexicon:
    """Protected attributes with the provenance of their words."""

    def __init__(self, content: LexiconFile) -> None:
        self.name = content.name
        self.title = content.title or content.name
        self.source = content.source
        self.licence = content.licence
        self.note = content.note
        lists = content.word_lists
        self.attributes = {attribute.name: ProtectedWords(attribute, lists) for attribute in content.attributes}

    def attribute(self, name: str) -> ProtectedWords:
        """A protected attribute; an unknown name is an error that says which there are."""
        if name not in self.attributes:
            raise unknown_name(f"protected attribute in the lexicon {self.name} called", name, self.attributes)
        return self.attributes[name]

    @classmethod
    def parse(cls, content: dict[str, Any], where: str) -> "Lexicon":
        """Validate the content of a lexicon file; `where` names it in errors."""
        return cls(parsed(content, where))


def shipped_lexicons() -> list[str]:
    """The names of the lexicons that come with the package."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def load_lexicon(name_or_path: str | Path = DEFAULT_LEXICON) -> Lexicon:
    """A lexicon of the package by its name, or a user's own by the path of its TOML file."""
    path = Path(name_or_path)
    if path.suffix != ".toml" and len(path.parts) == 1:
        if path.name not in shipped_lexicons():
            known = unknown_name("lexicon", path.name, shipped_lexicons())
            raise EvenhandError(f"{known} For a lexicon of your own, give the path of its .toml file.")
        path = SHIPPED / f"{path.name}.toml"
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise EvenhandError(f"Cannot read the lexicon {path}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise EvenhandError(f"The lexicon {path} is not valid TOML: {error}.") from error
    return Lexicon.parse(content, where=str(path))


_GAP = r"[\s\x0b\x1c-\x1f\x{85}\pZ]*"  # spaces as Python knows them; RE2's own \s is ASCII only


def _sieve(keys: Iterable[Key]) -> str:
    """The terms as one RE2 expression, grouped by their borders, which keeps it fast.

    RE2's word border knows ASCII letters only and takes "_" for one, so the borders are spelt out.
    """
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key in keys:
        left = "(?:^|[^0-9A-Za-z])" if key[0][0].isalnum() and key[0] != "n't" else ""
        right = "(?:$|[^0-9A-Za-z]|n['’]t)" if key[-1][-1].isalnum() else ""
        body = _GAP.join(re.escape(word).replace("'", "['’]").replace("i̇", "(?:i̇|İ)") for word in key)
        groups[left, right].append(body)
    return "(?i)" + "|".join(f"{left}(?:{'|'.join(sorted(bodies))}){right}" for (left, right), bodies in groups.items())
