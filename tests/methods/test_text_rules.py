"""The methods' rules for text on examples worked by hand."""

from typing import Any

import pytest
import torch
from torch import Tensor

from evenhand.methods.boundary import Boundary
from evenhand.methods.registry import TEXT_METHODS, make_text_method
from evenhand.methods.text_adf import RandomPerturbation, TextADF
from evenhand.methods.text_moves import TextWalk
from evenhand.models.text.classifier import TextClassifier
from evenhand.search.check import check
from evenhand.search.draws import Draws
from evenhand.search.text_space import TextSpace
from evenhand.search.walk import DRAWS_PER_STEP, Walk
from tests.worlds.text_search import ByHand, protected_words, sample, space_of

Gradient = list[list[float]]
NEAR = {"old": ["new", "young"], "big": ["small", "long"]}
PLACES = {"old": [0.0, 0.0], "new": [1.0, -1.0], "young": [1.0, 1.0]}
PLACES |= {"big": [0.0, 0.0], "small": [-4.0, 2.0], "long": [1.0, 1.0]}
OWN = [[9.0, 9.0], [0.5, -0.2], [0.3, 0.1]]  # the gradient by "Egypt", by "old" or what stands there, by "big"
PAIR = [[-9.0, 9.0], [0.2, 0.1], [-0.1, 0.1]]


def walk_at(*codes: dict[int, int], own: Gradient = OWN, pair: Gradient = PAIR) -> TextWalk:
    """Walks at "Egypt old big" with some words replaced; France is the variant that differs most from it."""
    space = space_of(["Egypt old big"], protected_words("country"), NEAR)
    model = ByHand(
        space,
        PLACES,
        lambda words: {"Egypt": 1.0, "France": 3.0}.get(words[0], 2.0),
        lambda words, label: {"Egypt": own, "France": pair}[words[0]],
    )
    x = torch.cat([sample(space, codes=of_walk) for of_walk in codes])
    return walk_of(model, space, x)


def walk_of(model: TextClassifier, space: TextSpace, x: Tensor) -> TextWalk:
    return Walk(model, space, check(model, space, x), Draws(0, 1, torch.arange(len(x)), DRAWS_PER_STEP))


def moved(method: TextADF | RandomPerturbation, codes: dict[int, int] | None = None) -> str:
    """The text after one global move."""
    walk = walk_at(codes or {})
    model = walk.model
    assert isinstance(model, ByHand)
    return " ".join(model.words(walk.space.inputs(method.global_move(walk)))[0])


def test_asc_by_hand() -> None:
    """Impact: old max(|0.5 - 0.2|, |-0.2 - 0.1|) = 0.3, big max(|0.3 + 0.1|, |0.1 - 0.1|) = 0.4; Egypt is protected.

    sign(g) at big is (1, 1); small lies in the direction (-1, 1), long in (1, 1), at a distance of 0.
    """
    assert moved(TextADF(rule="asc")) == "Egypt old long"


def test_plain_asc_by_hand() -> None:
    """Impact: old max(0.5, 0.2) = 0.5, big 0.3. sign(g) at old is (1, -1), and so is the direction to new."""
    assert moved(TextADF(rule="asc", paired=False)) == "Egypt new big"


def test_hotflip_by_hand() -> None:
    """g - g' is (0.3, -0.3) at old and (0.4, 0) at big.

    The differences: new |0.3 + 0.3| = 0.6, young 0; small |-1.6| = 1.6, long 0.4.
    """
    assert moved(TextADF(rule="hotflip")) == "Egypt old small"


def test_plain_hotflip_by_hand() -> None:
    """The rise of the loss: new 0.5 + 0.2 = 0.7, young 0.5 - 0.2 = 0.3; small -1.2 + 0.2 = -1, long 0.3 + 0.1 = 0.4."""
    assert moved(TextADF(rule="hotflip", paired=False)) == "Egypt new big"


def test_a_replaced_word_is_judged_from_where_it_is_now() -> None:
    """From "small" at (-4, 2): to big it is (4, -2), to long (5, -1). From "new" at (1, -1): old (-1, 1), young (0, 2).

    ASC, big's place: sign(g) = (1, 1), both are (1, -1), and the first of equals is the source's own word.
    HotFlip: big 4 * 0.4 = 1.6, long 5 * 0.4 = 2, old |-0.3 - 0.3| = 0.6, young |-0.6| = 0.6.
    Plain HotFlip: big 1.2 - 0.2 = 1, long 1.5 - 0.1 = 1.4, old -0.7, young -0.4.
    """
    codes = {1: 1, 2: 1}
    assert moved(TextADF(rule="asc"), codes) == "Egypt new big"
    assert moved(TextADF(rule="hotflip"), codes) == "Egypt new long"
    assert moved(TextADF(rule="hotflip", paired=False), codes) == "Egypt new long"


def shares(texts: list[str]) -> dict[str, float]:
    return {text: texts.count(text) / len(texts) for text in set(texts)}


def local_moves(method: TextADF | RandomPerturbation, codes: dict[int, int], walks: int = 3000) -> dict[str, float]:
    """How often each text is looked at next."""
    own, pair = [[9.0, 9.0], [0.4, -0.4], [0.8, 0.0]], [[9.0, 9.0], [-0.2, 0.2], [0.0, -0.4]]
    walk = walk_at(*[codes] * walks, own=own, pair=pair)
    assert isinstance(walk.model, ByHand)
    return shares([" ".join(words) for words in walk.model.words(walk.space.inputs(method.local_move(walk)))])


def test_local_moves_follow_the_reciprocal_saliency() -> None:
    """Saliency: old 0.4 + 0.2 = 0.6, big 0.8 + 0.4 = 1.2; reciprocals 1.67 and 0.83, so probabilities 2/3 and 1/3.

    A word's two candidates are equally likely; the word that stands there is none, the source's own is one again.
    """
    wanted = {"Egypt new big": 1 / 3, "Egypt young big": 1 / 3, "Egypt old small": 1 / 6, "Egypt old long": 1 / 6}
    assert local_moves(TextADF(), {}) == pytest.approx(wanted, abs=0.03)
    wanted = {"Egypt new long": 1 / 3, "Egypt old long": 1 / 3, "Egypt young big": 1 / 6, "Egypt young small": 1 / 6}
    assert local_moves(TextADF(), {1: 2, 2: 2}) == pytest.approx(wanted, abs=0.03)


@pytest.mark.parametrize("method", [TextADF(local="random"), RandomPerturbation()])
def test_random_moves_are_uniform(method: TextADF | RandomPerturbation) -> None:
    texts = ["Egypt new big", "Egypt young big", "Egypt old small", "Egypt old long"]
    assert local_moves(method, {}) == pytest.approx(dict.fromkeys(texts, 0.25), abs=0.03)


def test_a_text_that_cannot_move_stays() -> None:
    space = space_of(["Egypt old big"], protected_words("country"))
    model = ByHand(space, PLACES, lambda words: 1.0, lambda words, label: OWN)
    walk: TextWalk = Walk(
        model, space, check(model, space, sample(space)), Draws(0, 1, torch.arange(1), DRAWS_PER_STEP)
    )
    for name in TEXT_METHODS:
        method: Any = make_text_method(name)
        assert torch.equal(method.global_move(walk), walk.x)
        walk.memory.clear()
        assert torch.equal(method.local_move(walk), walk.x)
        walk.memory.clear()


# Log-odds of class 1 are the sum of the words' numbers. Of all variants Egypt gives most, 1, and France least, 0.2.
ODDS = {"Egypt": 1.0, "France": 0.2, "old": 1.0, "new": 0.0, "young": -5.0, "big": 1.0, "small": -1.5, "long": -1.4}


class Moving:
    """A walk of Boundary's from "Egypt old big". The gradient believes `odds`; the answers follow `truth`."""

    def __init__(
        self,
        tries: int = 24,
        patience: int = 3,
        near: dict[str, list[str]] = NEAR,
        odds: dict[str, float] = ODDS,
        truth: dict[str, float] = ODDS,
    ) -> None:
        self.method = Boundary(tries=tries, patience=patience)
        self.space = space_of(["Egypt old big"], protected_words("country"), near)
        self.model = ByHand(
            self.space,
            {word: [number] for word, number in odds.items()},
            lambda words: sum(truth.get(word, 0.5) for word in words),
            lambda words, label: [[2.0 * label - 1]] * len(words),
        )
        self.walk = walk_of(self.model, self.space, sample(self.space))

    def move(self) -> tuple[str, bool]:
        """Where a global move leads, and whether it is a finding."""
        checked = check(self.model, self.space, self.method.global_move(self.walk))
        self.walk.move(checked)
        return " ".join(self.model.words(self.space.inputs(checked.x))[0]), bool(checked.hit)


def test_boundary_places_the_boundary_between_the_variants() -> None:
    """Egypt old big has 3 and France old big 2.2: a change in (-3, -2.2) puts the boundary between them.

    The changes: new -1, young -6, small -2.5, long -2.4. Small leaves 0.5 and -0.3, long 0.6 and -0.2: the smaller
    of the two distances is larger for small.
    """
    assert Moving().move() == ("Egypt old small", True)


def test_boundary_trusts_exact_scores_not_the_gradient() -> None:
    """Small is worth 1 in truth, so only long splits; with a single try, small is taken for the best and is not."""
    assert Moving(truth=ODDS | {"small": 1.0}).move() == ("Egypt old long", True)
    assert Moving(tries=1, truth=ODDS | {"small": 1.0}).move() == ("Egypt old small", False)


def test_boundary_comes_closer_where_nothing_splits() -> None:
    """Small and long are worth 1 in truth; new leaves 1.2 for France, young takes all across, to -3.8."""
    assert Moving(truth=ODDS | {"small": 1.0, "long": 1.0}).move() == ("Egypt new big", False)


def test_boundary_replaces_two_words_when_its_patience_ends() -> None:
    """Egypt old big has 3 and France old big 2.2. Small (-1.5) comes closer than new (-1), and both together split.

    They leave Egypt 0.5 and France -0.3; one word alone leaves both above zero.
    """
    near, odds = {"old": ["new"], "big": ["small"]}, ODDS | {"small": -0.5}
    patient = Moving(near=near, odds=odds, truth=odds)
    assert patient.move() == ("Egypt old small", False)
    assert patient.move() == ("Egypt new small", True)
    assert Moving(patience=0, near=near, odds=odds, truth=odds).move() == ("Egypt new small", True)


def test_boundary_does_not_replace_a_second_word_where_one_splits() -> None:
    assert Moving(patience=0).move() == ("Egypt old small", True)


def test_boundary_turns_round_where_all_crossed_at_once() -> None:
    """A single try: young (-6) comes nearest to the middle, 2.6, and takes Egypt to -3 and France to -3.8.

    Now Egypt is the nearest, and a rise in (3, 3.8) splits. Nearest to 3.4 is small (3.4), then old (6) and long (1).
    """
    odds = ODDS | {"small": 4.4, "long": 2.0}
    moving = Moving(tries=1, near={"old": ["young"], "big": ["small", "long"]}, odds=odds, truth=odds)
    assert moving.move() == ("Egypt young big", False)
    assert moving.move() == ("Egypt young small", True)
