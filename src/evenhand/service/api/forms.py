"""Forms of our own pages: a token in a cookie and the same one in the form, which only our pages can know.

The check stands before every route, so that none can forget it. A page finds its token in `request.state.csrf_token`
and puts it into a field called `csrf`; the cookie is set with the page.
"""

import secrets
from collections.abc import AsyncIterator

from fastapi import Request

from evenhand.service.api.errors import ApiError
from evenhand.service.api.guard import COOKIE, SAFE_METHODS, is_form

FIELD = "csrf"
MOST_FILES = 2  # a model and its description
MOST_FIELDS = 6000  # a table may have 5,000 columns, each with a box to tick
LONGEST_FIELD = 4 << 20  # a schema's text


async def check_form(request: Request) -> AsyncIterator[None]:
    """Read a form once for all, and refuse one that does not know the token of the browser that sends it."""
    if request.method in SAFE_METHODS or not is_form(request):
        yield
        return
    form = await request.form(max_files=MOST_FILES, max_fields=MOST_FIELDS, max_part_size=LONGEST_FIELD)
    try:
        given, known = form.get(FIELD), request.cookies.get(COOKIE)
        if not isinstance(given, str) or not known or not secrets.compare_digest(given.encode(), known.encode()):
            raise ApiError("forbidden", "The form is out of date. Load its page again, and allow cookies of this site.")
        yield
    finally:
        await form.close()
