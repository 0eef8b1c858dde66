"""The report of a repair says what was measured, what it costs, and nothing that data could forge."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from evenhand.data.schema import Schema
from evenhand.report.repair import render_repair, repair_sentences
from evenhand.runs.repair import repair
from evenhand.runs.repair_rows import paired
from evenhand.runs.table_repair import split_words
from tests.worlds.repair import DOMAINS, QUICK, repaired, row_of, table, trained
from tests.worlds.schemas import schema_of


def test_without_held_out_rows_accuracy_is_not_measured() -> None:
    result = repaired("pairing,average", table(held_out=False), choose="accuracy_loss<=0.5")
    for row in result.summary["rows"]:
        assert row["accuracy"] is row["people"] is row["remaining"] is row["certified"] is None
        assert row["uniform"]["samples"] > 0
    assert result.summary["groups"] == []
    assert "No rows are held out" in " ".join(repair_sentences(result.summary))
    assert "No rows are held out" in (result.folder / "report.html").read_text()
    assert json.loads((result.folder / "model.json").read_text())["accuracy"]["held_out"] is None


def test_what_it_costs_where_the_protected_attribute_is_the_label() -> None:
    """Two thirds of the people, those with a0 above 0, have the label 1; nothing else says it."""
    data = table()
    data = replace(data, labels=(data.codes[:, 0] >= 1).astype(np.int64))
    summary = repair(data, "a0", "average", model=trained(data, epochs=10), **QUICK | {"epochs": 10}).summary
    means = [row_of(summary, name)["over_repeats"]["accuracy"]["mean"] for name in ("retrained", "blind")]
    assert means[0] - means[1] > 0.2
    text = " ".join(repair_sentences(summary))
    assert f"costs {100 * (means[0] - means[1]):.2f} percentage points of accuracy" in text
    assert "The protected attributes carry much of what the outcome depends on" in text
    before, after = (row_of(summary, name)["accuracy"] for name in ("original", "average"))
    assert f"{before:.2%} before, {after:.2%} after" in text


def test_without_held_out_rows_the_rows_set_aside_say_what_it_costs() -> None:
    data = table()
    data = replace(data, labels=(data.codes[:, 0] >= 1).astype(np.int64), train=np.ones(len(data.codes), dtype=bool))
    summary = repair(data, "a0", "blind", model=trained(data, epochs=10), **QUICK | {"epochs": 10}).summary
    text = " ".join(repair_sentences(summary))
    before, after = (row_of(summary, name)["validation_accuracy"] for name in ("original", "blind"))
    assert before - after > 0.2
    assert f"accuracy {before:.2%} before, {after:.2%} after" in text
    assert "of accuracy on training rows set aside" in text
    assert "since no rows are held out" in render_repair(summary)


def test_the_interval_of_a_change_is_that_of_the_same_rows() -> None:
    """Of 100 rows, 6 become right and 2 wrong: 0.04 on average, with a standard deviation of √(0.08 − 0.0016)."""
    before = np.repeat([True, False], 50)
    after = before.copy()
    after[:2], after[50:56] = False, True
    change = paired(before, after)
    assert change is not None
    assert change["mean"] == pytest.approx(0.04)
    half = 1.96 * (0.08 - 0.0016) ** 0.5 / 10
    assert change["interval"] == pytest.approx([0.04 - half, 0.04 + half])
    assert paired(before[:0], after[:0]) is None


def test_sentences_say_the_figures_of_the_summary() -> None:
    result = repaired("pairing,average", repeats=2)
    summary = result.summary
    before, chosen, blind = (row_of(summary, name) for name in ("original", summary["chosen"], "blind"))
    text = " ".join(repair_sentences(summary))
    for row, when in ((before, "before"), (chosen, "after")):
        low, high = row["people"]["interval"]
        assert f"{row['people']['rate']:.2%} (95% interval {low:.2%} to {high:.2%}) {when}" in text
    assert f"Of {chosen['remaining']['samples']:,} findings" in text
    assert f"Accuracy on held-out data: {before['accuracy']:.2%} before, {chosen['accuracy']:.2%} after" in text
    page = (result.folder / "report.html").read_text()
    for row in summary["rows"]:
        assert row["name"] in page
    assert f"{blind['accuracy']:.2%}" in page


def test_the_headline_is_about_people_and_what_it_costs() -> None:
    summary = repaired("average").summary
    before, after = (row_of(summary, name) for name in ("original", "average"))
    first, second, *_ = repair_sentences(summary)
    assert first.startswith("Held-out people for whom another protected value changes the decision: ")
    assert f"{before['people']['rate']:.2%} before, 0.00% after; accuracy " in first
    points = 100 * (before["accuracy"] - after["accuracy"])
    assert f"{'lost' if points > 0 else 'gained'}: {abs(points):.2f} percentage points" in first
    assert second.startswith("Held-out people who would get another decision (held-out rows of world): ")
    assert summary["headline"]["people_before"] == before["people"]["rate"] > 0
    assert summary["headline"]["people_after"] == 0
    assert summary["headline"]["accuracy_lost"] == before["accuracy"] - after["accuracy"]
    page = render_repair(summary)
    assert page.index("Held-out people affected") < page.index("Rate over the domain")


def test_whose_split_it_is_judged_on_is_said() -> None:
    data = table()
    content = data.schema.model_dump(by_alias=True) | {"split": {"train_rows": 200}}
    for attribute in content["attribute"]:
        del attribute["width"]
    first = Schema.parse(content, where="the test")
    own = np.arange(300) % 3 > 0
    assert split_words(data) == "split made by evenhand: a random fifth held out, seed 0"
    assert split_words(replace(data, schema=first, train=np.arange(300) < 200)) == (
        "the first 200 rows train and the others are held out, as the schema says"
    )
    assert split_words(replace(data, train=own)) == "the split that the data set came with"
    assert split_words(table(held_out=False)) is None
    own_schema = Schema.parse(content | {"split": {"column": "part", "train": "a"}}, where="the test")
    assert (split_words(replace(data, schema=own_schema, train=own)) or "").startswith(
        "the table's own split: rows with part = a are for training, "
    )
    result = repaired("average")
    assert f"Judged on held-out rows ({split_words(data)})." in repair_sentences(result.summary)
    assert f"({split_words(data)})" in (result.folder / "report.html").read_text()


def test_the_page_needs_no_other_host_and_escapes_what_comes_from_data() -> None:
    evil = '<script>alert("x")</script>'
    content = schema_of(DOMAINS).model_dump(by_alias=True) | {"title": evil}
    content["label"]["values"] = [f"no {evil}", f"yes {evil}"]
    content["attribute"] = content.pop("attribute", content.pop("attributes", None))
    for attribute in content["attribute"]:
        attribute["title"] = f"{attribute['name']} {evil}"
    data = replace(table(), schema=Schema.parse(content, where="the test"))
    summary = repaired("average", data).summary
    assert summary["examples"]["now_alike_examples"]
    page = render_repair(summary | {"model": {"name": evil}})
    assert evil not in page
    assert "&lt;script&gt;alert" in page
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//|@import|url\(\s*["']?(https?:)?//""", page)
