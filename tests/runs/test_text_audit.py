"""Audits of texts from end to end, through the Python interface, on files as a user has them."""

import gc
import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import beta

from evenhand.errors import EvenhandError
from evenhand.models.text.recurrent import load_recurrent, save_recurrent
from evenhand.runs.audit import Audit, audit
from evenhand.runs.findings import RowGroups
from evenhand.text.lexicon import ProtectedWords, load_lexicon
from evenhand.text.tokens import tokenize
from tests.worlds.text_files import CLASSES, MOST_WORDS, UserFiles, swapped, write_user_files
from tests.worlds.text_search import plain_label

QUICK: dict[str, Any] = {"iterations": 3, "steps": 5}
FILES = ["findings.parquet", "report.html", "summary.json"]
COLUMNS = [
    *("phase", "seed_row", "step", "label", "witness_label", "score", "witness_score"),
    *("original", "text", "witness", "value", "witness_value", "l0", "l2", "jaccard", "bleu", "similarity"),
]


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> UserFiles:
    return write_user_files(tmp_path_factory.mktemp("mine"))


@pytest.fixture(scope="module")
def religion(files: UserFiles, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    return run(files, "religion", out=tmp_path_factory.mktemp("audit"))


def run(files: UserFiles, protected: str, **settings: Any) -> Audit:
    return audit(files.data, protected, **(files.options | QUICK | settings))


def words_of(attribute: str) -> ProtectedWords:
    return load_lexicon().attributes[attribute]


def file_of(audit: Audit) -> bytes:
    return (audit.folder / "findings.parquet").read_bytes()


def test_files_and_summary_agree(religion: Audit) -> None:
    assert sorted(path.name for path in religion.folder.iterdir()) == FILES
    summary, findings = json.loads((religion.folder / "summary.json").read_text()), religion.findings
    assert summary == religion.summary
    assert list(findings.columns) == COLUMNS
    search = summary["search"]
    assert search["findings"]["total"] == len(findings) > 20
    for phase in ("global", "local"):
        assert search["findings"][phase] == (findings["phase"] == phase).sum() > 0
        assert summary["validity"][phase]["l0"] == pytest.approx(
            findings[findings["phase"] == phase]["l0"].mean(), abs=1e-4
        )
    assert search["seeds_with_findings"] == findings["seed_row"].nunique()
    assert search["stopped"] == "completed"
    assert findings["similarity"].isna().all()
    assert summary["validity"]["encoder"] is None
    assert summary["protected"] == ["religion"]
    assert summary["dataset"]["classes"] == CLASSES
    assert summary["model"] == {"name": summary["config"]["model"], "kind": "gru", "reads": MOST_WORDS}
    assert summary["texts"]["empty"] == 1
    assert set(summary["seconds"]) == {"load", "seeds", "data rate", "search", "validity"}


def test_the_origin_of_a_finding_is_a_training_text(religion: Audit, files: UserFiles) -> None:
    rows = religion.findings["seed_row"].to_numpy()
    assert files.corpus.train[rows].all()
    assert [files.corpus.text(row) for row in rows] == religion.findings["original"].tolist()
    assert not religion.findings.duplicated("text").any()


@pytest.mark.parametrize(
    ("attribute", "rules"),
    [
        ("religion", {}),
        ("nationality", {"k": 3}),  # with names of two words
        ("gender", {"swap": "all"}),
        ("gender", {"moves": "words"}),  # no stop words, numbers and signs
    ],
)
def test_every_finding_holds_one_text_at_a_time(
    files: UserFiles, religion: Audit, attribute: str, rules: dict[str, Any]
) -> None:
    findings = run(files, attribute, **rules).findings if rules else religion.findings
    assert len(findings) > 20
    files.check(findings, words_of(attribute), **rules)
    pairs = [(tokenize(old).words, tokenize(new).words) for old, new in findings[["text", "witness"]].to_numpy()]
    most = max((Counter(new) - Counter(old)).total() for old, new in pairs)
    assert most > 1 or not rules.keys() & {"swap", "k"}  # several mentions, or a name of two words


def test_the_same_seed_gives_the_same_bytes_however_it_is_chunked(
    religion: Audit, files: UserFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenhand.search.recorder.FLUSH_SECONDS", 0.0)
    monkeypatch.setattr("evenhand.runs.findings.PART", 7)
    assert file_of(run(files, "religion", chunk_rows=5)) == file_of(religion)
    assert file_of(run(files, "religion", seed=1)) != file_of(religion)


def test_the_configuration_in_the_summary_repeats_the_audit(religion: Audit) -> None:
    config = dict(religion.summary["config"])
    assert file_of(audit(config.pop("dataset"), config.pop("protected"), **config)) == file_of(religion)


def test_limits(files: UserFiles) -> None:
    few = run(files, "religion", max_findings=5)
    assert (len(few.findings), few.summary["search"]["stopped"]) == (5, "max-findings")
    short = run(files, "religion", max_rows=200)
    assert short.summary["search"]["model_rows"] <= 200
    assert short.summary["search"]["stopped"] == "max-rows"
    assert run(files, "religion", max_seconds=1e-9).summary["search"]["stopped"] == "max-seconds"
    assert run(files, "religion", seeds=3).summary["search"]["seeds"] == 3


def test_control_c_keeps_what_was_found(files: UserFiles, tmp_path: Path) -> None:
    def interrupt(progress: Any) -> None:
        if progress.phase == "local" and progress.done == 2:
            signal.raise_signal(signal.SIGINT)

    audit = run(files, "religion", out=tmp_path, on_progress=interrupt, steps=1_000_000)
    assert audit.summary["search"]["stopped"] == "interrupted"
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    assert len(audit.findings) == audit.summary["search"]["findings"]["total"] > 0
    files.check(audit.findings, words_of("religion"))


def test_limits_to_the_changes(religion: Audit, files: UserFiles) -> None:
    assert religion.findings["l0"].max() > 1
    assert run(files, "religion", max_changes=1).findings["l0"].max() == 1
    found = run(files, "religion", local_changes=1, steps=30).findings
    starts = found[found["phase"] == "global"].set_index("seed_row")["l0"]
    local = found[found["phase"] == "local"]
    beyond = local["l0"].to_numpy() - starts.loc[local["seed_row"]].to_numpy()
    assert beyond.max() == 1


class BagOfWords:
    """A sentence encoder that anybody can check: how often each word stands in a text."""

    name, dimensions = "bag", len({*"abcdefghijklmnopqrstuvwxyz"})

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        return np.array(
            [[text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts], "f4"
        )


def similarity(row: Any) -> float:
    a, b = BagOfWords().encode([row.original, row.text]).astype(np.float64)
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def test_similarity_is_measured_and_can_be_asked_for(files: UserFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenhand.runs.text_subject.load_encoder", lambda name, on_progress: BagOfWords())
    every = run(files, "religion", encoder="use")
    measured = every.findings.assign(by_hand=[similarity(row) for row in every.findings.itertuples()])
    first = measured[measured["phase"] == "global"]
    assert np.allclose(first["similarity"], first["by_hand"], atol=1e-5)
    means = every.summary["validity"]
    for phase in ("global", "local"):
        of = measured[measured["phase"] == phase]
        assert means[phase]["similarity"] == pytest.approx(of["by_hand"].mean(), abs=1e-3)
        assert means[phase]["similarity_of"] == len(of)
    least = float(measured["by_hand"].median()) + 1e-6
    kept = run(files, "religion", encoder="use", min_similarity=least)
    wanted = measured[measured["by_hand"] >= least]
    assert kept.findings["text"].tolist() == wanted["text"].tolist()
    assert np.allclose(kept.findings["similarity"], wanted["by_hand"], atol=1e-5)
    assert kept.summary["search"]["ruled_out"] == len(measured) - len(wanted) > 0
    assert f"{len(wanted):,} findings" in repr(kept)


def test_the_rate_among_texts_as_they_are(religion: Audit, files: UserFiles) -> None:
    words, corpus = words_of("religion"), files.corpus
    for name, train in (("train", True), ("held_out", False)):
        seen: dict[tuple[str, ...], bool] = {}
        mentioning = 0
        for row in np.flatnonzero(corpus.train == train):
            tokens = tokenize(corpus.text(int(row)))
            mentions = [mention for mention in words.mentions(tokens) if mention.end <= MOST_WORDS]
            mentioning += bool(words.mentions(tokens))
            if mentions:
                terms = {place for mention in mentions for place in range(mention.start, mention.end)}
                rest = tuple("" if place in terms else word for place, word in enumerate(tokens.words))
                others = [" ".join(of) for _, _, of in swapped(tokens, mentions, words, "one")]
                labels = {plain_label(files.network, files.vectors, text) for text in [tokens.text, *others]}
                seen.setdefault(rest, len(labels) > 1)
        rate = religion.summary["data_rate"][name]
        assert (rate["discriminatory"], rate["samples"]) == (sum(seen.values()), len(seen))
        hits, rest_of = rate["discriminatory"], rate["samples"] - rate["discriminatory"]
        low = beta.ppf(0.025, hits, rest_of + 1) if hits else 0.0
        assert rate["interval"] == pytest.approx([low, beta.ppf(0.975, hits + 1, rest_of) if rest_of else 1.0])
        assert rate["population"] == f"{'training' if train else 'held-out'} texts of my that mention religion"
        assert religion.summary["texts"]["mentioning"][name] == mentioning


def test_report_and_reading_back(religion: Audit, tmp_path: Path) -> None:
    loaded = Audit.load(religion.folder)
    assert loaded is not None
    assert loaded.summary == religion.summary
    page = loaded.report(tmp_path / "again.html").read_text()
    assert page == (religion.folder / "report.html").read_text()
    assert "my.csv" in page
    assert religion.summary["examples"][0]["values"][0] in page
    assert repr(loaded).startswith("<evenhand audit: my, exchanging words of religion: ")
    (tmp_path / "summary.json").write_text('{"kind": "audit", "domain": "text"}')
    with pytest.raises(EvenhandError, match="does not hold an audit"):
        Audit.load(tmp_path)
    with pytest.raises(EvenhandError, match="Cannot read"):
        Audit.load(tmp_path / "nowhere")


def test_a_corpus_in_memory_and_a_folder_that_goes_away(files: UserFiles, religion: Audit) -> None:
    options = {name: files.options[name] for name in ("vectors", "model", "encoder")}
    found = audit(files.corpus, ["religion"], **options, **QUICK)
    assert file_of(found) == file_of(religion)
    folder = found.folder
    del found
    gc.collect()
    assert not folder.exists()


def test_no_findings_is_a_result(files: UserFiles, tmp_path: Path) -> None:
    network, description = load_recurrent(files.folder / "net")
    with torch.no_grad():
        network.head.weight.zero_()
    save_recurrent(network, description, tmp_path / "net")
    audit = run(files, "religion", model=str(tmp_path / "net.json"))
    assert audit.summary["search"]["findings"]["total"] == len(audit.findings) == 0
    assert list(audit.findings.columns) == COLUMNS
    assert audit.summary["examples"] == []
    assert (audit.folder / "report.html").is_file()


def test_a_failed_audit_leaves_nothing_half_written(
    files: UserFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = run(files, "religion", out=tmp_path / "old")
    new = run(files, "gender", out=old.folder)
    assert sorted(path.name for path in old.folder.iterdir()) == FILES
    assert json.loads((old.folder / "summary.json").read_text())["protected"] == ["gender"]
    before = {path.name: path.read_bytes() for path in new.folder.iterdir()}

    def fail(*arguments: object) -> None:
        raise RuntimeError("broken")

    def fails(out: Path) -> None:
        with pytest.raises(RuntimeError, match="broken"):
            run(files, "religion", out=out)

    with monkeypatch.context() as patch:
        patch.setattr("evenhand.search.two_phase.TwoPhase.local_phase", fail)
        fails(old.folder)
        assert {path.name: path.read_bytes() for path in old.folder.iterdir()} == before
    monkeypatch.setattr("evenhand.runs.audit.example_pairs", fail)
    fails(old.folder)
    fails(tmp_path / "new")
    assert [path.name for path in old.folder.iterdir()] == ["findings.parquet"]  # no old summary beside new findings
    assert not (tmp_path / "new").exists()


def test_how_rows_arrive_leaves_no_trace_in_the_file(tmp_path: Path) -> None:
    """Long texts fill several pages of a row group; their bounds must not follow the parts that came."""
    words = np.random.default_rng(0).integers(0, 5000, (4000, 80))
    table = pa.table({"text": [" ".join(map(str, row)) for row in words.tolist()]})
    for size in (4000, 77):
        file = RowGroups(tmp_path / str(size), table.schema)
        for start in range(0, len(table), size):
            file.add(table.slice(start, size))
        file.close(complete=True)
    assert (tmp_path / "77").read_bytes() == (tmp_path / "4000").read_bytes()
