"""Who sends a request, and whether a form is that person's own; found out before any route is reached.

By the cookie of a browser, or by the token of a program. The cookie of a sign-in is SameSite=Lax and not Strict, since
a link in a mail to a run would otherwise lead to the sign-in page each time. Nothing is changed by a GET, and whatever
changes something must know a token that only our own pages can know (CSRF):

- Somebody who has signed in has a token that belongs to this sign-in alone. Without accounts, and on the sign-in page,
  it is that of a cookie, set with the page. A page finds it in `request.state.csrf_token` and puts it into a field
  called `csrf`; a script sends it as the header `X-CSRF-Token`. A program with a token of its own needs none: no
  browser adds that by itself.
- The token of a sign-in also belongs to the project that was looked at when the page was made. Where another one was
  chosen since, the form would be about things that its page did not show.
"""

import hashlib
import hmac
import secrets
from collections.abc import AsyncIterator

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from evenhand.service.api.access import Who, rule_of
from evenhand.service.api.caller import Caller
from evenhand.service.api.errors import ApiError, NoProjectError, ProjectChangedError
from evenhand.service.api.guard import FILE_PATHS, SAFE_METHODS, SCHEMA_PATHS, cookie_name, is_form, is_secure
from evenhand.service.settings import Service
from evenhand.service.storage.accounts import Accounts
from evenhand.service.storage.projects import DEFAULT_PROJECT, Person, Role
from evenhand.service.storage.uploads import LONGEST_SCHEMA

SESSION = "evenhand_session"
LONGEST_SECRET = 200
MISSING_ROLE = {
    "auditor": "You may look at this project but not change it. Ask an admin to make you an auditor of it.",
    "admin": "Only admins of this service may do this.",
}
FIELD, HEADER = "csrf", "x-csrf-token"
MOST_FILES = 2  # a model and its description
MOST_FIELDS = 6000  # a table may have 5,000 columns, each with a box to tick
LONGEST_FIELD = 1 << 16
IN_ANY_PROJECT = ("/project", "/sign-in", "/sign-out")


async def identify(request: Request) -> None:
    """Check who may do what, once for a request; in a thread only where the database has to be asked."""
    if getattr(request.state, "is_checked", False):
        return
    if request.app.state.service.settings.accounts and not _is_open(request):
        await run_in_threadpool(check_access, request)
    else:
        check_access(request)


def _is_open(request: Request) -> bool:
    """Whether a request is open to all and says nothing of who sends it, so that nobody has to be looked up."""
    rule = rule_of(request)
    return rule is not None and rule.who == "open" and _bearer(request) is None and session_of(request) is None


def check_access(request: Request, *, touch: bool = True) -> None:
    """Find out who asks, and refuse what they may not do; a form or a file is not read before this.

    Without `touch` it does not count as a use of the sign-in.
    """
    rule, service = rule_of(request), request.app.state.service
    if not service.settings.accounts:
        request.state.caller, request.state.is_checked = Caller(service, DEFAULT_PROJECT), True
        return
    request.state.caller = nobody = Caller(service, "", None, None)
    if rule is None:
        raise ApiError("forbidden", "No rule says who may use this address.")
    try:
        request.state.caller = caller = _find_caller(service, request, touch)
    except ApiError:
        if rule.who != "open":
            raise
        caller = nobody
    _check(caller, rule.who)
    request.state.is_checked = True


def _check(caller: Caller, who: Who) -> None:
    if who == "open":
        return
    if caller.person is None:
        raise ApiError("unauthenticated", "This service has accounts. Sign in, or send a token: Authorization: Bearer.")
    if who == "known":
        return
    if who in ("signed in", "admin, signed in") and caller.token is not None:
        raise ApiError("forbidden", "A token cannot do this. Sign in with a browser.")
    if who == "signed in":
        return
    if caller.role is None:
        raise NoProjectError("You are a member of no project yet. Ask an admin of this service to add you to one.")
    wanted: Role = "admin" if who == "admin, signed in" else who
    if not caller.may(wanted):
        raise ApiError("forbidden", MISSING_ROLE[wanted])


def _find_caller(service: Service, request: Request, touch: bool) -> Caller:
    """Who asks. A token counts more than a cookie: a program says on purpose what it sends."""
    if (secret := _bearer(request)) is not None:
        known = service.accounts.by_token(secret) if len(secret) <= LONGEST_SECRET else None
        if known is None:
            raise ApiError("unauthenticated", "The token is not known, or it has expired or was revoked.")
        person, token, role = known
        return Caller(service, token.project, person, role, token)
    secret = session_of(request)
    found = service.accounts.signed_in(secret, touch=touch) if secret else None
    if secret is None or found is None:
        return Caller(service, "", None, None)
    person, sign_in = found
    project, role_there = project_of(service.accounts, person, sign_in.project)
    request.state.csrf_token = csrf_of(secret, project)
    return Caller(service, project, person, role_there)


def _bearer(request: Request) -> str | None:
    """The token of an `Authorization: Bearer` header. Others are not ours: a proxy may want a password of its own."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else None


def project_of(accounts: Accounts, person: Person, chosen: str | None) -> tuple[str, Role | None]:
    """The project that somebody looks at, with the role in it; where the chosen one is no longer theirs, another."""
    role = accounts.role_in(person, chosen) if chosen else None
    if chosen and role is not None:
        return chosen, role
    theirs = [(project.id, role) for project, role in accounts.projects_of(person)]
    usual = [entry for entry in theirs if entry[0] == DEFAULT_PROJECT]
    return next(iter(usual + theirs), ("", None))


def session_of(request: Request) -> str | None:
    """What the cookie of the sign-in says."""
    secret = request.cookies.get(cookie_name(SESSION, is_secure(request)))
    return secret if secret and len(secret) <= LONGEST_SECRET else None


def csrf_of(secret: str, project: str) -> str:
    """The token of the forms of a sign-in in a project. It belongs to this sign-in alone, and does not tell its secret.

    Its first half is that of the sign-in, its second half that of the project: so a form that was made before another
    project was chosen is known as such.
    """
    halves = (b"evenhand forms", b"evenhand project " + project.encode())
    return "".join(hmac.new(secret.encode(), half, hashlib.sha256).hexdigest() for half in halves)


def form_project(request: Request, caller: Caller, given: str) -> str | None:
    """The project of the caller in which a form was made, by its token; None: one that is no longer theirs."""
    secret = session_of(request)
    if secret is None or caller.person is None:
        return None
    theirs = [project.id for project, _ in caller.service.accounts.projects_of(caller.person)]
    return next(
        (project for project in theirs if hmac.compare_digest(csrf_of(secret, project).encode(), given.encode())), None
    )


def remember(request: Request, response: Response, secret: str) -> None:
    """Hand a browser the cookie of its sign-in. The browser forgets it when it ends; the server does so after hours."""
    secure = is_secure(request)
    response.set_cookie(cookie_name(SESSION, secure), secret, path="/", httponly=True,
                        samesite="lax", secure=secure)  # fmt: skip


def forget(request: Request, response: Response) -> None:
    """Take the cookie back."""
    secure = is_secure(request)
    response.delete_cookie(cookie_name(SESSION, secure), path="/", httponly=True, samesite="lax", secure=secure)


def address_of(request: Request) -> str:
    """Where a request comes from; behind a proxy that is trusted, where the proxy says."""
    return request.client.host if request.client is not None else "unknown"


async def check_form(request: Request) -> AsyncIterator[None]:
    """Read a form once for all, and refuse a change that does not know the token of the browser that sends it."""
    caller: Caller = request.state.caller
    if request.method in SAFE_METHODS:
        yield
        return
    if not is_form(request):
        # Without accounts it is enough that it is sent as no page elsewhere can send it (see `guard`).
        if caller.person is not None and caller.token is None:
            await run_in_threadpool(_check_token, request, caller, request.headers.get(HEADER))
        yield
        return
    path = request.scope["path"]
    form = await request.form(
        max_files=MOST_FILES if path in FILE_PATHS else 0,
        max_fields=MOST_FIELDS,
        max_part_size=LONGEST_SCHEMA if path in SCHEMA_PATHS else LONGEST_FIELD,
    )
    try:
        if caller.token is None:
            await run_in_threadpool(_check_token, request, caller, form.get(FIELD))
        yield
    finally:
        await form.close()


def _check_token(request: Request, caller: Caller, given: object) -> None:
    """Where a browser sent no cookie, what it should know was made up just now: nothing is equal to it."""
    known: str = request.state.csrf_token
    if isinstance(given, str) and secrets.compare_digest(given.encode(), known.encode()):
        return
    half = len(known) // 2
    is_of_sign_in = caller.person is not None and isinstance(given, str) and len(given) == len(known)
    if not is_of_sign_in or not secrets.compare_digest(str(given)[:half].encode(), known[:half].encode()):
        raise ApiError("forbidden", "The form is out of date. Load its page again, and allow cookies of this site.")
    if request.scope["path"] not in IN_ANY_PROJECT:
        raise ProjectChangedError(form_project(request, caller, str(given)))
