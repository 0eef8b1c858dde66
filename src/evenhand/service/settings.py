"""What a service is told when it starts, and the opened service: its database, its folder, its runs."""

import ipaddress
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from evenhand.errors import EvenhandError
from evenhand.service.storage.accounts import Accounts
from evenhand.service.storage.assets import Assets
from evenhand.service.storage.database import Database, check_revision, revision, upgrade
from evenhand.service.storage.home import Home, default_home, keep_database_private
from evenhand.service.storage.log import Log
from evenhand.service.storage.projects import DEFAULT_PROJECT, Projects, ensure_project
from evenhand.service.storage.runs import LEASE_SECONDS, Runs

GIB = 1 << 30
HOST_NAME = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*|[0-9a-f:]+", re.ASCII)


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
    accounts: bool = False  # whether people have to sign in
    names: tuple[str, ...] = ()  # under which others reach it; with accounts and none given: any
    certificate: Path | None = None  # with `key`: the server speaks TLS itself
    key: Path | None = None
    plain_http: bool = False  # reachable by others without TLS
    proxy: bool = False  # a reverse proxy on this machine says where requests come from

    @property
    def database_url(self) -> str:
        """The database's address, with its password."""
        return self.database or f"sqlite:///{self.home.absolute() / 'evenhand.db'}"

    @property
    def is_reachable(self) -> bool:
        """Whether others than this machine can reach the service, directly or through a proxy."""
        return self.proxy or not _is_loopback(self.host)

    def check_host(self) -> None:
        """Refuse ways to reach the service by which passwords could be read, or addresses made up."""
        outside = not _is_loopback(self.host)
        if wrong := [name for name in self.names if not HOST_NAME.fullmatch(name)]:
            raise EvenhandError(
                f"'{wrong[0]}' is not a host name. Write it without https:// and port: --name example.org"
            )
        if (self.certificate is None) != (self.key is None):
            raise EvenhandError("A certificate needs its key: say both --certificate and --key.")
        if outside and self.proxy:
            raise EvenhandError(
                f"With --proxy the service believes what a request says about where it comes from, so only a proxy on "
                f"this machine may reach it, not everybody who reaches {self.host}. Use --host 127.0.0.1."
            )
        if outside and self.certificate is None and not self.plain_http:
            raise EvenhandError(
                f"Without TLS, passwords could be read on the way to {self.host}. Give --certificate and --key, put a "
                "reverse proxy before the service (--proxy), or say --plain-http if the network is protected otherwise."
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
        if database.is_sqlite and database.url.database:
            keep_database_private(Path(database.url.database))
        try:
            database.check_answers()
        except BaseException:
            database.close()
            raise
        return Service(
            self, database, Runs(database, self.lease_seconds), Assets(database, home), home, Accounts(database),
            Projects(database, home), Log(database),
        )  # fmt: skip


@dataclass(frozen=True)
class Service:
    """The storage of an opened service."""

    settings: Settings
    database: Database
    runs: Runs
    assets: Assets
    home: Home
    accounts: Accounts
    projects: Projects
    log: Log

    def with_accounts(self) -> "Service":
        """The same service as it is served: with accounts where there are any, or where others can reach it."""
        settings = self.settings
        if not (settings.accounts or settings.is_reachable or self.accounts.any()):
            return self
        if not self.accounts.has_admin():
            raise no_admin()
        return replace(self, settings=settings.model_copy(update={"accounts": True}))

    def delete_run(self, run_id: str, project: str | None = None) -> None:
        """Delete a run: its entry, then its folder. A folder left behind by a crash is swept away later."""
        self.runs.delete(run_id, project)
        self.home.remove(self.home.run(run_id))

    def close(self) -> None:
        """Give the database's connections back."""
        self.database.close()


def no_admin() -> EvenhandError:
    """The error where nobody could sign in."""
    return EvenhandError(
        "There are no accounts yet, so nobody could sign in. Make an admin first: evenhand users add NAME --admin"
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
