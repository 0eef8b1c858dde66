"""Protected words: what counts as a mention, what replaces it, and what a bad lexicon is told."""

from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evenhand.errors import EvenhandError
from evenhand.text.lexicon import Ambiguous, Lexicon, Mention, ProtectedWords, load_lexicon, shipped_lexicons
from evenhand.text.tokens import rendered, tokenize

LEXICONS = {name: load_lexicon(name) for name in shipped_lexicons()}
PAPER, EVENHAND = LEXICONS["paper"], LEXICONS["evenhand"]
ALL = [
    pytest.param(words, id=f"{name}-{words.name}")
    for name, lexicon in LEXICONS.items()
    for words in lexicon.attributes.values()
]


def swapped(words: ProtectedWords, text: str, value: str, ambiguous: Ambiguous = "keep") -> str:
    """The text with every mention replaced by `value`; those without such a form stay."""
    tokens = tokenize(text)
    found = {
        (mention.start, mention.end): words.surface(tokens, mention, words.value_index(value))
        for mention in words.mentions(tokens, ambiguous)
    }
    return rendered(tokens, {place: surface for place, surface in found.items() if surface is not None})


def said(words: ProtectedWords, text: str, ambiguous: Ambiguous = "keep") -> list[tuple[str, str]]:
    """What the mentions of a text are: the words and the value."""
    tokens = tokenize(text)
    return [(tokens.surface(m.start, m.end), words.values[m.value]) for m in words.mentions(tokens, ambiguous)]


def lexicon_of(**attribute: Any) -> dict[str, Any]:
    return {"name": "mine", "attribute": [{"name": "faith", **attribute}]}


def words_of(**attribute: Any) -> ProtectedWords:
    return Lexicon.parse(lexicon_of(**attribute), "mine.toml").attributes["faith"]


# --- the lexicons of the package


def test_the_papers_attributes_have_the_papers_sizes() -> None:
    sizes = {name: len(words.values) for name, words in PAPER.attributes.items()}
    assert sizes == {"country": 160, "ethnic": 17, "race": 7, "religion": 14}


def test_the_papers_words_are_the_papers() -> None:
    listed = {
        "religion": "christian buddhism islam muslim judaism atheist hinduism jainism sikhism confucianism "
        "zoroastrianism shinto taoism baha'i",
        "race": "white asian amerindian black bushmen hottentots australoid",
        "ethnic": "german hispanic latino mexican filipino english polish scottish norwegian chinese dutch italian "
        "swedish french african irish russian",
    }
    for name, values in listed.items():
        assert [value.lower() for value in PAPER.attributes[name].values] == values.split()


def test_slurs_stand_in_the_papers_lexicon_only() -> None:
    slurs = {"bushmen", "hottentots"}
    assert not any(slurs & words.all_words for words in EVENHAND.attributes.values())
    assert "slurs" in PAPER.note


@pytest.mark.parametrize("name", list(LEXICONS))
def test_every_lexicon_says_where_its_words_come_from(name: str) -> None:
    assert LEXICONS[name].name == name
    assert LEXICONS[name].source
    assert LEXICONS[name].licence


FRAMES = [
    ("", "."),
    ("He is a ", "."),
    ("We saw the ", " and left."),
    ("Some ", " people said so."),
    ("It was ", " book."),
]


@cache
def recognised(words: ProtectedWords, term: str) -> list[tuple[tuple[str, str], Mention]]:
    """The frames in which the whole of a term is one mention."""
    found = []
    for frame in FRAMES:
        tokens = tokenize(frame[0] + term + frame[1])
        start, length = len(tokenize(frame[0])), len(tokenize(term))
        found += [(frame, m) for m in words.mentions(tokens) if (m.start, m.end) == (start, start + length)]
    return found


@pytest.mark.parametrize("words", ALL)
def test_every_term_is_found_as_its_value_and_every_replacement_as_the_new_one_in_the_same_form(
    words: ProtectedWords,
) -> None:
    for value in range(len(words.values)):
        for term in words.terms_of(value):
            mentions = recognised(words, term)
            assert mentions, f"{term} is never found"
            for form in {mention.form for _, mention in mentions}:
                seen = [(frame, mention) for frame, mention in mentions if mention.form == form]
                assert {mention.value for _, mention in seen} == {value}
                for target in range(len(words.values)):
                    replacement = words.replacement(seen[0][1], target)
                    if replacement is not None:
                        back = {(m.form, m.value) for _, m in recognised(words, replacement)}
                        assert (form, target) in back, f"{term} -> {replacement}"


@pytest.mark.parametrize("words", ALL)
def test_every_form_and_term_can_be_reached(words: ProtectedWords) -> None:
    terms = [term for value in range(len(words.values)) for term in words.terms_of(value)]
    assert {m.form for term in terms for _, m in recognised(words, term)} == set(words.forms)


@pytest.mark.parametrize("words", ALL)
def test_replacing_by_the_own_value_changes_nothing(words: ProtectedWords) -> None:
    for value in range(len(words.values)):
        for term in words.terms_of(value):
            assert swapped(words, f"So {term} it is.", words.values[value]) == f"So {term} it is."


# --- mentions and replacements


@pytest.mark.parametrize(
    ("text", "value", "result"),
    [
        ("From Saudi Arabia.", "France", "From France."),
        ("SAUDI  ARABIA and saudi\narabia", "France", "FRANCE and france"),
        ("In France, france; FRANCE!", "Saudi Arabia", "In Saudi Arabia, saudi arabia; SAUDI ARABIA!"),
        ("The United States of America is", "Guinea-Bissau", "The Guinea-Bissau is"),
        ("Côte d’Ivoire won", "Papua New Guinea", "Papua New Guinea won"),
        ("Papua New Guinea, Guinea", "Sri Lanka", "Sri Lanka, Sri Lanka"),
    ],
)
def test_names_of_several_words(text: str, value: str, result: str) -> None:
    assert swapped(PAPER.attribute("country"), text, value) == result


@pytest.mark.parametrize(
    ("text", "value", "result"),
    [
        ("a (muslim).", "Christian", "a (christian)."),
        ("Muslims", "Christian", "Muslims"),
        ("anti-Muslim's", "Christian", "anti-Christian's"),
        ("_baha’i_", "Shinto", "_shinto_"),
        ("Shinto", "Baha'i", "Baha'i"),
        ("the Muslim man, Muslim pro-Muslim", "atheist", "the atheist man, atheist pro-atheist"),
        ("Muslim men. Muslim", "atheist", "Atheist men. Atheist"),
        ("MUSLIM", "atheist", "ATHEIST"),
    ],
)
def test_case_and_punctuation_are_kept(text: str, value: str, result: str) -> None:
    assert swapped(PAPER.attribute("religion"), text, value) == result


def test_a_word_at_the_start_of_a_sentence_stays_capitalised() -> None:
    assert swapped(PAPER.attribute("ethnic"), "African people. AFRICAN", "Latino") == "Latino people. LATINO"
    assert swapped(EVENHAND.attribute("gender"), "He came. Men and he", "female") == "She came. Women and she"


def test_an_abbreviation_in_capitals_does_not_shout() -> None:
    nationality = EVENHAND.attribute("nationality")
    assert swapped(nationality, "From the USA, USA, usa.", "French") == "From France, France, france."
    assert swapped(nationality, "In FRANCE", "American") == "In THE UNITED STATES"


@pytest.mark.parametrize(
    ("attribute", "text", "value", "result"),
    [
        ("religion", "A Muslim and Muslims; she is Muslim.", "Judaism", "A Jew and Jews; she is Jewish."),
        ("religion", "Jewish women left Judaism.", "Islam", "Muslim women left Islam."),
        ("religion", "A Muslim-led band (by a Muslim)", "Judaism", "A Jewish-led band (by a Jew)"),
        (
            "nationality",
            "A German in Germany with a German car",
            "French",
            "A French person in France with a French car",
        ),
        ("nationality", "The French are here, in France", "American", "The Americans are here, in the United States"),
        ("nationality", "The US army left the US.", "German", "German army left Germany."),
        ("race", "The African-American men, black people", "Asian", "The Asian men, asians"),
        ("gender", "He saw him and his dog; it is his.", "female", "She saw her and her dog; it is hers."),
        ("gender", "She saw her and her dog; it is hers.", "male", "He saw him and his dog; it is his."),
        ("gender", "Mr. and Mrs. Fox, actors, himself", "female", "Ms. and Mrs. Fox, actresses, herself"),
        ("gender", "She's a waitress", "male", "He's a waiter"),
        ("first_name", "MARY met John", "male", "JAMES met John"),
        ("orientation", "a lesbian couple, gays", "straight", "a straight couple, straight people"),
        ("disability", "blindness; People with disabilities", "deaf", "deafness; Deaf people"),
        ("age", "The elderly and two old women", "young", "The young and two young women"),
    ],
)
def test_a_replacement_has_the_form_of_what_it_replaces(attribute: str, text: str, value: str, result: str) -> None:
    assert swapped(EVENHAND.attribute(attribute), text, value) == result


def test_a_value_without_the_form_is_no_replacement() -> None:
    words = EVENHAND.attribute("disability")
    tokens = tokenize("blindness")
    (mention,) = words.mentions(tokens)
    assert words.replacement(mention, words.value_index("able-bodied")) is None
    assert words.replacement_words(mention, words.value_index("able-bodied")) is None
    assert words.surface(tokens, mention, words.value_index("able-bodied")) is None


def test_the_longest_term_wins_and_mentions_do_not_overlap() -> None:
    words = words_of(values=["north", "north south", "south south"])
    assert said(words, "North south south north") == [("North south", "north south"), ("north", "north")]


def test_a_phrase_hides_the_terms_within() -> None:
    assert said(EVENHAND.attribute("race"), "the White House, white men") == [("white", "White")]
    assert said(EVENHAND.attribute("nationality"), "Native American, American") == [("American", "American")]


def test_only_the_first_word_replaces_and_the_others_are_recognised() -> None:
    words = words_of(values=["a", "b"], form=[{"name": "f", "words": {"a": ["Abc", "Abd"], "b": ["Bcd", "Bce"]}}])
    assert swapped(words, "abc abd Bce", "b") == "bcd bcd Bce"


def test_aligned_words_are_replaced_by_their_partners() -> None:
    form = {"name": "f", "aligned": True, "words": {"a": ["sir", "sir", "king"], "b": ["madam", "ma'am", "queen"]}}
    words = words_of(values=["a", "b"], form=[form])
    assert swapped(words, "sir king", "b") == "madam queen"
    assert swapped(words, "madam ma’am queen", "a") == "sir sir king"


def test_replacement_words_are_cut_as_texts_are() -> None:
    words = PAPER.attribute("country")
    (mention,) = words.mentions(tokenize("France"))
    assert words.replacement_words(mention, words.value_index("guinea-bissau")) == ("guinea", "-", "bissau")


def test_all_words_are_the_words_of_the_terms_without_punctuation() -> None:
    words = words_of(values=["African-American", "Baha'i", "Côte d'Ivoire"])
    assert words.all_words == {"african", "american", "baha'i", "côte", "d'ivoire"}


# --- ambiguous words


@pytest.mark.parametrize(
    ("attribute", "text", "counted"),
    [
        ("race", "a black car and white paint", []),
        ("race", "black people and white men", ["black people", "white"]),
        ("race", "Blacks and whites", ["Blacks", "whites"]),
        ("nationality", "she speaks German; it is in French.", []),
        ("nationality", "the German language, German workers", ["German"]),
        ("nationality", "we ate turkey. In Turkey, the Poles met by two poles.", ["Turkey", "Poles"]),
        ("nationality", "TURKEY IN TURKEY. Turkey", []),
        ("religion", "Christian went home. A Christian went home. Christian values", ["Christian", "Christian"]),
        ("orientation", "go straight on with straight people and straight men", ["straight people", "straight"]),
        ("disability", "she is blind, on a blind alley, disabled my account", ["blind"]),
        ("gender", "you guys met two guys", ["guys"]),
    ],
)
def test_ambiguous_words_count_in_their_contexts_only(attribute: str, text: str, counted: list[str]) -> None:
    words = EVENHAND.attribute(attribute)
    assert [surface for surface, _ in said(words, text, "exclude")] == counted


def test_the_papers_ambiguous_words_count_unless_excluded() -> None:
    text = "a black car; black men; Michael Jordan in Jordan"
    race, country = PAPER.attribute("race"), PAPER.attribute("country")
    assert len(said(race, text)) == len(said(country, text)) == 2
    assert len(said(race, text, "exclude")) == len(said(country, text, "exclude")) == 1


def test_an_ambiguous_long_term_gives_way_to_a_short_one() -> None:
    words = words_of(
        values=["north", "north wind"], ambiguous=[{"terms": ["north wind"], "contexts": [{"capital": True}]}]
    )
    assert said(words, "a north wind", "exclude") == [("north", "north")]
    assert said(words, "a North wind", "exclude") == [("North wind", "north wind")]


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
    page = (Path(__file__).parents[1] / "docs" / "lexicons.md").read_text(encoding="utf-8")
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
        ({"values": ["a", "b"], "colour": 1}, "attribute 1 ('faith'), colour: Extra inputs are not permitted"),
        (
            {"values": ["a", "b"], "form": [{"name": "f", "words": {}, "alinged": True}]},
            "attribute 1 ('faith'), form 1 ('f'), alinged: Extra inputs",
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
        ({}, "attribute 1 ('faith'), values: Field required"),
    ],
)
def test_a_wrong_lexicon_is_told_where_and_what(attribute: dict[str, Any], message: str) -> None:
    with pytest.raises(EvenhandError) as error:
        words_of(**attribute)
    assert str(error.value).startswith("The lexicon mine.toml is wrong at ")
    assert message in str(error.value)


def test_a_lexicon_without_attributes_or_with_one_twice() -> None:
    with pytest.raises(EvenhandError, match="wrong at attribute: List should have at least 1 item"):
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
