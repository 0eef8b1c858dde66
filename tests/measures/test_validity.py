"""The validity metrics against hand-worked values, slow references and nltk."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu  # type: ignore[import-untyped]
from numpy.typing import NDArray

from evenhand.measures import validity as module
from evenhand.measures.validity import Validity, distinct_rows, validity

Pair = tuple[list[int], list[int]]
VECTORS = np.array([[0, 0], [3, 4], [0, 1], [1, 0], [6, 8]] + [[w, -w] for w in range(5, 40)], dtype=np.float32)


def padded(texts: list[list[int]], spare: int = 0) -> NDArray[np.int32]:
    width = max(map(len, texts), default=0) + spare
    return np.array([text + [-1] * (width - len(text)) for text in texts], dtype=np.int32).reshape(len(texts), width)


def compare(pairs: list[Pair], spare: int = 0) -> Validity:
    originals, generated = [list(side) for side in zip(*pairs, strict=True)] if pairs else ([], [])
    return validity(padded(originals, spare), padded(generated, spare), VECTORS)


@st.composite
def text_pairs(draw: st.DrawFn, smallest: int = 0) -> Pair:
    """Few different words, so that n-grams repeat; anything from no to every word changed."""
    word = st.integers(0, draw(st.integers(0, 6)))
    original = draw(st.lists(word, min_size=smallest, max_size=14))
    changes = draw(st.dictionaries(st.integers(0, max(0, len(original) - 1)), word, max_size=len(original)))
    return original, [changes.get(place, old) for place, old in enumerate(original)]


def slow_bleu(original: list[int], generated: list[int]) -> float:
    if not original:
        return 1.0
    if not set(original) & set(generated):
        return 0.0
    logarithms = []
    for order in range(1, min(4, len(original)) + 1):
        reference, grams = [
            Counter(tuple(text[start : start + order]) for start in range(len(text) - order + 1))
            for text in (original, generated)
        ]
        matches = sum(min(count, reference[gram]) for gram, count in grams.items())
        logarithms.append(math.log((matches or 0.1) / grams.total()))
    return math.exp(sum(logarithms) / len(logarithms))


def test_hand_worked_values_of_two_changed_words() -> None:
    found = compare([([0, 1, 2, 3, 5, 6], [0, 4, 2, 3, 5, 7])])
    assert found.l0.tolist() == [2]
    # |(3, 4) - (6, 8)|^2 = 25 and |(6, -6) - (7, -7)|^2 = 2
    assert found.l2 == pytest.approx([math.sqrt(27)])
    assert found.jaccard == pytest.approx([4 / 8])
    # 4 of 6 words; 2-3 and 3-5 of five pairs; 2-3-5 of four triples; none of three quadruples, which counts as 0.1
    assert found.bleu == pytest.approx([(4 / 6 * 2 / 5 * 1 / 4 * 0.1 / 3) ** (1 / 4)])


def test_a_match_can_be_used_once_and_may_stand_elsewhere() -> None:
    # The second 5 finds no partner; the moved 1 does. Jaccard counts words once.
    found = compare([([5, 1, 2], [5, 5, 1])])
    assert found.jaccard == pytest.approx([2 / 3])
    # words 5 and 1 match (2 of 3), the pair 5-1 does (1 of 2), no triple (0.1 of 1); there is no fourth order
    assert found.bleu == pytest.approx([(2 / 3 * 1 / 2 * 0.1 / 1) ** (1 / 3)])


def test_short_texts_leave_out_the_orders_they_cannot_have() -> None:
    found = compare([([5, 6], [5, 7]), ([5], [6]), ([5], [5]), ([], [])])
    assert found.bleu == pytest.approx([(1 / 2 * 0.1 / 1) ** (1 / 2), 0.0, 1.0, 1.0])
    assert found.jaccard == pytest.approx([1 / 3, 0.0, 1.0, 1.0])


def test_texts_without_a_common_word_have_nothing_in_common() -> None:
    found = compare([([0, 1, 2, 3, 5], [6, 7, 8, 9, 10])])
    assert (found.l0.tolist(), found.jaccard.tolist(), found.bleu.tolist()) == ([5], [0.0], [0.0])


def test_identical_texts() -> None:
    found = compare([([0, 1, 2, 3, 3, 3], [0, 1, 2, 3, 3, 3]), ([7], [7]), ([2, 2], [2, 2])])
    assert found.means() == {"l0": 0.0, "l2": 0.0, "jaccard": 1.0, "bleu": 1.0}


def test_means_are_over_pairs() -> None:
    found = compare([([0, 2], [1, 2]), ([0, 2], [0, 2])])
    assert found.means() == pytest.approx(
        {"l0": 0.5, "l2": 2.5, "jaccard": (1 / 3 + 1) / 2, "bleu": (math.sqrt(0.05) + 1) / 2}
    )


def test_no_pairs_have_no_means() -> None:
    found = compare([])
    assert len(found.l0) == len(found.l2) == len(found.jaccard) == len(found.bleu) == 0
    assert found.means() == {}


@given(st.lists(text_pairs(), max_size=6), st.integers(0, 3))
def test_every_metric_equals_its_slow_reference(pairs: list[Pair], spare: int) -> None:
    found = compare(pairs, spare)
    for row, (original, generated) in enumerate(pairs):
        both = list(zip(original, generated, strict=True))
        union = set(original) | set(generated)
        assert found.l0[row] == sum(old != new for old, new in both)
        assert found.l2[row] == pytest.approx(math.sqrt(sum(math.dist(VECTORS[a], VECTORS[b]) ** 2 for a, b in both)))
        assert found.jaccard[row] == pytest.approx(len(set(original) & set(generated)) / len(union) if union else 1)
        assert found.bleu[row] == pytest.approx(slow_bleu(original, generated))


@given(text_pairs(smallest=1))
def test_bleu_equals_that_of_nltk(pair: Pair) -> None:
    original, generated = pair
    orders = min(4, len(original))
    smoothing = SmoothingFunction(epsilon=0.1).method1
    expected = sentence_bleu([original], generated, weights=(1 / orders,) * orders, smoothing_function=smoothing)
    assert compare([pair]).bleu[0] == pytest.approx(float(expected))


def test_the_size_of_the_batches_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    original = rng.integers(0, 9, (23, 12))
    generated = np.where(rng.random(original.shape) < 0.3, rng.integers(0, 9, original.shape), original)
    whole = validity(original, generated, VECTORS)
    monkeypatch.setattr(module, "PAIRS_AT_A_TIME", 5)
    parts = validity(original, generated, VECTORS)
    for name in ("l0", "l2", "jaccard", "bleu"):
        assert getattr(whole, name).tolist() == getattr(parts, name).tolist()


@pytest.mark.parametrize(
    ("original", "generated", "message"),
    [
        ([[1, 2]], [[1, 2, 3]], "same"),
        ([[1, 2]], [[1, -1]], "equally long"),
        ([[-1, 2]], [[-1, 2]], "before its last word"),
    ],
)
def test_texts_that_are_no_pair_are_refused(
    original: list[list[int]], generated: list[list[int]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        validity(np.array(original), np.array(generated), VECTORS)


@given(st.integers(1, 4), st.lists(st.tuples(*[st.sampled_from([0, 1, 2, 2**40, 2**62])] * 4), max_size=12))
def test_distinct_rows_are_exact_also_for_numbers_that_do_not_fit_one_integer(
    columns: int, rows: list[tuple[int, ...]]
) -> None:
    kept = [row[:columns] for row in rows]
    first, number = distinct_rows(np.array(kept, dtype=np.int64).reshape(len(kept), columns))
    assert len(first) == len(set(kept))
    assert [kept[first[which]] for which in number] == kept
    assert all(kept.index(kept[place]) == place for place in first)
