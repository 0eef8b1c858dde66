"""`evenhand train`: the paper's network for a data set."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.options import Data, Device, Json, Quiet

if TYPE_CHECKING:
    from evenhand.models.training import Epoch


def train(
    data: Data,
    seed: Annotated[int, typer.Option(help="Decides the first weights and the order of rows.")] = 0,
    epochs: Annotated[int, typer.Option(min=1, help="At most so many passes over the training rows.")] = 100,
    patience: Annotated[int, typer.Option(min=1, help="Stop after so many epochs without improvement.")] = 10,
    device: Device = "auto",
    out: Annotated[
        Path | None, typer.Option(help="Where to: NAME.safetensors and NAME.json.", show_default="evenhand-out/DATA")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train the paper's six-layer network and say how accurate it is.

    Example:  evenhand train census --out nets/census

    Then:     evenhand audit census --protected sex --model nets/census.safetensors
    """
    from evenhand.data.dataset import load_dataset
    from evenhand.files import writable_folder
    from evenhand.models.devices import choose_device
    from evenhand.models.network import network_files, save_network
    from evenhand.models.training import TrainingConfig
    from evenhand.models.training import train as train_network

    dataset = load_dataset(data)
    path = out or Path("evenhand-out") / dataset.name
    files = ", ".join(map(str, network_files(path)))
    writable_folder(path.parent)
    config = TrainingConfig(epochs=epochs, patience=patience, seed=seed)
    talkative = not quiet and not as_json
    on_epoch = _say_epoch if talkative else _say_nothing
    network, description = train_network(dataset, config, choose_device(device), on_epoch, data_argument=data)
    save_network(network, description, path)
    if as_json:
        typer.echo(json.dumps(description, indent=2))
    elif not quiet:
        _print_accuracy(description["accuracy"], files)


def _say_nothing(epoch: "Epoch") -> None:
    pass


def _say_epoch(epoch: "Epoch") -> None:
    best = "  best so far" if epoch.best else ""
    typer.echo(
        f"epoch {epoch.number:3}  validation loss {epoch.validation_loss:.4f}  "
        f"accuracy {epoch.validation_accuracy:.2%}{best}",
        err=True,
    )


def _print_accuracy(accuracy: dict[str, Any], files: str) -> None:
    if accuracy["held_out"] is None:
        typer.echo(f"accuracy  train {accuracy['train']:.2%}; no rows are held out")
    else:
        typer.echo(f"accuracy  train {accuracy['train']:.2%}, held out {accuracy['held_out']:.2%}")
        common = accuracy["held_out_majority_class"]
        typer.echo(f"          always the commonest label: {common:.2%} of the held-out rows")
    if accuracy["paper"] is not None:
        typer.echo(f"          the paper's network, on its training rows: {accuracy['paper']:.2%}")
    typer.echo(f"written   {files}")
