"""The one place that calls a recurrent network: every fast path against torch's own layers on one text at a time."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from evenhand.errors import EvenhandError
from evenhand.models.classifier import GradientOf, OutOfRows, Outputs
from evenhand.models.text import classifier as text_classifier
from evenhand.models.text.classifier import Expansion, RecurrentClassifier
from evenhand.models.text.recurrent import Cell, Recurrent
from evenhand.search.text_space import CODES
from tests.worlds.text import small_vectors
from tests.worlds.text_search import MOST_WORDS, TIE, TextWorld, small_network, text_world

either_cell = pytest.mark.parametrize("cell", ["lstm", "gru"])
EMPTY = -1  # no unit


@pytest.fixture(autouse=True)
def _always_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few texts run faster without shared prefixes; here these are what is tested."""
    monkeypatch.setattr(text_classifier, "FEW_TEXTS", 0)


def assert_like(outputs: Outputs, logits: Tensor) -> None:
    """Scores up to rounding, and labels wherever it cannot turn them."""
    torch.testing.assert_close(outputs.scores, logits.softmax(dim=1), rtol=1e-4, atol=1e-5)
    best = logits.topk(2, dim=1).values
    clear = best[:, 0] - best[:, 1] > TIE
    assert clear.sum() > len(logits) * 0.9
    assert torch.equal(outputs.labels[clear], logits.argmax(dim=1)[clear])


@either_cell
@pytest.mark.parametrize("attribute", ["religion", "country"])
@pytest.mark.parametrize("outputs", [2, 3])
def test_scores_are_those_of_the_rendered_texts(cell: Cell, attribute: str, outputs: int) -> None:
    """With terms of several words, texts that are cut, and words that the vectors do not know."""
    world = text_world(attribute, cell, outputs=outputs)
    x = world.samples(80, swapped=True)
    found = world.model().outputs(world.space.inputs(x))
    assert_like(found, world.plain_logits(x))
    assert len(set(found.labels.tolist())) == outputs


@either_cell
@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("sort", [True, False])
def test_shared_prefixes_and_length_buckets_change_no_score(
    cell: Cell, share: bool, sort: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts and all their variants, in chunks smaller than the batch."""
    monkeypatch.setattr(text_classifier, "CHUNK_TEXTS", 20)
    world = text_world("country", cell)
    model = world.model(share_prefixes=share, sort_by_length=sort)
    x, of, swapped = variants(world, world.samples(40))
    assert set(of.tolist()) == set(range(40))
    place = first_difference(world, x[of], swapped)
    own, others = model.outputs_from(world.space.inputs(x), of, place, world.space.inputs(swapped))
    assert_like(own, world.plain_logits(x))
    assert_like(others, world.plain_logits(swapped))
    plain = world.model(share_prefixes=False, sort_by_length=False)
    assert torch.equal(own.scores, plain.outputs(world.space.inputs(x)).scores)
    assert torch.equal(others.scores, plain.outputs(world.space.inputs(swapped)).scores)


def variants(world: TextWorld, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Samples, and (m,) whose and (m, d) what each of all their variants is."""
    swaps = [(number, swap) for number, row in enumerate(x.tolist()) for swap in world.swaps(row[0])]
    of, swap = torch.tensor(swaps).unbind(dim=1)
    return x, of, world.space.with_combination(x[of], swap)


def first_difference(world: TextWorld, one: Tensor, other: Tensor) -> Tensor:
    """(n,) the first unit in which samples differ."""
    return (world.space.inputs(one) != world.space.inputs(other))[:, 1:].int().argmax(dim=1)


def test_a_text_may_leave_another_anywhere() -> None:
    """At the first word, at the last one, behind a term of two words, and behind the last word that is read."""
    world = text_world("country")
    space, x = world.space, world.samples(30)
    places = torch.arange(space.width)
    of = torch.arange(len(x)).repeat_interleave(space.width)
    place = places.repeat(len(x))
    moved = space.with_code(x[of], place, (x[of, CODES + place] + 1) % space.choices[x[of, 0], place])
    found = world.model().outputs_from(space.inputs(x), of, place, space.inputs(moved))[1]
    assert_like(found, world.plain_logits(moved))


@pytest.mark.parametrize(("cell", "outputs"), [("lstm", 2), ("gru", 2), ("lstm", 3)])
@pytest.mark.parametrize("of", ["loss", "odds"])
def test_padding_and_company_change_not_a_bit(
    cell: Cell, outputs: int, of: GradientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = text_world("country", cell, outputs=outputs)
    x = world.space.inputs(world.samples(60, swapped=True))
    model, label = world.model(), torch.arange(60) % 2
    scores, gradients = model.outputs(x).scores, model.gradients(x, label, of)
    for row in (0, 7, 59):
        alone = slice(row, row + 1)
        assert torch.equal(model.outputs(x[alone]).scores, scores[alone])
        assert torch.equal(model.gradients(x[alone], label[alone], of), gradients[alone])
        padded = functional.pad(x[alone], (0, 9), value=EMPTY)
        assert torch.equal(model.outputs(padded).scores, scores[alone])
        assert torch.equal(model.gradients(padded, label[alone], of)[:, :-9], gradients[alone])
    order = torch.from_numpy(np.random.default_rng(0).permutation(60))
    for chunk in (7, 16):
        monkeypatch.setattr(text_classifier, "CHUNK_TEXTS", chunk)
        assert torch.equal(model.outputs(x[order]).scores, scores[order])
        assert torch.equal(model.gradients(x[order], label[order], of), gradients[order])


@either_cell
@pytest.mark.parametrize("of", ["loss", "score", "odds"])
def test_gradients_are_those_of_autograd_added_up_by_unit(cell: Cell, of: GradientOf) -> None:
    world = text_world("country", cell)
    x, label = world.space.inputs(world.samples(40, swapped=True)), torch.arange(40) % 2
    found = world.model().gradients(x, label, of)
    assert found.shape == (40, world.space.width, small_vectors().dimensions)
    several = 0
    for row, units in enumerate(x[:, 1:].tolist()):
        of_unit = [place for place, unit in enumerate(units) if unit >= 0 for _ in words_of(world, unit)]
        several += len(set(of_unit)) < len(of_unit)
        gradient = autograd(world, units, int(label[row]), of)
        wanted = torch.zeros_like(found[row])
        wanted.index_add_(0, torch.tensor(of_unit[:MOST_WORDS]), gradient)
        torch.testing.assert_close(found[row], wanted, rtol=1e-3, atol=1e-5)
    assert several > 5


def words_of(world: TextWorld, unit: int) -> list[str]:
    units = world.space.texts.units
    return [units.words[word] for word in units.table()[unit].tolist() if word >= 0]


def autograd(world: TextWorld, units: list[int], label: int, of: GradientOf) -> Tensor:
    """(words, e) by torch's own layers, for one text."""
    words = [word for unit in units if unit >= 0 for word in words_of(world, unit)][:MOST_WORDS]
    numbers = world.vectors.index(words)
    known = np.where((numbers >= 0)[:, None], world.vectors.vectors[numbers], world.vectors.mean)
    vectors = torch.tensor(known).requires_grad_(True)
    logits = world.network(vectors[None], torch.tensor([len(words)]))[0]
    goal = {
        "loss": functional.cross_entropy(logits, torch.tensor(label)),
        "score": logits.softmax(dim=0)[label],
        "odds": logits[label] - logits[1 - label],
    }[of]
    (gradient,) = torch.autograd.grad(goal, vectors)
    return gradient


def toy(most_words: int = 4) -> RecurrentClassifier:
    """Six units: four words, a term of two words, a term of three."""
    table = torch.tensor([[0, -1, -1], [1, -1, -1], [2, -1, -1], [3, -1, -1], [0, 1, -1], [3, 2, 1]])
    network = small_network("lstm")
    return RecurrentClassifier(network, toy_vectors(), table, most_words=most_words)


def toy_vectors() -> Tensor:
    """Four words, and what stands for an unknown one."""
    return torch.randn(5, small_vectors().dimensions, generator=torch.Generator().manual_seed(1))


def rows(*units: list[int]) -> Tensor:
    """Texts of units, filled up, each with its source's number before it."""
    width = max(map(len, units))
    return torch.tensor([[0, *row, *[EMPTY] * (width - len(row))] for row in units])


def test_a_term_is_read_as_its_words() -> None:
    scores = toy().outputs(rows([4, 2], [0, 1, 2], [5, 2], [3, 2, 1, 2])).scores
    assert torch.equal(scores[0], scores[1])
    assert torch.equal(scores[2], scores[3])
    assert not torch.equal(scores[0], scores[2])


def test_words_beyond_the_most_are_not_read() -> None:
    """A longer term pushes the last words out, a shorter one lets them in."""
    model = toy(most_words=4)
    scores = model.outputs(rows([5, 0, 1], [5, 0, 2], [3, 0, 1], [3, 0, 2], [2, 2, 5])).scores
    assert torch.equal(scores[0], scores[1])  # three words, and one more
    assert not torch.equal(scores[2], scores[3])
    assert torch.equal(scores[4], model.outputs(rows([2, 2, 3, 2])).scores[0])  # a term that is cut itself
    gradient = model.gradients(rows([5, 0, 1]), torch.tensor([0]))[0]
    assert (gradient[:2] != 0).all()
    assert (gradient[2] == 0).all()


def test_a_longer_variant_starts_from_the_shared_words() -> None:
    """The term of three words in the place of one, before, at and behind the cut."""
    model = toy(most_words=4)
    x = rows([4, 1, 2, 3, 0], [0, 4, 2, 3, 0], [0, 1, 2, 4, 1], [0, 1, 2, 3, 1])
    near = rows([5, 1, 2, 3, 0], [0, 5, 2, 3, 0], [0, 1, 2, 5, 1], [0, 1, 2, 3, 5])
    own, others = model.outputs_from(x, torch.arange(4), torch.tensor([0, 1, 3, 4]), near)
    assert torch.equal(own.scores, model.outputs(x).scores)
    assert torch.equal(others.scores, model.outputs(near).scores)


def test_an_empty_text_is_one_unknown_word() -> None:
    model = toy()
    empty, text = rows([EMPTY, EMPTY]), rows([0, 1])
    unknown = torch.cat([model.outputs(empty).scores, model.outputs(torch.cat([text, empty])).scores[1:]])
    with torch.no_grad():
        plain = small_network("lstm")(toy_vectors()[None, -1:], torch.tensor([1])).softmax(dim=1)
    torch.testing.assert_close(unknown, plain.expand(2, -1), rtol=1e-4, atol=1e-5)
    near = torch.cat([text, text])
    own, others = model.outputs_from(empty, torch.tensor([0, 0]), torch.tensor([0, 0]), near)
    assert torch.equal(own.scores[0], unknown[0])
    assert torch.equal(others.scores, model.outputs(near).scores)
    assert model.gradients(empty, torch.tensor([0])).shape == (1, 2, small_vectors().dimensions)


def test_texts_without_variants_are_asked_alone() -> None:
    model, x, none = toy(), rows([0, 1], [2, 3]), torch.zeros(0, dtype=torch.long)
    own, others = model.outputs_from(x, none, none, x[:0])
    assert torch.equal(own.scores, model.outputs(x).scores)
    assert others.labels.shape == (0,)


def test_units_become_words_and_gradients_come_back() -> None:
    expansion = Expansion(torch.tensor([[7, EMPTY], [8, 9], [5, EMPTY]]), most_words=4)
    found = expansion.sequences(torch.tensor([[0, 1, 2, 1], [2, 0, EMPTY, EMPTY], [1, 1, 1, EMPTY]]))
    assert found.words.tolist() == [[7, 8, 9, 5], [5, 7, -1, -1], [8, 9, 8, 9]]
    assert found.lengths.tolist() == [4, 2, 4]
    values = torch.tensor([[[1.0], [2.0], [4.0], [8.0]], [[1.0], [2.0], [0.0], [0.0]], [[1.0], [2.0], [4.0], [8.0]]])
    by_unit = found.by_unit(values, 4).squeeze(2)
    assert by_unit.tolist() == [[1, 6, 8, 0], [1, 2, 0, 0], [3, 12, 0, 0]]
    units = torch.tensor([[0, 1, 2, 1], [1, 1, 2, EMPTY]])
    assert expansion.words_before(units, torch.tensor([0, 0])).tolist() == [0, 0]
    assert expansion.words_before(units, torch.tensor([2, 3])).tolist() == [3, 5]
    plain = expansion.sequences(torch.tensor([[0, 2], [2, EMPTY]]))
    assert plain.unit is None  # nothing to add up
    assert plain.words.tolist() == [[7, 5], [5, -1]]


def test_a_terms_place_is_the_mean_of_its_words() -> None:
    world = text_world("country")
    units, vectors = world.space.texts.units, world.vectors
    unit = units.surfaces.index("Saudi Arabia")
    mean = vectors.vectors[vectors.index(["saudi", "arabia"])].mean(axis=0)
    torch.testing.assert_close(world.model().vectors[unit], torch.tensor(mean))


def test_every_text_is_counted_and_none_beyond_the_budget_is_read() -> None:
    world = text_world("country")
    x = world.space.inputs(world.samples(10))
    model, nothing = world.model(), torch.zeros(10, dtype=torch.long)
    model.outputs(x)
    model.gradients(x, nothing)
    model.outputs_from(x, torch.tensor([0, 1]), torch.tensor([0, 0]), x[:2])
    assert model.rows == 10 + 10 + 12
    model.most_rows = 40
    for ask in (lambda: model.outputs(x), lambda: model.gradients(x, nothing)):
        with pytest.raises(OutOfRows):
            ask()
    with pytest.raises(OutOfRows):
        model.outputs_from(x[:5], torch.tensor([0] * 4), torch.tensor([0] * 4), x[:4])
    assert model.rows == 32


def test_weights_that_are_not_numbers_are_an_error() -> None:
    network = Recurrent("gru", 3, 2)
    torch.nn.init.constant_(network.head.bias, torch.nan)
    model = RecurrentClassifier(network, torch.ones(2, 3), torch.tensor([[0]]), most_words=4)
    with pytest.raises(EvenhandError, match="not a number"):
        model.outputs(rows([0, 0]))
    with pytest.raises(EvenhandError, match="not a number"):
        model.gradients(rows([0, 0]), torch.tensor([0]))
