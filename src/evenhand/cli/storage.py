"""`evenhand storage`: the service's database and files: brought up to date, copied, restored, checked."""

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.options import Json
from evenhand.cli.printing import print_json
from evenhand.cli.service import DatabaseUrl, HomeFolder, opened, settings_from
from evenhand.cli.stored_runs import check_storage_exists
from evenhand.errors import EvenhandError

storage_app = typer.Typer(
    no_args_is_help=True,
    help="The service's database and files: evenhand storage upgrade, backup, restore, check.",
)


@storage_app.command("upgrade")
def upgrade_storage(home: HomeFolder = None, database: DatabaseUrl = None) -> None:
    """Make the database's tables, or bring those of an older evenhand up to date. Make a copy first.

    Example:  evenhand storage upgrade --database postgresql+psycopg://evenhand@localhost/evenhand
    """
    settings = settings_from(home, database)
    with opened(settings, checked=False) as service:
        from evenhand.service.storage.database import check_if_newer, revision, upgrade

        before = revision(service.database)
        check_if_newer(service.database)
        upgrade(service.database)
        after = revision(service.database)
    with opened(settings):
        words = "is up to date already" if before == after else "is up to date now"
    typer.echo(f"The database {words} (version {after}).")


@storage_app.command("backup")
def backup_storage(
    to: Annotated[Path, typer.Argument(help="The file to write (.tar).", metavar="FILE")],
    home: HomeFolder = None,
    database: DatabaseUrl = None,
    as_json: Json = False,
) -> None:
    """Copy the database and all files into one .tar file. The service may go on working.

    Example:  evenhand storage backup evenhand-monday.tar
    """
    if to.exists():
        raise EvenhandError(f"{to} exists already, and a copy is never overwritten. Choose another name.")
    settings = settings_from(home, database)
    check_storage_exists(settings)
    with opened(settings, checked=False) as service:
        from evenhand.service.storage.backup import backup

        summary = backup(service.database, service.home, to)
    if as_json:
        facts = {name: summary[name] for name in ("made", "revision", "rows", "left_out")}
        print_json(facts | {"files": len(summary["files"])})
        return
    typer.echo(f"{to}: {_amounts(summary['rows'])}, {to.stat().st_size:,} bytes.")
    for name in summary["left_out"]:
        typer.echo(f"Left out, since its folder is not there: {name}", err=True)


@storage_app.command("restore")
def restore_storage(
    source: Annotated[Path, typer.Argument(help="A file that `evenhand storage backup` wrote.", metavar="FILE")],
    home: HomeFolder = None,
    database: DatabaseUrl = None,
) -> None:
    """Bring a copy back, into an empty folder and an empty database, which may be of another kind than before.

    Example:  evenhand storage restore evenhand-monday.tar --home /srv/evenhand
    """
    if not source.is_file():
        raise EvenhandError(f"There is no file {source}.")
    settings = settings_from(home, database)
    from evenhand.service.storage.backup import check_copy, restore

    known = check_copy(source)  # before a folder or a database is made
    with opened(settings, checked=False) as service:
        summary = restore(service.database, service.home, source, known)
    typer.echo(f"Restored: {_amounts(summary['rows'])}, as of {summary['made']}.")


@storage_app.command("check")
def check_storage(
    sweep: Annotated[bool, typer.Option("--sweep", help="Remove files that belong to nothing.")] = False,
    home: HomeFolder = None,
    database: DatabaseUrl = None,
    as_json: Json = False,
) -> None:
    """Check that everything is there and undamaged: the database, the folders, the checksums of uploaded files.

    Exit code 0: all is well; 1: something is not; 2: there is no storage to check.

    Example:  evenhand storage check
    """
    settings = settings_from(home, database)
    check_storage_exists(settings)
    with opened(settings) as service:
        from evenhand.service.storage.maintenance import check, counts

        swept = service.home.sweep(service.database) if sweep else []
        problems = check(service.database, service.home)
        amounts = counts(service.database)
    if as_json:
        found = [{"where": problem.where, "what": problem.what, "remedy": problem.remedy} for problem in problems]
        print_json({"counts": amounts, "problems": found, "swept": list(map(str, swept))})
    else:
        for path in swept:
            typer.echo(f"removed {path}")
        for problem in problems:
            typer.echo(f"{problem.where}: {problem.what}. {problem.remedy}")
        typer.echo(f"{_amounts(amounts)}: {f'{len(problems)} problems' if problems else 'all is well'}.")
    raise typer.Exit(1 if problems else 0)


def _amounts(rows: dict[str, int]) -> str:
    names = {"runs": "runs", "datasets": "data sets", "data sets": "data sets", "models": "models"}
    return ", ".join(f"{count:,} {names[name]}" for name, count in sorted(rows.items()) if name in names)
