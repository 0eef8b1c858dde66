"""Which words of a pair of texts are its protected ones, which the search replaced, and which are strong.

Strong words are those that a reader may not want to meet unasked. They decide what a report blurs, and nothing else.
The labels cannot decide that: with two classes, one member of every pair has the unfavourable label, however harmless
the text is. A list of words is rough in both directions. Blurring too much costs a click, so it is kept wide; a
hateful text in polite words is not found.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher

from evenhand.text.tokens import Tokens, tokenize

PLAIN, PROTECTED, REPLACED, GAP = "", "protected", "replaced", "gap"
CONTEXT = 160  # characters that an excerpt keeps on either side of a marked word

Part = tuple[str, str]  # what a stretch of text is, and the text
Block = tuple[int, int, int, int]  # tokens [a, b) of one text stand where tokens [c, d) of the other do


@dataclass(frozen=True)
class Marks:
    """The three texts of a finding in parts, and the replaced words as (before, after)."""

    original: list[Part]
    text: list[Part]
    witness: list[Part]
    changes: list[tuple[str, str]]


def marks(original: str, text: str, witness: str, values: tuple[str, str]) -> Marks:
    """Compare a finding with its witness and with the text that it came from.

    What differs between the finding and its witness is protected: nothing else may. Of what differs between the
    finding and the original, the rest was replaced. `values` are the names of the two protected values.
    """
    before, sample, pair = tokenize(original), tokenize(text), tokenize(witness)
    apart = differences(sample, pair)
    own = {place for a, b, _, _ in apart for place in _term(sample, a, b, values[0])}
    other = {place for _, _, c, d in apart for place in _term(pair, c, d, values[1])}
    moved = differences(before, sample)
    replaced = [block for block in moved if not own & {*range(*block[2:])}]
    new = {place for _, _, c, d in replaced for place in range(c, d)}
    return Marks(
        _parts(before, _at_home(moved, own), {place for a, b, _, _ in replaced for place in range(a, b)}),
        _parts(sample, own, new),
        _parts(pair, other, {*_carried(new, apart)}),
        [(_surface(before, a, b), _surface(sample, c, d)) for a, b, c, d in replaced],
    )


def differences(one: Tokens, other: Tokens) -> list[Block]:
    """Where two texts differ, word by word.

    A search replaces in place, so texts of the same length are compared place by place. Lengths differ where a
    protected term of several words takes part; then the longest common stretches are matched.
    """
    if len(one) == len(other):
        pairs = enumerate(zip(one.words, other.words, strict=True))
        return [(place, place + 1, place, place + 1) for place, (a, b) in pairs if a != b]
    head = _common(one.words, other.words)
    tail = _common(one.words[head:][::-1], other.words[head:][::-1])  # most of a text: matching it would take long
    middle, others = (words[head : len(words) - tail] for words in (one.words, other.words))
    codes = SequenceMatcher(None, middle, others, autojunk=False).get_opcodes()
    blocks = ((head + a, head + b, head + c, head + d) for tag, a, b, c, d in codes if tag != "equal")
    return [single for block in blocks for single in _singly(*block)]


def _common(one: list[str], other: list[str]) -> int:
    """How many words two lists begin with together."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _singly(a: int, b: int, c: int, d: int) -> Iterable[Block]:
    if b - a != d - c:
        return [(a, b, c, d)]
    return [(a + place, a + place + 1, c + place, c + place + 1) for place in range(b - a)]


def _term(tokens: Tokens, start: int, end: int, value: str) -> range:
    """The whole term at a place that differs: "North Korea", though only "North" does.

    It is known where it reads like the name of its value. Elsewhere it is what differs; if that is nothing ("Guinean"
    beside "Papua New Guinean"), the word that follows, or the last one.
    """
    words = tokenize(value).words
    for left in range(max(0, end - len(words)), start + 1):
        if tokens.words[left : left + len(words)] == words:
            return range(left, left + len(words))
    if start < end:
        return range(start, end)
    place = min(start, len(tokens) - 1)
    return range(max(place, 0), place + 1)


def _carried(places: Iterable[int], blocks: list[Block]) -> Iterable[int]:
    """Where words that two texts share stand in the other one."""
    for place in places:
        yield place + sum((d - c) - (b - a) for a, b, c, d in blocks if b <= place)


def _at_home(moved: list[Block], own: set[int]) -> set[int]:
    """Where the protected words of a finding stand in the original."""
    back = [(c, d, a, b) for a, b, c, d in moved]
    changed = {place for _, _, c, d in moved for place in range(c, d)}
    there = {*_carried(own - changed, back)}
    there |= {place for a, b, c, d in moved if own & {*range(c, d)} for place in range(a, b)}
    return there


def _surface(tokens: Tokens, start: int, end: int) -> str:
    return tokens.surface(start, end) if start < end else ""


def _parts(tokens: Tokens, protected: set[int], replaced: set[int]) -> list[Part]:
    """A text cut where the kind of its words changes; the words of one term stay together."""
    parts: list[Part] = []
    done, last = 0, -1
    for place in sorted(protected | replaced):
        start, end = tokens.spans[place]
        kind = PROTECTED if place in protected else REPLACED
        if parts and parts[-1][0] == kind == PROTECTED and last == place - 1:
            parts[-1] = (kind, parts[-1][1] + tokens.text[done:end])
        else:
            parts += [(PLAIN, tokens.text[done:start]), (kind, tokens.text[start:end])]
        done, last = end, place
    return [part for part in [*parts, (PLAIN, tokens.text[done:])] if part[1]]


def excerpt(parts: list[Part]) -> list[Part]:
    """The marked words with what stands around them; what is far from any is left out, and how much that is, said."""
    short: list[Part] = []
    for number, (kind, text) in enumerate(parts):
        head = CONTEXT if number > 0 or len(parts) == 1 else 0
        tail = CONTEXT if number < len(parts) - 1 else 0
        short += [(kind, text)] if kind else _shortened(text, head, tail)
    return short


def _shortened(text: str, head: int, tail: int) -> list[Part]:
    """The beginning and the end of a text, cut between words where there are any near."""
    if len(text) <= head + tail + CONTEXT // 2:
        return [(PLAIN, text)]
    left, right = text[:head], text[len(text) - tail :]
    left = left.rsplit(maxsplit=1)[0] if len(left.split()) > 1 else left
    right = right.split(maxsplit=1)[1] if len(right.split()) > 1 else right
    middle = text[len(left) : len(text) - len(right)]
    count = len(middle.split())
    parts = [(PLAIN, left), (GAP, f"[{count:,} {'word' if count == 1 else 'words'}]"), (PLAIN, right)]
    return [part for part in parts if part[1]]


# Strong words

# Anywhere in a word: "motherfucker".
ROOTS = "fuck bitch cunt nigg faggot whore"

# At the start of a word: "raped", "killing", "idiots".
STARTS = (
    "shit bullshit horseshit dipshit batshit asshole arsehole dumbass jackass dickhead wank pussy slut bastard retard "
    "prick douche turd crap piss cocksuck blowjob dildo orgasm mastur penis vagina porn incest sodom molest pedo "
    "paedo rape rapist kill murder exterminat subhuman vermin scum filth maggot parasit idiot moron imbecil cretin "
    "stupid dumb loser pathetic disgust tranny dyke wetback raghead towelhead sandnig cripple midget"
)

# The whole word only: as parts of words they mean something else.
WORDS = (
    "ass asses arse butt butthole anus cock cocks dick dicks tits boobs cum fag fags fagot homo homos lesbo kike kikes "
    "spic spics chink chinks gook gooks coon coons paki pakis jap japs negro negroes darkie darky honky redneck die "
    "fuk fuking fuker suck sucks sucker jerk pig pigs rat rats monkey monkeys ape apes trash garbage stfu gtfo wtf kys"
)

_roots, _starts, _words = tuple(ROOTS.split()), tuple(STARTS.split()), frozenset(WORDS.split())
_DISGUISES = str.maketrans("013@$", "oieas")
_LETTERS = re.compile(r"[^\W\d_]+")
_MASKED = re.compile(r"[^\W\d_]\*+[^\W\d_]")  # f**k
_DRAWN_OUT = re.compile(r"(\w)\1{2,}")  # fuuuuck


def has_strong_words(text: str) -> bool:
    """Whether a text holds a listed word, also drawn out ("fuuuck"), masked ("f**k") or with digits ("sh1t")."""
    lower = text.lower()
    readings = {lower, _DRAWN_OUT.sub(r"\1", lower), lower.translate(_DISGUISES)}
    words = {word for reading in readings for word in _LETTERS.findall(reading)}
    if any(root in reading for root in _roots for reading in readings) or not words.isdisjoint(_words):
        return True
    return any(word.startswith(_starts) for word in words) or bool(_MASKED.search(lower))
