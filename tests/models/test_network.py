"""Networks: files, training, and what ships with the package."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from evenhand.data.dataset import Dataset, builtin_names, load_dataset
from evenhand.errors import EvenhandError
from evenhand.files import read_json, write_json
from evenhand.models.devices import choose_device
from evenhand.models.loading import BUILTIN, load_module
from evenhand.models.network import load_network, save_network
from evenhand.models.training import Epoch, TrainingConfig, accuracy, train
from tests.worlds.schemas import dataset_of, network_of, schema_of


def test_a_network_survives_its_files(tmp_path: Path) -> None:
    network = network_of(4, 3, seed=1)
    save_network(network, {"dataset": "world"}, tmp_path / "net")
    loaded, description = load_network(tmp_path / "net")
    x = torch.rand(10, 4)
    assert torch.equal(loaded(x), network(x))
    assert description["dataset"] == "world"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.json", "net.safetensors"]


@pytest.mark.parametrize("name", ["my.v1", "my.v1.safetensors", "my.v1.json"])
def test_dots_are_part_of_a_networks_name(tmp_path: Path, name: str) -> None:
    save_network(network_of(4, 3, seed=1), {}, tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my.v1.json", "my.v1.safetensors"]
    assert load_network(tmp_path / name)[0].widths == (4, 16, 8, 3)
    with pytest.raises(EvenhandError, match="is not a name"):
        load_network(Path())


@pytest.mark.parametrize("widths", [None, 3, [4], ["4", "2"], [4, 2.0], [4, 0, 2], [4, True]])
def test_a_description_needs_widths(tmp_path: Path, widths: object) -> None:
    save_network(network_of(4, 2, seed=1), {}, tmp_path / "net")
    description = read_json(tmp_path / "net.json")
    write_json(tmp_path / "net.json", description | {"widths": widths})
    with pytest.raises(EvenhandError, match=r"net\.json does not describe a network: its widths are"):
        load_network(tmp_path / "net")
    del description["widths"]
    write_json(tmp_path / "net.json", description)
    with pytest.raises(EvenhandError, match="its widths are null"):
        load_network(tmp_path / "net")


def test_broken_network_files(tmp_path: Path) -> None:
    path = tmp_path / "net"
    save_network(network_of(4, 2, seed=1), {}, path)
    weights = path.with_suffix(".safetensors")
    weights.write_bytes(weights.read_bytes()[:-20])
    with pytest.raises(EvenhandError, match="Cannot read the weights"):
        load_network(path)
    write_json(path.with_suffix(".json"), read_json(path.with_suffix(".json")) | {"format": "pickle"})
    with pytest.raises(EvenhandError, match="does not describe a network"):
        load_network(path)


@pytest.mark.parametrize("name", builtin_names())
def test_shipped_networks_are_what_their_description_says(name: str) -> None:
    data = load_dataset(name)
    network, description = load_network(BUILTIN / name)
    assert description["attributes"] == data.schema.names
    assert description["widths"] == [len(data.schema.names), 64, 32, 16, 8, 4, 2]
    assert description["made_by"] == f"evenhand train {name} --seed {description['training']['seed']}"
    assert accuracy(network, data, held_out=False) == pytest.approx(description["accuracy"]["train"], abs=1e-3)
    assert accuracy(network, data, held_out=True) == pytest.approx(description["accuracy"]["held_out"], abs=1e-3)
    assert description["accuracy"]["held_out"] > description["accuracy"]["held_out_majority_class"]


def test_training_learns_and_is_repeatable(census: Dataset) -> None:
    rows = np.arange(3000)
    part = replace(census, codes=census.codes[rows], labels=census.labels[rows], train=rows < 2500)
    epochs: list[Epoch] = []
    network, description = train(part, TrainingConfig(epochs=4, seed=3), on_epoch=epochs.append)
    assert len([epoch for epoch in epochs if epoch.validation_loss is not None]) == 4
    assert description["accuracy"]["train"] > 0.75
    before = torch.random.get_rng_state()
    again, _ = train(part, TrainingConfig(epochs=4, seed=3))
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), again.parameters(), strict=True))


def test_training_without_held_out_rows() -> None:
    data = dataset_of(schema_of([(0, 3)] * 3), rows=30, seed=0)
    everything = replace(data, train=np.ones(30, dtype=bool))
    _, description = train(everything, TrainingConfig(epochs=1))
    assert description["accuracy"]["held_out"] is None
    assert description["accuracy"]["held_out_majority_class"] is None
    _, description = train(data, TrainingConfig(epochs=1))
    commonest = max(np.mean(data.labels[~data.train] == label) for label in (0, 1))
    assert description["accuracy"]["held_out_majority_class"] == pytest.approx(commonest, abs=1e-4)
    with pytest.raises(EvenhandError, match="needs two training rows"):
        train(replace(data, train=np.arange(30) < 1), TrainingConfig(epochs=1))


def test_the_description_names_the_command_that_makes_it_again() -> None:
    data = dataset_of(schema_of([(0, 3)] * 3), rows=30, seed=0)
    _, description = train(data, TrainingConfig(epochs=1, patience=2, seed=5), data_argument="my data/loans.toml")
    assert description["made_by"] == "evenhand train 'my data/loans.toml' --seed 5 --epochs 1 --patience 2"
    _, description = train(data, TrainingConfig(epochs=1))
    assert description["made_by"] == "evenhand train world --seed 0 --epochs 1"


def test_training_stops_early_on_labels_that_cannot_be_learned() -> None:
    data = dataset_of(schema_of([(0, 3)] * 4), rows=400, seed=0)
    epochs: list[Epoch] = []
    train(data, TrainingConfig(epochs=200, patience=3), on_epoch=epochs.append)
    ends = [epoch for epoch in epochs if epoch.validation_loss is not None]
    assert len(ends) < 100
    assert not any(epoch.best for epoch in ends[-3:])


def test_loading_models(census: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_models.py").write_text(
        "import torch\ndef load(): return torch.nn.Linear(13, 2)\ndef wrong(): return 3\n"
        "ready = torch.nn.Linear(13, 1)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert isinstance(load_module(census, "my_models:load")[0], torch.nn.Linear)
    assert isinstance(load_module(census, "my_models:ready")[0], torch.nn.Linear)
    assert load_module(census, str(BUILTIN / "census.safetensors"))[0] is not None
    for model, message in [
        ("my_models:wrong", "is of the type int, which is no model"),
        ("my_models:absent", "no function 'absent'"),
        ("no_such_module:load", "Cannot import"),
        ("nothing", "is not a model"),
        ("absent.safetensors", "There is no file"),
        (str(BUILTIN / "bank.safetensors"), "its attributes are age, job"),
    ]:
        with pytest.raises(EvenhandError, match=message):
            load_module(census, model)
    with pytest.raises(EvenhandError, match=r"no built-in network for 'world'.*evenhand train SCHEMA\.toml"):
        load_module(dataset_of(schema_of([(0, 1)] * 3), 5, 0), None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("def load(:", "it raised SyntaxError: "),
        ("load = undefined", "it raised NameError: name 'undefined' is not defined"),
        ("import os\nos.no_such_name", "it raised AttributeError: module 'os' has no attribute 'no_such_name'"),
        ("raise SystemExit(2)", "it raised SystemExit: 2"),
        ("import no_such_library", "No module named 'no_such_library'"),
    ],
)
def test_errors_inside_the_users_module(
    census: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, message: str
) -> None:
    (tmp_path / "faulty_models.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EvenhandError, match=f"Cannot import 'faulty_models': {message}"):
        load_module(census, "faulty_models:load")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attributes": None}, "its attributes are not given, but those of world are a0, a1"),
        ({"attributes": ["a0", "x"]}, "its attributes are a0, x"),
        ({"classes": ["class 1", "class 0"]}, "its classes are class 1, class 0, but those of world are class 0"),
        ({"classes": None}, "its classes are not given"),
    ],
)
def test_a_network_must_be_for_the_data(tmp_path: Path, change: dict[str, object], message: str) -> None:
    data = dataset_of(schema_of([(0, 1)] * 2), rows=5, seed=0)
    fitting = {"attributes": ["a0", "a1"], "classes": ["class 0", "class 1"]}
    save_network(network_of(2, 2, seed=0), fitting, tmp_path / "net.v1")
    load_module(data, str(tmp_path / "net.v1.safetensors"))
    save_network(network_of(2, 2, seed=0), fitting | change, tmp_path / "net.v1")
    with pytest.raises(EvenhandError, match=message):
        load_module(data, str(tmp_path / "net.v1.safetensors"))


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [str(choose_device(name)) for name in ("auto", "cpu", "cuda", "cuda:1")] == ["cuda", "cpu", "cuda", "cuda:1"]
    with pytest.raises(EvenhandError, match="There is no device 'cuda:2': this machine has cuda:0 to cuda:1"):
        choose_device("cuda:2")
    for name in ("meta", "mps", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "gpu", ""):
        with pytest.raises(EvenhandError, match=f"'{name}' is not a device. Use auto, cpu, cuda"):
            choose_device(name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto").type == "cpu"
    for name in ("cuda", "cuda:0"):
        with pytest.raises(EvenhandError, match="no CUDA device"):
            choose_device(name)
