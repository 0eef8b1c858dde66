"""What changes something must know a token that only our own pages can know; the check stands before every route.

Somebody who has signed in has a token that belongs to this sign-in alone. Without accounts, and on the sign-in page, it
is that of a cookie, set with the page. A page finds it in `request.state.csrf_token` and puts it into a field called
`csrf`; a script sends it as the header `X-CSRF-Token`. A program with a token of its own needs none: no browser adds
that by itself.

The token of a sign-in also belongs to the project that was looked at when the page was made. Where another one was
chosen since, the form would be about things that its page did not show.
"""

import secrets
from collections.abc import AsyncIterator

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from evenhand.service.api.context import Context
from evenhand.service.api.errors import ApiError, ProjectChangedError
from evenhand.service.api.guard import FILE_PATHS, SAFE_METHODS, SCHEMA_PATHS, is_form
from evenhand.service.api.identity import form_project

FIELD, HEADER = "csrf", "x-csrf-token"
MOST_FILES = 2  # a model and its description
MOST_FIELDS = 6000  # a table may have 5,000 columns, each with a box to tick
LONGEST_FIELD = 1 << 16
LONGEST_SCHEMA = 4 << 20
IN_ANY_PROJECT = ("/project", "/sign-in", "/sign-out")


async def check_form(request: Request) -> AsyncIterator[None]:
    """Read a form once for all, and refuse a change that does not know the token of the browser that sends it."""
    asked: Context = request.state.asked
    if request.method in SAFE_METHODS:
        yield
        return
    if not is_form(request):
        # Without accounts it is enough that it is sent as no page elsewhere can send it (see `guard`).
        if asked.person is not None and asked.token is None:
            await run_in_threadpool(_check, request, asked, request.headers.get(HEADER))
        yield
        return
    path = request.scope["path"]
    form = await request.form(
        max_files=MOST_FILES if path in FILE_PATHS else 0,
        max_fields=MOST_FIELDS,
        max_part_size=LONGEST_SCHEMA if path in SCHEMA_PATHS else LONGEST_FIELD,
    )
    try:
        if asked.token is None:
            await run_in_threadpool(_check, request, asked, form.get(FIELD))
        yield
    finally:
        await form.close()


def _check(request: Request, asked: Context, given: object) -> None:
    """Where a browser sent no cookie, what it should know was made up just now: nothing is equal to it."""
    known: str = request.state.csrf_token
    if isinstance(given, str) and secrets.compare_digest(given.encode(), known.encode()):
        return
    half = len(known) // 2
    is_of_sign_in = asked.person is not None and isinstance(given, str) and len(given) == len(known)
    if not is_of_sign_in or not secrets.compare_digest(str(given)[:half].encode(), known[:half].encode()):
        raise ApiError("forbidden", "The form is out of date. Load its page again, and allow cookies of this site.")
    if request.scope["path"] not in IN_ANY_PROJECT:
        raise ProjectChangedError(form_project(request, asked, str(given)))
