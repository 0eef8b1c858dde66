"""The section of a model card: it says the figures of the runs, and leaves alone what is not ours."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
import yaml
from numpy.typing import NDArray
from typer.testing import CliRunner

import evenhand
from evenhand.cli.card import card
from evenhand.errors import EvenhandError
from evenhand.report.card import NO_PEOPLE, card_run, escaped, fenced, render_section
from evenhand.report.card_file import BEGIN, END
from evenhand.report.pairs import FROM_NOBODY, example_pairs
from evenhand.report.words import percent
from tests.worlds.doc_blocks import parse_command
from tests.worlds.repair import repaired
from tests.worlds.text_report import made_findings, made_summary, write_findings

app = typer.Typer()
app.command()(card)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run of every kind."""
    folder = tmp_path_factory.mktemp("runs")
    evenhand.audit("credit", ["sex", "age"], seeds=20, steps=10, out=folder / "audit")
    evenhand.measure("credit", "sex", half_width=0.05, out=folder / "measure")
    repaired("average", out=folder / "repair")
    (folder / "text").mkdir()
    frame = made_findings()
    summary = made_summary(frame)
    findings = write_findings(folder / "text" / "findings.parquet", frame)
    summary["examples"] = example_pairs(summary, findings, 5)
    (folder / "text" / "summary.json").write_text(json.dumps(summary))
    return {name: folder / name for name in ("audit", "measure", "repair", "text")}


def run(*words: str | Path) -> str:
    """What the command prints."""
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def front_of(text: str) -> dict[str, Any]:
    content = yaml.safe_load(text.split("---\n")[1])
    assert isinstance(content, dict)
    return content


def summary_of(folder: Path) -> dict[str, Any]:
    content = json.loads((folder / "summary.json").read_text())
    assert isinstance(content, dict)
    return content


@pytest.mark.parametrize("kind", ["audit", "measure", "repair", "text"])
def test_a_card_says_what_was_tested_and_its_limits(runs: dict[str, Path], kind: str) -> None:
    text, summary = run(runs[kind]), summary_of(runs[kind])
    assert escaped(summary["dataset"]["title"]) in text
    assert escaped(summary["model"]["name"]) in text
    for name in summary["protected"]:
        assert name in text
    assert "**Limits**" in text
    assert "(proxies)" in text
    assert not re.search(r"\b(fair|unfair|unbiased)\b", text, re.IGNORECASE)


def test_rates_have_their_population_and_interval(runs: dict[str, Path]) -> None:
    text, summary = run(runs["audit"]), summary_of(runs["audit"])
    for rate in summary["data_rate"].values():
        low, high = rate["interval"]
        row = next(line for line in text.splitlines() if line.startswith(f"| sex and age | {rate['population']} |"))
        assert f"{rate['discriminatory']:,} of {rate['samples']:,} | {percent(rate['rate'], 2)}" in row
        assert f"{percent(low, 2)} to {percent(high, 2)}" in row
    assert f"{summary['search']['findings']['total']:,} unique discriminatory pair" in text
    assert "no proof" in text


def test_the_clearest_pairs_are_in_words(runs: dict[str, Path]) -> None:
    text, summary = run(runs["audit"], "--with-people"), summary_of(runs["audit"])
    for example in summary["examples"][:2]:
        assert escaped(example["description"]) in text
        assert all(escaped(side["label"]) in text for side in example["sides"])
    assert escaped(summary["examples"][2]["description"]) not in text


@pytest.mark.parametrize("kind", ["audit", "repair", "text"])
def test_nobody_of_the_data_is_in_a_card_unless_asked_for(runs: dict[str, Path], kind: str) -> None:
    pairs = card_run(summary_of(runs[kind]), with_people=True).pairs
    text, asked = run(runs[kind]), run(runs[kind], "--with-people")
    assert pairs
    for pair in pairs:
        assert escaped(pair[0]) in asked
        assert not any(escaped(line) in text for line in pair if line != "Two texts")
    assert NO_PEOPLE in text
    assert NO_PEOPLE not in asked


def test_samples_that_nobody_is_may_be_shown(runs: dict[str, Path]) -> None:
    summary = summary_of(runs["audit"])
    summary["examples"][0]["origin"] = FROM_NOBODY
    found = card_run(summary)
    assert [pair[0] for pair in found.pairs] == [summary["examples"][0]["description"]]
    assert NO_PEOPLE in found.limits


@pytest.mark.parametrize("kind", ["audit", "measure", "repair", "text"])
def test_the_command_that_repeats_a_run_can_be_parsed(runs: dict[str, Path], kind: str) -> None:
    command = card_run(summary_of(runs[kind])).command
    assert command in run(runs[kind])
    parse_command(command.replace("'my words.toml'", "words.toml").split())


def test_front_matter_has_the_fields_of_a_model_index(runs: dict[str, Path]) -> None:
    text = run(runs["measure"], runs["text"], "--model-name", "risk", "--licence", "apache-2.0")
    front, summary = front_of(text), summary_of(runs["measure"])
    assert front["license"] == "apache-2.0"
    assert "language" not in front
    (model,) = front["model-index"]
    assert model["name"] == "risk"
    assert [result["task"]["type"] for result in model["results"]] == ["tabular-classification", "text-classification"]
    for result in model["results"]:
        assert set(result) == {"task", "dataset", "metrics"}
        assert re.fullmatch(r"[a-z0-9._/-]+", result["dataset"]["type"])
        assert all({"type", "name", "value"} == set(metric) for metric in result["metrics"])
    rates = {
        round(rate["rate"], 6) for rate in summary["measured"][0]["populations"] if rate["name"] != "neighbourhood"
    }
    assert {metric["value"] for metric in model["results"][0]["metrics"]} == rates


def test_the_hub_reads_the_card(runs: dict[str, Path]) -> None:
    """Hugging Face's own reader takes the front matter for results."""
    hub = pytest.importorskip("huggingface_hub")
    data = hub.ModelCard(run(runs["audit"], runs["repair"], "--model-name", "risk"), ignore_metadata_errors=False).data
    assert data.model_name == "risk"
    assert {result.metric_type for result in data.eval_results} == {"discriminatory-rate", "accuracy"}


def test_only_the_repaired_model_is_in_the_front_matter(runs: dict[str, Path]) -> None:
    text, summary = run(runs["repair"]), summary_of(runs["repair"])
    before, after = summary["rows"][0], next(row for row in summary["rows"] if row["name"] == summary["chosen"])
    metrics = front_of(text)["model-index"][0]["results"][0]["metrics"]
    assert before["uniform"]["rate"] > 0
    assert [metric["value"] for metric in metrics] == [0.0, 0.0, after["accuracy"]]
    assert percent(before["uniform"]["rate"], 2) in text


OWN = f"""---
# our card
license: mit  # chosen by us
language:
- en
tags:
- tabular
model-index:
- name: theirs
  results:
  - task: {{type: tabular-classification}}
    dataset: {{type: x, name: X}}
    metrics: [{{type: accuracy, value: 0.9}}]
---
# Our model

Before.

{BEGIN}
old text
{END}

After. ---
"""


def test_only_the_section_and_our_keys_are_replaced(runs: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(OWN)
    run(runs["audit"], "-o", path)
    text = path.read_text()
    assert text.startswith("---\n# our card\nlicense: mit  # chosen by us\nlanguage:\n- en\ntags:\n- tabular\n")
    assert f"---\n# Our model\n\nBefore.\n\n{BEGIN}\n## Individual" in text
    assert text.endswith(f"```\n{END}\n\nAfter. ---\n")
    assert "old text" not in text
    front = front_of(text)
    assert front["tags"][0] == "tabular"
    (model,) = front["model-index"]
    assert model["name"] == "theirs"
    assert model["results"][0]["metrics"] == [{"type": "accuracy", "value": 0.9}]
    assert len(model["results"]) == 2


def test_a_card_that_is_written_again_stays_the_same(runs: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    for _ in range(2):
        run(runs["audit"], runs["repair"], "-o", path, "--model-name", "risk")
        once = path.read_text()
    run(runs["audit"], runs["repair"], "-o", path)
    assert path.read_text() == once
    run(runs["measure"], "-o", path)
    assert len(front_of(path.read_text())["model-index"][0]["results"]) == 1


@pytest.mark.parametrize("front", ["", "---\n---\n", '---\n{license: mit, "tags": [a]}\n---\n', "---\ntags: a\n---\n"])
def test_front_matter_of_any_form_is_kept(runs: dict[str, Path], tmp_path: Path, front: str) -> None:
    path = tmp_path / "README.md"
    path.write_text(f"{front}# Mine\n\n{BEGIN}\n{END}\n")
    run(runs["audit"], "-o", path)
    found, earlier = front_of(path.read_text()), yaml.safe_load(front.strip("-\n") or "{}") or {}
    assert found.get("license") == earlier.get("license")
    assert set(earlier.get("tags", [])) <= set(found["tags"])
    assert "# Mine" in path.read_text()


def test_a_marker_in_a_sentence_is_a_quote(runs: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    before = f"# Mine\n\nWe put `{BEGIN}` and {END} around it.\n\nMy words.\n\n"
    path.write_text(f"{before}{BEGIN}\nold\n{END}\n\nMore, up to {END}.\n")
    run(runs["audit"], "-o", path)
    text = path.read_text()
    assert before in text
    assert text.endswith(f"\n{END}\n\nMore, up to {END}.\n")
    assert "\nold\n" not in text
    quoted = "# Mine\n\n" + before
    path.write_text(quoted)
    with pytest.raises(EvenhandError, match="has no section"):
        run(runs["audit"], "-o", path)
    assert path.read_text() == quoted


@pytest.mark.parametrize(
    "lines", [[BEGIN], [END], [END, BEGIN], [BEGIN, END, BEGIN, END], [BEGIN, BEGIN, END], [BEGIN, END, END]]
)
def test_markers_that_are_no_pair_are_an_error(runs: dict[str, Path], tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "README.md"
    path.write_text("# Mine\n" + "\nmy words\n".join(lines) + "\nmy words\n")
    text = path.read_text()
    with pytest.raises(EvenhandError, match="Leave one of each"):
        run(runs["audit"], "-o", path)
    assert path.read_text() == text


def test_other_files_are_not_overwritten(runs: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("my own words\n")
    with pytest.raises(EvenhandError, match="--force"):
        run(runs["audit"], "-o", path)
    assert path.read_text() == "my own words\n"
    run(runs["audit"], "-o", path, "--force")
    assert "my own words" not in path.read_text()


@pytest.mark.parametrize(
    ("front", "message"), [("a: b: c", "line 2"), ("- a", "keys and values"), ("model-index: 3", "model-index")]
)
def test_front_matter_that_cannot_be_kept_is_an_error(
    runs: dict[str, Path], tmp_path: Path, front: str, message: str
) -> None:
    path = tmp_path / "README.md"
    text = f"---\n{front}\n---\n{BEGIN}\n{END}\n"
    path.write_text(text)
    with pytest.raises(EvenhandError, match=message):
        run(runs["audit"], "-o", path)
    assert path.read_text() == text


def test_what_cannot_have_a_card_is_an_error(runs: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(EvenhandError, match="Cannot read"):
        run(tmp_path)
    with pytest.raises(EvenhandError, match="'comparison'"):
        card_run({"kind": "comparison"})
    with pytest.raises(EvenhandError, match="lacks 'data_rate'"):
        card_run({name: value for name, value in summary_of(runs["audit"]).items() if name != "data_rate"})
    with pytest.raises(EvenhandError, match="wrote no model"):
        card_run(summary_of(runs["repair"]) | {"chosen": None})


def test_a_command_names_the_model_and_no_folders_of_this_machine(runs: dict[str, Path]) -> None:
    summary = summary_of(runs["measure"])
    assert "--model" not in card_run(summary).command
    summary["model"]["name"] = "/home/ann/nets/model.skops"
    summary["config"]["dataset"] = "/home/ann/my data/people.toml"
    command = card_run(summary).command
    assert command.startswith("evenhand measure people.toml --protected sex")
    assert "--model model.skops" in command
    assert "/home" not in command


def test_a_run_that_ended_early_says_why(runs: dict[str, Path]) -> None:
    def ended(stopped: str) -> list[str]:
        limits = card_run(summary_of(runs["measure"]) | {"stopped": stopped}).limits
        return [limit for limit in limits if "less was looked at" in limit]

    assert ended("completed") == []
    assert ended("interrupted")[0].startswith("The run was interrupted:")
    assert ended("budget-spent")[0].startswith("The budget of rows for the model was spent on the way:")
    assert ended("model-failed")[0].startswith("The model failed on the way:")


def test_what_was_ruled_out_is_said_as_the_report_does(runs: dict[str, Path]) -> None:
    for kind, words in [("audit", "7 more samples would be findings, but one of the pair is impossible."),
                        ("text", "7 more pairs did not count: less similar than was asked for.")]:  # fmt: skip
        summary = summary_of(runs[kind])
        summary["search"]["ruled_out"] = 7
        assert words in card_run(summary).said


def test_a_model_or_data_from_python_are_said_to_be(runs: dict[str, Path]) -> None:
    def by_code(codes: NDArray[np.float32]) -> NDArray[np.float64]:
        return (codes[:, 0] > 1).astype(float)

    settings: dict[str, Any] = {"inputs": "codes", "half_width": 0.1, "accept_poor_model": True}
    measured = evenhand.measure("credit", "sex", model=by_code, **settings).summary
    section = render_section([card_run(measured)], "1")
    assert "--inputs codes" in card_run(measured).command
    assert "have to be passed from Python again" in section
    assert "from Python" in run(runs["repair"])  # of a network and a table in memory
    for kind in ("audit", "measure", "text"):
        assert "from Python" not in run(runs[kind])
    measured["config"] |= {"model": "nets/model.skops", "dataset": "people.toml"}
    assert card_run(measured).from_python == ""


def test_strong_words_are_left_out(runs: dict[str, Path]) -> None:
    summary = summary_of(runs["text"])
    assert card_run(summary, with_people=True).pairs
    for example in summary["examples"]:
        example["text"] += " shit"
    assert not card_run(summary, with_people=True).pairs


def test_data_cannot_write_markup(runs: dict[str, Path]) -> None:
    evil = f"<b>|{END}\n# x | `y` [z](w)"
    summary = summary_of(runs["audit"])
    summary["dataset"]["title"] = evil
    text = render_section([card_run(summary)], "1")
    assert END not in text
    assert "<b>" not in text
    assert "\n# x" not in text
    assert r"\[z\](w)" in text
    assert fenced("a ``` b").startswith("````\n")
