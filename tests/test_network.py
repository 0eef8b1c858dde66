"""Networks: files, training, and what ships with the package."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from evenhand.data.dataset import Dataset, builtin_names, load_dataset
from evenhand.errors import EvenhandError
from evenhand.files import read_json, write_json
from evenhand.models.loading import BUILTIN, load_module
from evenhand.models.network import load_network, save_network
from evenhand.models.training import Epoch, TrainingConfig, accuracy, train
from tests.worlds import dataset_of, network_of, schema_of


def test_a_network_survives_its_files(tmp_path: Path) -> None:
    network = network_of(4, 3, seed=1)
    save_network(network, {"dataset": "world"}, tmp_path / "net")
    loaded, description = load_network(tmp_path / "net")
    x = torch.rand(10, 4)
    assert torch.equal(loaded(x), network(x))
    assert description["dataset"] == "world"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.json", "net.safetensors"]


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
    assert len(epochs) == 4
    assert description["accuracy"]["train"] > 0.75
    before = torch.random.get_rng_state()
    again, _ = train(part, TrainingConfig(epochs=4, seed=3))
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), again.parameters(), strict=True))


def test_training_stops_early_on_labels_that_cannot_be_learned() -> None:
    data = dataset_of(schema_of([(0, 3)] * 4), rows=400, seed=0)
    epochs: list[Epoch] = []
    train(data, TrainingConfig(epochs=200, patience=3), on_epoch=epochs.append)
    assert len(epochs) < 100
    assert not any(epoch.best for epoch in epochs[-3:])


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
        ("my_models:wrong", "returned int"),
        ("my_models:absent", "no function 'absent'"),
        ("no_such_module:load", "Cannot import"),
        ("nothing", "is not a model"),
        ("absent.safetensors", "There is no file"),
        (str(BUILTIN / "bank.safetensors"), "reads the attributes"),
    ]:
        with pytest.raises(EvenhandError, match=message):
            load_module(census, model)
    with pytest.raises(EvenhandError, match="no built-in network for 'world'"):
        load_module(dataset_of(schema_of([(0, 1)] * 3), 5, 0), None)
