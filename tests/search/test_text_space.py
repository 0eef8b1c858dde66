"""The space of texts: what its samples are, how they read, and that a check of them is exact."""

from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evenhand.choices import Swap
from evenhand.models.text import classifier as text_classifier
from evenhand.models.text.recurrent import Cell
from evenhand.search.check import Checked, check, check_near
from evenhand.search.text_space import NO_GROUP, SOURCE, Marked, TextSpace, text_space
from evenhand.text.lexicon import Lexicon
from evenhand.text.neighbours import is_replaceable
from evenhand.text.tokens import tokenize
from tests.worlds.text_search import (
    COUNTRIES,
    MOST_WORDS,
    TextWorld,
    near_tie,
    protected_words,
    sample,
    space_of,
    text_world,
)

either_swap = pytest.mark.parametrize("swap", ["one", "all"])


def read(space: TextSpace, x: Tensor) -> str:
    """A single sample as a person reads it."""
    return space.texts.render(int(x[0, SOURCE]), space.inputs(x)[0, 1:].numpy())


def swap_number(space: TextSpace, group: int, value: str) -> int:
    return 1 + group * space.values + space.texts.words.value_index(value)


def swaps_of(space: TextSpace, source: int = 0) -> list[str]:
    """All variants of a source."""
    first, end = space.first_swap[source : source + 2].tolist()
    return [read(space, sample(space, source, swap)) for swap in space.swaps[first:end].tolist()]


# ---- variants


def test_each_mention_takes_every_other_value_that_has_its_form() -> None:
    space = space_of(["In France I saw an EGYPTIAN king"], protected_words("country"))
    nouns = [f"In {name} I saw an EGYPTIAN king" for name in COUNTRIES if name != "France"]
    adjectives = [f"In France I saw an {word} king" for word in ("FRENCH", "MEXICAN", "INDIAN")]
    assert swaps_of(space) == nouns + adjectives
    assert space.variant_counts(sample(space)).tolist() == [len(nouns) + len(adjectives) + 1]


def test_all_mentions_of_a_value_change_together_where_each_can() -> None:
    texts = ["France, France and India", "The French of France and India"]
    space = space_of(texts, protected_words("country"), swap="all")
    others = [name for name in COUNTRIES if name not in ("France", "India")]
    of_france = ["Saudi Arabia, Saudi Arabia and India", "India, India and India"]
    assert set(of_france) < set(swaps_of(space))
    assert {f"France, France and {name}" for name in ["France", *others]} < set(swaps_of(space))
    assert len(swaps_of(space)) == 2 * (len(COUNTRIES) - 1)
    with_adjective = [
        "The Mexican of Mexico and India",
        "The Indian of India and India",
        "The Egyptian of Egypt and India",
    ]
    assert set(swaps_of(space, 1)[:3]) == set(with_adjective)  # Saudi Arabia and Canada have no adjective here


def test_sources_with_few_or_no_variants_stand_beside_others() -> None:
    """A mention that no other value can take, and a text without any mention, in a batch and alone."""
    forms = [{"name": "noun", "words": {"x": ["xa"], "y": ["ya"]}}, {"name": "other", "words": {"x": ["xo"]}}]
    content = {"name": "mine", "attribute": [{"name": "letter", "values": ["x", "y"], "form": forms}]}
    words = Lexicon.parse(content, "the test").attributes["letter"]
    world = text_world("religion")
    space = space_of(["the xa", "the xo", "the page", ""], words)
    lone = TextWorld(space, world.network, world.vectors, world.k, world.moves)
    assert space.variant_counts(lone.seeds()).tolist() == [2, 1, 1, 1]
    checked = check(lone.model(), space, lone.seeds())
    assert checked.pair_label.shape == (4,)
    assert not checked.hit[1:].any()
    assert not check(lone.model(), space, lone.seeds()[1:]).hit.any()


# ---- reading


def test_a_source_reads_as_it_was_written() -> None:
    text = "  “FRANCE”\t isn't\n  Saudi  Arabia…  "
    space = space_of([text], protected_words("country"), {"is": ["was"]})
    assert read(space, sample(space)) == text
    assert read(space, sample(space, codes={3: 1})) == text.replace("is", "was")
    second = sample(space, swap=swap_number(space, 1, "Mexico"))
    assert read(space, second) == text.replace("Saudi  Arabia", "Mexico")


@pytest.mark.parametrize(
    ("text", "moves", "wanted"),
    [
        ("Egypt(old)", {1: "and"}, "Egypt and old)"),
        ("Egypt?!", {1: "so", 2: "what"}, "Egypt so what"),
        ("Egypt ?!.", {1: "so", 2: ",", 3: "what"}, "Egypt so,what"),
        ("Egypt-old's", {1: "and", 2: "new"}, "Egypt and new's"),
        ("Egypt!'s it", {1: "and"}, "Egypt and 's it"),
        ("Egypt's. Old", {2: "!"}, "Egypt's! Old"),
        ("Egypt don't'go", {4: "s"}, "Egypt don't' s"),
        ("Egypt ΑΣ.Β", {2: "and"}, "Egypt ΑΣ and Β"),
    ],
)
def test_a_word_in_the_place_of_a_sign_does_not_run_into_others(text: str, moves: dict[int, str], wanted: str) -> None:
    tokens = tokenize(text).words
    nearest = {tokens[place]: [word] for place, word in moves.items()}
    space = space_of([text], protected_words("country"), nearest)
    x = sample(space, codes=dict.fromkeys(moves, 1))
    assert read(space, x) == wanted
    assert tokenize(wanted).words == words_read(space, space.inputs(x)[0, 1:])


def test_a_term_that_ends_in_a_sign_does_not_run_into_others() -> None:
    words = protected_words("nationality")
    space = space_of(["the U.S.government, the U.S.'s"], words)
    assert swaps_of(space)[0] != read(space, sample(space))
    for text, units in zip(swaps_of(space), inputs_of_swaps(space), strict=True):
        assert tokenize(text).words == words_read(space, units)


def inputs_of_swaps(space: TextSpace) -> list[Tensor]:
    return [space.inputs(sample(space, 0, swap))[0, 1:] for swap in space.swaps.tolist()]


def words_read(space: TextSpace, units: Tensor) -> list[str]:
    """The words that a model gets for a row of units."""
    table, words = space.texts.units.table(), space.texts.units.words
    return [words[number] for unit in units.tolist() if unit >= 0 for number in table[unit].tolist() if number >= 0]


PIECES = [
    *"?!.,-()_…“¡´'’/%¹٣ \n",
    *["Egypt", "EGYPT", "Saudi Arabia", "French", "the page", "can't", "IT’S", "n't", "'s", "o'brien", "é", "e\u0301"],
    *["\u0301", "İ", "ΑΣ", "ß", "5", "rock'n'roll", "don", "we're", "漢字", "a", "\u200d", "\ufe0f"],
]
NEAR_WORD, NEAR_SIGN = ["n", "s", "re", "x5"], ["!", "_", "n", "and", "5"]


@settings(deadline=None, max_examples=120)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.randoms(use_true_random=False))
def test_what_is_written_is_what_was_read(text: str, random: Random) -> None:
    """Whatever a search replaces, the rendered text has just the words that the model got."""
    movable = [word for word in tokenize(text).words if is_replaceable(word, "tokens")]
    nearest = {word: NEAR_WORD if word[0].isalnum() else NEAR_SIGN for word in movable}
    space = space_of([text, "Egypt"], protected_words("country"), nearest, swap="all")
    swaps = [0, *space.swaps[: space.first_swap[1]].tolist()]
    for _ in range(6):
        codes = {place: random.randrange(choices) for place, choices in enumerate(space.choices[0].tolist())}
        x = sample(space, 0, random.choice(swaps), codes)
        assert tokenize(read(space, x)).words == words_read(space, space.inputs(x)[0, 1:])


def test_candidates_are_the_nearest_words_and_protected_terms_stay() -> None:
    world = text_world("country")
    space = world.space
    for source, row in enumerate(space.candidates.tolist()):
        for place, units in enumerate(row):
            surfaces = [space.texts.units.surfaces[unit] for unit in units if unit >= 0]
            ranges = space.texts.ranges[source]
            free = place < len(ranges) and ranges[place][0] < MOST_WORDS and int(space.group[source, place]) == NO_GROUP
            assert surfaces[1:] == (world.nearest(surfaces[0]) if free else [])
    assert int(space.choices.max()) == world.k + 1


def test_a_shorter_term_lets_the_next_word_in() -> None:
    """The model reads three words: of the source's "Saudi Arabia is big" not the last, of the variant's all."""
    space = space_of(["Saudi Arabia is big"], protected_words("country"), {"big": ["small"]}, most_tokens=3)
    variant = sample(space, swap=swap_number(space, 0, "France"))
    assert read(space, variant) == "France is big"
    assert words_read(space, space.inputs(variant)[0, 1:]) == ["france", "is", "big"]
    assert space.freedom(sample(space))[0].tolist() == [[0, 0, 0]]  # to move a word that is not read brings nothing


# ---- identity and freedom


@either_swap
def test_keys_are_equal_just_where_texts_are_equal_up_to_protected_terms(swap: Swap) -> None:
    texts = ["He is from France.", "He is from Saudi Arabia.", "Is he from India?", "He is from France!", "French"]
    nearest = {"he": ["she", "it"], "is": ["was"], ".": ["!"], "!": [".", "?"]}
    space = space_of(texts, protected_words("country"), nearest, swap=swap)
    world = TextWorld(space, *[getattr(text_world(), name) for name in ("network", "vectors", "k", "moves")])
    x = world.samples(300, swapped=True)
    keys = space.keys(x).tolist()
    masked = [masked_words(text) for text in world.render(x)]
    assert len(set(masked)) > 15
    assert len(set(zip(keys, masked, strict=True))) == len(set(keys)) == len(set(masked))


def masked_words(text: str) -> tuple[str, ...]:
    """The words of a text with the protected terms struck out."""
    tokens = tokenize(text)
    places = {mention.start: mention.end for mention in protected_words("country").mentions(tokens)}
    taken = {place for start, end in places.items() for place in range(start + 1, end)}
    return tuple("*" if place in places else word for place, word in enumerate(tokens.words) if place not in taken)


def test_after_the_most_changes_only_changed_words_move() -> None:
    nearest = {"old": ["new"], "and": ["or"], "big": ["small"]}
    space = space_of(["India old and big"], protected_words("country"), nearest, max_changes=2)
    for codes, wanted in [({}, [0, 1, 1, 1]), ({1: 1}, [0, 1, 1, 1]), ({1: 1, 3: 1}, [0, 1, 0, 1])]:
        free, last = space.freedom(sample(space, codes=codes))
        assert free.tolist() == [wanted]
        assert last.tolist() == [3]
    assert space.changes(sample(space, codes={1: 1, 3: 1})).tolist() == [2]


def test_local_walks_stay_near_their_start() -> None:
    nearest = {"old": ["new"], "and": ["or"], "big": ["small"]}
    marked = [Marked(tokens, []) for tokens in map(tokenize, ["old and big", "old and big"])]
    words = protected_words("country")
    space = text_space(marked, words, lambda of: [nearest[word] for word in of], most_tokens=9, local_changes=1)
    near = space.around(torch.cat([sample(space, 0), sample(space, 1, codes={0: 1})]))
    x = torch.cat([sample(space, 0, codes={1: 1}), sample(space, 1, codes={1: 1})])
    assert near.freedom(x)[0].tolist() == [[0, 1, 0], [1, 1, 1]]
    assert space.freedom(x)[0].tolist() == [[1, 1, 1], [1, 1, 1]]


# ---- the check


def assert_exact(world: TextWorld, checked: Checked) -> None:
    """Against the labels of all rendered variants, one text at a time."""
    for number in range(len(checked)):
        one = checked.x[number : number + 1]
        swaps = world.swaps(int(one[0, SOURCE]))
        variants = world.space.with_combination(one.expand(len(swaps), -1), torch.tensor(swaps))
        logits = world.plain_logits(torch.cat([one, variants]))
        if any(map(near_tie, logits)):
            continue
        labels = logits.argmax(dim=1)
        pair = [0, *swaps].index(int(checked.pair[number]))
        assert bool(checked.hit[number]) == bool((labels != labels[0]).any())
        assert [int(checked.label[number]), int(checked.pair_label[number])] == labels[[0, pair]].tolist()
        scores = logits.softmax(dim=1)[:, labels[0]]
        found = torch.stack([checked.score[number], checked.pair_score[number]])
        torch.testing.assert_close(found, scores[[0, pair]], rtol=1e-4, atol=1e-5)


@either_swap
@pytest.mark.parametrize(("attribute", "cell"), [("country", "lstm"), ("religion", "gru")])
def test_the_check_is_exact_in_any_chunks(attribute: str, cell: Cell, swap: Swap) -> None:
    world = text_world(attribute, cell, swap=swap)
    x = world.samples(20)
    checked = check(world.model(), world.space, x)
    assert 2 < int(checked.hit.sum()) < 18
    assert_exact(world, checked)
    for rows in (1, 10, 37):
        again = check(world.model(chunk_rows=rows), world.space, x)
        assert all(torch.equal(one, other) for one, other in zip(checked, again, strict=True))


def test_looking_at_the_likeliest_variant_first_changes_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_classifier, "FEW_TEXTS", 0)  # share prefixes, however few there are
    world = text_world("country")
    x = world.samples(40)
    swaps = [world.swaps(source) for source in x[:, SOURCE].tolist()]
    guess = torch.tensor([of[number % len(of)] for number, of in enumerate(swaps)])
    checked = check(world.model(), world.space, x)
    near = check_near(world.model(chunk_rows=30), world.space, x, world.space.combination(x), guess)
    assert torch.equal(near.hit, checked.hit)
    assert torch.equal(near.label, checked.label)
    assert_exact(world, near)
    kept = near.pair == guess
    assert 0 < int((kept & near.hit).sum()) < int(near.hit.sum())  # some guesses were witnesses, some were not
