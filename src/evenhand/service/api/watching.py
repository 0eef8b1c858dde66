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
from evenhand.service.api.answers import EventAnswer, Events, run_answer
from evenhand.service.api.caller import Caller, CurrentCaller, Id
from evenhand.service.api.errors import ApiError, documented
from evenhand.service.storage.runs import OVER
from evenhand.service.storage.tables import Event, Run

router = APIRouter(prefix="/api/v1", tags=["runs"], responses=documented())

LOOK_SECONDS = 0.5  # between two looks at a run, however many people watch it
HEARTBEAT_SECONDS = 15.0  # a comment that keeps proxies from closing the connection
KEPT_SECONDS = 60.0  # how long a run that nobody watches any more is remembered
MOST_EVENTS = 500
LARGEST = 2**63 - 1


@dataclass(frozen=True)
class RunSnapshot:
    """A run as it was at a look, in the messages that all who watch it are sent."""

    run: Run
    progress: str = ""  # the message about the run as a whole
    events: tuple[tuple[int, str], ...] = ()  # numbers and messages of its last events
    before: int = 0  # the number of the last event that is not among them
    last: int = 0  # the number of its last event
    at: float = 0.0

    def since(self, after: int) -> list[str] | None:
        """Messages about the events after one; None where older ones are needed than are here."""
        return [text for number, text in self.events if number > after] if after >= self.before else None


@dataclass
class _WatchedRun:
    look: RunSnapshot
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class RunWatcher:
    """Looks at each watched run once in a while for all who watch it, so that the database is not asked by each."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], _WatchedRun] = {}

    async def look(self, caller: Caller, run_id: str) -> RunSnapshot:
        """The run, at most LOOK_SECONDS old."""
        key = (caller.project, run_id)
        if key not in self._seen:
            run = await run_in_threadpool(caller.run, run_id)
            self._seen.setdefault(key, _WatchedRun(RunSnapshot(run)))
        seen = self._seen[key]
        async with seen.lock:
            if time.monotonic() - seen.look.at >= LOOK_SECONDS:
                seen.look = await run_in_threadpool(_refreshed, caller, seen.look)
                self._forget()
        return seen.look

    def _forget(self) -> None:
        old = time.monotonic() - KEPT_SECONDS
        for key in [key for key, seen in self._seen.items() if seen.look.at < old]:
            del self._seen[key]


def _refreshed(caller: Caller, look: RunSnapshot) -> RunSnapshot:
    """The run first and its events second: the event that says that it is over is there when the run says so."""
    run, last, events, before = caller.run(look.run.id), look.last, [*look.events], look.before
    while found := caller.service.runs.events(run.id, last, MOST_EVENTS):
        events += [(event.id, _message(event.kind, _event(event), event.id)) for event in found]
        last = found[-1].id
    if len(events) > MOST_EVENTS:
        before, events = events[-MOST_EVENTS - 1][0], events[-MOST_EVENTS:]
    progress = _message("progress", run_answer(run, whole=False).model_dump(mode="json"))  # for all who watch
    return RunSnapshot(run, progress, tuple(events), before, last, time.monotonic())


@router.get("/runs/{run_id}/events", summary="List what happened to a run")
def list_events(
    caller: CurrentCaller,
    run_id: Id,
    after: Annotated[int, Query(ge=0, le=LARGEST, description="The number of the last event that was seen.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_EVENTS)] = 100,
) -> Events:
    """In order."""
    found = caller.service.runs.events(caller.run(run_id).id, after, limit)
    return Events(entries=[EventAnswer.model_validate(event) for event in found], next=found[-1].id if found else after)


@router.get(
    "/runs/{run_id}/events/stream",
    summary="Watch a run",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events."}},
)
async def stream_events(
    request: Request,
    caller: CurrentCaller,
    run_id: Id,
    after: Annotated[int, Query(ge=0, le=LARGEST, description="The number of the last event that was seen.")] = 0,
    last_event_id: Annotated[str | None, Header(description="The same, as browsers send it.")] = None,
) -> StreamingResponse:
    """Server-sent events: those of the run with their numbers, `progress` with the whole run, `end` when it is over."""
    await run_in_threadpool(caller.run, run_id)
    given = last_event_id or ""
    start = int(given[:20]) if given.isascii() and given.isdecimal() else after
    if start > LARGEST:
        raise ApiError("invalid", f"Last-Event-ID is larger than any number of an event: {given[:20]}…")
    return StreamingResponse(
        _counted(request, _messages(request, caller, run_id, start)),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


async def _counted(request: Request, messages: AsyncIterator[str]) -> AsyncIterator[str]:
    with request.app.state.metrics.watchers.track_inprogress():
        async for message in messages:
            yield message


async def _messages(request: Request, caller: Caller, run_id: str, after: int) -> AsyncIterator[str]:
    watcher: RunWatcher = request.app.state.watcher
    told, spoke = "", time.monotonic()
    yield "retry: 2000\n\n"
    while not request.app.state.stopping:
        try:
            look = await watcher.look(caller, run_id)
        except EvenhandError:
            yield _message("end", {"state": "deleted"})
            return
        run, parts = look.run, list[str]()
        while look.last > after:
            ready = look.since(after)
            if ready is not None:
                parts, after = parts + ready, look.last
                break
            events = await run_in_threadpool(caller.service.runs.events, run_id, after, MOST_EVENTS)
            parts += [_message(event.kind, _event(event), event.id) for event in events]
            after = events[-1].id if events else look.last
        if look.progress != told:
            parts.append(look.progress)
        if run.state in OVER:
            parts.append(_message("end", {"state": run.state}))
        if not parts and time.monotonic() - spoke > HEARTBEAT_SECONDS:
            parts.append(": still here\n\n")
        if parts:
            told, spoke = look.progress, time.monotonic()
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
