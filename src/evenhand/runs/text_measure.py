"""Measuring a classifier of texts: rates over real texts with protected words, and which way they go."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor

import evenhand
from evenhand.errors import EvenhandError
from evenhand.files import result_folder, write_json
from evenhand.measures.direction import Direction, rank_values
from evenhand.measures.rates import Rate
from evenhand.measures.sampling import check_precision
from evenhand.models.devices import one_thread
from evenhand.runs.audit import FINDINGS, SUMMARY, Stages, circumstances
from evenhand.runs.config import TextAuditConfig
from evenhand.runs.earlier_findings import OnProgress, earlier_summary, findings_words
from evenhand.runs.interrupt import interrupt_as_wish
from evenhand.runs.measure import Measurement
from evenhand.runs.notebook_progress import shown_in_notebook, silent
from evenhand.runs.text_audit import Download, Setting, lasting_name, load_setting, with_lasting_names
from evenhand.runs.text_world import Mentions, Sources, TextSearchWorld, still_world
from evenhand.search.text_space import TextSpace
from evenhand.text.corpus import Corpus

TEXTS = 2000  # of each split, and of an earlier audit's findings
PART = 500  # texts whose variants are prepared together
Interrupted = Callable[[], bool]


@dataclass
class TextTally:
    """Counts of texts, of discriminatory ones, and among these of each value's variants and how many win."""

    values: int
    favourable: int
    samples: int = 0
    hits: int = 0
    seen: NDArray[np.int64] = field(init=False)
    won: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.seen, self.won = np.zeros((2, self.values), dtype=np.int64)

    def add(self, world: TextSearchWorld, x: Tensor) -> None:
        """Look at all variants of some texts. A text stands for the values that it mentions itself."""
        answers = world.space.answers(world.model, x)
        labels, there = answers.labels, answers.there
        differs = labels != labels[:, :1]  # swap 0 is the text as it is
        hit = (differs if there is None else differs & there).any(dim=1)
        self.samples += len(x)
        self.hits += int(hit.sum())
        win = labels == self.favourable
        text, swap = (torch.ones_like(win) if there is None else there).nonzero().unbind(1)
        counts = hit[text] & (swap > 0)
        text, swap = text[counts], swap[counts]
        own, other = world.space.swapped_values(x[text], swap)
        np.add.at(self.seen, other, 1)
        np.add.at(self.won, other, win[text, swap].cpu().numpy())
        first = _first_of_group(text, swap, world.space)
        np.add.at(self.seen, own[first], 1)
        np.add.at(self.won, own[first], win[text, 0].cpu().numpy()[first])

    def direction(self, attribute: str, values: tuple[str, ...]) -> list[Direction]:
        """Who wins and who loses; nothing without discrimination."""
        known = np.flatnonzero(self.seen)
        shares = self.won[known] / self.seen[known]
        return [rank_values(attribute, [values[number] for number in known], shares.tolist())] if len(known) else []


def _first_of_group(text: Tensor, swap: Tensor, space: TextSpace) -> NDArray[np.int64]:
    """Of the swaps of each mention one: the text as it is counts once for each of its mentions."""
    groups = torch.stack([text, (swap - 1) // space.values], dim=1).cpu().numpy()
    return np.unique(groups, axis=0, return_index=True)[1]


def measure_text(
    data: str | Corpus,
    protected: str | list[str],
    *,
    confidence: float = 0.95,
    texts: int = TEXTS,
    findings: str | Path | None = None,
    out: str | Path | None = None,
    on_progress: OnProgress = silent,
    on_download: Download = lambda what, done, total: None,
    **settings: Any,
) -> Measurement:
    """How often a classifier of texts decides otherwise because of protected words, over up to `texts` of each split.

    `findings` is the folder of an earlier audit: how many of its findings, of up to `texts`, are findings with this
    model too. The other settings are those of `evenhand.audit_text`.
    """
    check_precision(0.01, confidence)
    if texts < 1:
        raise EvenhandError(f"The number of texts is {texts}; at least one is needed.")
    stages, started = Stages(), datetime.now(UTC)
    names = [name.strip() for name in protected.split(",")] if isinstance(protected, str) else protected
    name = data.name if isinstance(data, Corpus) else lasting_name(data)
    configs = [TextAuditConfig.checked(dataset=name, protected=[one], **with_lasting_names(settings)) for one in names]
    with stages.timed("load"):
        earlier = None if findings is None else earlier_summary(Path(findings), "text")
        setting = load_setting(configs[0], data if isinstance(data, Corpus) else None, on_download)
    folder_for = nullcontext() if out is None else result_folder(out)
    with folder_for as folder, interrupt_as_wish() as interrupted, one_thread(setting.device):
        on_progress = shown_in_notebook(on_progress, setting.corpus.name)
        looks = _Looks(setting, confidence, texts, on_progress, interrupted)
        measured: list[dict[str, Any]] = []
        for config in configs:
            if not interrupted():
                with stages.timed(config.protected[0]):
                    measured.append({"protected": config.protected, "populations": list(looks.of_corpus(config))})
        again = None
        if findings is not None and earlier is not None and not interrupted():
            with stages.timed("findings"):
                again = looks.of_findings(Path(findings), earlier, configs[0]).as_dict()
        summary = {
            **_facts(setting, names, started),
            "config": configs[0].model_dump(include=CONFIG) | {"confidence": confidence, "texts": texts},
            "measured": measured,
            "findings": again,
            "groups": [],
            "notes": [],
            "stopped": "interrupted" if interrupted() else "completed",
            **circumstances(looks.model or _nothing_read(setting), stages),
            "seed": configs[0].seed,
        }
        if folder is not None:
            write_json(folder / SUMMARY, summary)
    return Measurement(summary, folder)


CONFIG = {"dataset", "model", "network", "lexicon", "vectors", "swap", "ambiguous", "seed", "device"}


def _nothing_read(setting: Setting) -> Any:
    raise setting.mentions.nothing()


def _facts(setting: Setting, names: list[str], started: datetime) -> dict[str, Any]:
    corpus = setting.corpus
    return {
        "evenhand": evenhand.__version__,
        "kind": "measure",
        "domain": "text",
        "started": started.isoformat(timespec="seconds"),
        "dataset": {"name": corpus.name, "title": corpus.title, "rows": len(corpus)},
        "protected": names,
        "favourable": corpus.classes[_favourable(corpus)],
        "model": {"name": setting.model.name, "kind": setting.model.kind, "reads": setting.model.most_words},
    }


def _favourable(corpus: Corpus) -> int:
    """The favourable class, or the last one where the corpus names none."""
    return len(corpus.classes) - 1 if corpus.favourable is None else corpus.classes.index(corpus.favourable)


class _Looks:
    """Looks at texts, part by part, so that a person sees it go on and can stop it."""

    def __init__(
        self, setting: Setting, confidence: float, most: int, on_progress: OnProgress, interrupted: Interrupted
    ) -> None:
        self.setting, self.confidence, self.most = setting, confidence, most
        self.on_progress, self.interrupted = on_progress, interrupted
        self.model: Any = None  # the last that was asked

    def of_corpus(self, config: TextAuditConfig) -> Iterator[dict[str, Any]]:
        """The rate and the direction of both splits."""
        mentions = self._mentions(config)
        for name, train, words in (("train", True, "training"), ("held_out", False, "held-out")):
            chosen = mentions.choose(train, self.most, config.seed)
            if not len(chosen) or self.interrupted():
                continue
            tally = self._tally(chosen, mentions, config, f"{mentions.what}, {words} texts")
            which = "" if tally.samples == len(chosen) < self.most else "a random part of the "
            population = f"{which}{words} texts of {mentions.corpus.name} that mention {mentions.what}"
            rate = Rate(population, tally.hits, tally.samples, self.confidence)
            who = tally.direction(config.protected[0], mentions.words.values)
            note = {} if tally.samples == len(chosen) else {"note": "wider than asked, since it was interrupted"}
            yield {"name": name, **rate.as_dict(), **note, "direction": [direction.as_dict() for direction in who]}

    def of_findings(self, folder: Path, earlier: dict[str, Any], config: TextAuditConfig) -> Rate:
        """The share of an earlier audit's findings that are still findings; those without a mention are none."""
        if earlier["dataset"]["name"] != self.setting.corpus.name:
            raise EvenhandError(
                f"The findings in {folder} are of {earlier['dataset']['name']}, not of {self.setting.corpus.name}. "
                "Give the data that was audited."
            )
        rules = {name: earlier["config"][name] for name in ("lexicon", "swap", "ambiguous", "protected")}
        config = config.model_copy(update=rules)
        written = pq.read_table(folder / FINDINGS, columns=["text"])["text"].to_pylist()
        if not written:
            raise EvenhandError(f"The audit in {folder} has no findings to look at again.")
        chosen = np.random.default_rng(config.seed).permutation(len(written))[: self.most].tolist()
        mentions = self._mentions(config)
        marked = [mentions.marked(written[row]) for row in chosen]
        there = [text for text in marked if text is not None]
        sources = Sources(np.arange(len(there), dtype=np.int64), there)
        tally = self._tally(sources, mentions, config, "findings")
        looked_at = len(chosen) - (len(there) - tally.samples)
        return Rate(findings_words(folder, looked_at, len(written)), tally.hits, looked_at, self.confidence)

    def _mentions(self, config: TextAuditConfig) -> Mentions:
        from evenhand.text.lexicon import load_lexicon

        words = load_lexicon(config.lexicon).attribute(config.protected[0])
        return Mentions(self.setting.corpus, words, self.setting.model.most_words, config.ambiguous)

    def _tally(self, texts: Sources, mentions: Mentions, config: TextAuditConfig, what: str) -> TextTally:
        tally = TextTally(len(mentions.words.values), _favourable(mentions.corpus))
        for start in range(0, len(texts), PART):
            part = Sources(texts.rows[start : start + PART], texts.texts[start : start + PART])
            world = still_world(part, mentions.words, self.setting.model, config, self.setting.device)
            self.model = world.model
            x = world.space.samples(np.arange(len(part), dtype=np.int32)[:, None])
            for piece in torch.split(x, world.space.chunks(x, world.model.chunk_rows)):
                if self.interrupted() and tally.samples:
                    return tally
                tally.add(world, piece)
                self.on_progress(what, tally.samples, len(texts))
        return tally
