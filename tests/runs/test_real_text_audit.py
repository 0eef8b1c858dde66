"""Audits of the built-in networks on the real corpora and vectors. Skipped, with the reason, where no index answers."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evenhand.cli.main import main
from evenhand.models.loading import BUILTIN
from evenhand.models.text.by_construction import RecurrentModel
from evenhand.models.text.loading import load_text_model
from evenhand.models.text.recurrent import Cell
from evenhand.text.corpus import Corpus, load_corpus
from evenhand.text.lexicon import load_lexicon
from evenhand.text.vectors import WordVectors, load_vectors
from tests.text.test_real_data import real
from tests.worlds.text_files import check_findings
from tests.worlds.text_search import plain_label

pytestmark = pytest.mark.real_text
AUDIT = ["audit", "wiki", "-p", "religion", "--lexicon", "paper", "--seeds", "12", "--steps", "5", "--encoder", "none"]
LOCAL_CHECKED = 50
HELD_OUT_CHECKED = 300
SIGMAS = 4  # one of 16,000 samples would miss by more


@pytest.fixture(scope="module")
def glove() -> WordVectors:
    return real(load_vectors)


@pytest.fixture(scope="module")
def wiki() -> Corpus:
    return real(lambda: load_corpus("wiki"))


@pytest.fixture(scope="module")
def jigsaw() -> Corpus:
    return real(lambda: load_corpus("jigsaw"))


def evenhand(*arguments: str) -> int:
    """The command's exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["evenhand", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
    return int(end.value.code or 0)


def network(corpus: Corpus, cell: Cell, vectors: WordVectors) -> RecurrentModel:
    model = load_text_model(corpus, cell, None, vectors)
    assert isinstance(model, RecurrentModel)
    return model


def test_findings_hold_one_text_at_a_time(wiki: Corpus, glove: WordVectors, tmp_path: Path) -> None:
    assert evenhand(*AUDIT, "--quiet", "--out", str(tmp_path / "a")) == 0
    findings = pd.read_parquet(tmp_path / "a" / "findings.parquet")
    first, local = findings[findings["phase"] == "global"], findings[findings["phase"] == "local"]
    assert len(first) > 0
    some = local.sample(min(LOCAL_CHECKED, len(local)), random_state=0)
    model = network(wiki, "lstm", glove)
    words = load_lexicon("paper").attributes["religion"]
    for part in (first, some):
        check_findings(part, model.network, glove, words, most_words=model.most_words, classes=wiki.classes)
    assert [wiki.text(row) for row in findings["seed_row"]] == findings["original"].tolist()
    assert wiki.train[findings["seed_row"]].all()
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert summary["search"]["seeds"] == 12
    assert summary["data_rate"]["train"]["samples"] == 1000
    assert evenhand(*AUDIT, "--quiet", "--out", str(tmp_path / "b"), "--chunk-rows", "100") == 0
    assert (tmp_path / "b" / "findings.parquet").read_bytes() == (tmp_path / "a" / "findings.parquet").read_bytes()


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("name", ["wiki", "jigsaw"])
def test_built_in_networks_are_as_accurate_as_they_say(
    name: str, cell: Cell, glove: WordVectors, request: pytest.FixtureRequest
) -> None:
    corpus: Corpus = request.getfixturevalue(name)
    said = json.loads((BUILTIN / f"{name}-{cell}.json").read_text())["quality"]["held_out"]
    rows = np.random.default_rng(0).choice(np.flatnonzero(~corpus.train), HELD_OUT_CHECKED, replace=False)
    model = network(corpus, cell, glove)
    labels = [plain_label(model.network, glove, corpus.text(int(row)), model.most_words) for row in rows]
    accuracy = float((np.array(labels) == corpus.labels[rows]).mean())
    sigma = (said["accuracy"] * (1 - said["accuracy"]) / HELD_OUT_CHECKED) ** 0.5
    assert abs(accuracy - said["accuracy"]) <= SIGMAS * sigma
    toxic = corpus.labels[rows] == 1
    assert np.array(labels)[toxic].mean() > 0.5 > np.array(labels)[~toxic].mean()  # not merely the commonest label
