"""`evenhand train` on texts."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from evenhand.cli.progress import DownloadDisplay
from evenhand.errors import unknown_name

if TYPE_CHECKING:
    from evenhand.models.text.training import TextEpoch


def train_on_texts(
    data: str,
    seed: int,
    epochs: int | None,
    device: str,
    out: Path | None,
    quiet: bool,
    *,
    network: str | None,
    text: str | None,
    label: str | None,
    split: str | None,
    vectors: str | None,
) -> tuple[dict[str, Any], str]:
    """The network's description and the names of its files."""
    from evenhand.files import writable_folder
    from evenhand.models.devices import choose_device
    from evenhand.models.network import network_files
    from evenhand.models.text.recurrent import CELLS, save_recurrent
    from evenhand.models.text.training import TextTrainingConfig, train_recurrent
    from evenhand.text.corpus import load_corpus
    from evenhand.text.vectors import load_vectors

    cell = network or "lstm"
    if cell not in CELLS:
        raise unknown_name("network", cell, CELLS)
    where = choose_device(device)
    with DownloadDisplay(quiet) as downloads:
        corpus = load_corpus(
            data, text, label, split=split, on_progress=lambda done, total: downloads("corpus", done, total)
        )
        words = load_vectors(vectors or "glove", on_progress=lambda done, total: downloads("word vectors", done, total))
    path = out or Path("evenhand-out") / f"{corpus.name}-{cell}"
    writable_folder(path.parent)
    config = TextTrainingConfig(seed=seed) if epochs is None else TextTrainingConfig(seed=seed, epochs=epochs)
    columns = {"--text": text, "--label": label, "--split": split, "--vectors": vectors}
    arguments = [data, *(word for name, value in columns.items() if value for word in (name, value))]
    shown = _Standing(config.epochs, quiet)
    trained, description = train_recurrent(corpus, words, cell, config, where, shown, arguments)  # type: ignore[arg-type]
    save_recurrent(trained, description, path)
    return description, ", ".join(map(str, network_files(path)))


class _Standing:
    """A line for each epoch, and on a terminal how far the present one is."""

    def __init__(self, epochs: int, quiet: bool) -> None:
        self._epochs, self._quiet = epochs, quiet
        self._live = sys.stderr.isatty()
        self._said = 0.0

    def __call__(self, epoch: "TextEpoch") -> None:
        if self._quiet:
            return
        from evenhand.report.words import duration

        where = f"epoch {epoch.number} of {self._epochs}"
        if epoch.validation_loss is not None:
            best = "  best so far" if epoch.best else ""
            auc = "" if epoch.validation_auc is None else f"  AUC {epoch.validation_auc:.4f}"
            line = f"{where}  validation loss {epoch.validation_loss:.4f}{auc}{best}"
            print(f"\r{line:<78}" if self._live else line, file=sys.stderr, flush=True)
        elif self._live and epoch.seconds - self._said > 0.5:
            self._said = epoch.seconds
            line = f"{where}  {epoch.share:.0%}  about {duration(epoch.left)} left"
            print(f"\r{line:<78}", end="", file=sys.stderr, flush=True)


def print_quality(description: dict[str, Any], files: str) -> None:
    """How good the network is on the training and on the held-out texts."""
    quality = description["quality"]
    for part, name in (("train", "train"), ("held_out", "held out")):
        if part in quality:
            found = quality[part]
            auc = "none" if found["auc"] is None else f"{found['auc']:.4f}"
            common = f"always the commonest label: {found['majority_class']:.2%}"
            typer.echo(f"{name:9} accuracy {found['accuracy']:.2%}, AUC {auc}, F1 {found['f1']:.4f}  ({common})")
    if quality["paper_accuracy"] is not None:
        typer.echo(f"          the paper's network: accuracy {quality['paper_accuracy']:.1%}")
    typer.echo(f"written   {files}")
