"""Signing in and out, the choice of a project, and one's own account: roles, password, tokens for programs."""

from datetime import UTC, datetime
from typing import Annotated, Any, cast

from anyio import to_thread
from fastapi import Query, Request, Response

from evenhand.errors import EvenhandError
from evenhand.service.api.caller import log_details
from evenhand.service.api.errors import ApiError
from evenhand.service.api.identity import address_of, forget, remember, session_of
from evenhand.service.pages.forms import Form, field_of
from evenhand.service.pages.view import CurrentView, View, redirect, router
from evenhand.service.storage.accounts import Accounts
from evenhand.service.storage.passwords import MOST_WAITING, SignInRefused, TooBusy, TooManyTries
from evenhand.service.storage.projects import ROLES, Person, Role
from evenhand.service.storage.tables import Token

LONGEST = 2000  # characters of an address to go on to

pages = router()
USUAL_DAYS = 90
CHANGED = "/account?changed=password"


def local_path(address: str) -> str:
    """Where to go on after signing in: a page of ours, never another site, whatever a link said."""
    is_ours = address.startswith("/") and not address.startswith(("//", "/sign-"))
    # Browsers read a backslash as a slash, and leave out tabs and line ends.
    is_plain = len(address) <= LONGEST and "\\" not in address and address.isascii() and address.isprintable()
    return address if is_ours and is_plain else "/"


@pages.get("/sign-in")
def show_sign_in(view: CurrentView, then: Annotated[str, Query(alias="next", max_length=LONGEST)] = "") -> Response:
    """The form."""
    if view.person is not None or view.may("viewer"):
        return redirect(local_path(then))
    return _sign_in_page(view, local_path(then))


def _sign_in_page(view: View, then: str, name: str = "", error: SignInRefused | None = None) -> Response:
    status = 200 if error is None else 429 if isinstance(error, TooManyTries) else 403
    response = view.page("sign_in", status=status, then=then, name=name, error=str(error or ""))
    if isinstance(error, TooManyTries):
        response.headers["Retry-After"] = str(error.seconds)
    return response


@pages.post("/sign-in")
async def sign_in(request: Request, view: CurrentView, form: Form) -> Response:
    """Sign in: always with a new secret, so that one that somebody else planted in the browser is worth nothing."""
    then, name = local_path(field_of(form, "next")), field_of(form, "name")[:100]
    if not view.service.settings.accounts:
        return redirect(then)
    password, accounts = form.get("password"), view.service.accounts
    given = password if isinstance(password, str) else ""
    # Passwords are looked at one after the other: those that wait must not hold the threads of everybody else.
    queue = request.app.state.signing_in
    try:
        if queue.statistics().tasks_waiting >= MOST_WAITING:
            raise TooBusy
        secret = await to_thread.run_sync(accounts.sign_in, name, given, address_of(request), limiter=queue)
    except SignInRefused as error:
        refused = error
        return await to_thread.run_sync(lambda: _sign_in_page(view, then, name, refused))
    if (before := session_of(request)) is not None:
        await to_thread.run_sync(accounts.sign_out, before)
    response = redirect(then)
    remember(request, response, secret)
    return response


@pages.post("/sign-out")
def sign_out(request: Request, view: CurrentView) -> Response:
    """End the sign-in here and in the storage: a copy of the cookie is worth nothing either."""
    if (secret := session_of(request)) is not None:
        view.service.accounts.sign_out(secret)
    response = redirect("/sign-in" if view.service.settings.accounts else "/")
    forget(request, response)
    return response


@pages.post("/project")
def choose_project(request: Request, view: CurrentView, form: Form) -> Response:
    """Look at another project; its start page, since what was looked at is not in it, unless the form says more."""
    if (secret := session_of(request)) is not None and view.person is not None:
        view.service.accounts.choose_project(secret, field_of(form, "project"))
    return redirect(local_path(field_of(form, "next")))


def signed_in_person(view: View) -> Person:
    """The one who has signed in; without accounts there is nobody."""
    if view.person is None:
        raise ApiError("not-found", "This service has no accounts: only this machine can reach it.")
    return view.person


def token_state(token: Token) -> str:
    """Whether a token still works, in words."""
    if token.revoked is not None:
        return "revoked"
    return "expired" if token.expires <= datetime.now(UTC) else "works"


def token_rows(accounts: Accounts, person: Person, names: dict[str, str]) -> list[dict[str, Any]]:
    """Somebody's tokens as tables show them; `names` of projects by id."""
    return [
        {"token": token, "project": names.get(token.project, token.project), "state": token_state(token)}
        for token in accounts.tokens(person)
    ]


def token_details(accounts: Accounts, person: Person, token_id: str) -> dict[str, Any]:
    """What the log says about a token that is revoked."""
    found = next((token for token in accounts.tokens(person) if token.id == token_id), None)
    return {"subject": token_id} | ({} if found is None else {"project": found.project, "name": found.name})


@pages.get("/account")
def show(view: CurrentView, changed: str = "") -> Response:
    """The account's page."""
    said = {"password": "Your password was changed. Other browsers were signed out, and your tokens were revoked."}.get(
        changed, ""
    )
    return _page(view, said=said)


def _page(view: View, **values: Any) -> Response:
    person, accounts = signed_in_person(view), view.service.accounts
    roles = accounts.projects_of(person)
    usual = {"errors": {}, "said": "", "secret": None, "form": {"name": "", "days": USUAL_DAYS, "role": "viewer"}}
    values = usual | values
    return view.page(
        "account", section="/account", status=400 if values["errors"] else 200, roles=roles, all_roles=ROLES,
        tokens=token_rows(accounts, person, {project.id: project.name for project, _ in roles}), **values,
    )  # fmt: skip


@pages.post("/account/password")
def change_password(request: Request, view: CurrentView, form: Form) -> Response:
    """Change one's own password, with the one before it; every other browser has to sign in again."""
    person, accounts, address = signed_in_person(view), view.service.accounts, address_of(request)
    before, new, again = (str(form.get(name) or "") for name in ("password", "new", "again"))
    if new != again:
        return _page(view, errors={"again": "The two new passwords differ."})
    try:
        accounts.check_password(person.name, before, address)
    except TooManyTries:
        raise
    except EvenhandError:
        return _page(view, errors={"password": "This is not your password."})
    try:
        accounts.set_password(person.name, new)
    except EvenhandError as error:
        return _page(view, errors={"new": str(error)})
    response = redirect(CHANGED)
    remember(request, response, accounts.sign_in(person.name, new, address))
    return response


@pages.post("/account/tokens")
def add_token(request: Request, view: CurrentView, form: Form) -> Response:
    """Make a token. Its secret is on this page and never again, so the answer is the page itself.

    The password is asked for: a browser that was left open must not become a key that works for a year.
    """
    person = signed_in_person(view)
    project, role = field_of(form, "project"), field_of(form, "role")
    name, days = field_of(form, "name"), field_of(form, "days")
    kept = {"name": name, "days": days, "role": role, "project": project}
    if not days.isascii() or not days.isdecimal() or len(days) > 4:
        return _page(view, errors={"days": "Say for how many days the token works."}, form=kept)
    try:
        view.service.accounts.check_password(person.name, str(form.get("password") or ""), address_of(request))
    except TooManyTries:
        raise
    except EvenhandError:
        return _page(view, errors={"token-password": "This is not your password."}, form=kept)
    try:
        token, secret = view.service.accounts.add_token(person, project, cast("Role", role), name, int(days))
    except EvenhandError as error:
        return _page(view, errors={"token-name": str(error)}, form=kept)
    log_details(request, subject=token.id, project=token.project, role=token.role, days=int(days), name=token.name)
    return _page(view, secret=secret, said=f"The token “{token.name}” was made.")


@pages.post("/account/tokens/{token_id}/revoke")
def revoke_token(request: Request, view: CurrentView, token_id: str) -> Response:
    """Let a token of one's own work no more."""
    log_details(request, **token_details(view.service.accounts, signed_in_person(view), token_id))
    view.service.accounts.revoke_token(token_id, signed_in_person(view))
    return redirect("/account#tokens")
