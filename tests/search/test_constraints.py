"""What a schema rules out: no method reports a pair with an impossible member, or leaves the reach of its seed."""

import itertools
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenhand.data.dataset import Dataset
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from evenhand.measures.people import data_rates, discriminatory_rows, people_rates
from evenhand.measures.populations import Neighbourhood, Uniform
from evenhand.measures.sampling import sample_population
from evenhand.methods.registry import METHODS, make_method
from evenhand.models.classifier import Classifier
from evenhand.search import search as search_module
from evenhand.search.archive import Archive
from evenhand.search.check import Checked, check, check_near
from evenhand.search.recorder import Findings, Phase, Recorder, told_apart
from evenhand.search.search import Limits, Search, SearchResult
from evenhand.search.seeds import choose_seeds
from evenhand.search.space import TableSpace, hashed_rows
from tests.worlds.schemas import all_variants, dataset_of, labels_of, network_of, schema_of

DOMAINS = [(0, 2), (0, 9), (-3, 6), (1, 8), (0, 1), (0, 12)]
RULES: list[dict[str, Any]] = [
    {"a0": {"below": 1}, "a1": {"at_least": 7}},
    {"a4": {"at_least": 1}, "a2": {"below": 0}, "a3": {"at_least": 3}},
]
NETWORK = network_of(6, 2, seed=5)
SMALL = {"sg", "aequitas", "aequitas-semi", "aequitas-random"}  # look at too few samples here to meet a rule


def constrained(rules: bool = True, moves: bool = True) -> Schema:
    content = schema_of(DOMAINS).model_dump(by_alias=True)
    if rules:
        content["impossible"] = RULES
    if moves:
        content["attribute"][1]["moves"] = "none"
        content["attribute"][2]["moves"] = "up"
        content["attribute"][3]["moves"] = "down"
        content["attribute"][5]["stride"] = 3
    for attribute in content["attribute"]:
        del attribute["width"]
    return Schema.parse(content, where="the test")


def is_possible(row: NDArray[np.int32]) -> bool:
    """The two rules in plain words."""
    first = row[0] < 1 and row[1] >= 7
    second = row[4] >= 1 and row[2] < 0 and row[3] >= 3
    return not first and not second


def truth(row: NDArray[np.int32], protected: list[int]) -> bool:
    """Brute force: is the row possible, and does a possible variant get another label?"""
    variants = all_variants(constrained(), protected, row)
    label = labels_of(NETWORK, np.array([row]))[0]
    return is_possible(row) and any(
        label != other and is_possible(variant)
        for variant, other in zip(variants, labels_of(NETWORK, variants), strict=True)
    )


@pytest.mark.parametrize("protected", [["a0"], ["a4"], ["a0", "a4"]])
def test_the_check_is_that_of_brute_force(protected: list[str]) -> None:
    schema = constrained(moves=False)
    space, model = TableSpace(schema, protected), Classifier(NETWORK)
    rows = dataset_of(schema, 400, seed=3).codes
    x = space.samples(rows)
    wanted = [truth(row, space.protected) for row in rows]
    checked = check(model, space, x)
    assert checked.hit.tolist() == wanted
    guess = torch.randint(0, space.variant_count, (len(x),), generator=torch.Generator().manual_seed(0))
    guess = torch.where(guess == space.combination(x), (guess + 1) % space.variant_count, guess)
    near = check_near(model, space, x, space.combination(x), guess)
    assert near.hit.tolist() == wanted
    without = check(model, TableSpace(schema_of(DOMAINS), protected), x).hit
    assert checked.ruled_out.tolist() == (without & ~checked.hit).tolist() == near.ruled_out.tolist()
    assert checked.ruled_out.any()


class Seen(Recorder):
    """Keeps all samples that it is told of."""

    samples: ClassVar[list[NDArray[np.int64]]] = []

    def add(self, checked: Checked, phase: Phase, step: int, seeds: Tensor) -> None:
        self.samples.append(checked.x.long().numpy())
        super().add(checked, phase, step, seeds)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_generates_what_is_unique_and_possible(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted one by one: a sample is known by its values that are not protected; nobody is an impossible one."""
    monkeypatch.setattr(Seen, "samples", [])
    monkeypatch.setattr(search_module, "Recorder", Seen)
    counts = Ran(name).result.counts
    samples = np.concatenate(Seen.samples)
    known, nobody = set(), 0
    for row in np.unique(samples, axis=0):
        if is_possible(row):
            known.add(tuple(row[[1, 2, 3, 5]]))
        nobody += not is_possible(row)
    assert counts.tried == len(samples)
    assert counts.all_generated == len(known)
    assert counts.success_rate == counts.all_findings / len(known)
    assert counts.growth[-1][1] <= len(known)
    assert nobody > 0 or name in SMALL


def test_an_impossible_sample_does_not_hide_a_possible_one() -> None:
    keys = np.array([5, 5, 0, 5, 0, 7])
    possible = np.array([False, True, True, False, True, False])
    apart = told_apart(keys, possible)
    hashed = hashed_rows(keys[:, None])
    for told in (apart, told_apart(hashed, possible)):
        fresh = Archive().add(told)
        assert fresh.tolist() == [0, 1, 2, 5]
    assert apart[possible].tolist() == keys[possible].tolist()


class Ran:
    """A method run under all limits."""

    def __init__(self, name: str) -> None:
        self.schema = constrained()
        self.data: Dataset = dataset_of(self.schema, 80, seed=1)
        self.parts: list[Findings] = []
        rows = np.arange(12 if name == "sg" else 80)[::-1].copy()
        search = Search(
            Classifier(NETWORK),
            TableSpace(self.schema, ["a0", "a4"]),
            make_method(name),
            seed=0,
            limits=Limits(iterations=6, steps=15),
            sink=self.parts.append,
        )
        self.result: SearchResult = search.run(self.data.codes[rows], rows)

    def column(self, name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in self.parts])


@pytest.mark.parametrize("name", METHODS)
def test_every_method_keeps_to_the_limits(name: str) -> None:
    ran = Ran(name)
    samples = ran.column("sample")
    assert len(samples) == ran.result.counts.all_findings > 10
    assert ran.result.counts.ruled_out > 0 or name in SMALL
    witnesses = samples.copy()
    witnesses[:, [0, 4]] = ran.column("witness")
    assert all(is_possible(row) for row in samples)
    assert all(is_possible(row) for row in witnesses)
    assert all(truth(row, [0, 4]) for row in samples)
    seeds = ran.column("seed")
    moved, start = samples[seeds >= 0], ran.data.codes[seeds[seeds >= 0]]
    assert (moved[:, 1] == start[:, 1]).all()
    assert (moved[:, 2] >= start[:, 2]).all()
    assert (moved[:, 3] <= start[:, 3]).all()
    assert ((moved[:, 5] - start[:, 5]) % 3 == 0).all()


def test_walks_do_move_where_they_may() -> None:
    ran = Ran("margin")
    samples, start = ran.column("sample"), ran.data.codes[ran.column("seed")]
    for attribute in (2, 3, 5):
        assert len(np.unique(samples[:, attribute] - start[:, attribute])) > 2


def test_rates_are_those_of_the_possible() -> None:
    schema = constrained(moves=False)
    space, model = TableSpace(schema, ["a0", "a4"]), Classifier(NETWORK)
    ranges = [range(low, high + 1) for low, high in DOMAINS]
    domain = np.array(list(itertools.product(*ranges)), dtype=np.int32)
    pick = domain[np.random.default_rng(0).permutation(len(domain))[:6000]]
    possible = np.array([is_possible(row) for row in pick])
    share = float(check(model, space, space.samples(pick[possible])).hit.float().mean())
    found = sample_population(model, space, Uniform(space), half_width=0.01, confidence=0.999)
    assert found.rate.samples < found.drawn
    assert found.rate.share == pytest.approx(share, abs=0.04)
    data = dataset_of(schema, 300, seed=2)
    real = data.codes[[is_possible(row) for row in data.codes]]
    hits = sum(truth(row, [0, 4]) for row in real)
    found_people = discriminatory_rows(model, space, data)
    rates = data_rates(data, found_people.rows, found_people.hit)
    assert (rates["all"].discriminatory, rates["all"].samples) == (hits, len(real))
    assert rates["all"].population == "all rows of world that its rules call possible"
    by_part = people_rates(model, space, data)
    assert sum(part.rate.samples for part in by_part.values()) == len(real)
    assert sum(part.rate.discriminatory for part in by_part.values()) == hits


def test_neighbours_keep_to_the_reach_of_their_rows() -> None:
    schema = constrained()
    space, data = TableSpace(schema, ["a0", "a4"]), dataset_of(constrained(), 50, seed=0)
    population = Neighbourhood(space, data, 3)
    numbers = torch.rand((500, population.per_sample), generator=torch.Generator().manual_seed(0))
    people, x = data.codes[population.rows(numbers).numpy()], population.samples(numbers).numpy()
    assert (x[:, 1] == people[:, 1]).all()
    assert (x[:, 2] >= people[:, 2]).all()
    assert (x[:, 3] <= people[:, 3]).all()
    assert ((x[:, 5] - people[:, 5]) % 3 == 0).all()
    assert ((x != people).sum(axis=1) >= 2).mean() > 0.8  # one that is at the end of its way stays, the others move
    assert "as far as the schema lets it move" in population.words


def test_seeds_are_possible_people() -> None:
    data = dataset_of(constrained(), 200, seed=0)
    rows = choose_seeds(data, 200, seed=0)
    assert 0 < len(rows) < int(data.train.sum())
    assert all(is_possible(row) for row in data.codes[rows])
    assert data.possible.tolist() == [is_possible(row) for row in data.codes]


def test_something_must_be_able_to_move() -> None:
    content = schema_of([(0, 1), (0, 3)]).model_dump(by_alias=True)
    content["attribute"][1]["moves"] = "none"
    with pytest.raises(EvenhandError, match="move none of the attributes"):
        TableSpace(Schema.parse(content, where="the test"), ["a0"])


def test_rules_that_leave_nobody_are_an_error() -> None:
    content = schema_of([(0, 1), (0, 3), (0, 3)]).model_dump(by_alias=True)
    content["impossible"] = [{"a0": {"at_least": 0}, "a1": {"at_least": 0}}]
    schema = Schema.parse(content, where="the test")
    space = TableSpace(schema, ["a0"])
    model = Classifier(network_of(3, 2, seed=0))
    with pytest.raises(EvenhandError, match=r"None of .* is possible"):
        sample_population(model, space, Uniform(space), half_width=0.1, confidence=0.9)
    with pytest.raises(EvenhandError, match=r"No row of world .* is possible"):
        choose_seeds(dataset_of(schema, 20, seed=0), 5, seed=0)
