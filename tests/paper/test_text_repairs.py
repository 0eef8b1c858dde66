"""The paper's tables of retraining on texts: from figures of every row, and one row measured."""

from dataclasses import replace

import pytest

from evenhand.paper.driver import Reproduction, reproduce
from evenhand.paper.figures import TEXT_REPAIR_METHODS, TEXT_REPAIRS, TextRow
from evenhand.paper.text_repairs import (
    QUICK_TEXT_REPAIR,
    TEXT_REPAIR_STUDY,
    WAYS,
    RepairEffect,
    TextRepairPlan,
    TextRepairRow,
)

TINY = TextRepairPlan(seeds=12, steps=2, training_steps=2, repeats=1, validation_texts=20, texts=40, mentioning=8)


def row_of(row: TextRow, removed: float | None, lost: float) -> TextRepairRow:
    """A row on which every repair does the same."""
    effect = RepairEffect(removed, 0.9 - lost, 0.95 - lost, 0.5)
    names = [*WAYS, *(f"augment {method}" for method in TEXT_REPAIR_METHODS.get(row, {}))]
    return TextRepairRow(row, 10, 1234, RepairEffect(0.0, 0.9, 0.95, 0.25), dict.fromkeys(names, effect))


def test_pages_of_every_row() -> None:
    first, second, *others = TEXT_REPAIRS
    rows = [row_of(first, None, 0.0), row_of(second, 0.95, 0.02), *(row_of(row, 0.91, 0.004) for row in others)]
    made = Reproduction(TEXT_REPAIR_STUDY, QUICK_TEXT_REPAIR, rows, [], 12.0, 2)
    repairs, methods = made.tables()
    assert repairs.rows[0][:4] == ["wiki/lstm/country", "– (72.4%)", "– (54.9%)", "–"]
    assert repairs.rows[1] == [
        *("wiki/lstm/ethnic", "95.0% (70.2%)", "95.0% (64.1%)", "95.0%"),
        *["+2.00 / +2.00"] * 3,
        *("50%", "1,234"),
    ]
    assert repairs.remarks[0] == "On average: augment 91.3% (60.2%); certified 91.3% (61.0%); pairing 91.3%."
    assert repairs.remarks[1].endswith("missed on wiki/lstm/country, wiki/lstm/ethnic.")
    assert [row[1:] for row in methods.rows[:2]] == [["asc", "91.0% (63.4%)"], ["hotflip", "91.0% (66.3%)"]]
    assert {row[0] for row in methods.rows} == {"wiki/lstm/race", "jigsaw/gru/ethnic"}
    assert "80 seeds (40 for country)" in made.intro()
    assert "1 repeat, accuracy" in made.intro()
    assert "left out" not in made.intro()
    assert replace(made, left_out=[first]).intro().endswith("Interrupted; left out: wiki/lstm/country.")


@pytest.mark.real_text
def test_a_row_of_the_papers_table() -> None:
    from evenhand.text.corpus import load_corpus
    from evenhand.text.vectors import load_vectors
    from tests.text.test_real_data import real

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("EVENHAND_CACHE", raising=False)
        real(lambda: load_corpus("wiki")), real(load_vectors)
        result = reproduce(replace(TEXT_REPAIR_STUDY, rows=[TextRow("wiki", "lstm", "race")]), TINY, workers=1)
    (row,) = result.rows
    assert set(row.repairs) == {
        "augment",
        "certified",
        "pairing",
        "augment asc",
        "augment hotflip",
        "augment adf-hotflip",
    }
    assert row.before.removed == 0
    tables = result.tables()
    assert [cell.split(" ")[-1] for cell in tables[0].rows[0][1:3]] == ["(64.2%)", "(61.8%)"]
