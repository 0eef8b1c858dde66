"""The paper's tables of retraining on texts, made again: each row fine-tuned with findings, and on bounds."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import mean
from typing import Any

from evenhand.models.devices import one_thread
from evenhand.models.text.loading import RecurrentModel
from evenhand.paper.processes import Interrupted, Say, measure_all
from evenhand.paper.repair_figures import TEXT_METHODS, TEXT_REPAIRS
from evenhand.paper.text_figures import TextRow
from evenhand.paper.text_rows import DEAREST, LEXICON
from evenhand.paper.text_tables import builtin_corpus
from evenhand.runs.audit import Stages
from evenhand.runs.interrupt import Stopped
from evenhand.runs.text_audit import load_setting
from evenhand.runs.text_judge import TextJudge
from evenhand.runs.text_repair import CPU, TextRepairConfig, TextWork

WAYS = ("augment", "certified", "pairing")
SOURCE = "adf-asc"  # whose findings the paper learns from, and judges by


@dataclass(frozen=True)
class TextRepairPlan:
    """How much to spend on each row."""

    seeds: int = 300
    dearest_seeds: int = 300  # for the attribute with the most values
    steps: int = 100
    training_steps: int | None = None  # None: what each repair has by default
    repeats: int = 5
    validation_texts: int = 4_000
    texts: int = 10_000
    mentioning: int = 500


QUICK_TEXT_REPAIR = TextRepairPlan(
    seeds=80,
    dearest_seeds=40,
    steps=20,
    training_steps=30,
    repeats=1,
    validation_texts=500,
    texts=2_000,
    mentioning=100,
)


@dataclass(frozen=True)
class Figures:
    """What a repair did, mean over repeats."""

    removed: float | None  # the share of independent findings that are findings no more; None: there were none
    accuracy: float  # on held-out texts
    auc: float  # area under the ROC curve, on the same texts
    proved: float  # the share of held-out texts whose label is proved


@dataclass(frozen=True)
class TextRepairRow:
    """Everything measured on one row."""

    row: TextRow
    learned: int  # findings from training texts
    independent: int  # findings from held-out texts
    before: Figures
    repairs: dict[str, Figures]  # by way, and for two rows "augment asc" and so on
    seconds: float

    @property
    def part(self) -> TextRow:
        """Which row."""
        return self.row

    def removed(self, way: str) -> float | None:
        """The share of independent findings that a repair removed; None where there is no such figure."""
        return self.repairs[way].removed if way in self.repairs else None

    def lost(self, way: str) -> float:
        """The accuracy that a repair lost."""
        return self.before.accuracy - self.repairs[way].accuracy

    def lost_auc(self, way: str) -> float:
        """The same of the area under the ROC curve, which no threshold moves."""
        return self.before.auc - self.repairs[way].auc


def measure_text_repairs(row: TextRow, say: Say, interrupted: Interrupted, plan: TextRepairPlan) -> TextRepairRow:
    """Both repairs of the paper, and pairing, on one row."""
    start, name = time.perf_counter(), "/".join(row)

    def on_step(what: str, share: float) -> None:  # noqa: ARG001 - only the wish to stop matters
        if interrupted():
            raise Stopped

    config = TextRepairConfig(
        dataset=row.corpus, protected=[row.protected], network=row.network, lexicon=LEXICON, by=list(WAYS),
        method=SOURCE, seeds=plan.dearest_seeds if row.protected == DEAREST else plan.seeds, steps=plan.steps,
        training_steps=plan.training_steps, repeats=plan.repeats,
        texts=plan.texts, mentioning=plan.mentioning, validation_texts=plan.validation_texts,
    )  # fmt: skip
    setting = load_setting(config.audit, builtin_corpus(row.corpus), lambda what, done, total: None)
    assert isinstance(setting.model, RecurrentModel)
    work = TextWork(config, setting, setting.model, Stages(), on_step)
    with one_thread(CPU):
        say(f"{name}: findings from held-out texts")
        judge = TextJudge(work, *work.search(train=False))
        repairs = {}
        for way in WAYS:
            say(f"{name}: {way}")
            repairs[way] = _figures(judge, work.made(way))
        for method in TEXT_METHODS.get(row, ()):
            say(f"{name}: augment with the findings of {method}")
            other = replace(work, config=config.model_copy(update={"method": method}))
            repairs[f"augment {method}"] = _figures(judge, other.made("augment"))
        before = _figures(judge, [setting.model])
    return TextRepairRow(row, work.found, len(judge.findings), before, repairs, time.perf_counter() - start)


def _figures(judge: TextJudge, models: Sequence[Any]) -> Figures:
    verdicts = [judge.verdict(model) for model in models]
    removed = [1 - verdict.remaining.share for verdict in verdicts if verdict.remaining is not None]
    return Figures(
        mean(removed) if removed else None,
        mean(verdict.accuracy or 0.0 for verdict in verdicts),
        mean(verdict.auc or 0.0 for verdict in verdicts),
        mean(verdict.certified.share for verdict in verdicts if verdict.certified is not None),
    )


@dataclass(frozen=True)
class TextRepairReproduction:
    """The figures of all rows that were measured."""

    plan: TextRepairPlan
    rows: list[TextRepairRow]
    left_out: list[TextRow]
    seconds: float
    workers: int

    def as_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return {
            "plan": asdict(self.plan),
            "seconds": round(self.seconds, 1),
            "workers": self.workers,
            "left_out": ["/".join(row) for row in self.left_out],
            "rows": [asdict(result) | {"row": list(result.row)} for result in self.rows],
        }


def reproduce_text_repairs(
    plan: TextRepairPlan,
    say: Say = lambda text: None,
    rows: Sequence[TextRow] = tuple(TEXT_REPAIRS),
    *,
    workers: int | None = None,
) -> TextRepairReproduction:
    """Measure all rows, `workers` at a time; Ctrl-C keeps those that are whole."""
    done = measure_all(rows, partial(measure_text_repairs, plan=plan), say, workers)
    return TextRepairReproduction(plan, done.rows, done.left_out, done.seconds, done.workers)
