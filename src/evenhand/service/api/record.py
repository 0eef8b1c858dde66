"""The log of who did what, written in one place for all routes; nothing is read from those who may not do it.

Streams end here too, when the sign-in does or the role in the project is taken away.
"""

import json
import logging
import re
import time
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenhand.service.api.access import Rule, rule_of
from evenhand.service.api.context import Context
from evenhand.service.api.errors import ApiError
from evenhand.service.api.guard import SAFE_METHODS
from evenhand.service.api.identity import address_of, check_access, identify

LOGGER = logging.getLogger("evenhand.service")
CHECK_SECONDS = 30.0  # how long a stream goes on before it is asked again whether its watcher may watch
AN_ID = re.compile(r"\b[0-9a-f]{32}\b")
LONGEST_SUBJECT = 200


class Record:
    """Notes what was done as soon as a route says that it was done, before the answer leaves."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and look at its answer on the way back."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        passing = _Passing(scope, receive, send)
        await self.app(scope, passing.receive, passing.send)


class _Passing:
    """One request and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope, self._receive, self._send = scope, receive, send
        self._start: Message | None = None  # held back until the body has come
        self._checked = time.monotonic()
        self._ended = False

    async def receive(self) -> Message:
        """What the one who asks sends, once it is clear that they may; who may watch no longer is as good as gone.

        FastAPI reads JSON before it asks who sends it, so that is asked here.
        """
        if self._ended:
            return {"type": "http.disconnect"}
        if self.scope["method"] not in SAFE_METHODS:
            await identify(Request(self.scope))
        return await self._receive()

    async def send(self, message: Message) -> None:
        """The answer, piece by piece."""
        if message["type"] == "http.response.start":
            if _is_noted(self.scope, message):
                self._start = message
                return
        elif self._start is not None:
            start, self._start = self._start, None
            await run_in_threadpool(_note, self.scope, start, message)
            await self._send(start)
        elif message.get("more_body") and time.monotonic() - self._checked >= CHECK_SECONDS:
            await self._check()
        await self._send({**message, "body": b""} if self._ended and "body" in message else message)

    async def _check(self) -> None:
        self._checked = time.monotonic()
        request = Request(self.scope)
        before: Context = request.state.asked
        try:
            await run_in_threadpool(partial(check_access, request, touch=False))  # watching is no use
            self._ended = request.state.asked.project != before.project
        except ApiError:
            self._ended = True
        except Exception:  # the database is away: the route notices by itself
            LOGGER.warning("a stream could not be checked", exc_info=True)


def _is_noted(scope: Scope, start: Message) -> bool:
    rule = rule_of(Request(scope))
    return rule is not None and rule.action is not None and start["status"] < 400


def _note(scope: Scope, start: Message, body: Message) -> None:
    """One entry. The deed is done already, so a log that cannot be written is said elsewhere and stops nothing."""
    request = Request(scope)
    rule, asked = rule_of(request), request.state.asked
    assert rule is not None
    assert rule.action is not None
    assert isinstance(asked, Context)
    more: dict[str, Any] = dict(getattr(request.state, "details", {}))
    if asked.token is not None:
        more |= {"token": asked.token.name, "token_id": asked.token.id}
    try:
        asked.service.log.note(
            rule.action,
            user=asked.person.name if asked.person else None,
            address=address_of(request),
            project=_project(request, rule, asked),
            subject=_subject(request, start, body),
            **more,
        )
    except Exception:
        LOGGER.exception("the log could not be written", extra={"data": {"action": rule.action}})


def _project(request: Request, rule: Rule, asked: Context) -> str | None:
    """The project that it was done in or to; what is done to a user is done in none."""
    said = getattr(request.state, "target", None) or request.path_params.get("project_id")
    if said or rule.who in ("signed in", "admin, signed in"):
        return str(said) if said else None
    return asked.project or None


def _subject(request: Request, start: Message, body: Message) -> str | None:
    """What it was done to: as the route said, as its address names it, or the id that the answer gives it."""
    said = getattr(request.state, "subject", None) or "/".join(map(str, request.path_params.values()))
    if said:
        return str(said)[:LONGEST_SUBJECT]
    headers = Headers(raw=start["headers"])
    found = AN_ID.search(headers.get("location", ""))
    if found is not None:
        return found[0]
    if start["status"] != 201:
        return None
    try:
        answer: Any = json.loads(body.get("body", b""))
        return str(answer["id"])[:LONGEST_SUBJECT]
    except (ValueError, KeyError, TypeError):
        return None
