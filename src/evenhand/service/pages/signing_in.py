"""Signing in and out, and the choice of a project."""

from typing import Annotated

from anyio import to_thread
from fastapi import Query, Request, Response

from evenhand.service.api.identity import address_of, forget, remember, session_of
from evenhand.service.pages.view import Asked, Form, View, router, see, text_of
from evenhand.service.storage.accounts import MOST_WAITING, SignInRefused, TooBusy, TooManyTries

LONGEST = 2000  # characters of an address to go on to

pages = router()


def local_path(address: str) -> str:
    """Where to go on after signing in: a page of ours, never another site, whatever a link said."""
    is_ours = address.startswith("/") and not address.startswith(("//", "/sign-"))
    # Browsers read a backslash as a slash, and leave out tabs and line ends.
    is_plain = len(address) <= LONGEST and "\\" not in address and address.isascii() and address.isprintable()
    return address if is_ours and is_plain else "/"


@pages.get("/sign-in")
def ask(view: Asked, then: Annotated[str, Query(alias="next", max_length=LONGEST)] = "") -> Response:
    """The form."""
    if view.asked.person is not None or view.asked.may("viewer"):
        return see(local_path(then))
    return _asking(view, local_path(then))


def _asking(view: View, then: str, name: str = "", error: SignInRefused | None = None) -> Response:
    status = 200 if error is None else 429 if isinstance(error, TooManyTries) else 403
    response = view.page("sign_in", status=status, then=then, name=name, error=str(error or ""))
    if isinstance(error, TooManyTries):
        response.headers["Retry-After"] = str(error.seconds)
    return response


@pages.post("/sign-in")
async def sign_in(request: Request, view: Asked, form: Form) -> Response:
    """Sign in: always with a new secret, so that one that somebody else planted in the browser is worth nothing."""
    then, name = local_path(text_of(form, "next")), text_of(form, "name")[:100]
    if not view.service.settings.accounts:
        return see(then)
    password, accounts = form.get("password"), view.service.accounts
    given = password if isinstance(password, str) else ""
    # Passwords are looked at one after the other: those that wait must not hold the threads of everybody else.
    in_turn = request.app.state.signing_in
    try:
        if in_turn.statistics().tasks_waiting >= MOST_WAITING:
            raise TooBusy
        secret = await to_thread.run_sync(accounts.sign_in, name, given, address_of(request), limiter=in_turn)
    except SignInRefused as error:
        refused = error
        return await to_thread.run_sync(lambda: _asking(view, then, name, refused))
    if (before := session_of(request)) is not None:
        await to_thread.run_sync(accounts.sign_out, before)
    response = see(then)
    remember(request, response, secret)
    return response


@pages.post("/sign-out")
def sign_out(request: Request, view: Asked) -> Response:
    """End the sign-in here and in the storage: a copy of the cookie is worth nothing either."""
    if (secret := session_of(request)) is not None:
        view.service.accounts.sign_out(secret)
    response = see("/sign-in" if view.service.settings.accounts else "/")
    forget(request, response)
    return response


@pages.post("/project")
def choose_project(request: Request, view: Asked, form: Form) -> Response:
    """Look at another project; its start page, since what was looked at is not in it, unless the form says more."""
    if (secret := session_of(request)) is not None and view.asked.person is not None:
        view.service.accounts.choose_project(secret, text_of(form, "project"))
    return see(local_path(text_of(form, "next")))
