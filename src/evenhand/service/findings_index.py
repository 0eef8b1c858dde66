"""The index beside a file of findings: a DuckDB database of the same findings, laid out for pages.

Parquet is compressed in groups of rows, so fifty rows from all over a file cost the reading of fifty groups, and an
order by score gap that of every row: some tenths of a second in a large file. The database holds

- `by_order`, `by_gap`, for texts also `by_similarity` and `by_words`: the findings once for each order. A page begins
  at its place there and ends when it is full, and what it shows stands side by side;
- `texts`: the texts themselves, only once and in the order of the file;
- `words`: what the codes in the columns mean; `about`: what the index is of.

Columns are named by their place (`s3`, `w0`), never by what a table calls them. The Parquet file stays the one that
counts: an index that is missing, damaged, of another file or of an earlier version is written anew.
"""

import errno
import json
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evenhand.errors import EvenhandError
from evenhand.files import replacing

if TYPE_CHECKING:
    import duckdb

    from evenhand.data.attribute import Attribute

INDEX = "findings.index"
VERSION = 4
DATABASE = "index_of_findings"  # the name of the database within a connection
READING_MEMORY, WRITING_MEMORY = "128MB", "512MB"  # of one index; writing goes on on the disk beyond that
CODES = ("sample_code.", "witness_code.")
MEANINGS = b"evenhand.attributes"  # in the file's metadata
COMMON_WORDS = ("phase", "label", "witness_label")
COMMON_NUMBERS = ("seed_row", "step", "score", "witness_score")
TEXT_WORDS = ("value", "witness_value")
TEXT_NUMBERS = ("l0", "l2", "jaccard", "bleu", "similarity")
TEXT_STRINGS = ("original", "text", "witness")
# What is no number comes last, beside the narrowest gap.
GAP = (
    "CASE WHEN isnan(score - witness_score) THEN 0 WHEN isinf(score - witness_score) THEN 1 "
    "ELSE abs(score - witness_score) END"
)
Sort = Literal["order", "gap", "similarity", "words"]
SORTS: dict[Sort, str] = {"gap": "gap DESC"}  # besides the order of the file
TEXT_SORTS: dict[Sort, str] = SORTS | {
    "similarity": "CASE WHEN isnan(similarity) THEN NULL ELSE similarity END DESC NULLS LAST",
    "words": "l0",
}
# Of the database: blocks and groups of rows in which a filter reads little besides the columns that it needs.
LAYOUT = "BLOCK_SIZE 65536, ROW_GROUP_SIZE 491520"
INTEGERS = {"UTINYINT": (0, 2**8), "SMALLINT": (-(2**15), 2**15)}  # else INTEGER, as in the file


@dataclass(frozen=True)
class IndexContents:
    """What an index says about itself."""

    version: int
    size: int  # of the file of findings
    rows: int
    texts: bool
    attributes: list[str]
    protected: list[str]
    columns: dict[str, str]  # of a column of words, such as label or sample.NAME: its name in the database
    words: dict[str, dict[int, str]] = field(default_factory=dict)  # by column: what its codes mean

    @property
    def sorts(self) -> dict[Sort, str]:
        """The orders besides that of the file, as SQL."""
        return TEXT_SORTS if self.texts else SORTS


def index_path(findings: Path) -> Path:
    """Where the index of a file of findings is."""
    return findings.with_name(INDEX)


def connect(memory: str, spill: str = "") -> "duckdb.DuckDBPyConnection":
    """A database in memory that takes one thread and so much memory, and never reaches for the network."""
    import duckdb  # here: it is large, and most of what imports this module only needs names

    return duckdb.connect(
        ":memory:",
        config={
            "threads": 1,
            "async_threads": 0,
            "memory_limit": memory,
            "temp_directory": spill,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "python_enable_replacements": False,
        },
    )


def open_index(path: Path) -> "tuple[duckdb.DuckDBPyConnection, IndexContents] | None":
    """A connection that can read this file and no other, and what it says; None where it cannot be used."""
    import duckdb

    connection = connect(READING_MEMORY)
    try:
        connection.execute(f"ATTACH ? AS {DATABASE} (READ_ONLY)", [str(path)])
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        [(about,)] = connection.execute(f"SELECT content FROM {DATABASE}.about").fetchall()
        contents = IndexContents(**json.loads(about))
        contents.words.update((column, {}) for column in contents.columns)
        for column, code, word in connection.execute(f"FROM {DATABASE}.words").fetchall():
            contents.words[column][code] = word
        if contents.version == VERSION:
            return connection, contents
    except (duckdb.Error, ValueError, TypeError, KeyError):
        pass
    connection.close()
    return None


def write_index(findings: Path) -> Path:
    """Write the index of a file of findings, whole or not at all; returns its path."""
    path = index_path(findings)
    with (
        replacing(path) as temporary,
        tempfile.TemporaryDirectory(prefix=".index-", dir=path.parent) as folder,
        _errors_in_words(path),
        closing(connect(WRITING_MEMORY, folder)) as connection,
    ):
        written = Path(folder) / INDEX
        _Writer(connection, findings).write(written)
        written.replace(temporary)
    return path


@contextmanager
def _errors_in_words(path: Path) -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        if "No space left" in str(error):
            raise OSError(errno.ENOSPC, "No space left on device") from error
        raise EvenhandError(f"Cannot write {path.name}: {str(error).splitlines()[0]}") from error


class _Writer:
    """Writes one index."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection", findings: Path) -> None:
        import pyarrow.parquet as pq  # here: a server mostly reads what is written already

        self._connection, self._findings = connection, findings
        # Parquet says nothing about what is no number: DuckDB would take a column's range for all that it holds.
        self._run("SET disabled_optimizers = 'statistics_propagation'")
        schema = pq.read_schema(findings)
        self._places = {name: f"c{place}" for place, name in enumerate(schema.names)}
        # Names are the table's and may be anything; DuckDB is only told of places.
        places = ", ".join([*self._places.values(), "file_row_number"])
        self._source = f"read_parquet(?, file_row_number = true) AS findings({places})"
        self._meanings = _meanings(schema)
        self._contents = self._described(pq.read_metadata(findings).num_rows)

    def _described(self, rows: int) -> IndexContents:
        names = [name for name in self._places if name.startswith(CODES)]
        texts = not names
        if texts and not {*TEXT_WORDS, *TEXT_NUMBERS, *TEXT_STRINGS, *COMMON_WORDS, *COMMON_NUMBERS} <= {*self._places}:
            raise EvenhandError(f"{self._findings.name} does not hold findings that can be paged.")
        attributes, protected = (
            [name.removeprefix(start) for name in names if name.startswith(start)] for start in CODES
        )
        columns = {name: name for name in (*COMMON_WORDS, *(TEXT_WORDS if texts else ()))}
        columns |= {f"sample.{name}": f"s{place}" for place, name in enumerate(attributes)}
        columns |= {f"witness.{name}": f"w{place}" for place, name in enumerate(protected)}
        return IndexContents(VERSION, self._findings.stat().st_size, rows, texts, attributes, protected, columns)

    def write(self, path: Path) -> None:
        """Write all."""
        about = self._contents
        self._run(f"ATTACH ? AS {DATABASE} ({LAYOUT})", str(path))
        self._run(f"USE {DATABASE}")
        self._run("CREATE TABLE words (field VARCHAR, code INTEGER, word VARCHAR)")
        coded = [f"{self._coded(name)} AS {column}" for name, column in about.columns.items()]
        named = (*COMMON_NUMBERS, *(TEXT_NUMBERS if about.texts else ()))
        plain = [f"{self._places[name]} AS {name}" for name in named]
        self._run(
            f"CREATE TABLE by_order AS SELECT CAST(file_row_number AS UINTEGER) AS row, {', '.join([*plain, *coded])}, "
            f"CAST({GAP} AS FLOAT) AS gap FROM {self._source}",
            str(self._findings),
        )
        for name, order in about.sorts.items():
            self._run(f"CREATE TABLE by_{name} AS FROM by_order ORDER BY {order}, row")
        if about.texts:
            strings = ", ".join(f"{self._places[name]} AS {name}" for name in TEXT_STRINGS)
            self._run(f"CREATE TABLE texts AS SELECT {strings} FROM {self._source}", str(self._findings))
        self._run("CREATE TABLE about (content VARCHAR)")
        self._run("INSERT INTO about VALUES (?)", json.dumps(asdict(about)))
        self._run("USE memory")
        self._run(f"DETACH {DATABASE}")  # writes what is still in memory

    def _run(self, sql: str, *bound: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, bound).fetchall()

    def _coded(self, name: str) -> str:
        """A column of words as small numbers, in SQL; what they mean goes into `words`."""
        attribute = self._meanings.get(name)
        place = self._places[name if attribute is None else name.replace(".", "_code.", 1)]
        distinct = f"SELECT DISTINCT {place} FROM {self._source} WHERE {place} IS NOT NULL ORDER BY 1"
        found = [one for (one,) in self._run(distinct, str(self._findings))]
        codes = [*range(len(found))] if attribute is None else found
        words = found if attribute is None else [attribute.text(code) for code in codes]
        self._run("INSERT INTO words SELECT ?, unnest(?), unnest(?)", name, codes, words)
        if not codes:
            return "CAST(NULL AS UTINYINT)"
        if attribute is None:
            self._run(f"CREATE TYPE {name} AS ENUM (SELECT word FROM words WHERE field = ? ORDER BY code)", name)
            place = f"enum_code(CAST({place} AS {name}))"
        fitting = (kind for kind, (low, end) in INTEGERS.items() if low <= codes[0] and codes[-1] < end)
        return f"CAST({place} AS {next(fitting, 'INTEGER')})"


def _meanings(schema: Any) -> "dict[str, Attribute]":
    """By column of the index, what the codes of the file mean."""
    from evenhand.data.attribute import Attribute

    columns = [name for name in schema.names if name.startswith(CODES)]
    said = json.loads((schema.metadata or {}).get(MEANINGS, b"[]"))
    attributes = {entry["name"]: Attribute.model_validate(entry) for entry in said}
    if columns and not attributes:
        raise EvenhandError("The file of findings does not say what its codes mean: an earlier version made it.")
    return {name.replace("_code.", ".", 1): attributes[name.partition(".")[2]] for name in columns}
