"""How good a repaired model of texts is: on held-out texts, on those set aside, on findings made without it."""

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch import Tensor

from evenhand.measures.rates import Rate
from evenhand.measures.verdict import Verdict
from evenhand.models.text.by_construction import AveragedTextModel, BlindModel, RecurrentModel, RecurrentText
from evenhand.repairs.text import text_scores
from evenhand.repairs.text_certified import certified_texts
from evenhand.runs.text_world import TextSearchWorld, still_world
from evenhand.search.check import check

if TYPE_CHECKING:
    from evenhand.runs.text_repair import TextRepairWork

CPU = torch.device("cpu")


class TextJudge:
    """Measures models of one corpus in the same way."""

    def __init__(self, work: "TextRepairWork", world: TextSearchWorld, findings: Tensor, swaps: Tensor) -> None:  # noqa: ARG002 - as a search gives it
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
        samples = world.space.samples(np.arange(len(world.sources), dtype=np.int32)[:, None])
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
