"""A whole repair through the Python interface: files, figures against brute force, and what may decide the model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import evenhand
from evenhand.data.dataset import Dataset
from evenhand.measures.rates import Rate
from evenhand.measures.verdict import JudgedRepair, Verdict
from evenhand.models.classifier import Classifier
from evenhand.models.loading import load_module
from evenhand.repairs.table import Workshop
from evenhand.report.repair import repair_sentences
from evenhand.runs import table_repair as repair_run
from evenhand.runs.repair import Repair, repair
from evenhand.search.recorder import Findings
from evenhand.search.space import TableSpace
from tests.worlds.repair import QUICK, network, repaired, row_of, table, with_other_held_out_rows
from tests.worlds.schemas import UNTRAINED, all_variants, has_witness, labels_of

DATA, MODEL = table(), network()


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Repair:
    return repaired("all", out=tmp_path_factory.mktemp("all"), repeats=2)


def test_files_and_summary_agree(everything: Repair) -> None:
    files = sorted(path.name for path in everything.folder.iterdir())
    assert files == ["model.json", "model.safetensors", "report.html", "summary.json"]
    summary = json.loads((everything.folder / "summary.json").read_text())
    assert summary == everything.summary
    assert [row["by"] for row in summary["rows"]] == [
        "original", "retrained", "blind", "augment", *["certified"] * 2, *["pairing"] * 3, "average",
    ]  # fmt: skip
    assert len({row["name"] for row in summary["rows"]}) == 10
    assert json.loads((everything.folder / "model.json").read_text())["repair"] == summary["chosen"]
    assert summary["chosen"] in repr(everything)


def test_the_figures_of_the_chosen_model_by_brute_force(everything: Repair) -> None:
    """From the file alone, as a user would have it."""
    summary = everything.summary
    model, _ = load_module(DATA, str(everything.folder / "model.safetensors"))
    held_out, labels = DATA.clipped[~DATA.train], DATA.labels[~DATA.train]
    domain = all_variants(DATA.schema, [0, 1, 2, 3], [0, 0, 0, 0])
    for row, asked in ((row_of(summary, "original"), MODEL), (row_of(summary, summary["chosen"]), model)):
        right = labels_of(asked, held_out) == labels
        assert row["accuracy"] == right.mean()
        witness = [has_witness(asked, DATA.schema, [0], person) for person in held_out]
        assert (row["people"]["discriminatory"], row["people"]["samples"]) == (sum(witness), len(held_out))
        low, high = row["uniform"]["interval"]
        assert low <= np.mean([has_witness(asked, DATA.schema, [0], sample) for sample in domain]) <= high
        when = "before" if row["name"] == "original" else "after"
        for group in summary["groups"]:
            there = held_out[:, 0] == int(group["value"])
            assert group["people"] == there.sum()
            assert group[f"accuracy_{when}"] == right[there].mean()
    assert row_of(summary, "original")["remaining"]["rate"] == 1.0
    assert row_of(summary, "original")["people"]["discriminatory"] > 0


@pytest.mark.parametrize("by", ["blind", "average"])
def test_zero_by_construction(by: str, everything: Repair) -> None:
    row = row_of(everything.summary, by)
    for name in ("uniform", "people", "remaining"):
        assert row[name]["discriminatory"] == 0
    result = repaired(by)
    assert result.summary["chosen"] == by
    path = str(result.folder / "model.safetensors")
    assert evenhand.audit(DATA, "a0", model=path, seeds=50, steps=5).findings.empty
    assert result.summary["examples"]["still_differ"] == result.summary["examples"]["newly_differ"] == 0


def test_examples_are_those_of_brute_force() -> None:
    result = repaired("pairing", strength=0.01)
    model, _ = load_module(DATA, str(result.folder / "model.json"))
    held_out = DATA.clipped[~DATA.train]
    before, after = (
        np.array([has_witness(network, DATA.schema, [0], row) for row in held_out]) for network in (MODEL, model)
    )
    examples = result.summary["examples"]
    assert examples["people"] == len(held_out)
    assert examples["now_alike"] == (before & ~after).sum()
    assert examples["newly_differ"] == (after & ~before).sum()
    assert examples["still_differ"] == (after & before).sum()
    assert len(examples["now_alike_examples"]) == min(5, examples["now_alike"])
    people = {words_of(row): row for row in held_out}
    cards: list[tuple[dict[str, str], nn.Module, nn.Module]]
    cards = [(card, MODEL, model) for card in examples["now_alike_examples"]]
    cards += [(card, model, MODEL) for card in examples["newly_differ_examples"]]
    page, classes = (result.folder / "report.html").read_text(), DATA.schema.label.values
    for card, where_differs, where_alike in cards:
        row = people[card["person"], card["own_values"]]
        other = {words_of(v): v for v in all_variants(DATA.schema, [0], row)}[card["person"], card["other_values"]]
        labels = [classes[label] for label in labels_of(where_differs, np.stack([row, other]))]
        assert [card["label"], card["other_label"]] == labels
        assert labels[0] != labels[1]
        assert card["label_when_alike"] == classes[labels_of(where_alike, row[None])[0]]
        assert f"With {card['own_values']}: {card['label']}; with {card['other_values']}: {card['other_label']}" in page
    assert cards


def words_of(row: NDArray[np.int32]) -> tuple[str, str]:
    """A person in words, and the protected value."""
    words = [attribute.sentence(int(code)) for attribute, code in zip(DATA.schema.attributes, row, strict=True)]
    return ", ".join(words[1:]), words[0]


@pytest.mark.parametrize("by", ["augment", "pairing,certified", "blind,average"])
def test_training_rows_and_the_seed_decide_the_model_and_nothing_else(by: str, tmp_path: Path) -> None:
    """Also which repeat and which repair is kept."""

    def weights(name: str, data: Dataset, seed: int) -> bytes:
        repaired(by, data, tmp_path / name, seed=seed, repeats=2, epochs=2, choose="accuracy_loss<=0.9")
        return (tmp_path / name / "model.safetensors").read_bytes()

    first = weights("first", DATA, 0)
    assert weights("held out", with_other_held_out_rows(DATA), 0) == first
    assert by != "augment" or weights("seed", DATA, 1) != first


def test_findings_to_learn_from_start_at_training_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    learned, judged = list[Findings](), list[Findings]()
    augment, findings = Workshop.augment, repair_run.TableRepairWork.findings

    def spy_augment(self: Workshop, found: Findings, *rest: Any) -> Any:
        learned.append(found)
        return augment(self, found, *rest)

    def spy_findings(self: Any, train: bool) -> Findings:
        found = findings(self, train)
        if not train:
            judged.append(found)
        return found

    monkeypatch.setattr(Workshop, "augment", spy_augment)
    monkeypatch.setattr(repair_run.TableRepairWork, "findings", spy_findings)
    summary = repaired("augment", share=0.5).summary
    assert len(learned) == len(judged) == 1
    assert len(learned[0]) > 0
    assert DATA.train[learned[0].seed].all()
    assert not DATA.train[judged[0].seed].any()
    assert all(has_witness(MODEL, DATA.schema, [0], row) for row in learned[0].sample)
    (row,) = [row for row in summary["rows"] if row["by"] == "augment"]
    assert row["findings_used"] == round(0.5 * len(learned[0]))
    assert row["remaining"]["samples"] == len(judged[0])


def test_the_repeat_that_validation_prefers_is_kept_whatever_held_out_rows_say() -> None:
    def verdict(held_out: float, validation: float, rate: float) -> Verdict:
        uniform = Rate("the domain", round(held_out * 10), 10)
        return Verdict(held_out, np.zeros(0, dtype=bool), uniform, None, None, None, validation, rate, rate)

    verdicts = [verdict(0.9, 0.7, 0.1), verdict(0.5, 0.8, 0.1), verdict(0.7, 0.9, 0.3)]
    judged = JudgedRepair("pairing", "pairing", {}, 0, verdicts, [nn.Identity() for _ in verdicts])
    assert judged.best == 1
    assert judged.network is judged.networks[1]
    figures = judged.as_dict()
    assert figures["accuracy"] == 0.5
    assert figures["over_repeats"]["accuracy"] == pytest.approx({"mean": 0.7, "spread": 0.2})
    assert figures["over_repeats"]["uniform"] == pytest.approx({"mean": 0.7, "spread": 0.2})
    assert figures["people"] is figures["over_repeats"]["people"] is None


def test_where_nothing_keeps_to_the_condition_no_model_is_left(tmp_path: Path) -> None:
    repaired("blind", out=tmp_path)
    assert (tmp_path / "model.safetensors").is_file()
    result = repaired("blind", out=tmp_path, choose="accuracy_loss<=-1")
    assert result.model is None
    assert result.summary["chosen"] is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "summary.json"]
    (sentence,) = repair_sentences(result.summary)
    assert "accuracy_loss<=-1" in sentence
    assert "No repair was chosen" in (tmp_path / "report.html").read_text()


def test_a_condition_picks_among_repairs() -> None:
    result = repaired("average,pairing", strength=1e-6, choose="rate<=1")
    trades = {row["by"]: row["validation_accuracy"] for row in result.summary["rows"]}
    assert result.summary["chosen"] == (
        "average" if trades["average"] >= trades["pairing"] else "pairing strength 1e-06"
    )
    assert repaired("average,pairing", strength=1e-6, choose="rate<=0").summary["chosen"] == "average"


class Guess(nn.Module):
    """Not a network of ours."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([6.5 - 1.5 * x[:, 0], x[:, 1] + x[:, 2]], dim=1)


def test_the_average_of_an_object_predicts_and_no_file_is_left_that_says_otherwise(tmp_path: Path) -> None:
    repaired("blind", out=tmp_path)
    result = repair(DATA, "a0", "average", model=Guess(), out=tmp_path, **UNTRAINED, **QUICK)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "summary.json"]
    assert "no model file is written" in " ".join(repair_sentences(result.summary))
    assert result.summary["chosen"] == "average"
    assert len(set(result.predict(frame_of(DATA)).tolist())) == 2


def frame_of(data: Dataset) -> pd.DataFrame:
    return pd.DataFrame(data.codes, columns=data.schema.names)


def test_census(census: Dataset, tmp_path: Path) -> None:
    """The built-in network, for real: zero by construction at a small price."""
    settings: dict[str, Any] = {"epochs": 1, "repeats": 1, "seeds": 20, "steps": 5, "half_width": 0.01}
    result = repair("census", "sex", "blind", out=tmp_path, **settings)
    space = TableSpace(census.schema, ["sex"])
    assert result.model is not None
    scores = space.answers(Classifier(result.model), space.samples(census.clipped[:5000])).scores
    assert torch.equal(scores[:, 0], scores[:, 1])  # to the bit
    row = row_of(result.summary, "blind")
    assert row["people"]["discriminatory"] == row["uniform"]["discriminatory"] == 0
    assert row["certified"]["samples"] == row["people"]["samples"] == (~census.train).sum()
    assert row["accuracy"] > 0.75
    assert row_of(result.summary, "original")["people"]["discriminatory"] > 0
    path = str(tmp_path / "model.safetensors")
    assert evenhand.audit("census", "sex", model=path, seeds=20, steps=5).findings.empty
