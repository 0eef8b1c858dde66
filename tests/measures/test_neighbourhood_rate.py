"""The rate in the neighbourhood is one figure: measure, gate and an exact count over all neighbours say the same."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray

import evenhand
from evenhand.data.dataset import Dataset
from evenhand.data.infer.schema import dataset_from
from evenhand.measures.populations import Neighbourhood
from evenhand.runs.tried_model import try_model
from evenhand.search.draws import Draws
from evenhand.search.search import Search
from evenhand.search.space import TableSpace

ROWS, GROUPS, HIGHEST = 1500, "abcdefgh", 40
READ = ["grp", "inc"]


def people(seed: int = 0) -> pd.DataFrame:
    """Almost all are of group a, the only one in which sex matters; the model reads none of the junk."""
    draws = np.random.default_rng(seed)
    frame = pd.DataFrame({"sex": draws.choice(["f", "m"], ROWS)})
    frame["grp"] = draws.choice(list(GROUPS), ROWS, p=[0.86] + [0.02] * 7)
    frame["inc"] = draws.integers(0, HIGHEST + 1, ROWS)
    for number in range(6):
        frame[f"junk{number}"] = draws.integers(0, 9, ROWS)
    frame["y"] = said(frame)
    frame["w"] = np.where(frame["grp"] == "a", 1.0, 30.0) * draws.integers(0, 3, ROWS)
    return frame


def said(frame: pd.DataFrame) -> NDArray[np.str_]:
    """The model."""
    return np.where(frame["inc"] + 12 * ((frame["sex"] == "m") & (frame["grp"] == "a")) > 24, "yes", "no")


def exact_rate(frame: pd.DataFrame, changes: int, weights: NDArray[np.float64] | None = None) -> float:
    """Every neighbour of every row with its odds, one attribute after the other."""
    weights = np.ones(len(frame)) if weights is None else weights
    near = frame[READ].assign(odds=weights / weights.sum())
    one_each = [[name] for name in READ]
    chosen = one_each if changes == 1 else [READ]
    total = 0.0
    for names in chosen:
        moved = near.assign(odds=near["odds"] / len(chosen))
        for name in names:
            moved = other_groups(moved) if name == "grp" else one_step(moved)
        hit = said(moved.assign(sex="f")) != said(moved.assign(sex="m"))
        total += float(moved["odds"][hit].sum())
    return total


def other_groups(near: pd.DataFrame) -> pd.DataFrame:
    """All other values of the category, with equal odds."""
    parts = [near[near["grp"] != value].assign(grp=value) for value in GROUPS]
    return pd.concat(parts).assign(odds=lambda f: f["odds"] / (len(GROUPS) - 1))


def one_step(near: pd.DataFrame) -> pd.DataFrame:
    """Up or down with equal odds; at the ends inward."""
    parts = [
        near.assign(inc=np.where((near["inc"] + step).between(0, HIGHEST), near["inc"] + step, near["inc"] - step))
        for step in (1, -1)
    ]
    return pd.concat(parts).assign(odds=lambda f: f["odds"] / 2)


def data_of(frame: pd.DataFrame, *, weighted: bool) -> Dataset:
    columns = frame if weighted else frame.drop(columns="w")
    return dataset_from(columns, "y", ["sex"], **({"weight": "w"} if weighted else {}))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("changes", [1, 2])
def test_measure_and_gate_say_what_is_true(changes: int, weighted: bool) -> None:
    frame = people()
    data = data_of(frame, weighted=weighted)
    truth = exact_rate(frame, changes, frame["w"].to_numpy() if weighted else None)
    measured = evenhand.measure(data, "sex", model=said, half_width=0.01, changes=changes)
    [rate] = [one for one in measured.summary["measured"][0]["populations"] if one["name"] == "neighbourhood"]
    assert rate["interval"][0] <= truth <= rate["interval"][1]
    outcome = evenhand.assert_fair(
        said, data, ["sex"], max_rate=0.9, population="neighbourhood", changes=changes, failures=None,
        most_samples=4000, confidence=0.999,
    )  # fmt: skip
    assert outcome.rate is not None
    assert outcome.interval is not None
    assert outcome.interval[0] <= truth <= outcome.interval[1]
    assert rate["population"] == outcome.rate.population
    assert "that the model reads" in rate["population"]
    assert ("drawn in proportion to w" in rate["population"]) == weighted
    elsewhere = exact_rate(frame, changes, None if weighted else frame["w"].to_numpy())
    assert not rate["interval"][0] <= elsewhere <= rate["interval"][1]  # so that ignored weights would be seen


def test_attributes_that_the_model_does_not_read_stay_in_every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    data = data_of(people(), weighted=False)
    seen: list[TableSpace] = []
    run = Search.run

    def noted(self: Any, *given: Any) -> Any:
        seen.append(self.space)
        return run(self, *given)

    monkeypatch.setattr(Search, "run", noted)
    evenhand.audit(data, "sex", model=said, seeds=3, steps=2)
    evenhand.compare(data, ["sex"], ["themis"], model=said, budget="seeds=3,steps=2", device="cpu")
    evenhand.repair(data, "sex", "average", model=said, seeds=3, steps=2, half_width=0.1)
    expected = try_model(data, said, ["sex"], torch.device("cpu")).space(data, ["sex"])
    names = data.schema.names
    assert [names[index] for index in expected.free.nonzero().squeeze(1).tolist()] == READ
    assert len(seen) == 3
    assert all(space.unread == expected.unread and torch.equal(space.free, expected.free) for space in seen)


def test_rows_are_drawn_in_proportion_to_their_weights() -> None:
    frame = people()
    frame["w"] = [0.0] * 700 + [5.0, 1.0, 0.0, 2.0] + [0.0] * (ROWS - 704)
    data = data_of(frame, weighted=True)
    population = Neighbourhood(TableSpace(data.schema, ["sex"]), data, 1)
    numbers = Draws(0, 3, torch.arange(20_000), population.per_sample, block_steps=1).all_of(0)
    counts = np.bincount(population.rows(numbers).numpy(), minlength=ROWS)
    assert set(np.flatnonzero(counts)) == {700, 701, 703}
    assert counts[[700, 701, 703]] / 20_000 == pytest.approx([5 / 8, 1 / 8, 2 / 8], abs=0.015)
    last = torch.full((1, population.per_sample), 1 - 2.0**-24)
    assert population.rows(last).tolist() == [703]


def test_a_model_that_reads_fewer_attributes_than_change_has_a_neighbourhood_all_the_same() -> None:
    """The one attribute that it reads changes, and the words say so."""
    data = data_of(people(), weighted=False)
    space = TableSpace(data.schema, ["sex"], unread=[name for name in data.schema.names if name not in ("sex", "inc")])
    population = Neighbourhood(space, data, 2)
    numbers = Draws(0, 3, torch.arange(500), population.per_sample, block_steps=1).all_of(0)
    differs = population.samples(numbers).numpy() != data.clipped[population.rows(numbers).numpy()]
    assert differs.sum(axis=0).tolist() == [500 if name == "inc" else 0 for name in data.schema.names]
    assert "1 random attribute that is not protected and that the model reads changed (it reads no more)" in (
        population.words
    )


def test_a_missing_number_is_nobodys_neighbour() -> None:
    """The highest number goes down, and where there is none it stays so."""
    draws = np.random.default_rng(5)
    frame = pd.DataFrame({"sex": draws.choice(["f", "m"], 400), "hours": draws.choice([40.0, 41.0, 42.0, np.nan], 400)})
    frame["y"] = draws.choice(["no", "yes"], 400)
    data = dataset_from(frame, "y", ["sex"])
    low, high = data.schema.attributes[1].span
    missing = data.schema.attributes[1].domain[1]
    assert (high - low, missing) == (2, high + 1)
    population = Neighbourhood(TableSpace(data.schema, ["sex"]), data, 1)
    numbers = Draws(0, population.stream, torch.arange(5000), population.per_sample, block_steps=1).all_of(0)
    before = data.clipped[population.rows(numbers).numpy(), 1]
    after = population.samples(numbers)[:, 1].numpy().astype(int)
    assert (after[before == missing] == missing).all()
    assert (after[before == high] == high - 1).all()
    assert set(after[before == high - 1]) == {low, high}
