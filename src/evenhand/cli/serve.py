"""`evenhand serve` and `evenhand worker`: the service on this machine, and those that do its runs."""

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.service import DatabaseUrl, HomeFolder, is_new, opened, service_missing, settings_from

if TYPE_CHECKING:
    from evenhand.service.settings import Settings

LOCAL = "127.0.0.1"
Workers = Annotated[
    int, typer.Option(help="Processes that do runs, one each at a time; 0: others do (evenhand worker).", min=0, max=64)
]


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; others than this machine's need accounts.")] = LOCAL,
    port: Annotated[int, typer.Option(help="Port to listen on; 0: any that is free.", min=0, max=65535)] = 8321,
    workers: Workers = 1,
    accounts: Annotated[bool, typer.Option("--accounts", help="People have to sign in, on this machine too.")] = False,
    name: Annotated[
        list[str] | None,
        typer.Option(help="Host name by which others reach it; may be repeated.", show_default="any"),
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="Certificate for TLS (PEM), with its chain.")] = None,
    key: Annotated[Path | None, typer.Option(help="Its key (PEM), readable by this user alone.")] = None,
    proxy: Annotated[
        bool, typer.Option("--proxy", help="A reverse proxy on this machine stands in front of it and speaks TLS.")
    ] = False,
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="Let others reach it without TLS: passwords can be read on the way.")
    ] = False,
    home: HomeFolder = None,
    database: DatabaseUrl = None,
) -> None:
    """Start the service: audits in the browser, from upload to repaired model. Ctrl-C ends it.

    On this machine alone it needs no accounts. As soon as there is a user, and wherever others can reach it, people
    have to sign in; make an admin first. Requests are logged as lines of JSON on stderr, on a terminal only what went
    wrong.

    Examples:
      evenhand serve

      evenhand serve --port 9000 --home /srv/evenhand --workers 2

      evenhand users add ada --admin

      evenhand serve --proxy --name audits.example.org

      evenhand serve --host 0.0.0.0 --certificate chain.pem --key key.pem
    """
    settings = settings_from(
        home, database, host=host, port=port, workers=workers, accounts=accounts, certificate=certificate, key=key,
        names=tuple(one.lower() for one in name or ()), proxy=proxy, plain_http=plain_http,
    )  # fmt: skip
    _check(settings)
    try:
        from evenhand.service.api.journal import use_json_logs
        from evenhand.service.server import run_server
    except ModuleNotFoundError as error:
        raise service_missing(error) from error
    with opened(settings) as found:
        service = found.with_accounts()
        use_json_logs(level=logging.WARNING if sys.stderr.isatty() else logging.INFO)
        service.home.sweep(service.database)
        who = "people sign in" if service.settings.accounts else "no accounts, this machine only"
        run_server(service, announce=lambda address: typer.echo(f"evenhand is at {address}  ({who}; Ctrl-C ends it)"))


def _check(settings: "Settings") -> None:
    """Refuse what cannot work before a folder is made for it."""
    from evenhand.service.settings import no_admin

    settings.check_host()
    if (settings.accounts or settings.is_reachable) and is_new(settings):
        raise no_admin()


def worker(
    once: Annotated[bool, typer.Option("--once", help="End when no run is waiting.")] = False,
    home: HomeFolder = None,
    database: DatabaseUrl = None,
) -> None:
    """Do the service's runs, one after the other, until Ctrl-C. Several workers may share a database and a folder.

    A run that is under way when the worker ends is handed back, and another worker resumes it: an audit from its last
    checkpoint, other runs from their beginning.

    Example:  evenhand worker --database postgresql+psycopg://evenhand@db/evenhand --home /srv/evenhand
    """
    settings = settings_from(home, database)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    with opened(settings) as service:
        from evenhand.service.worker import Worker

        doing = Worker(service)
        if once:
            while doing.run_once() is not None:
                pass
        else:
            typer.echo(f"worker {doing.name} looks for runs")
            doing.run_forever()
