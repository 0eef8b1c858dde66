"""The paper's table of retraining on tables of data, made again with very little."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from evenhand.paper.driver import reproduce
from evenhand.paper.figures import TABLE_REPAIRS, TEXT_REPAIRS, TableRow
from evenhand.paper.pages import FinishedPage
from evenhand.paper.processes import in_processes
from evenhand.paper.table_repairs import TABLE_REPAIR_STUDY, Repairs, TableRepairPlan

TINY = TableRepairPlan(seeds=40, steps=5, sg_seconds=0.5, repeats=2, epochs=1, half_width=0.02, independent=50)
PAIR = TableRow("credit", "sex")


@pytest.fixture(scope="module")
def made() -> Repairs:
    return reproduce(replace(TABLE_REPAIR_STUDY, rows=[PAIR]), TINY, workers=1)


def test_a_pair_has_all_models(made: Repairs) -> None:
    (pair,) = made.rows
    assert not made.left_out
    assert {"original", "retrained", "blind", "blind longer", "pairing", "certified", "average"} <= set(pair.rows)
    augmented = {name for name in pair.rows if name.startswith("augment")}
    assert augmented == {f"augment {source}" for source, count in pair.findings.items() if count}
    assert "augment adf" in augmented
    for name in ("blind", "blind longer", "average"):
        assert pair.rate(name) == 0
        assert pair.removed(name) == 1
    assert pair.removed("original") == 0
    assert pair.removed("no such repair") is None


def test_the_reference_is_chosen_by_validation(made: Repairs) -> None:
    (pair,) = made.rows
    rows = [pair.rows[name] for name in ("blind", "blind longer")]
    best = max(rows, key=lambda row: row["validation_accuracy"])
    assert pair.reference == best["over_repeats"]["accuracy"]["mean"]


def test_tables_have_the_papers_numbers_beside_ours(made: Repairs, tmp_path: Path) -> None:
    page = FinishedPage("Repairs", {"data": made})
    paper, rates, accuracies = page.tables()
    before = made.rows[0].rows["original"]["over_repeats"]["uniform"]["mean"]
    assert paper.rows[0][:2] == ["credit/sex", f"{before:.2%} (7.68%)"]
    assert paper.rows[0][4].endswith("(3.93%)")
    assert rates.rows[0][2:4] == ["100.0%", "100.0%"]
    assert "Average and blind: no discriminatory sample" in accuracies.remarks[0]
    page.write(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tables.html", "tables.json", "tables.md"]


def test_in_a_process_of_its_own_the_figures_are_the_same(made: Repairs) -> None:
    measure = partial(TABLE_REPAIR_STUDY.measure, plan=TINY)
    (again,) = in_processes([PAIR], measure, lambda words: None, lambda: False, workers=1)
    # SG's findings, and whether there are any, depend on seconds.
    first, second = ({n: row for n, row in pair.rows.items() if n != "augment sg"} for pair in (made.rows[0], again))
    assert first == second


def test_the_papers_averages_are_those_of_its_rows() -> None:
    removed_by_adf = [1 - row["adf"] / row["before"] for row in TABLE_REPAIRS.values()]
    assert 100 * sum(removed_by_adf) / 6 == pytest.approx(57.2, abs=0.1)
    rows = TEXT_REPAIRS.values()
    assert len(rows) == 16
    assert sum(row["augment"] for row in rows) / 16 == pytest.approx(60.2, abs=0.1)
    assert sum(row["certified"] for row in rows) / 16 == pytest.approx(61.0, abs=0.1)
