"""Tokens: where words begin and end, and that a replacement changes nothing beside it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.text.tokens import match_case, replace_tokens, tokenize

WRITING = st.text() | st.lists(
    st.sampled_from(
        ["don't", "It’s", "Baha'i", "İSTANBUL", "anti-Muslim", "_", "'", " ", "\n", "…", "e\u0301", "हिन्दी", "3.5"]
    )
).map("".join)


def words(text: str) -> list[str]:
    return tokenize(text).words


def test_words_are_in_lower_case_and_punctuation_stands_alone() -> None:
    assert words("Hello, World (2nd)!") == ["hello", ",", "world", "(", "2nd", ")", "!"]
    assert words("a_b... 3.5") == ["a", "_", "b", ".", ".", ".", "3", ".", "5"]


def test_hyphens_always_split() -> None:
    assert words("anti-muslim African-American") == ["anti", "-", "muslim", "african", "-", "american"]


@pytest.mark.parametrize("mark", ["'", "’"])
def test_contractions_split_and_other_apostrophes_stay(mark: str) -> None:
    text = "don't it's we're I've she'll he'd I'm CAN'T baha'i o'brien's dogs' didn't've".replace("'", mark)
    parts = "do n't it 's we 're i 've she 'll he 'd i 'm ca n't baha'i o'brien 's dogs ' did n't 've"
    assert words(text) == parts.split()


def test_an_apostrophe_that_is_no_contraction_does_not_split() -> None:
    assert words("'tis 'says y'all don'ts n't") == ["'", "tis", "'", "says", "y'all", "don'ts", "n't"]
    assert words("('s) and 'm'") == ["(", "'", "s", ")", "and", "'", "m", "'"]


def test_words_of_any_script_are_whole() -> None:
    assert words("Москва हिन्दी 東京 Cafe\u0301s naïve") == ["москва", "हिन्दी", "東京", "cafe\u0301s", "naïve"]


def test_a_lower_case_that_is_longer_than_the_text_moves_no_span() -> None:
    tokens = tokenize("İzmir is a Muslim city")
    assert tokens.words == ["i\u0307zmir", "is", "a", "muslim", "city"]
    assert tokens.surface(3, 5) == "Muslim city"


def test_an_empty_text_has_no_tokens() -> None:
    assert len(tokenize("")) == len(tokenize(" \n\u00a0")) == 0
    assert replace_tokens(tokenize(" \n"), {}) == " \n"


@given(WRITING)
def test_tokens_cover_all_but_spaces(text: str) -> None:
    tokens = tokenize(text)
    edges = [0, *[edge for span in tokens.spans for edge in span], len(text)]
    assert edges == sorted(edges)
    assert all(start < end for start, end in tokens.spans)
    assert all(text[left:right].strip() == "" for left, right in zip(edges[::2], edges[1::2], strict=True))
    assert tokens.words == [text[start:end].lower().replace("’", "'") for start, end in tokens.spans]


@given(WRITING)
def test_without_replacements_the_text_comes_back(text: str) -> None:
    assert replace_tokens(tokenize(text), {}) == text


@given(WRITING.filter(lambda text: len(tokenize(text)) > 0), st.data())
def test_one_replacement_changes_its_span_only(text: str, data: st.DataObject) -> None:
    tokens = tokenize(text)
    start = data.draw(st.integers(0, len(tokens) - 1))
    end = data.draw(st.integers(start + 1, len(tokens)))
    left, right = tokens.spans[start][0], tokens.spans[end - 1][1]
    assert replace_tokens(tokens, {(start, end): "NEW"}) == text[:left] + "NEW" + text[right:]


def test_several_replacements_in_any_order() -> None:
    tokens = tokenize("The  Jews,\tand the muslim.")
    assert replace_tokens(tokens, {(5, 6): "hindu", (1, 2): "Gypsies"}) == "The  Gypsies,\tand the hindu."
    assert replace_tokens(tokens, {(0, 1): "A", (1, 2): "B", (2, 3): ";"}) == "A  B;\tand the muslim."


@pytest.mark.parametrize("ranges", [{(0, 2): "a", (1, 3): "b"}, {(1, 1): "a"}])
def test_overlapping_or_empty_ranges_are_refused(ranges: dict[tuple[int, int], str]) -> None:
    with pytest.raises(ValueError, match="token range"):
        replace_tokens(tokenize("one two three"), ranges)


@pytest.mark.parametrize(
    ("word", "like", "result"),
    [
        ("gypsies", "Jews", "Gypsies"),
        ("latino", "AFRICAN", "LATINO"),
        ("Latino", "african", "latino"),
        ("France", "SAUDI ARABIA", "FRANCE"),
        ("Saudi Arabia", "france", "saudi arabia"),
        ("Saudi Arabia", "France", "Saudi Arabia"),
        ("Côte d'Ivoire", "FRANCE", "CÔTE D'IVOIRE"),
        ("the Netherlands", "France", "The Netherlands"),
        ("she", "I", "She"),
        ("Muslim", "jEW", "Muslim"),
        ("Muslim", "42", "Muslim"),
        ("young", "Old-age", "Young"),
    ],
)
def test_case_follows_the_word_replaced(word: str, like: str, result: str) -> None:
    assert match_case(word, like) == result


@given(st.text(min_size=1), st.text())
def test_the_case_is_the_only_thing_that_changes(word: str, like: str) -> None:
    assert match_case(word, like).casefold() in {word.casefold(), word.lower().casefold(), word.upper().casefold()}
