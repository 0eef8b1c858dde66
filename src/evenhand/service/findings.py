"""Browsing a file of findings, of a table or of texts: filters, order and pages, answered by DuckDB.

`findings_index` says what the database holds that stands beside the file.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.errors import EvenhandError, unknown_name
from evenhand.service.findings_index import (
    DATABASE,
    TEXT_NUMBERS,
    TEXT_STRINGS,
    IndexContents,
    Sort,
    index_path,
    open_index,
    write_index,
)

if TYPE_CHECKING:
    import duckdb

MOST_ROWS = 500  # of a page
MOST_OPEN = 4  # databases: each may take `findings_index.READING_MEMORY`
MOST_TOTALS = 1000  # of one file, by filters


@dataclass(frozen=True)
class Filters:
    """Which findings to show; what is None does not matter."""

    values: tuple[tuple[str, str], ...] = ()  # tables: attribute and value that the sample or its witness has
    label: str | None = None  # of the sample
    phase: str | None = None
    least_gap: float | None = None  # of the scores
    text_value: str | None = None  # texts: the protected value that the text names
    witness_value: str | None = None  # texts: the one that its witness names
    most_words: int | None = None  # texts: how many words may differ from the original
    contains: str | None = None  # texts: what the text or its witness has in it, in capitals or not


@dataclass(frozen=True)
class AnyFinding:
    """What a pair in a table and a pair of texts have in common."""

    row: int  # in the file, from 0
    phase: str
    seed_row: int | None  # of the data; none: the search started from a random sample
    step: int
    label: str
    witness_label: str
    score: float  # of the sample's label, for the sample
    witness_score: float  # of the sample's label, for the witness
    gap: float


@dataclass(frozen=True)
class Finding(AnyFinding):
    """One pair in a table, in words."""

    sample: dict[str, str]
    witness: dict[str, str]  # the protected attributes; all others are as in the sample


@dataclass(frozen=True)
class FindingInTexts(AnyFinding):
    """One pair of texts, with how far it is from the text that the search started from."""

    original: str
    text: str
    witness: str
    value: str
    witness_value: str
    l0: int
    l2: float
    jaccard: float
    bleu: float
    similarity: float | None  # none: not measured


@dataclass(frozen=True)
class Page:
    """Some findings, and where the next page begins."""

    rows: list[Finding | FindingInTexts]
    total: int  # findings that the filters let through
    after: int | None  # what to ask for to see the next page; none: this is the last


@dataclass(frozen=True)
class FindingsIndex:
    """The findings of one file, ready to be paged."""

    path: Path  # of the index
    connection: "duckdb.DuckDBPyConnection" = field(repr=False)
    contents: IndexContents = field(repr=False)
    totals: dict[Filters, int] = field(repr=False, default_factory=dict)  # counted before

    @classmethod
    def open(cls, findings: Path) -> "FindingsIndex":
        """The index of a file of findings; it is written where it is missing or that of another file."""
        if not findings.is_file():
            raise EvenhandError("There are no findings to show: the run has not ended, or it is not an audit.")
        index = _opened.get(findings)
        if index is None:
            write_index(findings)
            index = _opened.get(findings)
            assert index is not None
        return index

    @property
    def rows(self) -> int:
        """How many findings there are."""
        return self.contents.rows

    @property
    def texts(self) -> bool:
        """Whether the findings are pairs of texts."""
        return self.contents.texts

    @property
    def attributes(self) -> list[str]:
        """The names of all attributes; texts have none."""
        return self.contents.attributes

    @property
    def protected(self) -> list[str]:
        """The attributes in which a sample and its witness may differ."""
        return self.contents.protected

    @property
    def sorts(self) -> list[Sort]:
        """The orders that pages may have."""
        return ["order", *self.contents.sorts]

    def words(self, column: str) -> list[str]:
        """The values that a column has: sample.NAME, label, phase; of texts value, witness_value."""
        return list(dict.fromkeys(self.contents.words[column].values()))

    def page(
        self, filters: Filters | None = None, *, sort: Sort = "order", after: int | None = None, limit: int = 50
    ) -> Page:
        """Findings in the order of the file or in another one, after the key of an earlier page.

        The key is a row's place in that order: a page begins there without a look at what comes before.
        """
        filters = filters or Filters()
        if sort not in self.sorts:
            raise EvenhandError(f"These findings cannot be sorted by '{sort}'. Choose one of {', '.join(self.sorts)}.")
        limit = min(limit, MOST_ROWS)
        total = self._total(filters)
        if not total:
            return Page([], 0, None)
        where, bound = self._conditions(filters)
        found = self._ask(
            f"SELECT rowid AS place, abs(score - witness_score) AS shown_gap, * FROM {DATABASE}.by_{sort} "
            f"WHERE rowid > ? AND {where} ORDER BY rowid LIMIT ?",
            [-1 if after is None else after, *bound, limit + 1],
        )
        shown = found[:limit]
        return Page(self._in_words(shown), total, shown[-1]["place"] if len(found) > limit else None)

    def _total(self, filters: Filters) -> int:
        """How many findings the filters let through."""
        if filters == Filters():
            return self.rows
        if filters not in self.totals:
            where, bound = self._conditions(replace(filters, least_gap=None))
            wide, least = self._conditions(Filters(least_gap=filters.least_gap))  # these stand first in their table
            # To count what is true of all rows is several times faster than to count the rows for which it is true.
            [total] = self._ask(
                f"SELECT count_if({where}) AS total FROM {DATABASE}.by_gap WHERE {wide}", [*bound, *least]
            )
            if len(self.totals) >= MOST_TOTALS:
                self.totals.clear()
            self.totals[filters] = total["total"]
        return self.totals[filters]

    def _conditions(self, filters: Filters) -> tuple[str, list[Any]]:
        """The filters as SQL, with the values for its question marks."""
        self._refuse_strangers(filters)
        parts = [self._either(name, value) for name, value in filters.values]
        for column in ("label", "phase", "text_value", "witness_value"):
            word = getattr(filters, column)
            if word is not None:
                parts.append(self._equal(column.replace("text_value", "value"), word))
        bound: list[Any] = []
        if filters.least_gap is not None and filters.least_gap > 0:
            parts.append("gap >= CAST(? AS FLOAT)")
            bound.append(filters.least_gap)
        if filters.most_words is not None:
            parts.append("l0 <= ?")
            bound.append(filters.most_words)
        if filters.contains:
            has = " OR ".join(f"regexp_matches({name}, regexp_escape(?), 'i')" for name in ("text", "witness"))
            parts.append(f"row IN (SELECT rowid FROM {DATABASE}.texts WHERE {has})")
            bound += [filters.contains] * 2
        return " AND ".join(f"({part})" for part in parts) or "true", bound

    def _refuse_strangers(self, filters: Filters) -> None:
        """Filters that findings of this kind do not have."""
        for_texts = (filters.text_value, filters.witness_value, filters.most_words, filters.contains)
        if not self.texts and any(one is not None for one in for_texts):
            raise EvenhandError(
                "These findings are in a table: only those in texts can be filtered by their own value, the witness's "
                "value, the words that differ or what they contain."
            )
        for name, _ in filters.values:
            if self.texts:
                raise EvenhandError(f"Texts have no attribute '{name[:80]}'. Filter by the value that a text names.")
            if name not in self.attributes:
                raise unknown_name("attribute", name, self.attributes)

    def _either(self, attribute: str, value: str) -> str:
        """Whether a sample or its witness has a value."""
        own = self._equal(f"sample.{attribute}", value)
        return f"{own} OR {self._equal(f'witness.{attribute}', value)}" if attribute in self.protected else own

    def _equal(self, column: str, word: str) -> str:
        """Whether a column has a value. Nothing but numbers goes into the SQL."""
        codes = (code for code, known in self.contents.words[column].items() if known == word)
        return " OR ".join(f"{self.contents.columns[column]} = {code:d}" for code in codes) or "false"

    def _in_words(self, rows: list[dict[str, Any]]) -> list[Finding | FindingInTexts]:
        strings = self._strings([row["row"] for row in rows]) if self.texts else {}
        return [self._finding(row, strings.get(row["row"], {})) for row in rows]

    def _strings(self, rows: list[int]) -> dict[int, dict[str, Any]]:
        """The texts of some rows."""
        found = self._ask(
            f"SELECT texts.rowid AS row, texts.* FROM {DATABASE}.texts, unnest(?) AS wanted(row) "
            "WHERE texts.rowid = wanted.row",
            [rows],
        )
        return {row["row"]: {name: row[name] for name in TEXT_STRINGS} for row in found}

    def _finding(self, row: dict[str, Any], strings: dict[str, Any]) -> Finding | FindingInTexts:
        said = {column: words[row[self.contents.columns[column]]] for column, words in self.contents.words.items()}
        common = {
            "row": row["row"],
            "phase": said["phase"],
            "seed_row": row["seed_row"] if row["seed_row"] >= 0 else None,
            "step": row["step"],
            "label": said["label"],
            "witness_label": said["witness_label"],
            "score": row["score"],
            "witness_score": row["witness_score"],
            "gap": row["shown_gap"],
        }
        if self.texts:
            numbers = {name: row[name] for name in TEXT_NUMBERS}
            return FindingInTexts(
                **common, **strings, **numbers, value=said["value"], witness_value=said["witness_value"]
            )
        return Finding(
            **common,
            sample={name: said[f"sample.{name}"] for name in self.attributes},
            witness={name: said[f"witness.{name}"] for name in self.protected},
        )

    def _ask(self, sql: str, bound: list[Any]) -> list[dict[str, Any]]:
        """Rows by column. Each question has a cursor of its own: several people may ask at once."""
        import duckdb

        try:
            cursor = self.connection.cursor().execute(sql, bound)
        except duckdb.Error as error:
            if "Corrupt" not in str(error) and not isinstance(error, duckdb.IOException):
                raise
            self.path.unlink(missing_ok=True)
            raise EvenhandError("The index of these findings was damaged. Ask again: it is written anew.") from error
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


class _Opened:
    """The databases that are open in this process, the one that was used last at the end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[Path, tuple[int, ...]], FindingsIndex] = OrderedDict()

    def get(self, findings: Path) -> FindingsIndex | None:
        """The index of a file of findings; None where there is none that can be used."""
        path = index_path(findings)
        with self._lock:
            for key in [key for key in self._known if key != (key[0], _state(key[0]))]:
                del self._known[key]  # the file is another one or gone: the disk gets its room back
            key = (path, _state(path))
            if key not in self._known:
                opened = open_index(path) if key[1] else None
                if opened is None:
                    return None
                self._known[key] = FindingsIndex(path, *opened)
                while len(self._known) > MOST_OPEN:
                    self._known.popitem(last=False)  # whoever still reads it has it until they are done
            self._known.move_to_end(key)
            index = self._known[key]
        return index if index.contents.size == findings.stat().st_size else None


def _state(path: Path) -> tuple[int, ...]:
    """What tells one file from another under the same name; nothing where there is none."""
    try:
        state = path.stat()
    except OSError:
        return ()
    return state.st_ino, state.st_mtime_ns, state.st_size


_opened = _Opened()
