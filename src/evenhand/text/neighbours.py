"""The nearest words in the embedding: what a word may be replaced by."""

import zipfile
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

from evenhand.choices import Moves
from evenhand.errors import EvenhandError
from evenhand.files import replacing, writable_folder
from evenhand.text.download import cache_folder
from evenhand.text.parts_of_speech import ALL_PARTS, parts_of_speech
from evenhand.text.vectors import WordVectors

Ids = NDArray[np.int32]

FREQUENT = 50_000  # candidates are sought among so many words; rarer ones are mostly names and misspellings
DEPTH = 40  # neighbours that are kept for each word, before protected words are taken out
DEEPER = 8  # how many times farther to look when those are too few
BATCH_BYTES = 64_000_000

FUNCTION_WORDS = {
    "articles, determiners, quantities": "a an the this that these those some any each every either neither no none "
    "all both half such several many much more most few fewer less least another other others enough own same",
    "pronouns": "i me my mine myself you your yours yourself yourselves u he him his himself she her hers herself it "
    "its itself we us our ours ourselves they them their theirs themselves one ones oneself someone somebody something "
    "anyone anybody anything everyone everybody everything noone nobody nothing",
    "prepositions": "of in to for with on at by from about into onto over under above below after before between among "
    "amongst through during against without within toward towards upon across along around behind beside besides "
    "beyond despite down up off out inside outside near past per since till until unlike via as like than",
    "conjunctions": "and or but nor so yet if because although though unless while whereas whether",
    "auxiliaries": "be am is are was were been being do does did done doing have has had having can could may might "
    "must shall should will would ought cannot",
    "parts of contractions": "ca wo sha ai 's 're 've 'll 'd 'm s t d m re ve ll",
    "negation": "not n't never nt dont",
    "question words": "who whom whose which what when where why how whoever whatever whichever whenever wherever",
    "particles": "however there here also too very just only even still again already almost quite rather then now "
    "thus therefore hence perhaps maybe else ever away back yes oh ok okay well",
}
STOP_WORDS = frozenset(word for words in FUNCTION_WORDS.values() for word in words.split())


def is_replaceable(word: str, moves: Moves = "words") -> bool:
    """Whether a token may be replaced, and replace others.

    With "words" it carries meaning of its own: at least two ASCII letters, nothing else, and no stop word. With
    "tokens", as in the paper, it may also be a stop word, a number or a single sign. An apostrophe is neither: it may
    be part of a word, and what stands beside it would be read as another one.
    """
    if moves == "words":
        return len(word) > 1 and word.isascii() and word.isalpha() and word not in STOP_WORDS
    return (word.isascii() and word.isalnum()) or (len(word) == 1 and word not in "'’" and category(word)[0] in "PS")


def candidate_words(vectors: WordVectors, moves: Moves = "words") -> NDArray[np.bool_]:
    """(n,) true for words that may replace others: replaceable, and among the most frequent."""
    mask = np.zeros(len(vectors), dtype=bool)
    mask[:FREQUENT] = [is_replaceable(word, moves) for word in vectors.words[:FREQUENT]]
    return mask


def neighbours(
    vectors: WordVectors,
    words: list[str],
    k: int,
    excluded: Collection[str] = frozenset(),
    same_part_of_speech: bool = False,
    moves: Moves = "words",
) -> Ids:
    """(len(words), k) the numbers of each word's nearest candidates, nearest first, -1 where there are no more.

    `excluded` holds the protected words: they replace nothing, and like unknown words, stop words and what is not a
    word they get no neighbours. With `same_part_of_speech` a neighbour must agree with the word in part of speech and
    inflection. A word never becomes a sign, since what follows it could then be read as another word. The nearest words
    are kept in the cache folder, so that a second run computes only what is new.
    """
    result = np.full((len(words), k), -1, dtype=np.int32)
    ids = vectors.index([word if is_replaceable(word, moves) and word not in excluded else "" for word in words])
    wanted = ids >= 0
    unique, places = np.unique(ids[wanted], return_inverse=True)
    if len(unique) == 0 or k == 0:
        return result
    allowed = candidate_words(vectors, moves)
    usable = allowed.copy()
    protected = vectors.index(sorted(excluded))
    usable[protected[protected >= 0]] = False
    parts = _parts(vectors, usable, unique) if same_part_of_speech else None
    signs = np.array([not word[:1].isalnum() for word in vectors.words])
    chosen, complete = _select(unique, NeighbourTable(vectors, allowed, moves).rows(unique), usable, k, parts, signs)
    depth = DEPTH
    while not complete.all() and depth < allowed.sum():
        depth = min(depth * DEEPER, int(allowed.sum()))
        lacking = np.flatnonzero(~complete)
        farther = nearest_words(vectors, unique[lacking], depth, allowed=allowed)
        chosen[lacking], complete[lacking] = _select(unique[lacking], farther, usable, k, parts, signs)
    result[wanted] = chosen[places]
    return result


def nearest_words(vectors: WordVectors, ids: NDArray[np.int64], k: int, *, allowed: NDArray[np.bool_]) -> Ids:
    """(m, k) the k nearest allowed words by cosine, nearest first, ties by lower number; -1 where there are no more.

    A word is not its own neighbour. The result does not depend on how the work is batched: a float32 product only
    finds who may be among the k nearest, and these are compared in float64, pair by pair.
    """
    candidates = np.flatnonzero(allowed)
    position = np.full(len(vectors), -1)
    position[candidates] = np.arange(len(candidates))
    result = np.full((len(ids), k), -1, dtype=np.int32)
    if len(candidates) == 0 or len(ids) == 0 or k == 0:
        return result
    units = _unit(vectors.vectors[candidates])  # (c, e)
    narrow = units.astype(np.float32)
    slack = np.float32(2.0**-23 * (vectors.dimensions + 2))  # twice what float32 can be wrong about a cosine
    size = max(1, BATCH_BYTES // (4 * len(candidates) + 64 * k * vectors.dimensions))
    for start in range(0, len(ids), size):
        batch = np.asarray(ids[start : start + size])
        rows = _unit(vectors.vectors[batch])  # (b, e)
        similarity = rows.astype(np.float32) @ narrow.T  # (b, c)
        itself = position[batch]
        similarity[itself >= 0, itself[itself >= 0]] = -np.inf
        near = np.flatnonzero(similarity >= _kth_bound(similarity, k)[:, None] - slack)
        row, column = np.divmod(near, len(candidates))
        own = np.isneginf(similarity[row, column])
        row, column = row[~own], column[~own]
        exact = (rows[row] * units[column]).sum(axis=1)
        order = np.lexsort((column, -exact, row))
        row, column = row[order], column[order]
        rank = np.arange(len(row)) - np.searchsorted(row, row)
        kept = rank < k
        result[start + row[kept], rank[kept]] = candidates[column[kept]]
    return result


def _kth_bound(similarity: NDArray[np.float32], k: int) -> NDArray[np.float32]:
    """(b,) a value that the k-th largest of each row is not below.

    The k-th largest of the maxima of groups is such a bound, close for many groups and far cheaper than sorting.
    A group's members lie far apart, since words near in number are near in frequency and often in meaning.
    """
    rows, columns = similarity.shape
    if columns <= k:
        return np.full(rows, -np.inf, dtype=np.float32)
    width = max(1, columns // (8 * k))
    groups = columns // width
    maxima = similarity[:, : groups * width].reshape(rows, width, groups).max(axis=1)
    return np.partition(maxima, groups - k, axis=1)[:, groups - k]


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """The vectors at length one; a zero vector stays zero, at right angles to all."""
    wide = np.asarray(vectors, dtype=np.float64)
    length = np.sqrt((wide * wide).sum(axis=1, keepdims=True))
    return np.asarray(wide / np.where(length > 0, length, 1.0))


def _select(
    ids: NDArray[np.int64],
    nearest: Ids,
    usable: NDArray[np.bool_],
    k: int,
    parts: NDArray[np.int64] | None,
    signs: NDArray[np.bool_],
) -> tuple[Ids, NDArray[np.bool_]]:
    """(m, k) the first k usable neighbours of each word that agree with it, and (m,) whether there were so many."""
    keep = (nearest >= 0) & usable[nearest] & (signs[ids][:, None] | ~signs[nearest])
    if parts is not None:
        keep &= (parts[ids][:, None] & parts[nearest]) != 0
    rank = np.cumsum(keep, axis=1) - 1
    keep &= rank < k
    chosen = np.full((len(ids), k), -1, dtype=np.int32)
    row, column = np.nonzero(keep)
    chosen[row, rank[row, column]] = nearest[row, column]
    return chosen, keep.sum(axis=1) == k


def _parts(vectors: WordVectors, usable: NDArray[np.bool_], ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n,) the parts of speech of each word that matters here, one bit each."""
    bits = {part: 1 << position for position, part in enumerate(ALL_PARTS)}
    parts = np.zeros(len(vectors), dtype=np.int64)
    for number in np.union1d(np.flatnonzero(usable), ids):
        parts[number] = sum(bits[part] for part in parts_of_speech(vectors.words[number]))
    return parts


class NeighbourTable:
    """The nearest words computed so far, kept in the cache folder under the vectors' fingerprint."""

    def __init__(self, vectors: WordVectors, allowed: NDArray[np.bool_], moves: Moves = "words") -> None:
        self.vectors = vectors
        self.moves = moves
        self.allowed = allowed

    @property
    def path(self) -> Path:
        """The file; the number changes when the rule for candidates does."""
        return cache_folder() / f"neighbours-{self.moves}-{self.vectors.fingerprint}-1.npz"

    def rows(self, ids: NDArray[np.int64]) -> Ids:
        """(m, DEPTH) the nearest words of `ids`, which must be sorted; what is missing is computed and kept."""
        known, table = self._load()
        missing = np.setdiff1d(ids, known)
        if len(missing):
            added = nearest_words(self.vectors, missing, DEPTH, allowed=self.allowed)
            order = np.argsort(np.concatenate([known, missing]))
            known, table = np.concatenate([known, missing])[order], np.concatenate([table, added])[order]
            self._save(known, table)
        return np.asarray(table[np.searchsorted(known, ids)])

    def _load(self) -> tuple[NDArray[np.int64], Ids]:
        # None yet, or damaged: computed again.
        with suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            with self.path.open("rb") as stream, np.load(stream, allow_pickle=False) as content:
                known, table = content["ids"], content["nearest"]
            if table.shape == (len(known), DEPTH):
                return known, table
        return np.zeros(0, dtype=np.int64), np.zeros((0, DEPTH), dtype=np.int32)

    def _save(self, known: NDArray[np.int64], table: Ids) -> None:
        # A cache that cannot be written to costs time at the next start, nothing else.
        with suppress(EvenhandError):
            writable_folder(self.path.parent)
            with replacing(self.path) as temporary, temporary.open("wb") as out:
                np.savez(out, ids=known, nearest=table)
