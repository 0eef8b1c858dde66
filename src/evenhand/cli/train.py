"""`evenhand train`: the paper's network for a data set or a corpus."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.options import AnyData, DataOption, Json, Quiet
from evenhand.cli.printing import print_json
from evenhand.cli.progress import DownloadDisplay
from evenhand.cli.settings_options import takes_settings
from evenhand.cli.tasks import kind_of_data, one_data
from evenhand.errors import unknown_name
from evenhand.settings import SETTINGS, TextTrainSettings, TrainSettings

if TYPE_CHECKING:
    from evenhand.models.training import Epoch


@takes_settings("train")
def train(
    given: dict[str, Any],
    data: AnyData = None,
    data_option: DataOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="The files to write: NAME.safetensors and NAME.json.", show_default="in evenhand-out"
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train the paper's network, six layers for a table, an LSTM or GRU for texts, and say how accurate it is.

    Example:  evenhand train census --out nets/census

    Then:     evenhand audit census -p sex --model nets/census.safetensors

    Texts:    evenhand train wiki --network gru --out nets/wiki-gru
    """
    data = one_data(data, data_option)
    domain = kind_of_data("train", data, given)
    settings: Any = SETTINGS["train"][domain].checked(dataset=data, **given)
    description, files = (_train_on_texts if domain == "text" else _train_on_table)(settings, out, quiet or as_json)
    if as_json:
        print_json(description)
    elif not quiet:
        (_print_quality if "quality" in description else _print_accuracy)(description, files)


def _train_on_table(settings: TrainSettings, out: Path | None, quiet: bool) -> tuple[dict[str, Any], str]:
    """The network's description and the names of its files."""
    from evenhand.data.dataset import load_dataset
    from evenhand.files import writable_folder
    from evenhand.models.devices import choose_device
    from evenhand.models.network import network_files, save_network
    from evenhand.models.training import TrainingConfig
    from evenhand.models.training import train as train_network

    dataset = load_dataset(settings.dataset)
    path = out or Path("evenhand-out") / dataset.name
    files = ", ".join(map(str, network_files(path)))
    writable_folder(path.parent)
    config = TrainingConfig(**settings.model_dump(include={"epochs", "patience", "seed"}, exclude_none=True))
    shown, device = _EpochDisplay(config.epochs, quiet, "accuracy {:.2%}"), choose_device(settings.device)
    network, description = train_network(dataset, config, device, shown, data_argument=settings.dataset)
    save_network(network, description, path)
    return description, files


def _print_accuracy(description: dict[str, Any], files: str) -> None:
    accuracy = description["accuracy"]
    if accuracy["held_out"] is None:
        typer.echo(f"accuracy  train {accuracy['train']:.2%}; no rows are held out")
    else:
        typer.echo(f"accuracy  train {accuracy['train']:.2%}, held out {accuracy['held_out']:.2%}")
        common = accuracy["held_out_majority_class"]
        typer.echo(f"          always the commonest decision: {common:.2%} of the held-out rows")
    if accuracy["paper"] is not None:
        typer.echo(f"          the paper's network, on its training rows: {accuracy['paper']:.2%}")
    typer.echo(f"written   {files}")


def _train_on_texts(settings: TextTrainSettings, out: Path | None, quiet: bool) -> tuple[dict[str, Any], str]:
    """The network's description and the names of its files."""
    from evenhand.files import writable_folder
    from evenhand.models.devices import choose_device
    from evenhand.models.network import network_files
    from evenhand.models.text.loading import DEFAULT_CELL
    from evenhand.models.text.recurrent import CELLS, save_recurrent
    from evenhand.models.text.training import TextTrainingConfig, train_recurrent
    from evenhand.text.corpus import load_corpus
    from evenhand.text.vectors import load_vectors

    cell = settings.network or DEFAULT_CELL
    if cell not in CELLS:
        raise unknown_name("network", cell, CELLS)
    where = choose_device(settings.device)
    with DownloadDisplay(quiet) as downloads:
        corpus = load_corpus(
            settings.dataset, settings.text, settings.label, split=settings.split,
            on_progress=lambda done, total: downloads("corpus", done, total),
        )  # fmt: skip
        words = load_vectors(
            settings.vectors or "glove", on_progress=lambda done, total: downloads("word vectors", done, total)
        )
    path = out or Path("evenhand-out") / f"{corpus.name}-{cell}"
    writable_folder(path.parent)
    config = TextTrainingConfig(**settings.model_dump(include={"epochs", "seed"}, exclude_none=True))
    columns = {f"--{name}": getattr(settings, name) for name in ("text", "label", "split", "vectors")}
    arguments = [settings.dataset, *(word for name, value in columns.items() if value for word in (name, value))]
    shown = _EpochDisplay(config.epochs, quiet, "AUC {:.4f}")
    trained, description = train_recurrent(corpus, words, cell, config, where, shown, arguments)  # type: ignore[arg-type]
    save_recurrent(trained, description, path)
    return description, ", ".join(map(str, network_files(path)))


class _EpochDisplay:
    """A line for each epoch, and on a terminal how far the present one is."""

    def __init__(self, epochs: int, quiet: bool, score: str) -> None:
        self._epochs, self._quiet, self._score = epochs, quiet, score
        self._live = sys.stderr.isatty()
        self._said = 0.0

    def __call__(self, epoch: "Epoch") -> None:
        if self._quiet:
            return
        from evenhand.report.words import duration

        where = f"epoch {epoch.number} of {self._epochs}"
        if epoch.validation_loss is not None:
            best = "  best so far" if epoch.best else ""
            score = "" if epoch.validation_score is None else f"  {self._score.format(epoch.validation_score)}"
            line = f"{where}  validation loss {epoch.validation_loss:.4f}{score}{best}"
            print(f"\r{line:<78}" if self._live else line, file=sys.stderr, flush=True)
        elif self._live and epoch.seconds - self._said > 0.5:
            self._said = epoch.seconds
            line = f"{where}  {epoch.share:.0%}  about {duration(epoch.left)} left"
            print(f"\r{line:<78}", end="", file=sys.stderr, flush=True)


def _print_quality(description: dict[str, Any], files: str) -> None:
    """How good the network is on the training and on the held-out texts."""
    quality = description["quality"]
    for part, name in (("train", "train"), ("held_out", "held out")):
        if part in quality:
            found = quality[part]
            auc = "none" if found["auc"] is None else f"{found['auc']:.4f}"
            common = f"always the commonest decision: {found['majority_class']:.2%}"
            typer.echo(f"{name:9} accuracy {found['accuracy']:.2%}, AUC {auc}, F1 {found['f1']:.4f}  ({common})")
    if quality["paper_accuracy"] is not None:
        typer.echo(f"          the paper's network: accuracy {quality['paper_accuracy']:.1%}")
    typer.echo(f"written   {files}")
