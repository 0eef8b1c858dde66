"""One definition of a rate: of a schema with rules measure, repair, compare and brute force say the same."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import evenhand
from evenhand.data.dataset import Dataset
from evenhand.data.schema import Schema
from evenhand.runs.compare import compare
from tests.worlds.repair import DOMAINS, QUICK, network, repaired, row_of, table
from tests.worlds.schemas import all_variants, labels_of, schema_of

MODEL = network()


def ruled() -> Dataset:
    """Half of those with the first value of a0 are nobody, and so are most with its last: not a few samples."""
    content = schema_of(DOMAINS).model_dump(by_alias=True)
    content["impossible"] = [
        {"a0": {"below": 1}, "a1": {"at_least": 3}},
        {"a0": {"at_least": 2}, "a2": {"below": 4}},
    ]
    for attribute in content["attribute"]:
        del attribute["width"]
    return replace(table(), schema=Schema.parse(content, where="the test"))


def is_possible(row: NDArray[np.int32]) -> bool:
    return not (row[0] < 1 and row[1] >= 3) and not (row[0] >= 2 and row[2] < 4)


def is_hit(row: NDArray[np.int32]) -> bool:
    """Brute force: does a possible variant of a possible person get another label?"""
    variants = np.array([v for v in all_variants(schema_of(DOMAINS), [0], row) if is_possible(v)])
    return len(set(labels_of(MODEL, variants).tolist())) > 1


def counted(rows: NDArray[np.int32]) -> tuple[int, int]:
    """Discriminatory ones and all, of the possible ones."""
    possible = [row for row in rows if is_possible(row)]
    return sum(map(is_hit, possible)), len(possible)


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    """What the three commands say."""
    data = ruled()
    measured = evenhand.measure(data, "a0", model=MODEL, half_width=QUICK["half_width"], changes=1).summary
    outcome = compare(data, ["a0"], ["themis"], model=MODEL, budget="rows=90000", device="cpu").outcomes[0]
    return {
        "measure": {rate["name"]: rate for rate in measured["measured"][0]["populations"]},
        "repair": repaired("average", data).summary,
        "compare": outcome.notes,
        "outcome": outcome,
    }


def test_people(figures: dict[str, Any]) -> None:
    data = ruled()
    truth = counted(data.clipped[~data.train])
    before = row_of(figures["repair"], "original")["people"]
    measured = figures["measure"]["held_out"]
    for said in (before, measured):
        assert (said["discriminatory"], said["samples"]) == truth
    assert before["population"] == measured["population"]
    assert before["interval"] == measured["interval"]
    examples = figures["repair"]["examples"]
    assert (examples["now_alike"] + examples["still_differ"], examples["people"]) == truth
    assert 0 < truth[0] < truth[1] < (~data.train).sum()


def test_the_whole_domain(figures: dict[str, Any]) -> None:
    hits, possible = counted(all_variants(schema_of(DOMAINS), [0, 1, 2, 3], [0, 0, 0, 0]))
    before = row_of(figures["repair"], "original")
    same = ("discriminatory", "samples", "interval", "population")
    assert [before["uniform"][name] for name in same] == [figures["measure"]["uniform"][name] for name in same]
    low, high = before["uniform"]["interval"]
    assert low <= hits / possible <= high
    compared = figures["compare"]
    assert abs(compared["score"] - hits / possible) < 2 * compared["margin"] < 0.02
    everyone = len(all_variants(schema_of(DOMAINS), [0, 1, 2, 3], [0, 0, 0, 0]))
    assert hits / everyone < hits / possible - 0.05  # so that counting the impossible would be seen


def test_impossible_samples_are_not_generated(figures: dict[str, Any]) -> None:
    """All that is unique and possible is met by so many uniform samples: the success is that of the whole domain."""
    domain = all_variants(schema_of(DOMAINS), [0, 1, 2, 3], [0, 0, 0, 0])
    people = [row for row in domain if is_possible(row)]
    outcome = figures["outcome"]
    assert outcome.generated == len({tuple(row[1:]) for row in people})
    assert outcome.findings == len({tuple(row[1:]) for row in people if is_hit(row)})
    assert outcome.success_rate == outcome.findings / outcome.generated


def test_the_choice_looks_at_the_same_population(figures: dict[str, Any]) -> None:
    hits, possible = counted(all_variants(schema_of(DOMAINS), [0, 1, 2, 3], [0, 0, 0, 0]))
    before = row_of(figures["repair"], "original")
    assert before["validation_rate"] == pytest.approx(hits / possible, abs=0.015)  # of 20,000 samples
    assert before["validation_rate"] < before["validation_bound"] < before["validation_rate"] + 0.01
