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
from evenhand.models.text.transformer import load_transformer, match_labels
from tests.worlds.tiny_transformer import CLASSES, transformers


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
    tiny_folders: dict[str, Path], tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_folders["wordpiece"], folder)
    spoil(folder)
    with pytest.raises(EvenhandError, match=message):
        load_transformer(folder)


def test_without_transformers_the_extra_is_named(
    tiny_folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(EvenhandError, match=r'pip install "evenhand\[text\]"'):
        load_transformer(tiny_folders["wordpiece"])


def test_loading_is_quiet_and_asks_nobody(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *host: asked.append(host))
    monkeypatch.setattr(socket.socket, "connect", lambda self, address: asked.append(address))
    named = tmp_path / "model"
    shutil.copytree(tiny_folder, named)
    _update("config.json", _name_or_path="somebody/something", attn_implementation="somebody/kernel")(named)
    logging = transformers.utils.logging
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    module, _ = load_transformer(named)
    assert module.config._attn_implementation == "eager"
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
    assert asked == []
    assert capfd.readouterr() == ("", "")


def test_weights_in_half_precision_are_read_in_float32(tiny_folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(tiny_folders["wordpiece"], tmp_path, dirs_exist_ok=True)
    load_transformer(tmp_path)[0].half().save_pretrained(tmp_path)
    module, _ = load_transformer(tmp_path)
    assert {parameter.dtype for parameter in module.parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("labels", "classes", "names", "order"),
    [
        (["LABEL_0", "LABEL_1"], CLASSES, ["LABEL_0", "LABEL_1"], [0, 1]),
        (["Toxic", "NOT_TOXIC"], CLASSES, ["NOT_TOXIC", "Toxic"], [1, 0]),
        (["toxic", "neutral"], CLASSES, ["neutral", "toxic"], [1, 0]),
        (["toxic"], CLASSES, ["not toxic", "toxic"], [0, 1]),
        (["LABEL_0"], CLASSES, ["not LABEL_0", "LABEL_0"], [0, 1]),
        (["fine"], ["fine", "bad"], ["fine", "not fine"], [1, 0]),
        (["!", "?"], [":)", ":("], ["!", "?"], [0, 1]),
        (["c", "a", "b"], ["a", "b", "c"], ["a", "b", "c"], [1, 2, 0]),
    ],
)
def test_labels_are_matched_by_name_then_by_place(
    labels: list[str], classes: list[str], names: list[str], order: list[int]
) -> None:
    config = transformers.BertConfig(id2label=dict(enumerate(labels)))
    assert match_labels(config, classes) == (names, order)


@pytest.mark.parametrize(
    ("settings", "classes", "message"),
    [
        ({"num_labels": 3}, CLASSES, r"3 labels \(LABEL_0, LABEL_1, LABEL_2\).* 2 classes: not toxic, toxic"),
        ({"num_labels": 1}, ["a", "b", "c"], r"1 labels \(LABEL_0\).* 3 classes: a, b, c"),
        ({"num_labels": 1, "problem_type": "regression"}, CLASSES, "is for regression"),
        ({"num_labels": 2, "problem_type": "multi_label_classification"}, CLASSES, "is for multi-label-classification"),
    ],
)
def test_labels_that_do_not_fit_are_refused(settings: dict[str, Any], classes: list[str], message: str) -> None:
    with pytest.raises(EvenhandError, match=message):
        match_labels(transformers.BertConfig(**settings), classes)
