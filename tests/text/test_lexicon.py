"""Protected words: what counts as a mention, and what replaces it."""

from functools import cache
from typing import Any

import pytest

from evenhand.choices import Ambiguous
from evenhand.text.lexicon import Lexicon, Mention, ProtectedWords, load_lexicon, shipped_lexicons
from evenhand.text.tokens import replace_tokens, tokenize

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
    return replace_tokens(tokens, {place: surface for place, surface in found.items() if surface is not None})


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
