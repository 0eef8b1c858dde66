"""Words of a text with their places, so that one word can be replaced and all else stays as it was."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

# Vowel signs and accents that are characters of their own belong to their word, in every script.
_MARKS = "".join(chr(c) for c in range(0x300, 0x3100) if unicodedata.category(chr(c)) in ("Mn", "Mc"))
_LETTER = rf"(?:[^\W_]|[{_MARKS}])"
_NOT = rf"[nN]['’][tT](?!{_LETTER})"
_ENDING = rf"['’](?:[sSdDmM]|[rR][eE]|[vV][eE]|[lL][lL])(?!{_LETTER})"

_TOKEN = re.compile(
    rf"[^\W_]++(?!['’]|[{_MARKS}])"  # a plain word: nearly all of them, so it comes first
    rf"|{_LETTER}+(?={_NOT})"  # do|n't
    rf"|{_NOT}"
    rf"|{_LETTER}++(?:(?!{_ENDING})['’]{_LETTER}++)*"  # o'brien, baha'i|'s
    rf"|(?<={_LETTER}){_ENDING}"
    r"|\S"
)


@dataclass(frozen=True)
class Tokens:
    """A text cut into tokens: `words` as word vectors know them, `spans` where each stands in `text`."""

    text: str
    words: list[str]
    spans: list[tuple[int, int]]

    def __len__(self) -> int:
        return len(self.words)

    def surface(self, start: int, end: int) -> str:
        """The text of the tokens [start, end), as it was written."""
        return self.text[self.spans[start][0] : self.spans[end - 1][1]]


def tokenize(text: str) -> Tokens:
    """Cut a text into words, contractions' parts (do n't, it 's) and single other characters.

    Letters and digits of any script make words; a hyphen always splits. A word is in lower case and has the
    plain apostrophe for the typographic one.
    """
    spans = [match.span() for match in _TOKEN.finditer(text)]
    lower = text.lower().replace("’", "'")
    if len(lower) == len(text) and "Σ" not in text:
        return Tokens(text, [lower[start:end] for start, end in spans], spans)
    # The lower case of "İ" has two characters, so the places of the lower-case text are not those of the text; that of
    # "Σ" depends on what follows, and a word must not change when the next one does.
    return Tokens(text, [text[start:end].lower().replace("’", "'") for start, end in spans], spans)


def match_case(word: str, like: str) -> str:
    """`word` in the case of `like`: lower, Capitalised or CAPITALS (of more than one letter); else as it is.

    Only the first letter of a capitalised word is touched, so that names keep theirs: "Saudi Arabia".
    """
    letters = [letter for letter in like if letter.isalpha()]
    if not letters:
        return word
    if like.islower():
        return word.lower()
    if len(letters) > 1 and like.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if letters[0].isupper() else word


def replace_tokens(tokens: Tokens, replacements: Mapping[tuple[int, int], str]) -> str:
    """The text with each token range [start, end) replaced; all else, spaces too, stays byte for byte.

    The replacements are written as given (see `match_case`); the ranges must not overlap.
    """
    parts: list[str] = []
    done = 0
    for start, end in sorted(replacements):
        left, right = tokens.spans[start][0], tokens.spans[end - 1][1]
        if start >= end or left < done:
            raise ValueError(f"the token range [{start}, {end}) is empty or overlaps the one before it")
        parts += [tokens.text[done:left], replacements[start, end]]
        done = right
    parts.append(tokens.text[done:])
    return "".join(parts)
