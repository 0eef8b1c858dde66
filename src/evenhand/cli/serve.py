"""`evenhand serve` and `evenhand worker`: the service on this machine, and those that do its runs."""

import logging
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.service import DatabaseUrl, HomeFolder, opened, service_missing, settings_from

if TYPE_CHECKING:
    pass

Workers = Annotated[
    int, typer.Option(help="Processes that do runs, one each at a time; 0: others do (evenhand worker).", min=0, max=64)
]


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; only this machine's own is allowed.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0: any that is free.", min=0, max=65535)] = 8321,
    workers: Workers = 1,
    home: HomeFolder = None,
    database: DatabaseUrl = None,
) -> None:
    """Start the service: audits in the browser, from upload to repaired model. Ctrl-C ends it.

    It listens on this machine only, since it has no accounts yet. Requests are logged as lines of JSON on stderr, on a
    terminal only what went wrong.

    Examples:
      evenhand serve

      evenhand serve --port 9000 --home /srv/evenhand --workers 2
    """
    settings = settings_from(home, database, host=host, port=port, workers=workers)
    settings.check_host()
    try:
        from evenhand.service.api.journal import use_json_logs
        from evenhand.service.server import run_server
    except ModuleNotFoundError as error:
        raise service_missing(error) from error
    with opened(settings) as service:
        use_json_logs(level=logging.WARNING if sys.stderr.isatty() else logging.INFO)
        service.home.sweep(service.database)
        run_server(service, announce=lambda address: typer.echo(f"evenhand is at {address}  (Ctrl-C ends it)"))


def worker(
    once: Annotated[bool, typer.Option("--once", help="End when no run waits any more.")] = False,
    home: HomeFolder = None,
    database: DatabaseUrl = None,
) -> None:
    """Do the service's runs, one after the other, until Ctrl-C. Several workers may share a database and a folder.

    A run that is being done when the worker ends is handed back, and another worker starts it again.

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
