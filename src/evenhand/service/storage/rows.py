"""The tables' rows as lines of JSON, the same for every database, so that a copy of one can be opened by another."""

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime
from typing import Any

from sqlalchemy import Connection, DateTime, MetaData, Table, func, insert, select, text

VERSION_TABLE = "alembic_version"
BATCH = 500


def tables_of(connection: Connection) -> list[Table]:
    """The tables as the database has them, which may be those of another version; those first that others name."""
    metadata = MetaData()
    metadata.reflect(connection)
    return [table for table in metadata.sorted_tables if table.name != VERSION_TABLE]


Row = dict[str, Any]


def lines_of(connection: Connection, table: Table, kept: Callable[[Row], Row | None]) -> Iterator[str]:
    """A table's rows, one line each, in an order in which they can be put back: a run's parent is older than it.

    `kept` says what is kept of a row; None: nothing.
    """
    order = [table.c[name] for name in ("created", "id") if name in table.c]
    rows = connection.execution_options(yield_per=BATCH).execute(select(table).order_by(*order))
    for row in rows.mappings():
        content = kept(dict(row))
        if content is not None:
            yield json.dumps(content, default=_as_text, ensure_ascii=False) + "\n"


def put_lines(connection: Connection, table: Table, lines: Iterable[str]) -> int:
    """Put rows back; returns how many there were."""
    moments = [column.name for column in table.c if isinstance(column.type, DateTime)]
    aware = connection.dialect.name != "sqlite"
    count = 0
    for batch in _batches(json.loads(line) for line in lines):
        for row in batch:
            row.update({name: _moment(row[name], aware) for name in moments if row[name] is not None})
        connection.execute(insert(table), batch)
        count += len(batch)
    _count_on(connection, table)
    return count


def _count_on(connection: Connection, table: Table) -> None:
    """PostgreSQL's counters do not notice ids that were put in by hand."""
    counted = table.autoincrement_column
    if connection.dialect.name != "postgresql" or counted is None or counted.server_default is None:
        return
    last = connection.scalar(select(func.max(counted)))
    if last is not None:
        counter = "select setval(pg_get_serial_sequence(:table, :column), :last)"
        connection.execute(text(counter), {"table": table.name, "column": counted.name, "last": last})


def _as_text(value: Any) -> str:
    assert isinstance(value, date)
    if isinstance(value, datetime):  # SQLite forgets the time zone, which is UTC
        return (value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)).isoformat()
    return value.isoformat()


def _moment(text: str, aware: bool) -> datetime:
    moment = datetime.fromisoformat(text).astimezone(UTC)
    return moment if aware else moment.replace(tzinfo=None)


def _batches(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
