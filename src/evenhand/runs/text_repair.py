"""Repairing a recurrent classifier of texts: fine-tuned on training texts, judged on held-out ones."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch import Tensor

from evenhand.choices import Domain
from evenhand.errors import EvenhandError
from evenhand.files import read_json
from evenhand.measures.rates import Rate
from evenhand.measures.verdict import JudgedRepair, Verdict
from evenhand.methods.registry import make_text_method
from evenhand.models.loading import BUILTIN
from evenhand.models.network import network_files
from evenhand.models.text.by_construction import AveragedTextModel, BlindModel, RecurrentModel, RecurrentText
from evenhand.models.text.loading import DEFAULT_CELL, save_recurrent_text
from evenhand.repairs.text import averaged_text_model, repair_text_network, text_scores
from evenhand.repairs.text_certified import certified_texts
from evenhand.repairs.text_material import FoundPair, TextMaterial, found_pairs
from evenhand.repairs.text_training import RepairStep, repair_settings
from evenhand.runs.repair_rows import OnStep, compared, search_all
from evenhand.runs.summary import Stages
from evenhand.runs.text_subject import TextSubject
from evenhand.runs.text_world import Mentions, TextSearchWorld, still_world
from evenhand.search.check import Checked, check
from evenhand.search.search import Limits
from evenhand.settings import EVERY_REPAIR, TextAuditSettings, TextRepairSettings

TEXT_REPAIRS = ("pairing", "augment", "certified", "blind", "average")
CPU = torch.device("cpu")
MOST_EXAMPLES, MOST_VALUES = 5, 12
SHOWN_CHARACTERS = 240
ASIDE = 0.1  # the share of the training texts that is for choices alone
SEARCHED = (
    "dataset", "protected", "model", "text", "label", "split", "favourable", "network", "lexicon", "vectors", "method",
    "seeds", "seed",
)  # fmt: skip


def text_repair_work(subject: TextSubject, stages: Stages, on_step: OnStep) -> "TextRepairWork":
    """The work of repairing a recurrent classifier of texts."""
    if not isinstance(subject.model, RecurrentModel):
        raise EvenhandError(
            f"{subject.model.name} cannot be repaired: repairs of texts are for the LSTM and GRU networks of "
            "`evenhand train`, as they were trained."
        )
    settings = subject.settings.model_copy(update={"by": subject.settings.by or ["pairing"]})
    return TextRepairWork(settings, subject, subject.model, stages, on_step)


@dataclass
class TextRepairWork:
    """The parts of one repair of a classifier of texts."""

    domain: ClassVar[Domain] = "text"
    settings: TextRepairSettings
    subject: TextSubject
    original: RecurrentModel
    stages: Stages
    on_step: OnStep
    found: int = 0  # findings from training texts
    used: int = 0  # of them, those that augment learned from

    @property
    def ways(self) -> list[str]:
        """The ways that are tried."""
        return list(TEXT_REPAIRS) if EVERY_REPAIR in self.settings.by else self.settings.by

    @property
    def searching(self) -> TextAuditSettings:
        """What a search for findings is told."""
        shared = {name: getattr(self.settings, name) for name in SEARCHED}
        return TextAuditSettings.checked(**shared, device="cpu")

    @cached_property
    def material(self) -> TextMaterial:
        """What repairs learn from."""
        model, mentions = self.original, self.fitted
        return TextMaterial(
            model.network, model.vectors, model.most_words, mentions.corpus, mentions.words, mentions.ambiguous
        )

    @cached_property
    def aside(self) -> NDArray[np.bool_]:
        """(texts,) training texts that nothing is learned from, by any repair: they are for choices alone."""
        rows = np.flatnonzero(self.subject.data.train)
        rows = np.random.default_rng([self.settings.seed, 5]).permutation(rows)[: max(1, round(ASIDE * len(rows)))]
        aside = np.zeros(len(self.subject.data), dtype=bool)
        aside[rows] = True
        return aside

    @cached_property
    def fitted(self) -> Mentions:
        """Mentions in the training texts that may be learned from."""
        return self.subject.mentions.among(self.subject.data.train & ~self.aside)

    def judged(self) -> tuple[list[JudgedRepair], list[JudgedRepair]]:
        """The repairs, and what they are compared with: the model as it was, and a blind one."""
        with self.stages.timed("findings"):
            self.on_step("findings from held-out texts", 0)
            judge = TextJudge(self, *self.search(train=False)[:2])
        with self.stages.timed("training"):
            made = {way: self.made(way) for way in dict.fromkeys(["blind", *self.ways])}
        with self.stages.timed("measuring"):
            everything: dict[str, list[RecurrentText]] = {"original": [self.original], **made}
            rows = {by: self._row(by, models, judge) for by, models in everything.items()}
        self.judge = judge
        return [rows[way] for way in self.ways], [rows["original"], rows["blind"]]

    def _row(self, by: str, models: list[RecurrentText], judge: "TextJudge") -> JudgedRepair:
        verdicts = []
        for number, model in enumerate(models):
            self.on_step(f"measuring {by}", number / len(models))
            verdicts.append(judge.verdict(model))
        return JudgedRepair(by, by, {}, self.used if by == "augment" else 0, verdicts, list(models))

    def made(self, way: str) -> list[RecurrentText]:
        """The models of a way to repair, one for each repeat."""
        if way == "average":
            return [averaged_text_model(self.material, self.settings.lexicon)]
        material = replace(self.material, findings=self.learned()) if way == "augment" else self.material
        settings: dict[str, Any] = {"strength": self.settings.strength} if way in ("pairing", "certified") else {}
        settings |= {"steps": self.settings.training_steps, "share": self.settings.share}
        settings["validation_texts"] = self.settings.validation_texts
        given = {name: value for name, value in settings.items() if value is not None}
        models: list[RecurrentText] = []
        for repeat in range(self.settings.repeats):

            def on_step(step: RepairStep, done: int = repeat) -> None:
                self.on_step(way, (done + step.number / step.steps) / self.settings.repeats)

            how = repair_settings(way, seed=self.settings.seed + repeat, **given)  # type: ignore[arg-type]
            models.append(repair_text_network(material, how, on_step))
        return models

    def learned(self) -> list[FoundPair]:
        """What a search from training texts finds, as pairs of words with one label."""
        self.on_step("findings from training texts", 0)
        world, x, swaps = self.search(train=True)
        if not len(x):
            raise EvenhandError(
                f"There is nothing to learn from: {self.settings.method} found no pair in the training texts. "
                "Nothing is changed. Try another --method, more --seeds, or --by blind."
            )
        self.found, self.used = len(x), max(1, round(self.settings.share * len(x)))
        return found_pairs(world.space, world.model, x, swaps)

    def search(self, train: bool) -> tuple[TextSearchWorld, Tensor, Tensor]:
        """A search's world, what it found (n, 2 + width) and the witnesses' swaps (n,)."""
        config = self.settings
        mentions = self.fitted if train else self.subject.mentions
        sources = mentions.choose(train, config.seeds, config.seed)
        if not len(sources):
            raise mentions.nothing() if train else self._nothing_held_out()
        world = self.subject.around(sources, self.searching)
        method, limits = make_text_method(config.method), Limits(steps=config.steps)
        found = search_all(world.model, world.space, method, world.samples, world.rows, config.seed, limits)
        x = torch.tensor(np.concatenate([part.sample for part in found]) if found else [], dtype=torch.long)
        swaps = torch.tensor(np.concatenate([part.witness[:, 0] for part in found]) if found else [], dtype=torch.long)
        return world, x, swaps

    def _nothing_held_out(self) -> EvenhandError:
        return EvenhandError(
            f"No held-out text of {self.subject.data.name} mentions {self.subject.mentions.what}, so a repair could "
            "not be judged. Hold out more texts (--split names a column that says which), or choose another attribute."
        )

    def facts(
        self, rows: list[JudgedRepair], originals: list[JudgedRepair], chosen: JudgedRepair | None
    ) -> dict[str, Any]:
        """What the summary says beside what all repairs have."""
        corpus, after = self.subject.data, originals[0] if chosen is None else chosen
        world = self.judge.still["held_out"]
        assert world is not None
        model = after.networks[after.best]
        return {
            "dataset": {"name": corpus.name, "title": corpus.title, "rows": len(corpus)},
            "model": {"name": self.original.name, "kind": self.original.kind},
            "rows": compared(rows, originals),
            "validation_rows": int(self.aside.sum()),
            "notes": [],
            "groups": value_rows(self.judge, self.original, model),
            "examples": text_examples(world, self.original, model, corpus.classes),
        }

    def save(self, model: RecurrentText, summary: dict[str, Any], path: Path) -> None:
        """The repaired model as an ordinary file for `--model`."""
        before = self.settings.model or BUILTIN / f"{self.subject.data.name}-{self.settings.network or DEFAULT_CELL}"
        description = read_json(network_files(Path(before))[1])
        kept = {name: value for name, value in description.items() if name not in ("quality", "training")}
        repaired = {name: summary[own] for name, own in (("made_by", "command"), ("repair", "chosen"))}
        repaired["protected"] = self.settings.protected
        save_recurrent_text(model, kept | repaired, path)

    def predictor(self, model: RecurrentText) -> None:
        """A model of texts reads no data frames."""


class TextJudge:
    """Measures models of one corpus in the same way."""

    def __init__(self, work: "TextRepairWork", world: TextSearchWorld, findings: Tensor) -> None:
        self.work, self.world, self.findings = work, world, findings
        config, corpus = work.settings, work.subject.data
        rng = np.random.default_rng(config.seed)
        self.held_out = rng.permutation(np.flatnonzero(~corpus.train))[: config.texts]
        self.aside = np.flatnonzero(work.aside)[: config.texts]
        among = {"aside": work.aside, "held_out": ~corpus.train}
        self.still = {name: self._still(which) for name, which in among.items()}

    def _still(self, which: NDArray[np.bool_]) -> TextSearchWorld | None:
        """Texts that only their protected terms may change; None where no such text mentions the attribute."""
        setting, config = self.work.subject, self.work.settings
        sources = setting.mentions.among(which).choose(True, config.mentioning, config.seed)
        if not len(sources):
            return None
        return still_world(sources, setting.mentions.words, setting.model, self.work.searching, CPU)

    def verdict(self, model: RecurrentText) -> Verdict:
        """All figures of one model."""
        scores = self.scores(model, self.held_out)
        right = self._right(scores, self.held_out)
        name, constructed = self.work.subject.data.name, isinstance(model, BlindModel | AveragedTextModel)
        rates = {part: self._rate_of(model, part, name) for part in self.still}
        remaining = None
        if len(self.findings):
            remaining = self._rate(model, self.world, self.findings, "findings made from held-out texts")
        held_out, aside = rates["held_out"], rates["aside"]
        assert held_out is not None, "independent findings begin at such texts"
        return Verdict(
            float(right.mean()),
            right,
            held_out,
            None,
            remaining,
            self._certified(model) if isinstance(model, RecurrentModel) else None,
            float(self.right(model, self.aside).mean()),
            0.0 if aside is None else aside.share,
            0.0 if constructed else 1.0 if aside is None else aside.interval[1],
            self._auc(scores),
        )

    def _rate_of(self, model: RecurrentText, part: str, name: str) -> Rate | None:
        world = self.still[part]
        if world is None:
            return None
        words = "held-out texts" if part == "held_out" else "training texts set aside"
        samples = world.space.samples(world.samples)
        return self._rate(model, world, samples, f"{words} of {name} that mention the attribute")

    def scores(self, model: RecurrentText, rows: NDArray[np.int64]) -> Tensor:
        """(n, classes) what a model says of texts as they are written."""
        corpus = self.work.subject.data
        return text_scores(model, [corpus.text(row) for row in rows.tolist()], self.work.material)

    def _auc(self, scores: Tensor) -> float | None:
        labels = self.work.subject.data.labels[self.held_out]
        return float(roc_auc_score(labels, scores[:, 1].numpy())) if len(np.unique(labels)) == 2 else None

    def right(self, model: RecurrentText, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(n,) which texts of the corpus get the label that they have."""
        return self._right(self.scores(model, rows), rows)

    def _right(self, scores: Tensor, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = scores.argmax(dim=1).numpy() == self.work.subject.data.labels[rows]
        return found

    def _rate(self, model: RecurrentText, world: TextSearchWorld, x: Tensor, words: str) -> Rate:
        hit = check(model.classifier(world.space.texts, CPU, None), world.space, x).hit
        return Rate(words, int(hit.sum()), len(x), self.work.settings.confidence)

    def _certified(self, model: RecurrentModel) -> Rate:
        world = self.still["held_out"]
        assert world is not None
        texts = self.work.material.marked(world.sources.rows)
        proved = int(certified_texts(self.work.material, model.network, texts).sum())
        return Rate("held-out texts whose decision is proved", proved, len(texts), self.work.settings.confidence)


def value_rows(judge: "TextJudge", before: RecurrentText, after: RecurrentText) -> list[dict[str, Any]]:
    """Accuracy on held-out texts by the value that a text mentions first, before and after; the commonest values."""
    world = judge.still["held_out"]
    assert world is not None
    sources, words = world.sources, judge.work.subject.mentions.words
    values = np.array([text.mentions[0].value for text in sources.texts])
    right = [judge.right(model, sources.rows) for model in (before, after)]
    found, counts = np.unique(values, return_counts=True)
    rows = []
    for value in found[np.argsort(-counts, kind="stable")][:MOST_VALUES].tolist():
        there = values == value
        rows.append({
            "attribute": "mentions",
            "value": words.values[value],
            "people": int(there.sum()),
            "accuracy_before": float(right[0][there].mean()),
            "accuracy_after": float(right[1][there].mean()),
        })  # fmt: skip
    return rows


def text_examples(
    world: TextSearchWorld, before: RecurrentText, after: RecurrentText, classes: list[str]
) -> dict[str, Any]:
    """Held-out texts, as they were written, with a witness before only, and after only."""
    x = world.space.samples(world.samples)
    first, second = (check(model.classifier(world.space.texts, CPU, None), world.space, x) for model in (before, after))
    return {
        "people": len(x),
        "now_alike": int((first.hit & ~second.hit).sum()),
        "newly_differ": int((second.hit & ~first.hit).sum()),
        "still_differ": int((second.hit & first.hit).sum()),
        "now_alike_examples": _cards(world, first, second, first.hit & ~second.hit, "before", classes),
        "newly_differ_examples": _cards(world, second, first, second.hit & ~first.hit, "after", classes),
    }


def _cards(
    world: TextSearchWorld, differs: Checked, alike: Checked, which: torch.Tensor, when: str, classes: list[str]
) -> list[dict[str, Any]]:
    """Some texts with the exchange that changes their label, those first whose scores differ most."""
    rows = which.nonzero().squeeze(1)
    gap = (differs.score - differs.pair_score).abs()[rows]
    rows = rows[gap.argsort(descending=True, stable=True)[:MOST_EXAMPLES]]
    if not len(rows):
        return []
    own, other = world.space.swapped_values(differs.x[rows], differs.pair[rows])
    names = world.space.texts.words.values
    return [
        {
            "person": shortened(world.sources.texts[row].tokens.text),
            "own_values": names[mine],
            "other_values": names[theirs],
            "differs": when,
            "label": classes[int(differs.label[row])],
            "other_label": classes[int(differs.pair_label[row])],
            "label_when_alike": classes[int(alike.label[row])],
        }
        for row, mine, theirs in zip(rows.tolist(), own.tolist(), other.tolist(), strict=True)
    ]


def shortened(text: str) -> str:
    """The beginning of a text."""
    flat = " ".join(text.split())
    return flat if len(flat) <= SHOWN_CHARACTERS else f"{flat[:SHOWN_CHARACTERS].rsplit(' ', 1)[0]} …"
