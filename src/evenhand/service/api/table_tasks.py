"""What has to read uploaded data is done in a process of its own, with limits: a hostile file ends only that.

`python -m evenhand.service.api.table_tasks` reads one task as JSON from its input and writes one answer.
"""

import errno
import json
import logging
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.errors import EvenhandError

if TYPE_CHECKING:  # the process that does a task needs no database
    from evenhand.service.settings import Settings

LOGGER = logging.getLogger("evenhand.service")
SECONDS = 300.0  # of the processor
AT_ONCE = threading.BoundedSemaphore(2)
PLACES = threading.BoundedSemaphore(8)  # at work or waiting: each holds one of the threads that all requests share
WAITING_SECONDS = 30.0
RETRY_SECONDS = 5
SHOWN_COLUMNS = 200
LONGEST_VALUE = 200
LONGEST_LINE = 500  # of another process, in the log
NO_THREAD = "can't start new thread"  # for want of memory for its stack


def ask(settings: "Settings", task: str, path: Path, **options: Any) -> dict[str, Any]:
    """Do a task in another process: one of `TASKS`."""
    about = {"task": task, "path": str(path), "options": options, "memory": settings.run_memory}
    with _in_turn():
        try:
            done = subprocess.run(
                [sys.executable, "-m", "evenhand.service.api.table_tasks"],
                input=json.dumps(about), capture_output=True, text=True, timeout=4 * SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise EvenhandError(f"The {_what(task)} takes too long to read. Upload a smaller one.") from error
    answer = _answer(done, _what(task))
    if "error" in answer:
        raise EvenhandError(str(answer["error"]).replace(f"{path.parent}/", ""))
    return answer


def _what(task: str) -> str:
    return {"check_archive": "model", "check_texts": "file of texts"}.get(task, "table")


def _answer(done: "subprocess.CompletedProcess[str]", what: str = "table") -> dict[str, Any]:
    """What the process answered; one that its limits ended could not, and a fault of its own is for the log only."""
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        _log(done.returncode, _kind_of(done.stderr))
        raise EvenhandError(
            f"The {what} could not be read: it needs more memory or time than is allowed. Upload a smaller one."
        ) from error
    if "fault" in answer:
        _log(done.returncode, answer["fault"])
        raise EvenhandError(
            f"The {what} could not be read, for a reason that only the server's log says. Ask those who run the "
            f"server, or save the {what} in another way{' (CSV or Parquet)' if what != 'model' else ''} and upload it "
            "again."
        )
    return answer


def _log(code: int, said: str) -> None:
    LOGGER.warning("a table could not be read", extra={"data": {"exit": code, "said": said}})


def _kind_of(printed: str) -> str:
    """The kind of the error at the end of what a process printed: what it says beyond that may be somebody's value."""
    return (printed.strip().splitlines() or [""])[-1].partition(":")[0][:LONGEST_LINE]


def _place_of(error: BaseException) -> str:
    """An error by its kind and the line that raised it, without its words, for the same reason."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name}, line {frame.lineno}"


@contextmanager
def _in_turn() -> Iterator[None]:
    """Wait for others, but not with too many and not for long."""
    if not PLACES.acquire(blocking=False):
        raise _busy()
    try:
        if not AT_ONCE.acquire(timeout=WAITING_SECONDS):
            raise _busy()
        try:
            yield
        finally:
            AT_ONCE.release()
    finally:
        PLACES.release()


def _busy() -> Exception:
    from starlette.exceptions import HTTPException

    words = "Other files are being read at this moment. Try again in a few seconds."
    return HTTPException(503, words, {"Retry-After": str(RETRY_SECONDS)})


def infer(path: Path, **options: Any) -> dict[str, Any]:
    """A schema for a table, and what was decided about its columns."""
    from evenhand.data.infer.schema import infer_file

    inferred = infer_file(path, beside=path.parent, **options)
    return {
        "text": inferred.toml,
        "rows": inferred.rows,
        "notes": inferred.notes,
        "set_aside": inferred.passed | inferred.set_aside,
        "protected_guessed": inferred.protected_guessed,
    }


def check(path: Path, text: str) -> dict[str, Any]:
    """How a schema fits its table."""
    import tomllib

    from evenhand.data.dataset import read_dataset
    from evenhand.data.schema import Schema
    from evenhand.data.schema_check import check_dataset

    schema = Schema.parse(tomllib.loads(text), "of the data set", text)
    checked = check_dataset(read_dataset(schema, path))
    facts: dict[str, list[str]] = {}
    for name, words in checked.facts():  # several rules have the same name
        facts.setdefault(name, []).append(words)
    return {"rows": checked.rows, "facts": {name: "; ".join(words) for name, words in facts.items()}}


def check_texts(path: Path, **columns: Any) -> dict[str, Any]:
    """What a file of texts holds, and how many of them mention each attribute of the usual lexicon."""
    import pyarrow.compute as pc

    from evenhand.text.corpus import load_corpus
    from evenhand.text.lexicon import load_lexicon

    corpus, lexicon = load_corpus(path, **columns), load_lexicon()
    return {
        "rows": len(corpus),
        "held_out": int((~corpus.train).sum()),
        "empty": corpus.empty,
        "classes": corpus.classes,
        "mentions": {
            name: int(pc.sum(pc.match_substring_regex(corpus.texts, words.pattern)).as_py() or 0)
            for name, words in lexicon.attributes.items()
        },
    }


def check_archive(path: Path, most: int) -> dict[str, Any]:
    """Whether a zip holds a model of texts that can be unpacked to `most` bytes."""
    from evenhand.service.model_archive import open_archive

    return {"files": list(open_archive(path, most).members)}


def preview(path: Path, rows: int, every_name: bool = False) -> dict[str, Any]:
    """The first rows of a table as text, without reading the rest; with `every_name` the names of all columns too."""
    read = {".parquet": _parquet_rows, ".jsonl": _json_rows}.get(path.suffix, _csv_rows)
    columns, values = read(path, rows)
    shown = [[None if value is None else str(value)[:LONGEST_VALUE] for value in row[:SHOWN_COLUMNS]] for row in values]
    names = [name[:LONGEST_VALUE] for name in columns[:SHOWN_COLUMNS]]
    found = {"columns": names, "rows": shown, "more_columns": len(columns) - len(names)}
    return found | ({"every_name": columns} if every_name else {})


def _csv_rows(path: Path, rows: int) -> tuple[list[str], list[list[str]]]:
    import csv
    import gzip
    from itertools import islice

    from evenhand.data.csv_files import find_separator, unique_header

    separator = {"texts.csv": ",", "texts.tsv": "\t"}.get(path.name) or find_separator(path)
    with (
        gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="")
        if path.suffix == ".gz"
        else (path.open(encoding="utf-8-sig", errors="replace", newline="")) as stream
    ):
        try:
            columns, *values = islice(csv.reader(stream, delimiter=separator), rows + 1)
        except (ValueError, csv.Error) as error:
            raise EvenhandError("The table cannot be read as CSV.") from error
    return unique_header(columns), values


def _parquet_rows(path: Path, rows: int) -> tuple[list[str], list[list[Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            names = [str(name) for name in file.schema_arrow.names]
            batch = next(file.iter_batches(rows, columns=names[:SHOWN_COLUMNS]), None)
    except (pa.ArrowException, OSError) as error:
        raise EvenhandError("The table cannot be read as Parquet.") from error
    columns = [] if batch is None else [column.to_pylist() for column in batch]
    return names, [list(row) for row in zip(*columns, strict=True)]  # no dict: names may be there twice


def _json_rows(path: Path, rows: int) -> tuple[list[str], list[list[Any]]]:
    from itertools import islice

    try:
        with path.open(encoding="utf-8-sig", errors="replace") as stream:
            objects = [json.loads(line) for line in islice(filter(str.strip, stream), rows)]
        names = list(dict.fromkeys(str(name) for one in objects for name in one))
        return names, [[one.get(name) for name in names] for one in objects]
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise EvenhandError("The file cannot be read as JSON lines, one object a line.") from error


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    task.__name__: task for task in (infer, check, check_texts, check_archive, preview)
}


def _short_of_memory(error: BaseException | None) -> bool:
    """Whether an error comes from the limit of memory, under which libraries cannot be loaded either."""
    if error is None:
        return False
    no_memory = isinstance(error, OSError) and error.errno == errno.ENOMEM
    if no_memory or isinstance(error, MemoryError | ImportError) or NO_THREAD in str(error):
        return True
    return _short_of_memory(error.__cause__ or error.__context__)


def main() -> None:
    """Do the task that stands on the input."""
    from evenhand.service.limits import leave_network, limit_memory, limit_processor

    about = json.load(sys.stdin)
    leave_network()
    limit_processor(SECONDS)
    limit_memory(about["memory"])
    try:
        answer = TASKS[about["task"]](Path(about["path"]), **about["options"])
    except EvenhandError as error:
        answer = {"error": str(error)}
    except Exception as error:  # a fault of ours: without an answer it would be taken for an end by the limits
        if _short_of_memory(error):
            raise
        answer = {"fault": _place_of(error)}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
