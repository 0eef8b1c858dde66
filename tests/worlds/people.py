"""A service with accounts for tests, and everybody who may knock at its door.   PYTEST_DONT_REWRITE"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher
from fastapi import FastAPI
from fastapi.testclient import TestClient

from evenhand.service.api.app import create_app
from evenhand.service.api.identity import SESSION, csrf_of, project_of
from evenhand.service.settings import Service, Settings
from evenhand.service.storage import passwords
from evenhand.service.storage.projects import Person, Role
from evenhand.service.storage.tables import Token

PASSWORD = "correct horse battery"
ADDRESS = "http://127.0.0.1:8321"
PEOPLE: dict[str, tuple[str, Role | None]] = {  # name: project and role
    "vera": ("default", "viewer"),
    "olga": ("default", "auditor"),
    "ada": ("default", "admin"),
    "otto": ("other", "auditor"),
    "nina": ("", None),
    "dora": ("default", "auditor"),  # cannot sign in any more
}


@dataclass
class World:
    """A service, its application, its people."""

    service: Service
    app: FastAPI
    other: str  # the id of the other project
    people: dict[str, Person] = field(default_factory=dict)

    def client(self) -> TestClient:
        """Somebody unknown."""
        return TestClient(self.app, base_url=ADDRESS, follow_redirects=False)

    def browser(self, name: str) -> TestClient:
        """Somebody who has signed in, with the token of the forms at hand."""
        client = self.client()
        secret = self.service.accounts.sign_in(name, PASSWORD, f"from {name}")
        client.cookies.set(SESSION, secret, domain="127.0.0.1")  # as if the service had set it
        signed_in = self.service.accounts.signed_in(secret)
        assert signed_in is not None
        client.headers["X-CSRF-Token"] = csrf_of(secret, project_of(self.service.accounts, signed_in[0], None)[0])
        return client

    def program(self, name: str, role: Role, project: str = "default", days: int = 30) -> TestClient:
        """A program with a token of somebody's."""
        return self.with_token(self.service.accounts.add_token(self.people[name], project, role, "a test", days)[1])

    def with_token(self, secret: str) -> TestClient:
        """A program that sends this as its token."""
        client = self.client()
        client.headers["Authorization"] = f"Bearer {secret}"
        return client

    def dead_token(self, name: str, column: str) -> TestClient:
        """A program whose token has expired or was revoked an hour ago."""
        token, secret = self.service.accounts.add_token(self.people[name], "default", "auditor", "dead", 1)
        with self.service.database.writing() as session:
            found = session.get(Token, token.id)
            assert found is not None
            setattr(found, column, datetime.now(UTC) - timedelta(hours=1))
        return self.with_token(secret)

    def actions(self, user: str | None = None) -> list[tuple[str, str | None]]:
        """What the log says that was done, and to what, the newest first."""
        return [(entry.action, entry.subject) for entry in self.service.log.entries(user=user)]


@contextmanager
def peopled(home: Path, **settings: Any) -> Iterator[World]:
    """A world in a folder. Hashes of passwords cost almost nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
        service = Settings(**{"home": home, "database": None, "accounts": True} | settings).open()
        try:
            world = World(service, create_app(service), service.projects.add("Other").id)
            for name, (project, role) in PEOPLE.items():
                world.people[name] = service.accounts.add_user(name, PASSWORD, admin=role == "admin")
                if role in ("viewer", "auditor"):
                    service.accounts.set_role(name, world.other if project == "other" else project, role)
            yield world
        finally:
            service.close()


def csrf_on(page: str) -> str:
    """The token of the forms of a page."""
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    assert found is not None, page
    return found[1]
