"""How far a generated text lies from the text it was made from: L0, L2, Jaccard and BLEU-4.

Texts are rows of word ids, filled up with -1 at the end. A search replaces words and never adds or drops one, so the
two texts of a pair are equally long.
"""

from dataclasses import asdict, dataclass, fields

import numpy as np
from numpy.typing import NDArray

LONGEST_GRAM = 4
NO_MATCH = 0.1  # counts as so many matches where an order has none, as in Chen and Cherry's first smoothing method
PAIRS_AT_A_TIME = 10_000
LARGEST_CODE = 2**62


@dataclass(frozen=True)
class Validity:
    """One value for each pair of texts."""

    l0: NDArray[np.int64]  # words that differ
    l2: NDArray[np.float64]  # distance of the two texts in the space of word vectors
    jaccard: NDArray[np.float64]  # of the two sets of words: 1 = the same words
    bleu: NDArray[np.float64]  # BLEU-4, from 0 to 1 = the same text

    def means(self) -> dict[str, float]:
        """The mean of each column; nothing where there are no pairs."""
        return {name: float(column.mean()) for name, column in asdict(self).items() if len(column)}


def validity(original: NDArray[np.integer], generated: NDArray[np.integer], vectors: NDArray[np.floating]) -> Validity:
    """Compare pairs of texts, (n, L) word ids each; `vectors` (V, e) holds the vector of every id."""
    _check(original, generated)
    starts = range(0, max(1, len(original)), PAIRS_AT_A_TIME)
    parts = [_validity(original[s : s + PAIRS_AT_A_TIME], generated[s : s + PAIRS_AT_A_TIME], vectors) for s in starts]
    return Validity(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Validity)))


def _check(original: NDArray[np.integer], generated: NDArray[np.integer]) -> None:
    if original.ndim != 2 or original.shape != generated.shape:
        raise ValueError(f"Pairs of texts need the same (n, L) shape, not {original.shape} and {generated.shape}.")
    padding = original < 0
    if (padding != (generated < 0)).any():
        raise ValueError("The two texts of a pair are not equally long.")
    if (padding[:, :-1] & ~padding[:, 1:]).any():
        raise ValueError("A text has padding before its last word.")


def _validity(original: NDArray[np.integer], generated: NDArray[np.integer], vectors: NDArray[np.floating]) -> Validity:
    return Validity(
        l0=(original != generated).sum(axis=1, dtype=np.int64),
        l2=_l2(original, generated, vectors),
        jaccard=_jaccard(original, generated),
        bleu=_bleu(original, generated),
    )


def _l2(
    original: NDArray[np.integer], generated: NDArray[np.integer], vectors: NDArray[np.floating]
) -> NDArray[np.float64]:
    """(n,) the Euclidean distance of the two texts' vectors laid end to end; equal words add nothing."""
    changed = original != generated
    pairs, _ = np.nonzero(changed)
    difference = vectors[original[changed]].astype(np.float64) - vectors[generated[changed]]
    squares = np.einsum("ij,ij->i", difference, difference)
    return np.sqrt(np.bincount(pairs, squares, minlength=len(original)))


def _jaccard(original: NDArray[np.integer], generated: NDArray[np.integer]) -> NDArray[np.float64]:
    """(n,) words in both texts / words in either, each word counted once. Two empty texts are the same."""
    either = _distinct_words(np.concatenate([original, generated], axis=1))
    both = _distinct_words(original) + _distinct_words(generated) - either
    return np.where(either > 0, both / np.maximum(either, 1), 1.0)


def _distinct_words(texts: NDArray[np.integer]) -> NDArray[np.int64]:
    """(n,) how many different words each text has."""
    ordered = np.sort(texts, axis=1)
    new = ordered >= 0
    new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    counts: NDArray[np.int64] = new.sum(axis=1, dtype=np.int64)
    return counts


def _bleu(original: NDArray[np.integer], generated: NDArray[np.integer]) -> NDArray[np.float64]:
    """(n,) BLEU-4 of each generated text, with its original as the only reference.

    The geometric mean of the clipped precisions of 1- to 4-grams; equally long texts have no brevity penalty. Orders
    that a text is too short for are left out. An order without a match counts as `NO_MATCH` matches, but texts
    without a common word have the value 0. Two empty texts are the same: 1.
    """
    lengths = (original >= 0).sum(axis=1, dtype=np.int64)
    logarithms = np.zeros(len(original))
    disjoint = np.zeros(len(original), dtype=bool)
    for order in range(1, LONGEST_GRAM + 1):
        grams = np.maximum(lengths - order + 1, 0)
        matches = grams - _unmatched(original, generated, order)
        smoothed = np.where(matches > 0, matches, NO_MATCH)
        logarithms += np.log(np.divide(smoothed, grams, out=np.ones(len(grams)), where=grams > 0))
        if order == 1:
            disjoint = (matches == 0) & (grams > 0)
    return np.where(disjoint, 0.0, np.exp(logarithms / np.clip(lengths, 1, LONGEST_GRAM)))


def _unmatched(original: NDArray[np.integer], generated: NDArray[np.integer], order: int) -> NDArray[np.int64]:
    """(n,) n-grams of the generated text that find no partner in the original, each of which can be used once.

    A gram without a changed word has its partner at its own place. Taking such pairs out of both texts leaves the
    number of unmatched grams as it is, so only grams around changed words are counted, exactly.
    """
    places = original.shape[1] - order + 1
    if places < 1:
        return np.zeros(len(original), dtype=np.int64)
    changed = original != generated
    touched = np.logical_or.reduce([changed[:, shift : shift + places] for shift in range(order)])
    pairs, starts = np.nonzero(touched & (original[:, order - 1 :] >= 0))
    words = starts[:, None] + np.arange(order)
    texts = np.concatenate([original[pairs[:, None], words], generated[pairs[:, None], words]])
    first, number = distinct_rows(np.column_stack([np.tile(pairs, 2), texts]))
    available = np.bincount(number[: len(pairs)], minlength=len(first))
    used = np.bincount(number[len(pairs) :], minlength=len(first))
    missing = np.maximum(used - available, 0)
    return np.bincount(np.tile(pairs, 2)[first], missing, minlength=len(original)).astype(np.int64)


def distinct_rows(rows: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each different row of non-negative numbers stands first, (u,), and which of these each row is, (n,).

    Exact, and faster than `np.unique` over an axis: a row is packed into one integer. Where that would overflow, the
    part packed so far and the next column are first replaced by their ranks.
    """
    code = np.zeros(len(rows), dtype=np.int64)
    size = 1  # codes lie below it
    for column in rows.T.astype(np.int64):
        base = int(column.max(initial=0)) + 1
        if size * base > LARGEST_CODE:
            (size, code), (base, column) = _ranks(code), _ranks(column)
        code = code * base + column
        size *= base
    _, first, number = np.unique(code, return_index=True, return_inverse=True)
    return first, number


def _ranks(numbers: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
    """How many different numbers there are, and the place of each in their order."""
    values, ranks = np.unique(numbers, return_inverse=True)
    return len(values), ranks
