"""A run's process: it does what the Python functions do, says how far it is, and keeps to its limits."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evenhand
from evenhand.data.dataset import load_dataset
from evenhand.errors import EvenhandError
from evenhand.models.network import save_network
from evenhand.search.search import Progress
from evenhand.service.execute import Lines, do_job, in_words
from evenhand.service.jobs import Job
from evenhand.service.telling import MOST_PAIRS, MOST_POINTS, ProgressTeller
from tests.worlds.schemas import network_of


class Heard(list[dict[str, Any]]):
    """Events, as the worker would hear them."""

    def __call__(self, event: str, **data: Any) -> None:
        self.append(json.loads(json.dumps({"event": event, **data})))

    def of(self, event: str) -> list[dict[str, Any]]:
        return [heard for heard in self if heard["event"] == event]


@pytest.fixture
def doing(tmp_path: Path, schema_file: Path) -> Callable[..., tuple[Heard, Path]]:
    """Does a job in this process: on the test's own people, or on a built-in data set."""

    def do(kind: str, config: dict[str, Any], model: Path | None = None, **more: Any) -> tuple[Heard, Path]:
        folder, own = tmp_path / "attempt", config.get("dataset") != "census"
        folder.mkdir(exist_ok=True)
        heard = Heard()
        do_job(
            Job(
                str(folder),
                kind,
                {"dataset": "0" * 32, **config},
                str(schema_file.with_name("people.csv")) if own else None,
                schema_file.read_text().replace("people.csv", "/etc/passwd") if own else None,
                None if model is None else str(model),
                memory=8 << 30,
                seconds=3600.0,
                lease=60.0,
                **more,
            ),
            heard,
        )
        return heard, folder

    return do


@pytest.fixture
def own_model(tmp_path: Path, schema_file: Path) -> Path:
    """A network for the test's own people, where the service would keep it."""
    schema = load_dataset(str(schema_file)).schema
    description = {"attributes": schema.names, "classes": schema.label.values}
    (tmp_path / "models").mkdir()
    save_network(network_of(3, 2, seed=1), description, tmp_path / "models" / "model")
    return tmp_path / "models" / "model.safetensors"


POOR = {"accept_poor_model": True}  # the test's own network was never trained


def test_an_audit_equals_that_of_the_function(doing: Callable[..., tuple[Heard, Path]], tmp_path: Path) -> None:
    settings: dict[str, Any] = {"seeds": 10, "steps": 20, "seed": 2}
    heard, folder = doing("audit", {"dataset": "census", "protected": ["sex", "race"], **settings})
    alone = evenhand.audit("census", "sex,race", out=tmp_path / "alone", **settings)
    assert (folder / "findings.parquet").read_bytes() == (alone.folder / "findings.parquet").read_bytes()
    assert heard[-1]["event"] == "done"
    result = heard[-1]["result"]
    assert result["findings"] == alone.summary["search"]["findings"]["total"]
    assert result["files"] == {path.name: path.stat().st_size for path in folder.iterdir()}
    assert {progress["phase"] for progress in heard.of("progress")} >= {"data", "global", "local", "index"}


def test_first_pairs_are_findings_in_words(doing: Callable[..., tuple[Heard, Path]]) -> None:
    heard, _ = doing("audit", {"dataset": "census", "protected": ["sex"], "seeds": 10, "steps": 20})
    pairs = heard.of("pair")
    assert [pair["number"] for pair in pairs] == list(range(1, len(pairs) + 1))
    assert pairs
    for pair in pairs:
        sample, witness = pair["sides"]
        assert {sample["protected"][0][0], witness["protected"][0][0]} == {"female", "male"}
        assert sample["label"] != witness["label"]
        assert "hours a week" in pair["description"]


def test_pairs_that_were_told_before_are_not_told_again(doing: Callable[..., tuple[Heard, Path]]) -> None:
    """Nor are there more than there would have been."""
    config = {"dataset": "census", "protected": ["sex"], "seeds": 10, "steps": 20}
    pairs = doing("audit", config)[0].of("pair")
    told = pairs[:3]
    again = doing("audit", config, told=told)[0].of("pair")
    assert not {pair["description"] for pair in told} & {pair["description"] for pair in again}
    assert [pair["number"] for pair in told + again] == list(range(1, len(told + again) + 1))
    assert len(told + again) <= MOST_PAIRS


def test_an_audit_goes_on_from_its_checkpoint(
    doing: Callable[..., tuple[Heard, Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is done keeps it: its worker may be killed before the result is where it belongs."""
    monkeypatch.setenv("EVENHAND_CHECKPOINT_SECONDS", "0")
    config = {"dataset": "census", "protected": ["sex"], "seeds": 10, "steps": 20}
    first, folder = doing("audit", config, checkpoint=str(tmp_path / "attempt" / "checkpoint"))
    findings = (folder / "findings.parquet").read_bytes()
    second, _ = doing("audit", config, checkpoint=str(tmp_path / "attempt" / "checkpoint"))
    assert (folder / "findings.parquet").read_bytes() == findings
    (resumed,) = second.of("resumed")
    assert (resumed["step"], resumed["total"]) == (19, 20)
    assert 0 < resumed["findings"] == max(progress.get("saved", 0) for progress in first.of("progress"))
    assert "checkpoint" not in second[-1]["result"]["files"]


def test_a_checkpoint_that_cannot_be_used_is_spoken_of(
    doing: Callable[..., tuple[Heard, Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENHAND_CHECKPOINT_SECONDS", "0")
    config = {"dataset": "census", "protected": ["sex"], "seeds": 10, "steps": 5}
    doing("audit", config, checkpoint=str(tmp_path / "checkpoint"))
    heard, _ = doing("audit", config | {"seed": 1}, checkpoint=str(tmp_path / "checkpoint"))
    assert "starts from the beginning" in heard.of("note")[0]["text"]
    assert not heard.of("resumed")
    assert heard[-1]["event"] == "done"


@pytest.mark.parametrize("words", ["often", "-1", "nan"])
def test_an_interval_that_is_none_fails_in_words(
    doing: Callable[..., tuple[Heard, Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setenv("EVENHAND_CHECKPOINT_SECONDS", words)
    heard, _ = doing("audit", {"dataset": "census", "protected": ["sex"]}, checkpoint=str(tmp_path / "checkpoint"))
    assert heard[-1]["event"] == "failed"
    assert f"'{words}'" in heard[-1]["error"]


def test_own_data_and_model_and_no_word_of_where_they_are(
    doing: Callable[..., tuple[Heard, Path]], own_model: Path, tmp_path: Path
) -> None:
    """The schema names another file; the uploaded table is read all the same."""
    heard, folder = doing("audit", {"seeds": 5, "steps": 5} | POOR, own_model)
    assert heard[-1]["event"] == "done", heard[-1]
    assert heard[-1]["result"]["model"] == "model.safetensors"
    assert heard[-1]["result"]["data"]["rows"] == 40
    for path in (folder / "summary.json", folder / "report.html"):
        assert str(tmp_path) not in path.read_text()


def test_a_measurement(doing: Callable[..., tuple[Heard, Path]], own_model: Path) -> None:
    heard, folder = doing("measure", {"half_width": 0.05} | POOR, own_model)
    assert heard[-1]["event"] == "done", heard[-1]
    assert {path.name for path in folder.iterdir()} == {"summary.json"}
    assert heard[-1]["result"]["rates"][0]["changed"] == ["sex"]


def test_a_repair_leaves_the_model_in_the_folder(doing: Callable[..., tuple[Heard, Path]], own_model: Path) -> None:
    config = {"by": ["blind"], "repeats": 1, "epochs": 1, "seeds": 5, "steps": 5, "half_width": 0.05}
    heard, folder = doing("repair", config | POOR, own_model)
    assert heard[-1]["event"] == "done", heard[-1]
    assert {path.name for path in folder.iterdir()} == {
        "model.json",
        "model.safetensors",
        "report.html",
        "summary.json",
    }
    assert heard[-1]["result"]["chosen"] == "blind"
    assert heard.of("progress")


def test_a_repair_that_asks_the_old_model_brings_it_along(
    doing: Callable[..., tuple[Heard, Path]], own_model: Path, schema_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sklearn.linear_model import LogisticRegression
    from skops.io import dump

    data = load_dataset(str(schema_file))
    estimator = LogisticRegression().fit(data.clipped, data.labels)
    model = own_model.with_name("model.skops")
    own_model.unlink()
    dump(estimator, model)
    config = {"by": ["average"], "seeds": 5, "steps": 5, "half_width": 0.05, "inputs": "codes"}
    heard, folder = doing("repair", config | POOR, model)
    assert heard[-1]["event"] == "done", heard[-1]
    assert json.loads((folder / "model.json").read_text())["inner"] == "model.inner.skops"
    assert (folder / "model.inner.skops").read_bytes() == model.read_bytes()
    monkeypatch.chdir(folder)
    again = evenhand.audit(str(schema_file), "sex", model="model.safetensors", seeds=5, steps=5, accept_poor_model=True)
    assert again.summary["search"]["findings"]["total"] == 0


def test_a_mistake_fails_in_words(doing: Callable[..., tuple[Heard, Path]], own_model: Path) -> None:
    heard, _ = doing("audit", {"protected": ["hair"]}, own_model)
    assert heard[-1]["event"] == "failed"
    assert "There is no attribute of people called 'hair'" in heard[-1]["error"]


def test_words_for_errors_do_not_tell_where_files_are(tmp_path: Path) -> None:
    job = Job("/home/a/attempt", "audit", {}, "/home/d/table.csv", None, "/home/m/model.onnx", 3 << 29, 1.0, 1.0)
    assert in_words(EvenhandError("Cannot read /home/m/model.onnx"), job) == "Cannot read model.onnx"
    assert "1.5 GiB" in in_words(MemoryError(), job)
    assert "1.5 GiB" in in_words(RuntimeError("DefaultCPUAllocator: can't allocate memory"), job)


def test_lines_come_in_time_or_not_at_all() -> None:
    read, write = os.pipe()
    lines = Lines(read)
    os.write(write, b"first\nsec")
    assert lines.next(10.0) == "first"
    assert lines.next(0.01) == ""
    os.write(write, b"ond\n")
    assert lines.next(None) == "second"
    os.close(write)
    assert lines.next(None) == ""
    os.close(read)


def test_the_growing_curve_stays_short(monkeypatch: pytest.MonkeyPatch) -> None:
    heard, clock = Heard(), iter(range(10_000))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    tell = ProgressTeller(heard).search
    for second in range(1, 2000):
        tell(Progress("local", 10, second, 2000, second * 7, float(second), 1.0))
    points = heard[-1]["growth"]
    assert MOST_POINTS / 4 < len(points) <= MOST_POINTS
    assert points == sorted(points)
    assert all(findings == seconds * 7 for seconds, findings in points)
    assert points[-1][0] > 1800


def _asked(code: str) -> str:
    """What a fresh process says."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_network_is_cut_off() -> None:
    """Where the system lets us; if it does not, the function says so."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        said = _asked(
            "import socket\n"
            "from evenhand.service.limits import leave_network\n"
            "why = leave_network()\n"
            "try:\n"
            f"    socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5).close(); reached = True\n"
            "except OSError:\n"
            "    reached = False\n"
            "print(why is None, reached)\n"
        )
    assert said in ("True False", "False True")


def test_memory_above_the_limit_is_refused() -> None:
    said = _asked(
        "from evenhand.service.limits import limit_memory\n"
        "assert limit_memory(200 << 20) is None\n"
        "kept = bytearray(100 << 20)\n"
        "try:\n"
        "    bytearray(200 << 20)\n"
        "except MemoryError:\n"
        "    print('refused')\n"
    )
    assert said == "refused"
