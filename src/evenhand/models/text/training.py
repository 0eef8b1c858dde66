"""Training of the paper's recurrent networks on a corpus, over fixed word vectors."""

import copy
import shlex
import time
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
class TextEpoch:
    """Where training stands, for a progress display."""

    number: int
    share: float  # of this epoch's texts that are done
    seconds: float  # since training began
    left: float  # estimated
    validation_loss: float | None = None  # at the end of an epoch
    validation_auc: float | None = None
    best: bool = False


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
    on_epoch: Callable[[TextEpoch], None] = lambda epoch: None,
    data_arguments: list[str] | None = None,
) -> tuple[Recurrent, dict[str, Any]]:
    """Train on the training texts, both classes weighing alike; keep the weights with the lowest validation loss."""
    texts: list[str] = corpus.texts.to_pylist()
    sequences = word_sequences(texts, vectors, config.most_words)
    arguments = data_arguments or [corpus.name]
    named = (vectors.name, vectors.fingerprint)
    return train_on_sequences(sequences, corpus, named, cell, config, device, on_epoch, arguments)


def train_on_sequences(
    sequences: WordSequences,
    corpus: Corpus,
    vectors: tuple[str, str],
    cell: Cell,
    config: TextTrainingConfig,
    device: torch.device | str,
    on_epoch: Callable[[TextEpoch], None],
    data_arguments: list[str],
) -> tuple[Recurrent, dict[str, Any]]:
    """The same from texts that are numbers already; `vectors` are the name and the fingerprint of the word vectors."""
    sequences = replace(sequences, table=sequences.table.to(device))
    with one_thread(torch.device(device)):
        network = _train(sequences, corpus, cell, config, on_epoch)
        quality = {name: _quality(network, sequences, corpus, rows) for name, rows in _parts(corpus).items()}
    where = torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else "cpu"
    return network.cpu(), _description(corpus, vectors, cell, config, where, quality, data_arguments)


def _parts(corpus: Corpus) -> dict[str, NDArray[np.int64]]:
    parts = {"train": np.flatnonzero(corpus.train), "held_out": np.flatnonzero(~corpus.train)}
    return {name: rows for name, rows in parts.items() if len(rows)}


def _train(
    sequences: WordSequences,
    corpus: Corpus,
    cell: Cell,
    config: TextTrainingConfig,
    on_epoch: Callable[[TextEpoch], None],
) -> Recurrent:
    rng = np.random.default_rng(config.seed)
    rows = rng.permutation(np.flatnonzero(corpus.train))
    validation = max(1, round(len(rows) * config.validation_share))
    held, fit = rows[:validation], rows[validation:]
    counts = np.bincount(corpus.labels[fit], minlength=len(corpus.classes))
    if not counts.all():
        raise EvenhandError(f"Training {corpus.name} needs texts of both classes among its {len(fit):,} training rows.")
    device = sequences.table.device
    weight = torch.tensor(len(fit) / (len(counts) * counts), dtype=torch.float32, device=device)
    labels = torch.tensor(corpus.labels, device=device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        network = Recurrent(cell, sequences.table.shape[1], len(corpus.classes)).to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=config.learning_rate)
    size = min(config.batch_rows, max(SMALLEST_BATCH, len(fit) // FEWEST_BATCHES))
    steps = config.epochs * -(-len(fit) // size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, config.learning_rate, total_steps=steps + 1)
    best, best_loss, start = copy.deepcopy(network.state_dict()), float("inf"), time.perf_counter()
    for number in range(1, config.epochs + 1):
        done = 0
        for batch in _batches(fit, sequences.lengths, size, rng):
            optimizer.zero_grad(set_to_none=True)
            logits = network(*sequences.batch(batch))
            functional.cross_entropy(logits, labels[batch], weight).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            done += len(batch)
            on_epoch(_standing(number, done / len(fit), config.epochs, time.perf_counter() - start))
        logits = _logits(network, sequences, held)
        loss = functional.cross_entropy(logits, labels[held], weight).item()
        standing = _standing(number, 1.0, config.epochs, time.perf_counter() - start)
        auc = _auc(corpus.labels[held], logits)
        on_epoch(TextEpoch(number, 1.0, standing.seconds, standing.left, loss, auc, loss < best_loss))
        if loss < best_loss:
            best, best_loss = copy.deepcopy(network.state_dict()), loss
    network.load_state_dict(best)
    return network


def _standing(number: int, share: float, epochs: int, seconds: float) -> TextEpoch:
    done = (number - 1 + share) / epochs
    return TextEpoch(number, share, seconds, seconds / done * (1 - done))


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
    network.train()
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
    vectors: tuple[str, str],
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
        "vectors": vectors[0],
        "vectors_fingerprint": vectors[1],
        "most_words": config.most_words,
        "made_by": shlex.join(command),
        "training": asdict(config) | {"torch": torch.__version__, "device": where},
        "quality": quality | {"paper_accuracy": PAPER_ACCURACY.get((corpus.name, cell))},
    }


PAPER_ACCURACY = {("wiki", "lstm"): 0.899, ("wiki", "gru"): 0.907, ("jigsaw", "lstm"): 0.858, ("jigsaw", "gru"): 0.868}
