"""What is written down about requests: a line of JSON and figures for each, and the audit log of who did what.

Both are written in one place for all routes, so that no route can forget them. Streams end here too, when the sign-in
does or the role in the project is taken away.
"""

import json
import logging
import re
import sys
import time
import uuid
from datetime import UTC, datetime
from functools import partial
from typing import IO, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenhand.service.api.access import Rule, rule_of
from evenhand.service.api.caller import Caller
from evenhand.service.api.errors import ApiError, error_content
from evenhand.service.api.guard import SAFE_METHODS
from evenhand.service.api.identity import address_of, check_access, identify

LOGGER = logging.getLogger("evenhand.service")
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
CHECK_SECONDS = 30.0  # how long a stream goes on before it is asked again whether its watcher may watch
AN_ID = re.compile(r"\b[0-9a-f]{32}\b")
LONGEST_SUBJECT = 200


class Metrics:
    """What is counted, for one application."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        names = ["method", "route", "status"]
        self.requests = Counter("evenhand_http_requests", "Requests answered.", names, registry=self.registry)
        self.seconds = Histogram(
            "evenhand_http_request_seconds", "Time until an answer was complete.", ["method", "route"],
            buckets=BUCKETS, registry=self.registry,
        )  # fmt: skip
        self.watchers = Gauge("evenhand_watchers", "Open streams of live events.", registry=self.registry)
        self.runs = Gauge("evenhand_runs", "Runs by state.", ["state"], registry=self.registry)
        self.uploaded = Counter("evenhand_uploaded_bytes", "Bytes of files kept.", ["kind"], registry=self.registry)

    def text(self) -> bytes:
        """All figures as Prometheus reads them."""
        return generate_latest(self.registry)


class Journal:
    """Gives each request an id, measures it, writes a line about it; a failure becomes an answer without details."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and note how it went."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        entry = _TimedRequest(_request_id(scope), send)
        scope.setdefault("state", {})["request_id"] = entry.id
        try:
            await self.app(scope, receive, entry.send)
        except Exception:
            LOGGER.exception("request failed", extra={"data": {"request": entry.id}})
            if entry.status is None:
                words = f"Something failed inside the service. Its log says more under {entry.id}."
                await JSONResponse(error_content("internal", words), 500)(scope, receive, entry.send)
        finally:
            self._note(scope, entry)

    def _note(self, scope: Scope, entry: "_TimedRequest") -> None:
        seconds = time.perf_counter() - entry.start
        # The route's pattern and not the path: ids and whatever people try would be a figure each.
        route = getattr(scope.get("route"), "path", None) or ("/static" if "/static/" in scope["path"] else "other")
        method = scope["method"] if scope["method"] in ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS") else "other"
        self.metrics.requests.labels(method, route, str(entry.status)).inc()
        self.metrics.seconds.labels(method, route).observe(seconds)
        data = {
            "request": entry.id, "method": scope["method"], "path": scope["path"], "status": entry.status,
            "milliseconds": round(seconds * 1000, 1),
        }  # fmt: skip
        LOGGER.info("request", extra={"data": data})


class _TimedRequest:
    """A request while it is answered."""

    def __init__(self, request_id: str, send: Send) -> None:
        self.id, self._send = request_id, send
        self.start = time.perf_counter()
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message)["X-Request-Id"] = self.id
        await self._send(message)


def _request_id(scope: Scope) -> str:
    """The id that a proxy gave the request, else one of our own."""
    given = Headers(scope=scope).get("x-request-id", "")
    return given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "data", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def use_json_logs(stream: IO[str] = sys.stderr, level: int = logging.INFO) -> None:
    """Write what the service logs as lines of JSON; for the process that serves."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(level)
    LOGGER.propagate = False


class ActionLog:
    """Notes what was done as soon as a route says that it was done, before the answer leaves."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and look at its answer on the way back."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        passing = _LoggedRequest(scope, receive, send)
        await self.app(scope, passing.receive, passing.send)


class _LoggedRequest:
    """One request and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope, self._receive, self._send = scope, receive, send
        self._start: Message | None = None  # held back until the body has come
        self._checked = time.monotonic()
        self._ended = False

    async def receive(self) -> Message:
        """What the caller sends, once it is clear that they may; who may watch no longer is as good as gone.

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
        before: Caller = request.state.caller
        try:
            await run_in_threadpool(partial(check_access, request, touch=False))  # watching is no use
            self._ended = request.state.caller.project != before.project
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
    rule, caller = rule_of(request), request.state.caller
    assert rule is not None
    assert rule.action is not None
    assert isinstance(caller, Caller)
    more: dict[str, Any] = dict(getattr(request.state, "details", {}))
    if caller.token is not None:
        more |= {"token": caller.token.name, "token_id": caller.token.id}
    try:
        caller.service.log.note(
            rule.action,
            user=caller.person.name if caller.person else None,
            address=address_of(request),
            project=_project(request, rule, caller),
            subject=_subject(request, start, body),
            **more,
        )
    except Exception:
        LOGGER.exception("the log could not be written", extra={"data": {"action": rule.action}})


def _project(request: Request, rule: Rule, caller: Caller) -> str | None:
    """The project that it was done in or to; what is done to a user is done in none."""
    said = getattr(request.state, "target", None) or request.path_params.get("project_id")
    if said or rule.who in ("signed in", "admin, signed in"):
        return str(said) if said else None
    return caller.project or None


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
