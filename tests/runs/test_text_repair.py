"""Repairs of texts from end to end, on files as a user has them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from evenhand.errors import EvenhandError
from evenhand.models.text.by_construction import AveragedTextModel, BlindModel, RecurrentModel
from evenhand.models.text.loading import load_text_model
from evenhand.runs.audit import audit
from evenhand.runs.repair import Repair, repair
from evenhand.runs.text_repair import TextRepairWork
from evenhand.text.corpus import Corpus
from evenhand.text.lexicon import load_lexicon
from evenhand.text.tokens import replace_tokens, tokenize
from tests.worlds.text_files import UserFiles, write_user_files

QUICK: dict[str, Any] = {"training_steps": 3, "seeds": 6, "steps": 3, "texts": 40, "mentioning": 20}
WAYS = "pairing,augment,certified,blind,average"


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> UserFiles:
    made = write_user_files(tmp_path_factory.mktemp("mine"))
    every_other = np.arange(len(made.corpus)) % 2 == 0  # so that both splits mention the attributes
    return replace(made, corpus=replace(made.corpus, train=every_other))


def run(files: UserFiles, by: str, corpus: Corpus | None = None, **settings: Any) -> Repair:
    given = {name: files.options[name] for name in ("vectors", "model")}
    return repair(corpus or files.corpus, "religion", by, method="boundary", **(given | QUICK | settings))


@pytest.fixture(scope="module")
def repaired(files: UserFiles, tmp_path_factory: pytest.TempPathFactory) -> Repair:
    return run(files, WAYS, out=tmp_path_factory.mktemp("repair"), share=1.0)


def test_all_ways_are_judged_and_one_is_written(repaired: Repair) -> None:
    rows = {row["name"]: row for row in repaired.summary["rows"]}
    assert list(rows) == ["original", "blind", *(way for way in WAYS.split(",") if way != "blind")]
    assert repaired.summary["chosen"] in WAYS.split(",")
    assert rows["original"]["remaining"]["rate"] == 1.0  # independent findings are the original model's
    assert rows["original"]["remaining"]["samples"] > 0
    assert rows["augment"]["findings_used"] > 0
    for way in ("blind", "average"):
        assert rows[way]["uniform"]["discriminatory"] == rows[way]["remaining"]["discriminatory"] == 0
        assert rows[way]["certified"] is None  # it needs no proof
        assert rows[way]["validation_bound"] == 0
    assert rows["pairing"]["validation_bound"] > 0
    assert sorted(path.name for path in repaired.folder.iterdir()) == [
        *("model.json", "model.safetensors", "report.html", "summary.json")
    ]
    assert json.loads((repaired.folder / "summary.json").read_text()) == repaired.summary


@pytest.mark.parametrize(
    ("by", "kind"), [("blind", BlindModel), ("average", AveragedTextModel), ("pairing", RecurrentModel)]
)
def test_the_file_is_a_model_that_can_be_audited(files: UserFiles, by: str, kind: type, tmp_path: Path) -> None:
    run(files, by, out=tmp_path / "repair")
    file = str(tmp_path / "repair" / "model.safetensors")
    assert type(load_text_model(files.corpus, None, file, files.vectors)) is kind
    options = {"vectors": files.options["vectors"], "model": file, "encoder": "none", "iterations": 2, "steps": 2}
    found = audit(files.corpus, "religion", **options)
    if by != "pairing":
        assert found.summary["search"]["findings"]["total"] == 0
        assert found.summary["search"]["generated"]["total"] > 0


@pytest.mark.parametrize("by", ["blind", "average"])
def test_no_exchange_of_a_term_changes_what_is_read(files: UserFiles, by: str) -> None:
    """Every mention of every text, exchanged for every value, written out and read anew."""
    model = run(files, by).model
    words = load_lexicon().attribute("religion")
    exchanged = 0
    for text in files.corpus.texts.to_pylist():
        tokens = tokenize(text)
        for mention in words.mentions(tokens):
            surfaces = [words.surface(tokens, mention, value) for value in range(len(words.values))]
            variants = [replace_tokens(tokens, {(mention.start, mention.end): s}) for s in surfaces if s is not None]
            same_form = [v for v in variants if [m.form for m in words.mentions(tokenize(v))] == _forms(words, text)]
            assert all(model.readings(variant) == model.readings(text) for variant in same_form)
            exchanged += len(same_form)
    assert exchanged > 20


def _forms(words: Any, text: str) -> list[str]:
    return [mention.form for mention in words.mentions(tokenize(text))]


def test_held_out_texts_teach_nothing(files: UserFiles) -> None:
    """Held-out texts are replaced by others with other labels; what is trained stays the same to the bit."""
    corpus = files.corpus
    held_out = ~corpus.train
    texts = [text if there else f"Some muslim read {n} books." for n, (text, there) in enumerate(
        zip(corpus.texts.to_pylist(), corpus.train.tolist(), strict=True))]  # fmt: skip
    labels = np.where(held_out, 1 - corpus.labels, corpus.labels)
    other = replace(corpus, texts=pa.array(texts), labels=labels)
    for by in ("augment",):
        one, two = (run(files, by, each, share=1.0).model.network.state_dict() for each in (corpus, other))
        assert all(torch.equal(one[name], two[name]) for name in one)


def test_the_same_seed_gives_the_same_file(files: UserFiles, tmp_path: Path) -> None:
    for name, seed in (("one", 0), ("two", 0), ("three", 1)):
        run(files, "pairing", out=tmp_path / name, seed=seed)
    one, two, three = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two", "three"))
    assert one == two
    assert one != three


def test_the_report_hides_texts_until_asked_and_says_the_figures(repaired: Repair) -> None:
    page = (repaired.folder / "report.html").read_text(encoding="utf-8")
    assert "<details><summary>Show examples" in page
    assert "http" not in page.replace("http-equiv", "")
    assert "held-out texts" in page
    assert "by construction" in page


def test_texts_that_are_set_aside_teach_nothing(files: UserFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the material nor the findings to learn from hold a text that choices are made on."""
    seen: list[TextRepairWork] = []
    judged = TextRepairWork.judged

    def spy(work: TextRepairWork) -> Any:
        seen.append(work)
        return judged(work)

    monkeypatch.setattr(TextRepairWork, "judged", spy)
    run(files, "augment", share=1.0)
    (work,) = seen
    aside = set(np.flatnonzero(work.aside).tolist())
    assert aside
    assert aside <= set(np.flatnonzero(files.corpus.train).tolist())
    assert aside.isdisjoint(np.flatnonzero(work.material.corpus.train).tolist())
    assert aside.isdisjoint(text.row for text in work.material.mentioning)
    assert aside.isdisjoint(work.search(train=True)[0].sources.rows.tolist())
    assert set(work.judge.aside.tolist()) == aside


def test_nothing_kept_to_a_condition(files: UserFiles, tmp_path: Path) -> None:
    result = run(files, "pairing", out=tmp_path / "repair", choose="rate<0")
    assert result.model is None
    assert sorted(path.name for path in (tmp_path / "repair").iterdir()) == ["report.html", "summary.json"]


def test_bad_input(files: UserFiles, tmp_path: Path) -> None:
    for by, settings, message in (
        ("pairng", {}, "Did you mean 'pairing'"),
        ("augment", {"share": 0.0}, "share"),
        ("pairing", {"choose": "loss<1"}, "not a condition"),
    ):
        with pytest.raises(EvenhandError, match=message):
            run(files, by, out=tmp_path / "repair", **settings)
    everything = replace(files.corpus, train=np.ones(len(files.corpus), dtype=bool))
    with pytest.raises(EvenhandError, match="No held-out text"):
        run(files, "pairing", everything, out=tmp_path / "repair")
    assert not (tmp_path / "repair").exists()
