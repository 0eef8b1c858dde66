"""`evenhand users`: who may sign in to the service, what they may do, their tokens, and who did what."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from evenhand.cli.accounts import Name, ProjectName, Yes, asked_password, confirm, existing_service, note
from evenhand.cli.options import Json
from evenhand.cli.printing import moment_text, print_json, print_rows
from evenhand.cli.service import DatabaseUrl, HomeFolder, opened, settings_from
from evenhand.cli.stored_runs import LEAST_LETTERS, holds_nothing
from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.service.settings import Service
    from evenhand.service.storage.tables import Project, Token, User

users_app = typer.Typer(
    no_args_is_help=True,
    help="The service's users, their roles and tokens, and the log: evenhand users add, list, password, role, admin, "
    "disable, enable, delete, token, tokens, revoke, log.",
)
GIVEN: dict[str, Literal["viewer", "auditor"] | None] = {"viewer": "viewer", "auditor": "auditor", "none": None}
Stdin = Annotated[bool, typer.Option("--password-stdin", help="Read the password from stdin instead of asking.")]
LOG_FIELDS = ("id", "at", "user", "address", "action", "project", "subject", "data")


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
            typer.echo("After its next start the service asks everybody to sign in.")
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
    nobody = f"There are no users in {settings.home}, so the service is open to this machine, and to it alone."
    rows = [(card["name"], _may(card), _state(card), moment_text(card["created"])) for card in cards]
    print_json(cards) if as_json else print_rows(("name", "may", "state", "made"), rows, nobody)


@users_app.command("password")
def set_password(
    name: Name, password_stdin: Stdin = False, home: HomeFolder = None, database: DatabaseUrl = None
) -> None:
    """Give a user another password. It ends all their sign-ins and revokes all their tokens.

    Example:  evenhand users password ben
    """
    with existing_service(home, database) as service:
        user = service.accounts.user(name)
        service.accounts.set_password(user.name, asked_password(password_stdin))
        note(service, "set a password", user.name)
    typer.echo(f"'{user.name}' has a new password and has to sign in again. Earlier tokens no longer work.")


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
    with existing_service(home, database) as service:
        user, wanted = service.accounts.user(name), service.projects.get(project)
        _set_role(service, user.name, wanted, role)
    words = "has no role" if role == "none" else f"is {role}"
    typer.echo(f"'{user.name}' {words} in '{wanted.name}' now.")
    if user.admin:
        typer.echo("As an admin they may do everything in every project all the same.")


@users_app.command("admin")
def set_admin(
    name: Name,
    no_admin: Annotated[bool, typer.Option("--no-admin", help="Take the admin role away.")] = False,
    home: HomeFolder = None,
    database: DatabaseUrl = None,
) -> None:
    """Make a user an admin, who may do everything in every project, or no longer one. The last admin stays one.

    Examples:
      evenhand users admin ben

      evenhand users admin ben --no-admin
    """
    with existing_service(home, database) as service:
        user = service.accounts.user(name)
        service.accounts.set_admin(user.name, not no_admin)
        note(service, "changed a user", user.name, admin=not no_admin)
    typer.echo(f"'{user.name}' is {'no' if no_admin else 'an'} admin now.")


@users_app.command("disable")
def disable_user(name: Name, home: HomeFolder = None, database: DatabaseUrl = None) -> None:
    """Disable a user: sign-ins end, and all tokens are revoked for good. The last admin cannot be disabled.

    Example:  evenhand users disable ben
    """
    _set_disabled(name, True, home, database)


@users_app.command("enable")
def enable_user(name: Name, home: HomeFolder = None, database: DatabaseUrl = None) -> None:
    """Let a disabled user sign in again. Tokens that were revoked stay so; make new ones.

    Example:  evenhand users enable ben
    """
    _set_disabled(name, False, home, database)


@users_app.command("delete")
def delete_user(name: Name, yes: Yes = False, home: HomeFolder = None, database: DatabaseUrl = None) -> None:
    """Delete a user with their roles and tokens. What they uploaded and ran stays, and so does the log.

    Example:  evenhand users delete ben
    """
    with existing_service(home, database) as service:
        user = service.accounts.user(name)
        if not yes:
            confirm(f"Delete the user '{user.name}', with roles and tokens?")
        service.accounts.delete_user(user.name)
        note(service, "deleted a user", user.name)
    typer.echo(f"'{user.name}' is deleted.")


@users_app.command("token")
def add_token(
    name: Name,
    project: ProjectName,
    token: Annotated[str, typer.Option("--name", help="The token's name: what it is for.", metavar="TEXT")],
    role: Annotated[str, typer.Option("--role", help="viewer, auditor or admin: not more than the user's.")] = "viewer",
    days: Annotated[int, typer.Option(help="How long it works, 1 to 366.")] = 90,
    home: HomeFolder = None,
    database: DatabaseUrl = None,
    as_json: Json = False,
) -> None:
    """Make a token, with which a program acts for a user in one project. Its secret is printed this one time.

    Example:  evenhand users token ben --project loans --role auditor --name nightly --days 90
    """
    with existing_service(home, database) as service:
        from evenhand.service.storage.projects import checked_role, person_of

        user, wanted = service.accounts.user(name), service.projects.get(project)
        made, secret = service.accounts.add_token(person_of(user), wanted.id, checked_role(role), token, days)
        note(service, "made a token", made.id, wanted.id, name=made.name, role=made.role, of=user.name)
    if as_json:
        print_json(_token_card(made, user.name) | {"secret": secret})
        return
    typer.echo(secret)
    words = f"{made.role} in '{wanted.name}' until {moment_text(made.expires)}"
    typer.echo(f"Keep it now: it cannot be shown again. {words}; {made.id[:8]} in lists.", err=True)


@users_app.command("tokens")
def list_tokens(
    name: Annotated[str | None, typer.Argument(help="Only this user's.", metavar="[NAME]", show_default=False)] = None,
    home: HomeFolder = None,
    database: DatabaseUrl = None,
    as_json: Json = False,
) -> None:
    """List tokens, the newest first, also those that no longer work. Secrets are not kept, so they are not shown.

    Example:  evenhand users tokens ben
    """
    with existing_service(home, database) as service:
        from evenhand.service.storage.projects import person_of

        users = {user.id: user for user in service.accounts.users()}
        person = None if name is None else person_of(service.accounts.user(name))
        found = [token for token in service.accounts.tokens(person) if token.user in users]
        projects = {project.id: project.name for project in service.projects.all()}
    if as_json:
        print_json([_token_card(token, users[token.user].name) for token in found])
    else:
        rows = [
            (token.id[:8], users[token.user].name, token.name, f"{token.role} in {projects.get(token.project, '')}",
             moment_text(token.expires), moment_text(token.used), _token_state(token, users[token.user].disabled))
            for token in found
        ]  # fmt: skip
        none = "There are no tokens. Make one: evenhand users token NAME --project PROJECT --name TEXT"
        print_rows(("token", "user", "name", "role", "until", "used", "state"), rows, none)


@users_app.command("revoke")
def revoke_token(
    token: Annotated[str, typer.Argument(help="The token's id, or as much of it as names one.", metavar="TOKEN_ID")],
    home: HomeFolder = None,
    database: DatabaseUrl = None,
) -> None:
    """Revoke a token: it no longer works, from now on.

    Example:  evenhand users revoke 3f2a91bc
    """
    with existing_service(home, database) as service:
        revoked = service.accounts.revoke_token(_token_id(service, token.lower()), None)
        note(service, "revoked a token", revoked.id, revoked.project, name=revoked.name)
    typer.echo(f"The token '{revoked.name}' ({revoked.id[:8]}) no longer works.")


@users_app.command("log")
def show_log(
    user: Annotated[str | None, typer.Option("--user", help="Only what this user did.", show_default=False)] = None,
    action: Annotated[
        str | None, typer.Option("--action", help='Only this, for instance "sign-in refused".', show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many, the newest first.", min=1, max=100_000)] = 50,
    home: HomeFolder = None,
    database: DatabaseUrl = None,
    as_json: Json = False,
) -> None:
    """Show who did what, when and from where, the newest first.

    Example:  evenhand users log --action "sign-in refused"
    """
    with existing_service(home, database) as service:
        found = service.log.entries(user=user, action=action, limit=limit)
    if as_json:
        print_json([{name: getattr(entry, name) for name in LOG_FIELDS} for entry in found])
    else:
        rows = [
            (moment_text(entry.at), entry.user or "", entry.address or "", entry.action, entry.subject or "")
            for entry in found
        ]
        print_rows(("when", "who", "from", "did", "to what"), rows, "Nothing of that kind is in the log.")


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
    with existing_service(home, database) as service:
        user = service.accounts.user(name)
        service.accounts.set_disabled(user.name, disabled)
        note(service, "changed a user", user.name, disabled=disabled)
    words = "is disabled now, and their tokens are revoked" if disabled else "may sign in now"
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
    return "disabled" if card["disabled"] else "may sign in"


def _token_id(service: "Service", beginning: str) -> str:
    """The id that begins so; what names none is left to be refused."""
    known = [token.id for token in service.accounts.tokens(None) if token.id.startswith(beginning)]
    if len(beginning) < LEAST_LETTERS or not known:
        return beginning
    if len(known) > 1:
        raise EvenhandError(f"Several tokens begin with '{beginning}': {', '.join(known[:5])}.")
    return known[0]


def _token_state(token: "Token", disabled: bool) -> str:
    if token.revoked is not None:
        return "revoked"
    if token.expires <= datetime.now(UTC):
        return "expired"
    return "user disabled" if disabled else "works"


def _token_card(token: "Token", user: str) -> dict[str, Any]:
    names = ("id", "name", "project", "role", "created", "expires", "used", "revoked")
    return {"user": user} | {name: getattr(token, name) for name in names}
