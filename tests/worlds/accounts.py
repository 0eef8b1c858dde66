"""Accounts for tests: cheap hashes, and a clock that is moved instead of waited for.   PYTEST_DONT_REWRITE

A test file that wants the fixtures says `pytest_plugins = ["tests.worlds.service", "tests.worlds.accounts"]`.
"""

from datetime import timedelta
from typing import Any

import pytest
from argon2 import PasswordHasher
from sqlalchemy import select

from evenhand.service.settings import Service
from evenhand.service.storage import passwords
from evenhand.service.storage.accounts import Accounts
from evenhand.service.storage.backup import tables_of
from evenhand.service.storage.projects import Person

GOOD = "correct horse battery"
OTHER = "another long password"


@pytest.fixture
def cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords are hashed with almost no work: a real hash takes 64 MiB and a good part of a second."""
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


@pytest.fixture
def accounts(service: Service, cheap_hashes: None) -> Accounts:
    """Accounts without anybody, on each database."""
    return Accounts(service.database)


@pytest.fixture
def anna(accounts: Accounts) -> Person:
    """An admin."""
    return accounts.add_user("anna", GOOD, admin=True)


@pytest.fixture
def ben(accounts: Accounts, anna: Person) -> Person:
    """An auditor of the first project."""
    person = accounts.add_user("ben", GOOD)
    accounts.set_role("ben", "default", "auditor")
    return person


def earlier(service: Service, table: Any, by: timedelta, *columns: str) -> None:
    """As if what these columns tell had been so much earlier."""
    with service.database.writing() as session:
        for row in session.scalars(select(table)):
            for column in columns:
                setattr(row, column, getattr(row, column) - by)


def everything_kept(service: Service) -> str:
    """All rows of all tables as one text; on SQLite also the bytes of its files, where deleted rows may still be."""
    with service.database.engine.connect() as connection:
        rows = [str(tuple(row)) for table in tables_of(connection) for row in connection.execute(table.select())]
    files = [path.read_bytes().decode("latin-1") for path in sorted(service.home.path.glob("evenhand.db*"))]
    return "\n".join(rows + files)
