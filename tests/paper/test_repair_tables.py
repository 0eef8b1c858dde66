"""The paper's table of retraining on tables of data, made again with very little."""

from pathlib import Path

import pytest

from evenhand.paper.repair_figures import TABLE_REPAIRS, TEXT_REPAIRS
from evenhand.paper.repair_tables import (
    RepairPlan,
    RepairReproduction,
    mean_rate,
    reference,
    removed,
    reproduce_repairs,
)
from evenhand.paper.repair_tables_page import AllRepairs, write_repair_reproduction
from evenhand.paper.table_figures import Pair

TINY = RepairPlan(seeds=40, steps=5, sg_seconds=0.5, repeats=2, epochs=1, half_width=0.02, independent=50)
PAIR = Pair("credit", "sex")


@pytest.fixture(scope="module")
def made() -> RepairReproduction:
    return reproduce_repairs(TINY, pairs=[PAIR], workers=1)


def test_a_pair_has_all_models(made: RepairReproduction) -> None:
    (pair,) = made.pairs
    assert not made.left_out
    assert {"original", "retrained", "blind", "blind longer", "pairing", "certified", "average"} <= set(pair.rows)
    augmented = {name for name in pair.rows if name.startswith("augment")}
    assert augmented == {f"augment {source}" for source, count in pair.findings.items() if count}
    assert "augment adf" in augmented
    for name in ("blind", "blind longer", "average"):
        assert mean_rate(pair.rows[name]) == 0
        assert removed(pair, name) == 1
    assert removed(pair, "original") == 0
    assert removed(pair, "no such repair") is None


def test_the_reference_is_chosen_by_validation(made: RepairReproduction) -> None:
    (pair,) = made.pairs
    rows = [pair.rows[name] for name in ("blind", "blind longer")]
    best = max(rows, key=lambda row: row["validation_accuracy"])
    assert reference(pair) == best["over_repeats"]["accuracy"]["mean"]


def test_tables_have_the_papers_numbers_beside_ours(made: RepairReproduction, tmp_path: Path) -> None:
    result = AllRepairs(made, None)
    paper, rates, accuracies = result.tables()
    before = made.pairs[0].rows["original"]["over_repeats"]["uniform"]["mean"]
    assert paper.rows[0][:2] == ["credit/sex", f"{before:.2%} (7.68%)"]
    assert paper.rows[0][4].endswith("(3.93%)")
    assert rates.rows[0][2:4] == ["100.0%", "100.0%"]
    assert "Average and blind: no discriminatory sample" in accuracies.remarks[0]
    write_repair_reproduction(result, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tables.html", "tables.json", "tables.md"]


def test_in_processes_the_figures_are_the_same(made: RepairReproduction) -> None:
    again = reproduce_repairs(TINY, pairs=[PAIR, PAIR], workers=2).pairs[0]
    # SG's findings, and whether there are any, depend on seconds.
    first, second = ({n: row for n, row in pair.rows.items() if n != "augment sg"} for pair in (made.pairs[0], again))
    assert first == second


def test_the_papers_averages_are_those_of_its_rows() -> None:
    removed_by_adf = [1 - row.adf / row.before for row in TABLE_REPAIRS.values()]
    assert 100 * sum(removed_by_adf) / 6 == pytest.approx(57.2, abs=0.1)
    rows = TEXT_REPAIRS.values()
    assert len(rows) == 16
    assert sum(row.augmented for row in rows) / 16 == pytest.approx(60.2, abs=0.1)
    assert sum(row.certified for row in rows) / 16 == pytest.approx(61.0, abs=0.1)
