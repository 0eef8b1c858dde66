"""Lexicons as sieves of a corpus and as files: none missed, and what a bad one is told."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evenhand.errors import EvenhandError
from evenhand.text.lexicon import Lexicon, ProtectedWords, load_lexicon
from evenhand.text.tokens import tokenize
from tests.text.test_lexicon import ALL, PAPER, lexicon_of, said, swapped, words_of

# --- the sieve

ODD_WORDS = [
    "sikh",
    "saudi arabia",
    "u.s.",
    "baha'i",
    "élan",
    "niñ",
    "İstanbul",
    "ΕΛΛΗΝΑΣ",
    "n't",
    "'s",
    "is",
    "हिन्दू",
    "c++",
]
ODD = words_of(values=ODD_WORDS)
GLUE = st.sampled_from(
    ["", " ", "_", "-", "'", "’", "n't", "'s", "é", "x", "9", "\u00a0", "\u2003", "\n", "\x1c", "\x85", "."]
)
CASES = st.sampled_from([str.lower, str.upper, str.title, str.swapcase])


@example([("do", "n't", str.lower, "")])
@example([("", "is", str.upper, "n't")])
@example([("_", "İstanbul", str.lower, "_")])
@given(
    st.lists(st.tuples(GLUE, st.sampled_from([w for t in ODD_WORDS for w in t.split(" ")]), CASES, GLUE), max_size=5)
)
def test_the_sieve_never_misses_a_mention(parts: list[tuple[str, str, Any, str]]) -> None:
    text = "".join(left + case(word) + right for left, word, case, right in parts).replace("'", "’", 1)
    if ODD.mentions(tokenize(text)):
        assert pc.match_substring_regex(pa.array([text]), ODD.pattern)[0].as_py(), text


def test_the_sieve_knows_every_space() -> None:
    texts = [f"saudi{chr(code)}arabia" for code in range(0x110000) if chr(code).isspace()]
    assert len(texts) > 20
    assert all(said(ODD, text) == [(text, "saudi arabia")] for text in texts)
    assert pc.all(pc.match_substring_regex(pa.array(texts), ODD.pattern)).as_py()


@pytest.mark.parametrize("words", ALL)
def test_the_sieve_of_every_lexicon_finds_its_terms_and_lets_others_fall(words: ProtectedWords) -> None:
    terms = [term for value in range(len(words.values)) for term in words.terms_of(value)]
    texts = [change(f"xx {term}n't_yy") for term in terms for change in (str, str.upper, str.lower)]
    assert pc.all(pc.match_substring_regex(pa.array(texts), words.pattern)).as_py()
    others = [f"xx{term}xx" for term in terms if " " not in term and "-" not in term]
    assert not pc.any(pc.match_substring_regex(pa.array(others), words.pattern)).as_py()


# --- a user's own file, and what is wrong with it


def test_a_lexicon_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\n[[attribute]]\nname = "team"\nvalues = ["Reds", "Blues"]\n', encoding="utf-8")
    lexicon = load_lexicon(path)
    assert (lexicon.name, lexicon.title, lexicon.attributes["team"].title) == ("mine", "mine", "team")
    assert swapped(load_lexicon(str(path)).attribute("team"), "the REDS", "blues") == "the BLUES"


def test_the_example_of_the_documentation_works(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "lexicons.md").read_text(encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(page.split("```toml\n")[1].split("```")[0], encoding="utf-8")
    lexicon = load_lexicon(path)
    assert swapped(lexicon.attribute("city"), "In NYC, new york city", "Paris") == "In Paris, paris"
    faith = lexicon.attribute("faith")
    assert swapped(faith, "A Muslim and Muslim women", "Judaism") == "A Jew and Jewish women"
    assert swapped(lexicon.attribute("gender"), "Her father, a king", "female") == "Her mother, a queen"
    assert said(lexicon.attribute("skin"), "a black car, black men, black market", "exclude") == [("black", "black")]


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ({"values": ["a"]}, "attribute 1 ('faith'): 'faith' needs at least two values"),
        ({"values": ["a", "A"]}, "found twice: a"),
        ({"values": ["a", " "]}, "the value ' ' has an empty word"),
        ({"values": ["a", "b"], "also": {"a": [""]}}, "the value 'a' has an empty word"),
        ({"values": ["a", "b"], "also": {"c": ["d"]}}, "'c' has words but is not among the values: a, b"),
        ({"values": ["a", "b"], "also": {"a": ["B"]}}, "'b' stands in two values, 'a' and 'b'"),
        ({"values": ["a", "b"], "also": {"a": ["A"]}}, "'a' stands twice in the form 'word' of the value 'a'"),
        ({"values": ["a", "b"], "form": [{"name": "f", "words": {"a": ["x"]}}]}, "the value 'b' has no word"),
        ({"values": ["a", "b"], "form": [{"name": "f", "words": {"a": ["x"], "b": []}}]}, "the value 'b' has no word"),
        (
            {"values": ["a", "b"], "colour": 1},
            "attribute 1 ('faith'), colour: there is no setting called 'colour'; known: name,",
        ),
        (
            {"values": ["a", "b"], "form": [{"name": "f", "words": {}, "alinged": True}]},
            "form 1 ('f'), alinged: there is no setting called 'alinged'; did you mean 'aligned'?",
        ),
        (
            {"values": ["a", "b"], "form": [{"name": "f", "aligned": True, "words": {"a": ["x"], "b": ["y", "z"]}}]},
            "the form 'f' is aligned, so its lists must be equally long; found a 1, b 2",
        ),
        (
            {"values": ["a", "b"], "also": {"a": ["x"]}, "form": [{"name": "f", "words": {"a": ["x"], "b": ["y"]}}]},
            "'also' is for attributes without forms",
        ),
        (
            {"values": ["a", "b"], "form": [{"name": f, "words": {"a": ["x"], "b": ["y"]}} for f in "gh"]},
            "'x' stands in the forms 'g' and 'h', and 'g' has no contexts, so 'h' would never be used",
        ),
        ({"values": ["a", "b"], "form": [{"name": "f", "words": {"a": ["x"]}}] * 2}, "found twice: f"),
        ({"values": ["a", "b"], "ambiguous": [{"terms": ["c"]}]}, "'c' is called ambiguous but is no word"),
        ({"values": ["a", "b"], "phrases": ["b"]}, "the phrase 'b' is empty or is itself a word"),
        (
            {"values": ["a", "b"], "ambiguous": [{"terms": ["a"], "contexts": [{"next": "people"}]}]},
            "a context of 'faith' names 'people', which is not in [word_lists] (there: none)",
        ),
        ({}, "attribute 1 ('faith'), values: it is needed, but missing"),
    ],
)
def test_a_wrong_lexicon_is_told_where_and_what(attribute: dict[str, Any], message: str) -> None:
    with pytest.raises(EvenhandError) as error:
        words_of(**attribute)
    assert str(error.value).startswith("The lexicon mine.toml is wrong at ")
    assert message in str(error.value)


def test_a_lexicon_without_attributes_or_with_one_twice() -> None:
    with pytest.raises(EvenhandError, match="wrong at attribute: it needs at least 1 entry, not 0"):
        Lexicon.parse({"name": "mine", "attribute": []}, "mine.toml")
    twice = lexicon_of(values=["a", "b"])["attribute"] * 2
    with pytest.raises(
        EvenhandError, match="wrong at the top level: attribute names must be unique; found twice: faith"
    ):
        Lexicon.parse({"name": "mine", "attribute": twice}, "mine.toml")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(EvenhandError, match=r"Cannot read the lexicon .*none\.toml: No such file"):
        load_lexicon(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_bytes(b'name = "\xff"')
    with pytest.raises(EvenhandError, match="is not valid TOML"):
        load_lexicon(broken)
    broken.write_text("name =", encoding="utf-8")
    with pytest.raises(EvenhandError, match="is not valid TOML"):
        load_lexicon(broken)


def test_unknown_names_are_told_the_nearest() -> None:
    with pytest.raises(EvenhandError, match=r"no lexicon 'papre'\. Did you mean 'paper'\?.*\.toml file"):
        load_lexicon("papre")
    with pytest.raises(EvenhandError, match=r"Did you mean 'religion'\? Known: country, ethnic, race, religion"):
        PAPER.attribute("religions")
    with pytest.raises(EvenhandError, match=r"no value of race called 'blak'"):
        PAPER.attribute("race").value_index("blak")
