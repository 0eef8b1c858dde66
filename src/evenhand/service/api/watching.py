"""Live events: what happened to a run, as JSON and as a stream of server-sent events."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from evenhand.errors import EvenhandError
from evenhand.service.api.answers import EventAnswer, Events, RunAnswer
from evenhand.service.api.context import Asked, Context, Id
from evenhand.service.api.errors import documented
from evenhand.service.storage.runs import OVER
from evenhand.service.storage.tables import Event, Run

router = APIRouter(prefix="/api/v1", tags=["runs"], responses=documented())

LOOK_SECONDS = 0.5  # between two looks at a run, however many people watch it
HEARTBEAT_SECONDS = 15.0  # a comment that keeps proxies from closing the connection
KEPT_SECONDS = 60.0  # how long a run that nobody watches any more is remembered
MOST_EVENTS = 500
LARGEST = 2**63 - 1


@dataclass
class _Seen:
    """A run as it was at the last look."""

    run: Run
    last: int = 0  # number of its last event
    at: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Watch:
    """Looks at each watched run once in a while for all who watch it, so that the database is not asked by each."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], _Seen] = {}

    async def look(self, asked: Context, run_id: str) -> _Seen:
        """The run, at most LOOK_SECONDS old."""
        key = (asked.project, run_id)
        if key not in self._seen:
            run = await run_in_threadpool(asked.run, run_id)
            self._seen.setdefault(key, _Seen(run))
        seen = self._seen[key]
        async with seen.lock:
            if time.monotonic() - seen.at >= LOOK_SECONDS:
                await run_in_threadpool(_refresh, asked, seen)
                self._forget()
        return seen

    def _forget(self) -> None:
        old = time.monotonic() - KEPT_SECONDS
        for key in [key for key, seen in self._seen.items() if seen.at < old]:
            del self._seen[key]


def _refresh(asked: Context, seen: _Seen) -> None:
    """The run first and its events second: the event that says that it is over is there when the run says so."""
    seen.run = asked.run(seen.run.id)
    while events := asked.service.runs.events(seen.run.id, seen.last, MOST_EVENTS):
        seen.last = events[-1].id
    seen.at = time.monotonic()


@router.get("/runs/{run_id}/events", summary="List what happened to a run")
def list_events(
    asked: Asked,
    run_id: Id,
    after: Annotated[int, Query(ge=0, le=LARGEST, description="The number of the last event that was seen.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_EVENTS)] = 100,
) -> Events:
    """In order."""
    found = asked.service.runs.events(asked.run(run_id).id, after, limit)
    return Events(entries=[EventAnswer.model_validate(event) for event in found], next=found[-1].id if found else after)


@router.get(
    "/runs/{run_id}/events/stream",
    summary="Watch a run",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events."}},
)
async def stream_events(
    request: Request,
    asked: Asked,
    run_id: Id,
    after: Annotated[int, Query(ge=0, le=LARGEST, description="The number of the last event that was seen.")] = 0,
    last_event_id: Annotated[str | None, Header(description="The same, as browsers send it.")] = None,
) -> StreamingResponse:
    """Server-sent events: those of the run with their numbers, `progress` with the whole run, `end` when it is over."""
    await run_in_threadpool(asked.run, run_id)
    given = last_event_id or ""
    start = int(given) if given.isascii() and given.isdecimal() and int(given) <= LARGEST else after
    return StreamingResponse(
        _counted(request, _messages(request, asked, run_id, start)),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


async def _counted(request: Request, messages: AsyncIterator[str]) -> AsyncIterator[str]:
    with request.app.state.figures.watchers.track_inprogress():
        async for message in messages:
            yield message


async def _messages(request: Request, asked: Context, run_id: str, after: int) -> AsyncIterator[str]:
    watch: Watch = request.app.state.watch
    told, spoke = "", time.monotonic()
    yield "retry: 2000\n\n"
    while not request.app.state.stopping:
        try:
            seen = await watch.look(asked, run_id)
        except EvenhandError:
            yield _message("end", {"state": "deleted"})
            return
        run, parts = seen.run, []
        while seen.last > after:
            events = await run_in_threadpool(asked.service.runs.events, run_id, after, MOST_EVENTS)
            parts += [_message(event.kind, _event(event), event.id) for event in events]
            after = events[-1].id if events else seen.last
        now = RunAnswer.model_validate(run).model_dump_json()
        if now != told:
            parts.append(_message("progress", json.loads(now)))
        if run.state in OVER:
            parts.append(_message("end", {"state": run.state}))
        if not parts and time.monotonic() - spoke > HEARTBEAT_SECONDS:
            parts.append(": still here\n\n")
        if parts:
            told, spoke = now, time.monotonic()
            yield "".join(parts)
        if run.state in OVER or await request.is_disconnected():
            return
        await asyncio.sleep(LOOK_SECONDS)


def _event(event: Event) -> dict[str, Any]:
    return EventAnswer.model_validate(event).model_dump(mode="json")


def _message(kind: str, data: dict[str, Any], number: int | None = None) -> str:
    """One server-sent event. JSON has no line breaks of its own, and kinds are ours."""
    start = "" if number is None else f"id: {number}\n"
    return f"{start}event: {kind}\ndata: {json.dumps(data)}\n\n"
