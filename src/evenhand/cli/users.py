"""`evenhand users`: who may sign in to the service, and what they may do."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from evenhand.cli.accounts import (
    YES,
    Name,
    ProjectName,
    asked_password,
    existing,
    moment_text,
    note,
    print_json,
    print_rows,
)
from evenhand.cli.asking import confirm
from evenhand.cli.looking import holds_nothing
from evenhand.cli.options import Json
from evenhand.cli.service import DatabaseUrl, HomeFolder, opened, settings_from
from evenhand.cli.users_tokens import add_token, list_tokens, revoke_token, show_log
from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.service.settings import Service
    from evenhand.service.storage.tables import Project, User

users_app = typer.Typer(
    no_args_is_help=True,
    help="The service's users, their roles and tokens, and the log: evenhand users add, list, password, role, admin, "
    "disable, enable, delete, token, tokens, revoke, log.",
)
GIVEN: dict[str, Literal["viewer", "auditor"] | None] = {"viewer": "viewer", "auditor": "auditor", "none": None}

Stdin = Annotated[bool, typer.Option("--password-stdin", help="Read the password from stdin instead of asking.")]


@users_app.command("add")
def add_user(
    name: Name,
    admin: Annotated[bool, typer.Option("--admin", help="May do everything in every project.")] = False,
    project: Annotated[
        str | None,
        typer.Option("--project", help="A project to give a role in.", metavar="PROJECT", show_default=False),
    ] = None,
    role: Annotated[
        str | None,
        typer.Option("--role", help="viewer (reads) or auditor (also uploads and runs).", show_default=False),
    ] = None,
    password_stdin: Stdin = False,
    home: HomeFolder = None,
    database: DatabaseUrl = None,
) -> None:
    """Add a user. The password is asked for twice, or piped in (--password-stdin); it has at least 12 characters.

    Examples:
      evenhand users add ada --admin

      evenhand users add ben --project default --role auditor

      evenhand users add ben --password-stdin
    """
    _check_role(admin, project, role)
    with opened(settings_from(home, database)) as service:
        from evenhand.service.storage.passwords import checked_name

        checked_name(name)  # before a password is asked for
        wanted = None if project is None else service.projects.get(project)
        first = not service.accounts.any()
        person = service.accounts.add_user(name, asked_password(password_stdin), admin=admin)
        note(service, "made a user", person.name, admin=admin)
        if wanted is not None and role is not None:
            _set_role(service, person.name, wanted, role)
        typer.echo(f"'{person.name}' may sign in now.")
        if first:
            typer.echo("From its next start on the service asks everybody to sign in.")
        if not service.accounts.has_admin():
            typer.echo("It does not start without an admin. Add one: evenhand users add NAME --admin")


@users_app.command("list")
def list_users(home: HomeFolder = None, database: DatabaseUrl = None, as_json: Json = False) -> None:
    """List the users with their roles.

    Example:  evenhand users list
    """
    settings, cards = settings_from(home, database), []
    if not holds_nothing(settings):
        with opened(settings) as service:
            cards = [_card(service, user) for user in service.accounts.users()]
    if as_json:
        print_json(cards)
    elif not cards:
        typer.echo(f"There are no users in {settings.home}, so the service is open to this machine, and to it alone.")
    else:
        rows = ((card["name"], _may(card), _state(card), moment_text(card["created"])) for card in cards)
        print_rows(("name", "may", "state", "made"), rows)


@users_app.command("password")
def set_password(
    name: Name, password_stdin: Stdin = False, home: HomeFolder = None, database: DatabaseUrl = None
) -> None:
    """Give a user another password. It ends all their sign-ins and revokes all their tokens.

    Example:  evenhand users password ben
    """
    with existing(home, database) as service:
        user = service.accounts.user(name)
        service.accounts.set_password(user.name, asked_password(password_stdin))
        note(service, "set a password", user.name)
    typer.echo(f"'{user.name}' has a new password and has to sign in again. Tokens made before work no more.")


@users_app.command("role")
def set_role(
    name: Name,
    project: ProjectName,
    role: Annotated[str, typer.Option("--role", help="viewer, auditor or none.")],
    home: HomeFolder = None,
    database: DatabaseUrl = None,
) -> None:
    """Say what a user may do in a project: viewers read, auditors also upload, run, repair and delete.

    Example:  evenhand users role ben --project loans --role viewer
    """
    with existing(home, database) as service:
        user, wanted = service.accounts.user(name), service.projects.get(project)
        _set_role(service, user.name, wanted, role)
    words = "has no role" if role == "none" else f"is {role}"
    typer.echo(f"'{user.name}' {words} in '{wanted.name}' now.")
    if user.admin:
        typer.echo("As an admin they may do everything in every project all the same.")


@users_app.command("admin")
def set_admin(
    name: Name,
    no_admin: Annotated[bool, typer.Option("--no-admin", help="Not any more.")] = False,
    home: HomeFolder = None,
    database: DatabaseUrl = None,
) -> None:
    """Let a user do everything in every project, or not any more. The last admin stays one.

    Examples:
      evenhand users admin ben

      evenhand users admin ben --no-admin
    """
    with existing(home, database) as service:
        user = service.accounts.user(name)
        service.accounts.set_admin(user.name, not no_admin)
        note(service, "changed a user", user.name, admin=not no_admin)
    typer.echo(f"'{user.name}' is {'no' if no_admin else 'an'} admin now.")


@users_app.command("disable")
def disable_user(name: Name, home: HomeFolder = None, database: DatabaseUrl = None) -> None:
    """Keep a user out: sign-ins end, and all tokens are revoked for good. The last admin cannot be kept out.

    Example:  evenhand users disable ben
    """
    _set_disabled(name, True, home, database)


@users_app.command("enable")
def enable_user(name: Name, home: HomeFolder = None, database: DatabaseUrl = None) -> None:
    """Let a user in again. Tokens that were revoked stay so; make new ones.

    Example:  evenhand users enable ben
    """
    _set_disabled(name, False, home, database)


@users_app.command("delete")
def delete_user(name: Name, yes: YES = False, home: HomeFolder = None, database: DatabaseUrl = None) -> None:
    """Delete a user with their roles and tokens. What they uploaded and ran stays, and so does the log.

    Example:  evenhand users delete ben
    """
    with existing(home, database) as service:
        user = service.accounts.user(name)
        if not yes:
            confirm(f"Delete the user '{user.name}', with roles and tokens?")
        service.accounts.delete_user(user.name)
        note(service, "deleted a user", user.name)
    typer.echo(f"'{user.name}' is deleted.")


users_app.command("token")(add_token)
users_app.command("tokens")(list_tokens)
users_app.command("revoke")(revoke_token)
users_app.command("log")(show_log)


def _check_role(admin: bool, project: str | None, role: str | None) -> None:
    if (project is None) != (role is None):
        raise EvenhandError("A role is one in a project: say both --project and --role, or neither.")
    if role not in (None, "viewer", "auditor"):
        raise EvenhandError(f"There is no role '{role}' in a project. Say --role viewer or --role auditor.")
    if admin and role is not None:
        raise EvenhandError("An admin may do everything in every project. Leave --project and --role out.")


def _set_role(service: "Service", name: str, project: "Project", role: str) -> None:
    if role not in GIVEN:
        raise EvenhandError(f"There is no role '{role}' in a project. Say --role viewer, auditor or none.")
    service.accounts.set_role(name, project.id, GIVEN[role])
    note(service, "changed a role", name, project.id, role=role)


def _set_disabled(name: str, disabled: bool, home: Any, database: str | None) -> None:
    with existing(home, database) as service:
        user = service.accounts.user(name)
        service.accounts.set_disabled(user.name, disabled)
        note(service, "changed a user", user.name, disabled=disabled)
    words = "is kept out now, and their tokens are revoked" if disabled else "may sign in now"
    typer.echo(f"'{user.name}' {words}.")


def _card(service: "Service", user: "User") -> dict[str, Any]:
    from evenhand.service.storage.projects import person_of

    own = [] if user.admin else service.accounts.projects_of(person_of(user))
    return {
        **{name: getattr(user, name) for name in ("id", "name", "admin", "disabled", "created")},
        "roles": [{"project": project.id, "name": project.name, "role": role} for project, role in own],
    }


def _may(card: dict[str, Any]) -> str:
    if card["admin"]:
        return "admin"
    return ", ".join(f"{role['role']} in {role['name']}" for role in card["roles"]) or "nothing yet"


def _state(card: dict[str, Any]) -> str:
    return "kept out" if card["disabled"] else "may sign in"
