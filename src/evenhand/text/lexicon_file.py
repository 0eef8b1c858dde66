"""The content of a lexicon file: what may stand in it, and what its author is told where it is wrong."""

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from evenhand.errors import EvenhandError
from evenhand.mistakes import ended, first_mistake
from evenhand.text.tokens import Tokens, tokenize

Key = tuple[str, ...]  # a term as the tokenizer cuts it
WordLists = dict[str, frozenset[str]]
Name = Annotated[str, Field(min_length=1)]


class Context(BaseModel):
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


class Form(BaseModel):
    """Words of one grammatical form: a mention is replaced by a word of its own form only."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    words: dict[str, list[str]]
    aligned: bool = False
    contexts: list[Context] = []


class AmbiguousWords(BaseModel):
    """Terms that also mean something else: they count in any of `contexts` (if given) and in none of `unless`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    terms: Annotated[list[str], Field(min_length=1)]
    contexts: list[Context] = []
    unless: list[Context] = []

    def meant(self, tokens: Tokens, start: int, end: int, lists: WordLists) -> bool:
        """Whether the context speaks for the protected meaning of the tokens [start, end)."""
        if any(context.holds(tokens, start, end, lists) for context in self.unless):
            return False
        return not self.contexts or any(context.holds(tokens, start, end, lists) for context in self.contexts)


class Attribute(BaseModel):
    """A protected attribute as its file describes it; without forms, the values' names are the words."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    title: str = ""
    note: str = ""
    values: list[str]
    also: dict[str, list[str]] = {}
    forms: Annotated[list[Form], Field(alias="form")] = []
    ambiguous: list[AmbiguousWords] = []
    phrases: list[str] = []

    @property
    def all_forms(self) -> list[Form]:
        """The forms; one form made of the values' own names where the file has none."""
        words = {value: [value, *self.also.get(value, [])] for value in self.values}
        return self.forms or [Form(name="word", words=words)]

    @property
    def list_names(self) -> list[str]:
        """The word lists that the contexts name."""
        contexts = [context for form in self.forms for context in form.contexts]
        contexts += [context for rule in self.ambiguous for context in [*rule.contexts, *rule.unless]]
        return [name for context in contexts for name in (context.previous, context.next) if name]

    @model_validator(mode="after")
    def _consistent(self) -> "Attribute":
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

    def _check_form(self, form: Form) -> None:
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
        seen: dict[Key, tuple[str, Form]] = {}
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
    attributes: Annotated[list[Attribute], Field(alias="attribute", min_length=1)]

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


def parsed(content: dict[str, Any], where: str) -> LexiconFile:
    """Validate the content of a lexicon file; `where` names it in errors."""
    try:
        return LexiconFile.model_validate(content)
    except ValidationError as error:
        location, reason = first_mistake(error, LexiconFile)
        raise EvenhandError(
            f"The lexicon {where} is wrong at {_location(content, location)}: {ended(reason)}"
        ) from error


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


def _location(content: dict[str, Any], location: tuple[int | str, ...]) -> str:
    """A location in a lexicon in words: attribute 2 ('religion'), form 1 ('adjective'), words."""
    parts: list[str] = []
    entry: Any = content
    for part in location:
        try:
            entry = entry[part]
        except (KeyError, IndexError, TypeError):
            entry = None
        if isinstance(part, int):
            name = entry.get("name") if isinstance(entry, dict) else None
            parts[-1] += f" {part + 1}" + (f" ('{name}')" if name else "")
        else:
            parts.append(str(part))
    return ", ".join(parts) or "the top level"
