"""Protected words: which words of a text name a group of people, and what to put in their place.

A lexicon is a TOML file, the same for those that come with the package and for a user's own (docs/lexicons.md).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from evenhand.choices import DEFAULT_LEXICON, Ambiguous
from evenhand.errors import EvenhandError, unknown_name
from evenhand.mistakes import validated
from evenhand.text.tokens import Tokens, match_case, tokenize
from evenhand.toml_files import read_toml

SHIPPED = Path(str(resources.files("evenhand.text") / "lexicons"))
Key = tuple[str, ...]  # a term as the tokenizer cuts it
WordLists = dict[str, frozenset[str]]
Name = Annotated[str, Field(min_length=1)]


class WordContext(BaseModel):
    """What must stand around a term: all that is given must hold. `previous` and `next` name word lists."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    previous: str = ""
    next: str = ""
    capital: bool = False

    def holds(self, tokens: Tokens, start: int, end: int, lists: WordLists) -> bool:
        """Whether the tokens [start, end) stand in this context."""
        if self.previous and _beside(tokens, start - 1) not in lists[self.previous]:
            return False
        if self.next and _beside(tokens, end) not in lists[self.next]:
            return False
        surface = tokens.surface(start, end)
        return not self.capital or (surface[0].isupper() and not surface.isupper() and after_word(tokens, start))


class WordForm(BaseModel):
    """Words of one grammatical form: a mention is replaced by a word of its own form only."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    words: dict[str, list[str]]
    aligned: bool = False
    contexts: list[WordContext] = []


class AmbiguousWords(BaseModel):
    """Terms that also mean something else: they count in any of `contexts` (if given) and in none of `unless`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    terms: Annotated[list[str], Field(min_length=1)]
    contexts: list[WordContext] = []
    unless: list[WordContext] = []

    def meant(self, tokens: Tokens, start: int, end: int, lists: WordLists) -> bool:
        """Whether the context speaks for the protected meaning of the tokens [start, end)."""
        if any(context.holds(tokens, start, end, lists) for context in self.unless):
            return False
        return not self.contexts or any(context.holds(tokens, start, end, lists) for context in self.contexts)


class LexiconAttribute(BaseModel):
    """A protected attribute as its file describes it; without forms, the values' names are the words."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    title: str = ""
    note: str = ""
    values: list[str]
    also: dict[str, list[str]] = {}
    forms: Annotated[list[WordForm], Field(alias="form")] = []
    ambiguous: list[AmbiguousWords] = []
    phrases: list[str] = []

    @property
    def all_forms(self) -> list[WordForm]:
        """The forms; one form made of the values' own names where the file has none."""
        words = {value: [value, *self.also.get(value, [])] for value in self.values}
        return self.forms or [WordForm(name="word", words=words)]

    @property
    def list_names(self) -> list[str]:
        """The word lists that the contexts name."""
        contexts = [context for form in self.forms for context in form.contexts]
        contexts += [context for rule in self.ambiguous for context in [*rule.contexts, *rule.unless]]
        return [name for context in contexts for name in (context.previous, context.next) if name]

    @model_validator(mode="after")
    def _consistent(self) -> "LexiconAttribute":
        if len(self.values) < 2:
            raise ValueError(f"'{self.name}' needs at least two values, or there is nothing to replace a word by")
        if twice := _repeated(value.lower() for value in self.values):
            raise ValueError(f"the values must be unique; found twice: {', '.join(twice)}")
        if self.forms and self.also:
            raise ValueError("'also' is for attributes without forms; add its words to a form's words")
        if twice := _repeated(form.name for form in self.forms):
            raise ValueError(f"the forms' names must be unique; found twice: {', '.join(twice)}")
        for form in self.all_forms:
            self._check_form(form)
        for value in self.values:
            if not any(form.words.get(value) for form in self.all_forms):
                raise ValueError(f"the value '{value}' has no word in any form; give it one or leave it out")
        self._check_terms()
        return self

    def _check_form(self, form: WordForm) -> None:
        for value in [*form.words, *self.also]:
            if value not in self.values:
                raise ValueError(f"'{value}' has words but is not among the values: {', '.join(self.values)}")
        for value, words in form.words.items():
            keys = [key_of(word) for word in words]
            if not all(keys):
                raise ValueError(f"the value '{value}' has an empty word in the form '{form.name}'")
            if not form.aligned and (twice := _repeated(" ".join(key) for key in keys)):
                raise ValueError(f"'{twice[0]}' stands twice in the form '{form.name}' of the value '{value}'")
        if form.aligned and len({len(words) for words in form.words.values()}) > 1:
            counts = ", ".join(f"{value} {len(words)}" for value, words in form.words.items())
            raise ValueError(f"the form '{form.name}' is aligned, so its lists must be equally long; found {counts}")

    def _check_terms(self) -> None:
        """No term of two values; every form of a term can be reached; ambiguous ones are terms, phrases are not."""
        seen: dict[Key, tuple[str, WordForm]] = {}
        for form in self.all_forms:
            for value, word in [(value, word) for value, words in form.words.items() for word in words]:
                owner, before = seen.get(key_of(word), (value, form))
                if owner != value:
                    raise ValueError(f"'{word}' stands in two values, '{owner}' and '{value}'; keep it in one")
                if before is not form and not before.contexts:
                    raise ValueError(
                        f"'{word}' stands in the forms '{before.name}' and '{form.name}', and '{before.name}' has no "
                        f"contexts, so '{form.name}' would never be used; give '{before.name}' contexts"
                    )
                seen[key_of(word)] = (value, form)
        for term in [term for rule in self.ambiguous for term in rule.terms]:
            if key_of(term) not in seen:
                raise ValueError(f"'{term}' is called ambiguous but is no word of any value")
        for phrase in self.phrases:
            if not key_of(phrase) or key_of(phrase) in seen:
                raise ValueError(
                    f"the phrase '{phrase}' is empty or is itself a word of a value; take it out of phrases"
                )


class LexiconFile(BaseModel):
    """The content of a lexicon file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    title: str = ""
    source: str = ""
    licence: str = ""
    note: str = ""
    word_lists: dict[str, list[str]] = {}
    attributes: Annotated[list[LexiconAttribute], Field(alias="attribute", min_length=1)]

    @model_validator(mode="after")
    def _consistent(self) -> "LexiconFile":
        if twice := _repeated(attribute.name for attribute in self.attributes):
            raise ValueError(f"attribute names must be unique; found twice: {', '.join(twice)}")
        for attribute in self.attributes:
            for name in attribute.list_names:
                if name not in self.word_lists:
                    known = ", ".join(self.word_lists) or "none"
                    raise ValueError(
                        f"a context of '{attribute.name}' names '{name}', which is not in [word_lists] (there: {known})"
                    )
        return self


def key_of(term: str) -> Key:
    """A term as the tokenizer cuts it."""
    return tuple(tokenize(term).words)


def _beside(tokens: Tokens, position: int) -> str:
    """The word at a position; "." for any punctuation but the hyphen, and for either end of the text."""
    if not 0 <= position < len(tokens):
        return "."
    word = tokens.words[position]
    return word if word[-1].isalnum() or word == "-" else "."


def after_word(tokens: Tokens, position: int) -> bool:
    """Whether a word, a comma or a hyphen stands right before: then a capital is not that of a sentence's start."""
    return position > 0 and (tokens.words[position - 1][-1].isalnum() or tokens.words[position - 1] in (",", "-"))


def _repeated(names: Iterable[str]) -> list[str]:
    """The names that occur more than once."""
    return [name for name, count in Counter(names).items() if count > 1]


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
    places: list[tuple[WordForm, int]] = field(default_factory=list)


class ProtectedWords:
    """A protected attribute of texts: finds the mentions of its values and knows what may replace them."""

    def __init__(self, attribute: LexiconAttribute, word_lists: dict[str, list[str]] | None = None) -> None:
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

    def _place(self, tokens: Tokens, start: int, term: _Term) -> tuple[WordForm, int]:
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
        return cls(validated(LexiconFile, content, f"lexicon {where}"))


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
    return Lexicon.parse(read_toml(path, "lexicon")[0], where=str(path))


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
