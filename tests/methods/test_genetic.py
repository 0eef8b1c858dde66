"""The genetic search: selection, crossover, mutation, and what its findings are worth."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.methods.genetic import Genetic, fitness, fitter, winners
from evenhand.models.classifier import Classifier
from evenhand.models.network import FeedForward
from evenhand.search.check import Checked, check
from evenhand.search.draws import Draws
from evenhand.search.search import Limits, Search
from evenhand.search.space import TableSpace
from tests.methods.test_eidig import Ran, Valley, assert_findings_hold
from tests.worlds.schemas import schema_of


def bred(method: Genetic, space: TableSpace, x: Tensor, fit: Tensor, generation: int = 1) -> tuple[Tensor, Tensor]:
    draws = Draws(0, 0, torch.arange(len(x)), 2 * method.tournament + 3 * x.shape[1], block_steps=1)
    return method.breed(space, x, fit, draws, generation)


def test_the_fitter_contender_wins() -> None:
    """Four in the population, drawn by hand: 0.3 is number 1, 0.6 number 2, 0.99 number 3."""
    fit = torch.tensor([0.1, 0.9, 0.5, 0.1])
    numbers = torch.tensor([[0.3, 0.6, 0.99, 0.0], [0.6, 0.99, 0.0, 0.99]])
    assert winners(fit, numbers).tolist() == [1, 2, 3, 0]  # of equals the first
    assert winners(fit, numbers[:1]).tolist() == [1, 2, 3, 0]


def test_fit_parents_have_more_children() -> None:
    """In tournaments of two the best of four wins unless it is not drawn: 1 - (3/4)² = 7/16, then 5, 3 and 1."""
    x = torch.arange(4.0).repeat(1000)[:, None].repeat(1, 3)
    x[:, 0] = 0
    space = TableSpace(schema_of([(0, 1), (0, 9), (0, 9)]), ["a0"])
    fit = torch.tensor([0.2, 0.8, 0.4, 0.1]).repeat(1000)
    _, parent = bred(Genetic(tournament=2), space, x, fit)
    share = torch.bincount(parent % 4) / 4000
    assert share.tolist() == pytest.approx([3 / 16, 7 / 16, 5 / 16, 1 / 16], abs=0.03)


def test_fitness_is_the_gap_of_scores() -> None:
    """The valley's two values of a0 lie 0.02 a2 apart."""
    space = TableSpace(schema_of([(0, 1), (0, 9), (0, 9)]), ["a0"])
    x = torch.tensor([[0.0, 1.0, 0.0], [1.0, 1.0, 5.0], [0.0, 2.0, 9.0]])
    checked = check(Classifier(Valley(), output="probabilities"), space, x)
    assert fitness(checked).tolist() == pytest.approx([0.0, 0.1, 0.18], abs=1e-6)


def test_slots_keep_the_fitter_with_its_origin() -> None:
    space = TableSpace(schema_of([(0, 1), (0, 9), (0, 9)]), ["a0"])
    model = Classifier(Valley(), output="probabilities")
    old = check(model, space, torch.tensor([[0.0, 1.0, 4.0], [0.0, 1.0, 4.0], [0.0, 1.0, 4.0]]))
    new = check(model, space, torch.tensor([[1.0, 2.0, 5.0], [1.0, 2.0, 3.0], [0.0, 1.0, 4.0]]))
    kept, origin = fitter(old, torch.tensor([7, 8, 9]), new, torch.tensor([17, 18, 19]))
    assert kept.x.tolist() == [[1, 2, 5], [0, 1, 4], [0, 1, 4]]
    assert origin.tolist() == [17, 8, 19]
    assert kept.own.tolist() == [1, 0, 0]


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_crossover_mixes_two_parents_and_keeps_the_protected_values_of_the_first(share: float) -> None:
    """Each sample holds its own number in every free attribute, so a child shows whom each value comes from."""
    n = 300
    space = TableSpace(schema_of([(0, 2), (0, n), (0, n), (0, 4), (0, n), (0, n)]), ["a0", "a3"])
    number = torch.arange(float(n))
    x = number[:, None].repeat(1, 6)
    x[:, 0], x[:, 3] = number % 3, number % 5
    child, parent = bred(Genetic(crossover=share, mutation=0.0), space, x, torch.zeros(n))
    assert torch.equal(child[:, [0, 3]], x[parent][:, [0, 3]])
    free = child[:, [1, 2, 4, 5]]
    foreign = free != parent[:, None]
    for row, other in zip(free, foreign, strict=True):
        assert len(set(row[other].tolist())) <= 1  # one second parent and no third
    assert foreign.double().mean().item() == pytest.approx(share, abs=0.05)


def test_mutation_takes_steps_within_the_domain_and_spares_protected_attributes() -> None:
    space = TableSpace(schema_of([(0, 1), (-9, 9), (0, 1), (0, 9)]), ["a0"])
    x = torch.tensor([[1.0, 0.0, 0.0, 9.0]]).repeat(4000, 1)
    child, _ = bred(Genetic(mutation=0.3, furthest=2), space, x, torch.zeros(4000))
    assert torch.equal(space.clip(child), child)
    assert (child[:, 0] == 1).all()
    steps = child[:, 1]
    assert (steps != 0).double().mean().item() == pytest.approx(0.3, abs=0.03)
    for step in (-2, -1, 1, 2):
        assert (steps == step).double().mean().item() == pytest.approx(0.3 / 4, abs=0.02)
    assert set(child[:, 3].tolist()) == {7.0, 8.0, 9.0}


@pytest.mark.parametrize("protected", [["sex"], ["age", "race"]])
def test_findings_hold_and_chunks_change_nothing(
    census: Dataset, census_network: FeedForward, monkeypatch: pytest.MonkeyPatch, protected: list[str]
) -> None:
    def refuse(*args: object, **kwargs: object) -> Tensor:
        raise AssertionError("a black-box method asked for a gradient")

    monkeypatch.setattr(Classifier, "gradients", refuse)
    whole = Ran(Genetic(), census, census_network, protected)
    assert_findings_hold(whole, census, census_network)
    assert set(whole.column("phase").tolist()) == {0, 1}
    assert whole.as_rows() == Ran(Genetic(), census, census_network, protected, chunk_rows=77).as_rows()


def test_ids_are_those_of_seeds_and_counted_once(census: Dataset, census_network: FeedForward) -> None:
    ran = Ran(Genetic(), census, census_network, ["age"])
    assert len(np.unique(ran.column("seed"))) == ran.result.seeds_with_findings
    assert ran.column("seed").max() < len(census.codes)
    assert (
        census.codes[ran.column("seed")][:, ran.space.protected] == ran.column("sample")[:, ran.space.protected]
    ).all()


def test_breeding_raises_the_gap(census: Dataset, census_network: FeedForward) -> None:
    """Later generations find more than the seeds did; without selection they find less than with it."""
    limits = Limits(iterations=15, steps=0)
    chosen = Ran(Genetic(tournament=4), census, census_network, ["age"], limits=limits)
    steps = np.bincount(chosen.column("step"), minlength=15)
    assert steps[10:].mean() > 2 * steps[0]
    blind = Ran(Genetic(tournament=1), census, census_network, ["age"], limits=limits)
    assert chosen.result.counts.all_findings > blind.result.counts.all_findings


def test_limits_are_kept(census: Dataset, census_network: FeedForward) -> None:
    few = Ran(Genetic(), census, census_network, ["age"], limits=Limits(max_rows=5000))
    assert few.model.rows <= 5000
    assert few.result.stopped == "max-rows"
    assert few.result.seeds_with_findings > 0
    some = Ran(Genetic(), census, census_network, ["age"], limits=Limits(max_findings=30))
    assert len(some.as_rows()) == 30


def test_a_model_that_ignores_protected_attributes_yields_nothing(census: Dataset) -> None:
    module = nn.Linear(13, 2)
    module.weight.data[:, census.schema.names.index("sex")] = 0
    assert Ran(Genetic(), census, module, ["sex"]).result.counts.all_findings == 0


def test_settings_are_checked() -> None:
    with pytest.raises(EvenhandError, match="at least 1"):
        Genetic(tournament=0)
    with pytest.raises(EvenhandError, match="crossover is a share"):
        Genetic(crossover=1.1)
    with pytest.raises(EvenhandError, match="mutation is a share"):
        Genetic(mutation=-1)


class Twins(Genetic):
    """A global phase that ends with ten copies of one finding, all of one seed."""

    def global_phase(self, search: Search, x: Tensor, ids: Tensor) -> tuple[Checked, Tensor, Tensor]:
        starts, _, origin = super().global_phase(search, x, ids)
        same = torch.zeros(10, dtype=torch.int64)
        return starts.take(same), torch.arange(10), origin[same]


def test_descendants_of_one_seed_do_not_step_alike(census: Dataset, census_network: FeedForward) -> None:
    """Ten walks that draw the same numbers would look at 30 samples at most."""
    ran = Ran(Twins(), census, census_network, ["age"], limits=Limits(steps=30))
    assert ran.result.counts.generated["local"] > 100
