"""Repairing a recurrent classifier of texts: fine-tuned on training texts, judged on held-out ones."""

import shlex
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

import evenhand
from evenhand.choices import DEFAULT_LEXICON
from evenhand.errors import EvenhandError, unknown_name
from evenhand.files import read_json
from evenhand.measures.verdict import JudgedRepair
from evenhand.methods.registry import make_text_method
from evenhand.models.devices import one_thread
from evenhand.models.loading import BUILTIN
from evenhand.models.network import network_files
from evenhand.models.text.by_construction import RecurrentModel, RecurrentText
from evenhand.models.text.loading import DEFAULT_CELL, save_recurrent_text
from evenhand.repairs.text import averaged_text_model, repair_text_network
from evenhand.repairs.text_material import FoundPair, TextMaterial, found_pairs
from evenhand.repairs.text_training import RepairStep, repair_settings
from evenhand.runs.audit import Stages, circumstances
from evenhand.runs.config import Checked, TextAuditConfig
from evenhand.runs.notebook_progress import shown_in_notebook, silent
from evenhand.runs.repair import OnStep, Repair, compared, finished, search_all
from evenhand.runs.text_audit import Download, Setting, load_setting, with_lasting_names
from evenhand.runs.text_judge import TextJudge
from evenhand.runs.text_repair_examples import text_examples, value_rows
from evenhand.runs.text_world import Mentions, TextSearchWorld
from evenhand.search.search import Limits
from evenhand.text.corpus import Corpus

TEXT_REPAIRS = ("pairing", "augment", "certified", "blind", "average")
CPU = torch.device("cpu")
ASIDE = 0.1  # the share of the training texts that is for choices alone
NO_OPTIONS = ("dataset", "protected", "by", "training_steps", "validation_texts", "texts", "mentioning")
SEARCHED = ("dataset", "protected", "model", "text", "label", "split", "network", "lexicon", "vectors", "seed")


class TextRepairConfig(Checked):
    """Everything that, with the corpus and the model, decides a repair of texts."""

    dataset: str
    protected: list[str] = Field(min_length=1, max_length=1)
    model: str | None = None
    network: str | None = None
    lexicon: str = DEFAULT_LEXICON
    text: str | None = None
    label: str | None = None
    split: str | None = None
    vectors: str = "glove"
    by: list[str] = Field(default=["pairing"], min_length=1)
    share: float = Field(default=0.05, gt=0, le=1)
    repeats: int = Field(default=1, ge=1)
    strength: float | None = Field(default=None, gt=0)
    choose: str | None = None
    method: str = "adf-asc"
    seeds: int = Field(default=300, ge=1)
    steps: int = Field(default=100, ge=0)  # of local walks
    training_steps: int | None = Field(default=None, ge=1)  # of fine-tuning
    validation_texts: int = Field(default=4_000, ge=1)  # training texts that no network is fitted on
    texts: int = Field(default=10_000, ge=1)  # held-out texts that accuracy is measured on
    mentioning: int = Field(default=2_000, ge=1)  # texts of each split that rates are measured on
    confidence: float = Field(default=0.95, gt=0, lt=1)
    seed: int = Field(default=0, ge=0, le=2**62)

    @property
    def audit(self) -> TextAuditConfig:
        """What a search for findings is asked."""
        return TextAuditConfig.checked(
            **{name: getattr(self, name) for name in SEARCHED}, method=self.method, seeds=self.seeds, device="cpu"
        )


def repair_text(
    data: str | Corpus,
    protected: str | list[str],
    by: str | list[str] = "pairing",
    *,
    out: str | Path | None = None,
    on_step: OnStep = silent,
    on_download: Download = lambda what, done, total: None,
    **settings: Any,
) -> Repair:
    """Make a classifier of texts whose labels depend less, or not at all, on protected words; say what it costs.

    `by` is one or several of pairing, augment, certified, blind and average, or "all". Other settings: see
    `TextRepairConfig`. The model must be one of our recurrent networks.
    """
    stages = Stages()
    with stages.timed("load"):
        ways = [way.strip() for way in by.split(",")] if isinstance(by, str) else by
        names = [name.strip() for name in protected.split(",")] if isinstance(protected, str) else protected
        if len(names) != 1:
            raise EvenhandError(f"A repair of texts is for one attribute at a time; {', '.join(names)} are several.")
        config = TextRepairConfig.checked(
            dataset=data.name if isinstance(data, Corpus) else data,
            protected=names,
            by=list(TEXT_REPAIRS) if "all" in ways else ways,
            **with_lasting_names(settings),
        )
        for way in config.by:
            if way not in TEXT_REPAIRS:
                raise unknown_name("repair called", way, [*TEXT_REPAIRS, "all"])
        make_text_method(config.method)
        setting = load_setting(config.audit, data if isinstance(data, Corpus) else None, on_download)
        if not isinstance(setting.model, RecurrentModel):
            raise EvenhandError(
                f"{setting.model.name} cannot be repaired: repairs of texts are for the LSTM and GRU networks of "
                "`evenhand train`, as they were trained."
            )
        on_step = shown_in_notebook(on_step, f"repair of {setting.corpus.name}")
        work = TextWork(config, setting, setting.model, stages, on_step)
    with one_thread(CPU):
        return finished(out, config.choose, work)


@dataclass
class TextWork:
    """The parts of one repair of texts."""

    config: TextRepairConfig
    setting: Setting
    original: RecurrentModel
    stages: Stages
    on_step: OnStep
    found: int = 0  # findings from training texts
    used: int = 0  # of them, those that augment learned from

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
        rows = np.flatnonzero(self.setting.corpus.train)
        rows = np.random.default_rng([self.config.seed, 5]).permutation(rows)[: max(1, round(ASIDE * len(rows)))]
        aside = np.zeros(len(self.setting.corpus), dtype=bool)
        aside[rows] = True
        return aside

    @cached_property
    def fitted(self) -> Mentions:
        """Mentions in the training texts that may be learned from."""
        return self.setting.mentions.among(self.setting.corpus.train & ~self.aside)

    def judged(self) -> tuple[list[JudgedRepair], list[JudgedRepair]]:
        """The repairs, and what they are compared with: the model as it was, and a blind one."""
        with self.stages.timed("findings"):
            self.on_step("findings from held-out texts", 0)
            judge = TextJudge(self, *self.search(train=False))
        with self.stages.timed("training"):
            made = {way: self.made(way) for way in dict.fromkeys(["blind", *self.config.by])}
        with self.stages.timed("measuring"):
            everything: dict[str, list[RecurrentText]] = {"original": [self.original], **made}
            rows = {by: self._row(by, models, judge) for by, models in everything.items()}
        self.judge = judge
        return [rows[way] for way in self.config.by], [rows["original"], rows["blind"]]

    def _row(self, by: str, models: list[RecurrentText], judge: "TextJudge") -> JudgedRepair:
        verdicts = []
        for number, model in enumerate(models):
            self.on_step(f"measuring {by}", number / len(models))
            verdicts.append(judge.verdict(model))
        return JudgedRepair(by, by, {}, self.used if by == "augment" else 0, verdicts, list(models))

    def made(self, way: str) -> list[RecurrentText]:
        """The models of a way to repair, one for each repeat."""
        if way == "average":
            return [averaged_text_model(self.material, self.config.lexicon)]
        material = replace(self.material, findings=self.learned()) if way == "augment" else self.material
        settings: dict[str, Any] = {"strength": self.config.strength} if way in ("pairing", "certified") else {}
        settings |= {"steps": self.config.training_steps, "share": self.config.share}
        settings["validation_texts"] = self.config.validation_texts
        given = {name: value for name, value in settings.items() if value is not None}
        models: list[RecurrentText] = []
        for repeat in range(self.config.repeats):

            def on_step(step: RepairStep, done: int = repeat) -> None:
                self.on_step(way, (done + step.number / step.steps) / self.config.repeats)

            how = repair_settings(way, seed=self.config.seed + repeat, **given)  # type: ignore[arg-type]
            models.append(repair_text_network(material, how, on_step))
        return models

    def learned(self) -> list[FoundPair]:
        """What a search from training texts finds, as pairs of words with one label."""
        self.on_step("findings from training texts", 0)
        world, x, swaps = self.search(train=True)
        if not len(x):
            raise EvenhandError(
                f"There is nothing to learn from: {self.config.method} found no pair in the training texts. Nothing is "
                "changed. Try another --method, more --seeds, or --by blind."
            )
        self.found, self.used = len(x), max(1, round(self.config.share * len(x)))
        return found_pairs(world.space, world.model, x, swaps)

    def search(self, train: bool) -> tuple[TextSearchWorld, Tensor, Tensor]:
        """A search's world, what it found (n, 2 + width) and the witnesses' swaps (n,)."""
        config = self.config
        mentions = self.fitted if train else self.setting.mentions
        sources = mentions.choose(train, config.seeds, config.seed)
        if not len(sources):
            raise mentions.nothing() if train else self._nothing_held_out()
        world = self.setting.world(sources, config.audit)
        rows = np.arange(len(sources), dtype=np.int32)
        method, limits = make_text_method(config.method), Limits(steps=config.steps)
        found = search_all(world.model, world.space, method, rows[:, None], sources.rows, config.seed, limits)
        x = torch.tensor(np.concatenate([part.sample for part in found]) if found else [], dtype=torch.long)
        swaps = torch.tensor(np.concatenate([part.witness[:, 0] for part in found]) if found else [], dtype=torch.long)
        return world, x, swaps

    def _nothing_held_out(self) -> EvenhandError:
        return EvenhandError(
            f"No held-out text of {self.setting.corpus.name} mentions {self.setting.mentions.what}, so a repair could "
            "not be judged. Hold out more texts (--split names a column that says which), or choose another attribute."
        )

    def summary(
        self, rows: list[JudgedRepair], originals: list[JudgedRepair], chosen: JudgedRepair | None
    ) -> dict[str, Any]:
        """What `summary.json` holds."""
        corpus, after = self.setting.corpus, originals[0] if chosen is None else chosen
        world = self.judge.still["held_out"]
        assert world is not None
        model = after.networks[after.best]
        return {
            "evenhand": evenhand.__version__,
            "kind": "repair",
            "domain": "text",
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "dataset": {"name": corpus.name, "title": corpus.title, "rows": len(corpus)},
            "protected": self.config.protected,
            "model": {"name": self.original.name, "kind": self.original.kind},
            "config": self.config.model_dump(),
            "command": self.command(),
            "rows": compared(rows, originals),
            "validation_rows": int(self.aside.sum()),
            "notes": [],
            "chosen": None if chosen is None else chosen.name,
            "groups": value_rows(self.judge, self.original, model),
            "examples": text_examples(world, self.original, model, corpus.classes),
            **circumstances(world.model, self.stages),
            "seed": self.config.seed,
        }

    def command(self) -> str:
        """The command that does the same again."""
        config, fields = self.config, TextRepairConfig.model_fields
        words = ["evenhand", "repair", config.dataset, "--protected", config.protected[0], "--by", ",".join(config.by)]
        for name, field in fields.items():
            value = getattr(config, name)
            if name not in NO_OPTIONS and value != field.default:
                words += [f"--{name.replace('_', '-')}", str(value)]
        return shlex.join(words)

    def save(self, model: RecurrentText, summary: dict[str, Any], path: Path) -> None:
        """The repaired model as an ordinary file for `--model`."""
        before = self.config.model or BUILTIN / f"{self.setting.corpus.name}-{self.config.network or DEFAULT_CELL}"
        description = read_json(network_files(Path(before))[1])
        kept = {name: value for name, value in description.items() if name not in ("quality", "training")}
        repaired = {"made_by": self.command(), "repair": summary["chosen"], "protected": self.config.protected}
        save_recurrent_text(model, kept | repaired, path)
