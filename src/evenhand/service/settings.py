"""What a service is told when it starts, and the opened service: its database, its folder, its runs."""

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from evenhand.errors import EvenhandError
from evenhand.service.storage.assets import Assets
from evenhand.service.storage.database import Database
from evenhand.service.storage.home import Home, default_home
from evenhand.service.storage.projects import ensure_project
from evenhand.service.storage.runs import LEASE_SECONDS, Runs
from evenhand.service.storage.upgrade import check_revision, revision, upgrade

GIB = 1 << 30
DEFAULT_PROJECT = "default"


def default_database() -> str | None:
    """The database that $EVENHAND_DATABASE names, so that a password need not stand on a command line."""
    return os.environ.get("EVENHAND_DATABASE") or None


class Settings(BaseModel):
    """How a service works. Sizes are in bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    home: Path = Field(default_factory=default_home)
    database: str | None = Field(default_factory=default_database)  # None: SQLite in `home`
    host: str = "127.0.0.1"
    port: int = Field(default=8321, ge=0, le=65535)
    upload_limit: int = Field(default=2 * GIB, gt=0)  # a table
    model_limit: int = Field(default=GIB, gt=0)  # a model
    max_request: int = Field(default=1 << 20, gt=0)  # any other request
    run_memory: int = Field(default=8 * GIB, gt=0)  # address space of a run's process
    run_seconds: float = Field(default=24 * 3600.0, gt=0)  # processor time of a run
    workers: int = Field(default=1, ge=0)
    lease_seconds: float = Field(default=LEASE_SECONDS, gt=0)

    @property
    def database_url(self) -> str:
        """The database's address, with its password."""
        return self.database or f"sqlite:///{self.home.absolute() / 'evenhand.db'}"

    def check_host(self) -> None:
        """Refuse every address that others can reach: there are no accounts yet."""
        if not _is_loopback(self.host):
            raise EvenhandError(
                f"The service has no accounts yet, so it only listens on this machine, not on {self.host}. Use "
                "--host 127.0.0.1; from another machine, reach it through an SSH tunnel."
            )

    def open(self) -> "Service":
        """The service's storage, ready for use: the folder is made, and the tables of a new SQLite file too."""
        service = self.storage()
        try:
            if service.database.is_sqlite and revision(service.database) is None:
                upgrade(service.database)
            check_revision(service.database)
            ensure_project(service.database, DEFAULT_PROJECT)
        except BaseException:
            service.close()
            raise
        return service

    def storage(self) -> "Service":
        """The same without a look at the tables: for `evenhand storage`, which makes and repairs them."""
        home = Home(self.home)
        home.make()
        database = Database(self.database_url)
        try:
            database.check_answers()
        except BaseException:
            database.close()
            raise
        return Service(self, database, Runs(database, self.lease_seconds), Assets(database, home), home)


@dataclass(frozen=True)
class Service:
    """The storage of an opened service."""

    settings: Settings
    database: Database
    runs: Runs
    assets: Assets
    home: Home

    def delete_run(self, run_id: str, project: str | None = None) -> None:
        """Delete a run: its entry, then its folder. A folder left behind by a crash is swept away later."""
        self.runs.delete(run_id, project)
        self.home.remove(self.home.run(run_id))

    def close(self) -> None:
        """Give the database's connections back."""
        self.database.close()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
