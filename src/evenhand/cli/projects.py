"""`evenhand projects`: what keeps people's data apart in the service."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.accounts import Yes, confirm, existing_service, note
from evenhand.cli.options import Json
from evenhand.cli.printing import moment_text, print_json, print_rows
from evenhand.cli.service import DatabaseUrl, HomeFolder, opened, settings_from
from evenhand.cli.stored_runs import holds_nothing

if TYPE_CHECKING:
    from evenhand.service.settings import Service
    from evenhand.service.storage.tables import Project

projects_app = typer.Typer(
    no_args_is_help=True,
    help="The service's projects, which keep people's data apart: evenhand projects add, list, rename, delete.",
)

NewName = Annotated[str, typer.Argument(help="The project's new name, 1 to 100 characters.", metavar="NAME")]
Known = Annotated[str, typer.Argument(help="The project's name or id.", metavar="PROJECT")]


@projects_app.command("add")
def add_project(name: NewName, home: HomeFolder = None, database: DatabaseUrl = None, as_json: Json = False) -> None:
    """Make a project. Only admins see it until others are given a role in it.

    Examples:
      evenhand projects add loans

      evenhand users role ben --project loans --role auditor
    """
    with opened(settings_from(home, database)) as service:
        project = service.projects.add(name)
        note(service, "made a project", project.name, project.id)
        card = _card(service, project)
    print_json(card) if as_json else typer.echo(f"The project '{project.name}' is there now ({project.id}).")


@projects_app.command("list")
def list_projects(home: HomeFolder = None, database: DatabaseUrl = None, as_json: Json = False) -> None:
    """List the projects with what is in them.

    Example:  evenhand projects list
    """
    settings, cards = settings_from(home, database), []
    if not holds_nothing(settings):
        with opened(settings) as service:
            cards = [_card(service, project) for project in service.projects.all()]
    none = f"There is no service in {settings.home} yet. `evenhand serve` starts it."
    rows = [(card["name"], _amounts(card), str(card["members"]), moment_text(card["created"])) for card in cards]
    print_json(cards) if as_json else print_rows(("name", "holds", "members", "made"), rows, none)


@projects_app.command("rename")
def rename_project(
    project: Known, name: NewName, home: HomeFolder = None, database: DatabaseUrl = None, as_json: Json = False
) -> None:
    """Give a project another name.

    Example:  evenhand projects rename loans "loans 2026"
    """
    with existing_service(home, database) as service:
        before = service.projects.get(project)
        after = service.projects.rename(before.id, name)
        note(service, "renamed a project", after.name, after.id, before=before.name)
        card = _card(service, after)
    print_json(card) if as_json else typer.echo(f"The project '{before.name}' is called '{after.name}' now.")


@projects_app.command("delete")
def delete_project(
    project: Known, yes: Yes = False, home: HomeFolder = None, database: DatabaseUrl = None, as_json: Json = False
) -> None:
    """Delete a project with its runs, data sets, models and all their files, for good. Its people stay.

    Example:  evenhand projects delete loans
    """
    with existing_service(home, database) as service:
        found = service.projects.get(project)
        if not yes and not as_json:
            holds = _amounts(_card(service, found))
            confirm(f"Delete the project '{found.name}' with {holds} and all their files?")
        service.projects.delete(found.id)
        note(service, "deleted a project", found.name, found.id)
    print_json({"deleted": found.id}) if as_json else typer.echo(f"The project '{found.name}' is deleted.")


def _card(service: "Service", project: "Project") -> dict[str, Any]:
    facts = {"id": project.id, "name": project.name, "created": project.created}
    return facts | service.projects.counts(project.id) | {"members": len(service.accounts.members(project.id))}


def _amounts(card: dict[str, Any]) -> str:
    return f"{card['runs']} runs, {card['datasets']} data sets, {card['models']} models"
