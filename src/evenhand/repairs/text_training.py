"""Fine-tuning of a recurrent network: random training texts keep what it knows, a lesson teaches what it lacks."""

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from evenhand.errors import EvenhandError, unknown_name
from evenhand.models.devices import one_thread
from evenhand.models.text.recurrent import Recurrent
from evenhand.repairs.text_material import MentionText, NearWords, TextMaterial, Words, padded_words
from evenhand.text.tokens import tokenize

By = Literal["pairing", "augment", "certified", "blind"]
CHECKS, CHECK_STEPS = 8, 40  # how often the validation part is looked at, at most, and after how many steps, at least
VALIDATION_SHARE = 0.1  # of what there is to learn from, at most
POOL_BATCHES = 16  # texts of so many batches are sorted by length together
VALIDATION_GROUPS = 200  # texts that mention the attribute, at most
POOL_GROUPS = 8  # a batch of texts is chosen from so many times as many, so that they are of about one length


@dataclass(frozen=True)
class TextRepair:
    """How to fine-tune. Ours throughout: the paper says only that it trains again with findings added.

    The defaults are those of pairing; `repair_settings` has those of each kind.
    """

    by: By = "pairing"
    steps: int = 400
    learning_rate: float = 0.01
    batch_rows: int = 128  # random training texts in a step
    group_rows: int = 24  # texts that mention the attribute in a step, each with its variants
    members: int = 4  # variants of a text that are compared, itself among them
    strength: float = 300.0  # pairing: of the log-odds' spread; certified: of the worst case; augment: of the findings
    memory: float = 1.0  # how much to agree with the network as it was rather than with labels
    moved_words: int = 12  # near words in the place of others, up to so many in a text
    share: float = 0.05  # augment: findings that are added, as a share of those given
    settle: bool = False  # move the threshold at the end, so that as many texts as before get the second of two labels
    validation_texts: int = 4000  # random training texts that are not learned from
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.steps, self.batch_rows, self.group_rows, self.validation_texts) < 1 or self.members < 2:
            raise EvenhandError(
                "Steps, batch rows, group rows and validation texts must be at least 1, members at least 2."
            )
        if not 0 < self.share <= 1:
            raise EvenhandError(f"The share of findings is {self.share}; it must be above 0 and at most 1.")
        if not 0 <= self.memory <= 1 or self.strength < 0:
            raise EvenhandError("The memory must lie between 0 and 1, and the strength must not be below 0.")


PRESETS: dict[str, dict[str, Any]] = {
    "pairing": {},
    "augment": {"strength": 1.0, "memory": 0.5},
    "certified": {"strength": 0.3, "steps": 200, "settle": True},
    "blind": {"memory": 0.0, "learning_rate": 0.005, "steps": 200},
}


def repair_settings(by: By, **settings: Any) -> TextRepair:
    """The settings that were found good for a kind of repair, with changes."""
    if by not in PRESETS:
        raise unknown_name("trained repair of text called", by, PRESETS)
    return TextRepair(**({"by": by} | PRESETS[by] | settings))


@dataclass(frozen=True)
class RepairStep:
    """Where a repair stands, for a progress display."""

    number: int
    steps: int
    seconds: float
    left: float  # estimated
    validation_loss: float | None = None  # where it was looked at
    best: bool = False


class Lesson(Protocol):
    """What a network is to learn beside what it knows."""

    def loss(self, network: Recurrent, progress: float, rng: np.random.Generator) -> Tensor:
        """The loss on a random batch; `progress` rises from 0 to 1."""

    def validation_loss(self, network: Recurrent) -> Tensor:
        """The loss on texts that are not learned from, the same ones each time."""


def fine_tune(
    material: TextMaterial,
    how: TextRepair,
    lesson: Lesson,
    reading: Callable[[list[str]], list[str]] = lambda words: words,
    on_step: Callable[[RepairStep], None] = lambda step: None,
) -> Recurrent:
    """A copy of the network, trained on random training texts and a lesson; the weights of the lowest validation loss.

    `reading` says what the network reads of a text's words.
    """
    with one_thread(torch.device("cpu")):
        plain = _Plain(material, how, reading)
        network = copy.deepcopy(material.network).cpu().train()
        optimizer = torch.optim.Adam(network.parameters(), lr=how.learning_rate)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, how.learning_rate, total_steps=how.steps + 1)
        rng, start = np.random.default_rng([how.seed, 1]), time.perf_counter()
        best, lowest = copy.deepcopy(network.state_dict()), float("inf")
        looks = validation_steps(how.steps)
        for number, batch in enumerate(plain.batches(how, rng), start=1):
            optimizer.zero_grad(set_to_none=True)
            loss = plain.loss(network, batch) + lesson.loss(network, number / how.steps, rng)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            found = None
            if number in looks:
                with torch.no_grad():
                    found = float(plain.validation_loss(network) + lesson.validation_loss(network))
                if found < lowest:
                    best, lowest = copy.deepcopy(network.state_dict()), found
            seconds = time.perf_counter() - start
            left = seconds / number * (how.steps - number)
            on_step(RepairStep(number, how.steps, seconds, left, found, found is not None and found == lowest))
        network.load_state_dict(best)
        if how.settle and network.shape["outputs"] == 2:
            plain.settle(network)
    return network.eval()


def validation_steps(steps: int) -> set[int]:
    """The steps after which the validation part is looked at: evenly apart, the last of them is the last step."""
    looks = max(1, min(CHECKS, steps // CHECK_STEPS))
    return {round(steps * part / looks) for part in range(1, looks + 1)}


class _Plain:
    """Random training texts with their labels, both classes weighing alike as when the network was made."""

    def __init__(self, material: TextMaterial, how: TextRepair, reading: Callable[[list[str]], list[str]]) -> None:
        corpus = material.corpus
        rows = np.random.default_rng([how.seed, 0]).permutation(np.flatnonzero(corpus.train))
        held = max(1, min(how.validation_texts, round(len(rows) * VALIDATION_SHARE)))
        rows = rows[: held + how.steps * how.batch_rows]
        self.table, self.memory = material.table, how.memory
        self.texts = [self._numbers(material, corpus.text(row), reading) for row in rows.tolist()]
        self.lengths = np.array([len(words) for words in self.texts])
        self.labels = torch.tensor(corpus.labels[rows])
        self.weight = material.class_weight
        self.fit, self.held = np.arange(held, len(rows)), np.arange(held)
        self.before = self._logits(material.network).softmax(dim=1)

    @staticmethod
    def _numbers(material: TextMaterial, text: str, reading: Callable[[list[str]], list[str]]) -> Words:
        return material.numbers(reading(tokenize(text).words)[: material.most_words])

    @torch.no_grad()
    def _logits(self, network: Recurrent) -> Tensor:
        """(n, classes) what a network says about the texts."""
        logits = torch.empty(len(self.texts), network.shape["outputs"])
        for part in np.array_split(np.argsort(self.lengths, kind="stable"), -(-len(self.texts) // 1024)):
            logits[torch.from_numpy(part)] = network(*self._batch(part))
        return logits

    @torch.no_grad()
    def settle(self, network: Recurrent) -> None:
        """Move the log-odds so that as many texts as before are above zero."""
        odds = self._logits(network).diff(dim=1).squeeze(1).sort(descending=True).values
        above = int((self.before.argmax(dim=1) == 1).sum())
        between = odds[max(0, above - 1) : above + 1].mean()  # of the last text above and the first below
        network.head.bias[1] -= between

    def _batch(self, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        return padded_words([self.texts[row] for row in rows], self.table)

    def batches(self, how: TextRepair, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        """As many batches as steps, each of texts of about one length; a small corpus is gone through several times."""
        need, done = how.steps, 0
        while done < need:
            rows = rng.permutation(self.fit)
            for pool in np.split(rows, range(how.batch_rows * POOL_BATCHES, len(rows), how.batch_rows * POOL_BATCHES)):
                ordered = pool[np.argsort(self.lengths[pool], kind="stable")]
                parts = np.array_split(ordered, max(1, round(len(ordered) / how.batch_rows)))
                for number in rng.permutation(len(parts))[: need - done]:
                    done += 1
                    yield parts[number]

    def loss(self, network: Recurrent, rows: NDArray[np.int64]) -> Tensor:
        """The weighted loss at the labels, and at what the network said before."""
        logits = network(*self._batch(rows))
        at = torch.from_numpy(rows)
        by_label = functional.cross_entropy(logits, self.labels[at], self.weight)
        by_memory = functional.cross_entropy(logits, self.before[at])
        return (1 - self.memory) * by_label + self.memory * by_memory

    def validation_loss(self, network: Recurrent) -> Tensor:
        """The same over the validation part."""
        order = self.held[np.argsort(self.lengths[self.held], kind="stable")]
        parts = np.array_split(order, -(-len(order) // 1024))
        return torch.stack([self.loss(network, part) * len(part) for part in parts]).sum() / len(order)


class VariantGroups:
    """Texts that mention the attribute, each with some of its variants as one group."""

    def __init__(self, material: TextMaterial, how: TextRepair) -> None:
        self.material, self.how = material, how
        self.near = NearWords(material) if how.moved_words else None
        rng = np.random.default_rng([how.seed, 2])
        texts = material.mentioning
        order = rng.permutation(len(texts)).tolist()
        held = min(VALIDATION_GROUPS, round(len(texts) * VALIDATION_SHARE))
        self.fit = [texts[number] for number in order[held:]]
        self.held_texts = [texts[number] for number in order[:held]]
        self.held = [self.group(text, rng) for text in self.held_texts]
        self.held_labels = torch.tensor([text.label for text in self.held_texts])

    def group(self, text: MentionText, rng: np.random.Generator) -> list[Words]:
        """A text, with or without near words in the place of others, in the words of several values.

        Half of the time one mention changes, and half of the time all that name its value.
        """
        if self.near is not None and rng.random() < 0.5:
            text = self.near.moved(text, int(rng.integers(1, self.how.moved_words + 1)), self.material.most_words, rng)
        chosen = text.mentions[rng.integers(len(text.mentions))]
        alike = [m for m in text.mentions if m.value == chosen.value]
        values = self.material.values_of(alike) if rng.random() < 0.5 else []
        if len(values) < 2:
            alike, values = [chosen], self.material.values_of([chosen])
        others = rng.permutation([value for value in values if value != chosen.value])
        picked = [chosen.value, *np.resize(others, self.how.members - 1).tolist()]
        return [self.material.with_value(text, alike, value) for value in picked]

    def texts(self, rng: np.random.Generator) -> list[MentionText]:
        """Random texts of about one length."""
        count = min(self.how.group_rows, len(self.fit))
        pool = rng.choice(len(self.fit), min(count * POOL_GROUPS, len(self.fit)), replace=False)
        pool = pool[np.argsort([len(self.fit[number].words) for number in pool], kind="stable")]
        first = rng.integers(len(pool) - count + 1)
        return [self.fit[number] for number in pool[first : first + count]]

    def batch(self, rng: np.random.Generator) -> tuple[list[list[Words]], Tensor]:
        """Random groups and their labels."""
        texts = self.texts(rng)
        return [self.group(text, rng) for text in texts], torch.tensor([text.label for text in texts])
