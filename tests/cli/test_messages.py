"""What the command line says in its help, and to those who gave it something it cannot use."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import save_file
from typer.main import get_command

from evenhand.cli.help_text import joined_lines
from evenhand.cli.main import app
from evenhand.data.dataset import Dataset, load_dataset
from evenhand.errors import EvenhandError
from evenhand.models.loading import load_module
from evenhand.report.sentences import progress_text
from evenhand.runs.audit import audit
from evenhand.search.search import Progress
from tests.worlds.doc_blocks import evenhand


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    yield name, command
    for inner, each in getattr(command, "commands", {}).items():
        yield from commands(each, f"{name} {inner}")


def test_paragraphs_of_help_are_one_line_each() -> None:
    text = "First,\nsecond.\n\nExamples:\n  one\n  two\n\n  three\nfour\nfive"
    assert joined_lines(text) == "First, second.\n\nExamples:\n  one\n  two\n\n  three\nfour five"
    for name, command in commands(get_command(app), "evenhand"):
        assert joined_lines(command.help or "") == (command.help or ""), name


def test_the_option_version_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert evenhand(["--help"]) == 0
    assert "Say which version this is." in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--by", ""], "There is no repair called ''"),
        (["--confidence", "95"], "The setting 'confidence' is 95.0: it lies above 0 and below 1: write 0.95 for 95 %."),
        (["--confidence", "1"], "The setting 'confidence' is 1.0: it lies above 0 and below 1: write 0.95 for 95 %."),
        (["--confidence", "99.5"], "write 0.995 for 99.5 %."),
    ],
)
def test_settings_that_no_repair_can_have(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evenhand(["repair", "census", "-p", "sex", "--out", str(tmp_path / "out"), *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("left", "words"), [(75.0, ", 1 min 15 s left"), (54_146_883.0, ""), (86_400.0, ", 24 h 0 min left")]
)
def test_progress_makes_no_silly_estimates(left: float, words: str) -> None:
    line = progress_text("census/sex", Progress("local", 10, 1, 2000, 0, 3.0, left))
    assert line == f"census/sex  10 walks, local steps 1/2,000, 0 findings{words}"
    assert "left" not in progress_text("census/sex", Progress("local", 10, 2000, 2000, 0, 3.0, 0.0))


def test_a_setting_that_there_is_none_of() -> None:
    with pytest.raises(EvenhandError, match=r"^There is no setting called 'max_second'; did you mean 'max_seconds'\?$"):
        audit("census", "sex", max_second=3)
    with pytest.raises(EvenhandError, match=r"^The setting 'max-seconds' is -1: it must be greater than 0\.$"):
        audit("census", "sex", max_seconds=-1)


@pytest.mark.parametrize("command", ["audit", "repair", "model"])
def test_weights_without_their_description(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_file({}, tmp_path / "only.safetensors")
    assert evenhand([command, "census", "--model", str(tmp_path / "only.safetensors")]) == 2
    said = capsys.readouterr().err
    assert "only.safetensors holds weights only. Their description, only.json, belongs beside them" in said


@pytest.fixture(scope="module")
def census() -> Dataset:
    return load_dataset("census")


@pytest.mark.parametrize(
    ("name", "extra", "remedy"),
    [
        ("fake.skops", "skops", "Save the model again with skops.io.dump(model, 'NAME.skops')."),
        ("fake.onnx", "onnxruntime", "Export the model to ONNX again"),
        ("fake.keras", "keras", "model.save('NAME.keras')"),
        ("fake.pt", "torch", "torch.jit.script(model.eval()).save('net.pt')"),
        ("fake.pt2", "torch", "torch.export.save(…, 'net.pt2')"),
    ],
)
@pytest.mark.parametrize(
    "content", [b"no model", b"\x80\x04.", b"PK\x03\x04 no archive"], ids=["text", "pickle", "zip"]
)
def test_files_that_hold_no_model_say_how_to_save_one(
    census: Dataset, tmp_path: Path, name: str, extra: str, remedy: str, content: bytes
) -> None:
    if extra != "keras":  # a .keras file is looked into without Keras
        pytest.importorskip(extra)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(EvenhandError) as refused:
        load_module(census, tmp_path / name)
    assert remedy in str(refused.value)
