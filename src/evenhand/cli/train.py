"""`evenhand train`: the paper's network for a data set."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli import text as text_options
from evenhand.cli.audit import one_data
from evenhand.cli.options import AnyData, DataOption, Device, Json, Quiet
from evenhand.cli.text_train import print_quality, train_on_texts
from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.models.training import Epoch


def train(
    data: AnyData = None,
    data_option: DataOption = None,
    network: text_options.Network = None,
    text: text_options.Text = None,
    label: text_options.Label = None,
    split: text_options.Split = None,
    vectors: text_options.Vectors = None,
    seed: Annotated[int, typer.Option(help="Decides the first weights and the order of rows.")] = 0,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, help="Passes over the training rows (tables: at most).", show_default="100; 8 for texts"),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(min=1, help="Tables: stop after so many epochs without improvement.", show_default="10"),
    ] = None,
    device: Device = "auto",
    out: Annotated[
        Path | None, typer.Option(help="Where to: NAME.safetensors and NAME.json.", show_default="in evenhand-out")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train the paper's network, six layers for a table, an LSTM or GRU for texts, and say how accurate it is.

    Example:  evenhand train census --out nets/census

    Then:     evenhand audit census -p sex --model nets/census.safetensors

    Texts:    evenhand train wiki --network gru --out nets/wiki-gru
    """
    from evenhand.runs.text_audit import is_text

    data = one_data(data, data_option)
    for_texts = {"network": network, "text": text, "label": label, "split": split, "vectors": vectors}
    if is_text(data, text):
        if patience is not None:
            raise EvenhandError("--patience is for tables; a network for texts is trained for all its epochs.")
        description, files = train_on_texts(data, seed, epochs, device, out, quiet or as_json, **for_texts)
    else:
        text_options.check_table(data, for_texts)
        description, files = _train_on_table(data, seed, epochs, patience, device, out, quiet or as_json)
    if as_json:
        typer.echo(json.dumps(description, indent=2))
    elif not quiet:
        (print_quality if "quality" in description else _print_accuracy)(description, files)


def _train_on_table(
    data: str, seed: int, epochs: int | None, patience: int | None, device: str, out: Path | None, quiet: bool
) -> tuple[dict[str, Any], str]:
    """The network's description and the names of its files."""
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
    given = {name: value for name, value in (("epochs", epochs), ("patience", patience)) if value is not None}
    config = TrainingConfig(**given, seed=seed)
    on_epoch = _say_nothing if quiet else _say_epoch
    network, description = train_network(dataset, config, choose_device(device), on_epoch, data_argument=data)
    save_network(network, description, path)
    return description, files


def _say_nothing(epoch: "Epoch") -> None:
    pass


def _say_epoch(epoch: "Epoch") -> None:
    best = "  best so far" if epoch.best else ""
    typer.echo(
        f"epoch {epoch.number:3}  validation loss {epoch.validation_loss:.4f}  "
        f"accuracy {epoch.validation_accuracy:.2%}{best}",
        err=True,
    )


def _print_accuracy(description: dict[str, Any], files: str) -> None:
    accuracy = description["accuracy"]
    if accuracy["held_out"] is None:
        typer.echo(f"accuracy  train {accuracy['train']:.2%}; no rows are held out")
    else:
        typer.echo(f"accuracy  train {accuracy['train']:.2%}, held out {accuracy['held_out']:.2%}")
        common = accuracy["held_out_majority_class"]
        typer.echo(f"          always the commonest label: {common:.2%} of the held-out rows")
    if accuracy["paper"] is not None:
        typer.echo(f"          the paper's network, on its training rows: {accuracy['paper']:.2%}")
    typer.echo(f"written   {files}")
