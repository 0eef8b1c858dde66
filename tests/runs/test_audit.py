"""Audits from end to end, through the Python interface."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import evenhand
from evenhand.data.dataset import Dataset
from evenhand.data.decoding import Decoder
from evenhand.errors import EvenhandError
from evenhand.models.network import FeedForward
from evenhand.runs.audit import Audit
from evenhand.runs.findings import FindingsWriter, findings_file
from evenhand.search.recorder import Findings
from evenhand.search.space import TableSpace
from tests.worlds.schemas import UNTRAINED, has_witness, labels_of


@pytest.fixture(scope="module")
def sex_audit(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    return evenhand.audit("census", "sex", seeds=60, steps=60, out=tmp_path_factory.mktemp("audit"))


def codes_of(frame: pd.DataFrame, kind: str, names: list[str]) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    codes: np.ndarray[tuple[int, int], np.dtype[np.int32]] = frame[[f"{kind}.{name}" for name in names]].to_numpy()
    return codes


def test_files_and_summary_agree(sex_audit: Audit) -> None:
    assert sorted(path.name for path in sex_audit.folder.iterdir()) == [
        "findings.parquet",
        "report.html",
        "summary.json",
    ]
    summary = json.loads((sex_audit.folder / "summary.json").read_text())
    assert summary == sex_audit.summary
    search = summary["search"]
    assert search["findings"]["total"] == len(sex_audit.findings) > 100
    for phase in ("global", "local"):
        assert search["findings"][phase] == (sex_audit.findings["phase"] == phase).sum()
    assert search["success_rate"] == search["findings"]["total"] / search["generated"]["total"]
    assert search["stopped"] == "completed"
    assert summary["config"]["seeds"] == 60
    assert set(summary["seconds"]) == {"load", "model", "seeds", "data rate", "search"}


def test_every_finding_in_the_file_holds(sex_audit: Audit, census: Dataset, census_network: FeedForward) -> None:
    frame = sex_audit.findings
    samples = codes_of(frame, "sample_code", census.schema.names)
    witnesses = samples.copy()
    witnesses[:, 8] = frame["witness_code.sex"]
    values = np.array(census.schema.label.values)
    assert (values[labels_of(census_network, samples)] == frame["label"].astype(str)).all()
    assert (values[labels_of(census_network, witnesses)] == frame["witness_label"].astype(str)).all()
    assert (frame["label"].astype(str) != frame["witness_label"].astype(str)).all()
    assert all(has_witness(census_network, census.schema, [8], row) for row in samples)
    assert not frame.duplicated([f"sample_code.{name}" for name in census.schema.names if name != "sex"]).any()
    assert census.train[frame["seed_row"]].all()


def test_raw_values_in_the_file_are_those_of_the_codes(sex_audit: Audit, census: Dataset) -> None:
    found = sex_audit.findings
    codes = codes_of(found, "sample_code", census.schema.names)
    decoded = Decoder(census.schema).frame(codes)
    raw = found[[f"sample.{name}" for name in decoded.columns]].set_axis(list(decoded.columns), axis=1)
    pd.testing.assert_frame_equal(raw.astype(object), decoded.astype(object), check_dtype=False)
    assert pd.api.types.is_integer_dtype(found["sample.hours-per-week"])
    sexes = census.schema.attributes[8].categories
    assert found["witness.sex"].astype(str).tolist() == [sexes[code] for code in found["witness_code.sex"]]


def test_scores_are_of_the_samples_label(sex_audit: Audit, census: Dataset, census_network: FeedForward) -> None:
    frame = sex_audit.findings.head(200)
    x = torch.tensor(codes_of(frame, "sample_code", census.schema.names), dtype=torch.float32)
    label = torch.tensor(frame["label"].cat.codes.to_numpy(), dtype=torch.int64)
    for kind, score in (("sample_code.sex", "score"), ("witness_code.sex", "witness_score")):
        x[:, 8] = torch.tensor(frame[kind].to_numpy())
        expected = census_network(x).softmax(1).gather(1, label[:, None])[:, 0]
        assert np.allclose(expected.detach().numpy(), frame[score], atol=1e-5)


def test_the_same_file_for_any_chunk_size(sex_audit: Audit, tmp_path: Path) -> None:
    again = evenhand.audit("census", "sex", seeds=60, steps=60, out=tmp_path, chunk_rows=97)
    assert (again.folder / "findings.parquet").read_bytes() == (sex_audit.folder / "findings.parquet").read_bytes()


def test_how_findings_arrive_leaves_no_trace_in_the_file(
    census: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenhand.runs.findings.ROW_GROUP", 50)
    space = TableSpace(census.schema, ["sex"])

    def some(rows: slice) -> Findings:
        count = len(range(*rows.indices(500)))
        numbers = np.arange(rows.start, rows.stop)
        return Findings(
            sample=census.clipped[rows],
            witness=(numbers % 2).astype(np.int32)[:, None],
            label=numbers % 2,
            witness_label=1 - numbers % 2,
            score=np.full(count, 0.7, dtype=np.float32),
            witness_score=np.full(count, 0.3, dtype=np.float32),
            phase=np.zeros(count, dtype=np.int8),
            seed=numbers,
            step=numbers.astype(np.int32),
        )

    for name, size in (("one", 500), ("many", 7)):
        with findings_file(tmp_path / name, partial(FindingsWriter, space=space)) as writer:
            for start in range(0, 500, size):
                writer.write(some(slice(start, min(start + size, 500))))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "many").read_bytes()
    assert len(pd.read_parquet(tmp_path / "one")) == 500


def test_a_failed_run_leaves_no_file(census: Dataset, tmp_path: Path) -> None:
    space = TableSpace(census.schema, ["sex"])

    def fail(writer: FindingsWriter) -> None:
        raise RuntimeError("the search broke")

    file = findings_file(tmp_path / "findings", partial(FindingsWriter, space=space))
    with pytest.raises(RuntimeError, match="the search broke"), file as writer:
        fail(writer)
    assert list(tmp_path.iterdir()) == []


def test_reading_an_audit_back(sex_audit: Audit, tmp_path: Path) -> None:
    loaded = Audit.load(sex_audit.folder)
    assert loaded.summary == sex_audit.summary
    again = loaded.report(tmp_path / "again.html")
    assert again.read_text() == (sex_audit.folder / "report.html").read_text()
    with pytest.raises(EvenhandError, match="Cannot read"):
        Audit.load(tmp_path)


def test_how_an_audit_shows_itself(sex_audit: Audit) -> None:
    assert repr(sex_audit).startswith("<evenhand audit: census, changing sex: ")
    assert "<table>" in sex_audit._repr_html_()


class OnlyAge(nn.Module):
    """A model that looks at age alone: above 40 gets the good label."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0] - 4.5


class HardlySex(OnlyAge):
    """It reads the sex too, and decides by it never."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 0.001 * x[:, 8]


def test_a_users_own_module_in_a_temporary_folder(census: Dataset) -> None:
    result = evenhand.audit("census", ["age"], model=OnlyAge(), **UNTRAINED, seeds=20, steps=5)
    folder = result.folder
    assert result.summary["data_rate"]["all"]["rate"] == 1.0  # everyone flips with age
    assert result.summary["search"]["success_rate"] == 1.0
    model = result.summary["model"]
    assert (model["name"], model["output"], model["offers"]) == ("OnlyAge", "logits", ["scores", "gradients"])
    right = (OnlyAge()(torch.tensor(census.codes, dtype=torch.float32)) > 0).numpy() == (census.labels == 1)
    assert model["agreement"]["share"] == pytest.approx(right.mean())
    del result
    import gc

    gc.collect()
    assert not folder.exists()


def test_no_findings_is_a_result() -> None:
    result = evenhand.audit("census", ["sex"], model=HardlySex(), **UNTRAINED, seeds=20, steps=5)
    assert result.summary["search"]["findings"]["total"] == 0
    assert result.summary["data_rate"]["all"]["interval"][0] == 0
    assert len(result.findings) == 0
    assert "sample.age" in result.findings.columns


def test_several_classes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 6, (200, 3)), columns=["a", "b", "c"])
    table["y"] = rng.integers(0, 3, 200)
    table.to_parquet(tmp_path / "t.parquet")
    attributes = "".join(f'[[attribute]]\nname = "{name}"\nkind = "number"\ndomain = [0, 5]\n' for name in "abc")
    schema = f'name = "t"\nfile = "t.parquet"\nlabel = {{ column = "y", values = ["0", "1", "2"] }}\n{attributes}'
    (tmp_path / "t.toml").write_text(schema)
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    result = evenhand.audit(str(tmp_path / "t.toml"), ["a", "b"], model=model, **UNTRAINED, seeds=50, steps=20)
    samples = codes_of(result.findings, "sample_code", ["a", "b", "c"])
    assert len(samples) > 0
    assert all(has_witness(model, result.data.schema, [0, 1], row) for row in samples)
    assert result.findings["label"].nunique() > 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seeds": 0}, "'seeds' is 0: .*greater than or equal to 1"),
        ({"method": "adf", "settings": {"accept_failed": 2.0}}, "is a probability"),
        ({"method": "adff"}, "Did you mean 'adf'"),
        ({"settings": {"local_step": 2}}, "no setting of method margin called 'local_step'"),
        ({"max_rows": 0}, "'max-rows' is 0"),
        ({"max_seconds": -1}, "'max-seconds' is -1"),
        ({"protected": "sexx"}, "Did you mean 'sex'"),
        ({"device": "tpu9"}, "is not a device"),
        ({"output": "labels"}, "'output' is 'labels'"),
        ({"colour": 1}, "'colour'"),
        ({"model": nn.Linear(12, 2)}, "13 columns"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, object], message: str) -> None:
    with pytest.raises(EvenhandError, match=message):
        evenhand.audit("census", **({"protected": "sex"} | settings))  # type: ignore[arg-type]


def test_a_run_that_fails_leaves_no_folder_and_a_new_one_replaces_all_of_an_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Breaks(OnlyAge):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * (1 if len(x) < 5000 else float("nan"))

    with pytest.raises(EvenhandError, match="NaN"):
        evenhand.audit("census", "age", model=Breaks(), **UNTRAINED, out=tmp_path / "new", seeds=10, steps=2)
    assert not (tmp_path / "new").exists()
    old = evenhand.audit("census", "age", model=OnlyAge(), **UNTRAINED, out=tmp_path / "old", seeds=10, steps=2)
    assert (old.folder / "summary.json").exists()

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("evenhand.runs.audit.example_pairs", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evenhand.audit("census", "age", model=OnlyAge(), **UNTRAINED, out=old.folder, seeds=10, steps=3)
    assert [path.name for path in old.folder.iterdir()] == ["findings.parquet"]  # no old summary beside new findings


def test_model_rows_are_those_of_the_search() -> None:
    result = evenhand.audit("census", "sex", model=HardlySex(), **UNTRAINED, seeds=600, steps=0, iterations=1)
    # Each seed and its variant once; the rows for the rate in the data and for trying the model are not the search's.
    assert result.summary["search"]["model_rows"] == 600 * 2


def test_tried_ends_at_the_last_finding_that_was_asked_for() -> None:
    result = evenhand.audit(
        "census", "age", model=OnlyAge(), **UNTRAINED, method="adf", seeds=50, steps=50, max_findings=7
    )
    assert result.summary["search"]["tried"] == 7  # every sample is a finding
    assert result.summary["search"]["generated"]["total"] == 7
