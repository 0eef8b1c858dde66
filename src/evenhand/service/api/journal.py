"""One line of JSON for each request, figures for Prometheus, and an answer where a route fails."""

import json
import logging
import re
import sys
import time
import uuid
from datetime import UTC, datetime
from typing import IO, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenhand.service.api.errors import error_content

LOGGER = logging.getLogger("evenhand.service")
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


class Figures:
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

    def __init__(self, app: ASGIApp, figures: Figures) -> None:
        self.app = app
        self.figures = figures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and note how it went."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        entry = _Entry(_request_id(scope), send)
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

    def _note(self, scope: Scope, entry: "_Entry") -> None:
        seconds = time.perf_counter() - entry.start
        # The route's pattern and not the path: ids and whatever people try would be a figure each.
        route = getattr(scope.get("route"), "path", None) or ("/static" if "/static/" in scope["path"] else "other")
        method = scope["method"] if scope["method"] in ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS") else "other"
        self.figures.requests.labels(method, route, str(entry.status)).inc()
        self.figures.seconds.labels(method, route).observe(seconds)
        data = {
            "request": entry.id, "method": scope["method"], "path": scope["path"], "status": entry.status,
            "milliseconds": round(seconds * 1000, 1),
        }  # fmt: skip
        LOGGER.info("request", extra={"data": data})


class _Entry:
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
