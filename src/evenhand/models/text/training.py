"""Training of the paper's recurrent networks on a corpus, over fixed word vectors."""

import shlex
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import f1_score, roc_auc_score
from torch import Tensor
from torch.nn import functional

from evenhand.errors import EvenhandError
from evenhand.models.devices import one_thread
from evenhand.models.text.recurrent import Cell, Recurrent
from evenhand.models.training import Epoch, Lessons, fit, initialised
from evenhand.text.corpus import Corpus
from evenhand.text.tokens import tokenize
from evenhand.text.vectors import WordVectors

MOST_WORDS = 200  # what a network reads of a text; nine in ten Wikipedia comments are shorter
POOL_BATCHES = 32  # texts of so many batches are sorted by length together
EVALUATION_ROWS = 1024
FEWEST_BATCHES, SMALLEST_BATCH = 64, 8  # in an epoch: a small corpus is trained in smaller batches


@dataclass(frozen=True)
class TextTrainingConfig:
    """Ours throughout: the paper gives the layers and the states only."""

    epochs: int = 8
    learning_rate: float = 0.01
    batch_rows: int = 256
    validation_share: float = 0.05
    most_words: int = MOST_WORDS
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.epochs, self.batch_rows, self.most_words) < 1:
            raise EvenhandError("Epochs, batch rows and words must be at least 1.")


@dataclass(frozen=True)
class WordSequences:
    """Texts as numbers of words: one flat array, since their lengths differ."""

    words: NDArray[np.int32]  # (total,) rows of the vectors; the number of vectors itself stands for an unknown word
    ends: NDArray[np.int64]  # (n,)
    table: Tensor  # (vectors + 1, dimensions) with the mean vector, for unknown words, as the last row

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(n,) how many words each text has."""
        return np.diff(self.ends, prepend=0)

    def batch(self, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """(n, words, dimensions) vectors, padded with zeros, and (n,) lengths."""
        lengths = self.lengths[rows]
        places = (self.ends[rows] - lengths)[:, None] + np.arange(lengths.max())
        there = np.arange(lengths.max()) < lengths[:, None]
        numbers = np.where(there, self.words[np.minimum(places, len(self.words) - 1)], 0)
        device = self.table.device
        vectors = self.table[torch.from_numpy(numbers).long().to(device)]
        return vectors * torch.from_numpy(there).to(device)[:, :, None], torch.from_numpy(lengths)


def word_sequences(texts: list[str], vectors: WordVectors, most_words: int) -> WordSequences:
    """Texts cut to their first words; a text without any word becomes a single unknown one."""
    words, ends, total = [], [], 0
    for text in texts:
        of_text = tokenize(text).words[:most_words] or [""]
        words.append(vectors.index(of_text))
        total += len(of_text)
        ends.append(total)
    numbers = np.concatenate(words)
    table = torch.cat([torch.tensor(np.asarray(vectors.vectors)), torch.tensor(vectors.mean)[None]])
    return WordSequences(np.where(numbers < 0, len(vectors), numbers).astype(np.int32), np.array(ends), table)


def train_recurrent(
    corpus: Corpus,
    vectors: WordVectors,
    cell: Cell,
    config: TextTrainingConfig,
    device: torch.device | str = "cpu",
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    data_arguments: list[str] | None = None,
) -> tuple[Recurrent, dict[str, Any]]:
    """Train on the training texts, both classes weighing alike; keep the weights with the lowest validation loss."""
    sequences = word_sequences(corpus.texts.to_pylist(), vectors, config.most_words)
    sequences = replace(sequences, table=sequences.table.to(device))
    parts = {"train": np.flatnonzero(corpus.train), "held_out": np.flatnonzero(~corpus.train)}
    with one_thread(torch.device(device)):
        network = _train(sequences, corpus, cell, config, on_epoch)
        quality = {name: _quality(network, sequences, corpus, rows) for name, rows in parts.items() if len(rows)}
    where = torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else "cpu"
    return network.cpu(), _description(corpus, vectors, cell, config, where, quality, data_arguments or [corpus.name])


def _train(
    sequences: WordSequences,
    corpus: Corpus,
    cell: Cell,
    config: TextTrainingConfig,
    on_epoch: Callable[[Epoch], None],
) -> Recurrent:
    rng = np.random.default_rng(config.seed)
    rows = rng.permutation(np.flatnonzero(corpus.train))
    held, learned = np.split(rows, [max(1, round(len(rows) * config.validation_share))])
    counts = np.bincount(corpus.labels[learned], minlength=len(corpus.classes))
    if not counts.all():
        raise EvenhandError(
            f"Training {corpus.name} needs texts of both classes among its {len(learned):,} training rows."
        )
    device = sequences.table.device
    weight = torch.tensor(len(learned) / (len(counts) * counts), dtype=torch.float32, device=device)
    labels = torch.tensor(corpus.labels, device=device)
    shape = (sequences.table.shape[1], len(corpus.classes))
    network = initialised(config.seed, lambda: Recurrent(cell, *shape)).to(device)
    size = min(config.batch_rows, max(SMALLEST_BATCH, len(learned) // FEWEST_BATCHES))

    def loss(batch: NDArray[np.int64]) -> Tensor:
        return functional.cross_entropy(network(*sequences.batch(batch)), labels[batch], weight)

    def validate() -> tuple[float, float | None]:
        logits = _logits(network, sequences, held)
        return functional.cross_entropy(logits, labels[held], weight).item(), _auc(corpus.labels[held], logits)

    lessons = Lessons(len(learned), lambda: _batches(learned, sequences.lengths, size, rng), loss, validate)
    steps = config.epochs * -(-len(learned) // size)
    fit(network, lessons, config.epochs, config.learning_rate, on_epoch, cycle=steps, largest_norm=1.0)
    return network


def _batches(
    rows: NDArray[np.int64], lengths: NDArray[np.int64], size: int, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Random batches of texts of about one length: little is padded, and the order stays random in the large."""
    rows = rng.permutation(rows)
    pools = np.split(rows, range(size * POOL_BATCHES, len(rows), size * POOL_BATCHES))
    for pool in pools:
        ordered = pool[np.argsort(lengths[pool], kind="stable")]
        batches = np.split(ordered, range(size, len(ordered), size))
        yield from (batches[number] for number in rng.permutation(len(batches)))


@torch.no_grad()
def _logits(network: Recurrent, sequences: WordSequences, rows: NDArray[np.int64]) -> Tensor:
    """(n, classes) for some texts, in batches of about one length."""
    network.eval()
    logits = torch.empty(len(rows), network.shape["outputs"], device=sequences.table.device)
    order = np.argsort(sequences.lengths[rows], kind="stable")
    for part in np.split(order, range(EVALUATION_ROWS, len(order), EVALUATION_ROWS)):
        logits[torch.from_numpy(part)] = network(*sequences.batch(rows[part]))
    return logits


def _auc(labels: NDArray[np.int64], logits: Tensor) -> float | None:
    """The area under the ROC curve; none where only one class is there."""
    if len(np.unique(labels)) < 2:
        return None
    return float(roc_auc_score(labels, (logits[:, 1] - logits[:, 0]).cpu().numpy()))


def _quality(
    network: Recurrent, sequences: WordSequences, corpus: Corpus, rows: NDArray[np.int64]
) -> dict[str, float | None]:
    logits, labels = _logits(network, sequences, rows), corpus.labels[rows]
    predicted = logits.argmax(1).cpu().numpy()
    auc = _auc(labels, logits)
    return {
        "accuracy": round(float((predicted == labels).mean()), 4),
        "auc": None if auc is None else round(auc, 4),
        "f1": round(float(f1_score(labels, predicted, zero_division=0.0)), 4),
        "majority_class": round(float(np.bincount(labels).max() / len(labels)), 4),
    }


def _description(
    corpus: Corpus,
    vectors: WordVectors,
    cell: Cell,
    config: TextTrainingConfig,
    where: str,
    quality: dict[str, dict[str, float | None]],
    data_arguments: list[str],
) -> dict[str, Any]:
    """What the network's JSON file says about how it was made and how good it is."""
    command = ["evenhand", "train", *data_arguments, "--network", cell, "--seed", str(config.seed)]
    if config.epochs != TextTrainingConfig.epochs:
        command += ["--epochs", str(config.epochs)]
    if where != "cpu":
        command += ["--device", "cuda"]
    return {
        "dataset": corpus.name,
        "classes": corpus.classes,
        "vectors": vectors.name,
        "vectors_fingerprint": vectors.fingerprint,
        "most_words": config.most_words,
        "made_by": shlex.join(command),
        "training": asdict(config) | {"torch": torch.__version__, "device": where},
        "quality": quality | {"paper_accuracy": PAPER_ACCURACY.get((corpus.name, cell))},
    }


PAPER_ACCURACY = {("wiki", "lstm"): 0.899, ("wiki", "gru"): 0.907, ("jigsaw", "lstm"): 0.858, ("jigsaw", "gru"): 0.868}
