"""`evenhand users token`, `tokens`, `revoke` and `log`: secrets for programs, and who did what."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.accounts import Name, ProjectName, existing, moment_text, note, print_json, print_rows
from evenhand.cli.options import Json
from evenhand.cli.service import DatabaseUrl, HomeFolder
from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.service.settings import Service
    from evenhand.service.storage.tables import Token

LEAST_LETTERS = 4  # of an id: fewer may be a slip of the finger
LOG_FIELDS = ("id", "at", "user", "address", "action", "project", "subject", "data")


def add_token(
    name: Name,
    project: ProjectName,
    token: Annotated[str, typer.Option("--name", help="What it is for.", metavar="TEXT")],
    role: Annotated[str, typer.Option("--role", help="viewer, auditor or admin: not more than the user's.")] = "viewer",
    days: Annotated[int, typer.Option(help="How long it works, 1 to 366.")] = 90,
    home: HomeFolder = None,
    database: DatabaseUrl = None,
    as_json: Json = False,
) -> None:
    """Make a token, with which a program acts for a user in one project. Its secret is printed this one time.

    Example:  evenhand users token ben --project loans --role auditor --name nightly --days 90
    """
    with existing(home, database) as service:
        from evenhand.service.storage.projects import checked_role, person_of

        user, wanted = service.accounts.user(name), service.projects.get(project)
        made, secret = service.accounts.add_token(person_of(user), wanted.id, checked_role(role), token, days)
        note(service, "made a token", made.id, wanted.id, name=made.name, role=made.role, of=user.name)
    if as_json:
        print_json(_card(made, user.name) | {"secret": secret})
        return
    typer.echo(secret)
    words = f"{made.role} in '{wanted.name}' until {moment_text(made.expires)}"
    typer.echo(f"Keep it now: it cannot be shown again. {words}; {made.id[:8]} in lists.", err=True)


def list_tokens(
    name: Annotated[str | None, typer.Argument(help="Only this user's.", metavar="[NAME]", show_default=False)] = None,
    home: HomeFolder = None,
    database: DatabaseUrl = None,
    as_json: Json = False,
) -> None:
    """List tokens, the newest first, also those that work no more. Secrets are not kept, so they are not shown.

    Example:  evenhand users tokens ben
    """
    with existing(home, database) as service:
        from evenhand.service.storage.projects import person_of

        users = {user.id: user for user in service.accounts.users()}
        person = None if name is None else person_of(service.accounts.user(name))
        found = [token for token in service.accounts.tokens(person) if token.user in users]
        projects = {project.id: project.name for project in service.projects.all()}
    if as_json:
        print_json([_card(token, users[token.user].name) for token in found])
    elif not found:
        typer.echo("There are no tokens. Make one: evenhand users token NAME --project PROJECT --name TEXT")
    else:
        rows = (
            (token.id[:8], users[token.user].name, token.name, f"{token.role} in {projects.get(token.project, '')}",
             moment_text(token.expires), moment_text(token.used), _state(token, users[token.user].disabled))
            for token in found
        )  # fmt: skip
        print_rows(("token", "user", "name", "role", "until", "used", "state"), rows)


def revoke_token(
    token: Annotated[str, typer.Argument(help="The token's id, or as much of it as names one.", metavar="TOKEN_ID")],
    home: HomeFolder = None,
    database: DatabaseUrl = None,
) -> None:
    """Let a token work no more, from now on.

    Example:  evenhand users revoke 3f2a91bc
    """
    with existing(home, database) as service:
        revoked = service.accounts.revoke_token(_token_id(service, token.lower()), None)
        note(service, "revoked a token", revoked.id, revoked.project, name=revoked.name)
    typer.echo(f"The token '{revoked.name}' ({revoked.id[:8]}) works no more.")


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
    with existing(home, database) as service:
        found = service.log.entries(user=user, action=action, limit=limit)
    if as_json:
        print_json([{name: getattr(entry, name) for name in LOG_FIELDS} for entry in found])
    elif not found:
        typer.echo("Nothing of that kind is in the log.")
    else:
        rows = (
            (moment_text(entry.at), entry.user or "", entry.address or "", entry.action, entry.subject or "")
            for entry in found
        )
        print_rows(("when", "who", "from", "did", "to what"), rows)


def _token_id(service: "Service", beginning: str) -> str:
    """The id that begins so; what names none is left to be refused."""
    known = [token.id for token in service.accounts.tokens(None) if token.id.startswith(beginning)]
    if len(beginning) < LEAST_LETTERS or not known:
        return beginning
    if len(known) > 1:
        raise EvenhandError(f"Several tokens begin with '{beginning}': {', '.join(known[:5])}.")
    return known[0]


def _state(token: "Token", kept_out: bool) -> str:
    if token.revoked is not None:
        return "revoked"
    if token.expires <= datetime.now(UTC):
        return "expired"
    return "user kept out" if kept_out else "works"


def _card(token: "Token", user: str) -> dict[str, Any]:
    names = ("id", "name", "project", "role", "created", "expires", "used", "revoked")
    return {"user": user} | {name: getattr(token, name) for name in names}
