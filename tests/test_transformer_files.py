import json
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from evenhand.errors import EvenhandError
from evenhand.models.transformer_files import load_transformer
from tests.tiny_transformer import (
    Kind,
    save_tiny,
    transformers,
)

KINDS: tuple[Kind, ...] = ("wordpiece", "byte-level")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: save_tiny(tmp_path_factory.mktemp(kind), kind) for kind in KINDS}


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, folders: dict[str, Path]) -> Path:
    return folders[request.param]


def _remove(*names: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return spoil


def _write(name: str, content: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / name).write_text(content)

    return spoil


def _update(name: str, **changes: Any) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(content | changes))

    return spoil


def _only_bin(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _without_head(folder: Path) -> None:
    transformers.BertModel(transformers.BertConfig.from_pretrained(folder)).save_pretrained(folder)


REMOTE = {"AutoModelForSequenceClassification": "modeling.Mine"}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (shutil.rmtree, "There is no folder"),
        (_remove("config.json"), "There is no config.json"),
        (_write("config.json", "{"), "config.json is not valid JSON"),
        (_write("config.json", "[]"), "config.json must hold a JSON object"),
        (_update("config.json", model_type="nonesuch"), "cannot be read as a sequence classifier"),
        (_update("config.json", model_type="clip_text_model"), "cannot be read as a sequence classifier"),
        (_update("config.json", auto_map=REMOTE), r"config.json names code of its own \(auto_map\)"),
        (_update("tokenizer_config.json", auto_map=REMOTE), "tokenizer_config.json names code of its own"),
        (_write("adapter_config.json", "{}"), "holds an adapter"),
        (_only_bin, r"but pytorch_model.bin, which could run code.*safe_serialization=True"),
        (_remove("model.safetensors"), r"There is no model.safetensors in [^,]*\. Save the model"),
        (_write("model.safetensors", "nonsense"), "cannot be read as a sequence classifier"),
        (_without_head, "no trained sequence classifier: its weights lack classifier.bias, classifier.weight"),
        (_remove("tokenizer.json"), "There is no tokenizer.json"),
        (_write("tokenizer.json", "{}"), "The tokenizer in .* cannot be read"),
        (_update("tokenizer_config.json", tokenizer_class="ByT5Tokenizer"), "is not a fast tokenizer"),
        (_update("tokenizer_config.json", pad_token=None), "has no padding token"),
    ],
)
def test_a_folder_that_will_not_do_is_refused(
    folders: dict[str, Path], tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(folders["wordpiece"], folder)
    spoil(folder)
    with pytest.raises(EvenhandError, match=message):
        load_transformer(folder)


def test_without_transformers_the_extra_is_named(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(EvenhandError, match=r'pip install "evenhand\[text\]"'):
        load_transformer(folders["wordpiece"])


def test_loading_is_quiet_and_asks_nobody(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *host: asked.append(host))
    monkeypatch.setattr(socket.socket, "connect", lambda self, address: asked.append(address))
    named = tmp_path / "model"
    shutil.copytree(folder, named)
    _update("config.json", _name_or_path="somebody/something", attn_implementation="somebody/kernel")(named)
    logging = transformers.utils.logging
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    module, _ = load_transformer(named)
    assert module.config._attn_implementation == "eager"
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
    assert asked == []
    assert capfd.readouterr() == ("", "")


def test_weights_in_half_precision_are_read_in_float32(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["wordpiece"], tmp_path, dirs_exist_ok=True)
    load_transformer(tmp_path)[0].half().save_pretrained(tmp_path)
    module, _ = load_transformer(tmp_path)
    assert {parameter.dtype for parameter in module.parameters()} == {torch.float32}
