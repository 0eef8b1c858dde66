"""People who use the service at once: a lean client, what they look at, and how long it takes.

The load shares the machine with the service, so the client does no more than it must: HTTP over asyncio's streams.
"""

import asyncio
import json
import random
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

STATIC = re.compile(rb'(?:href|src)="(/static/[^"]+)"')  # what a browser fetches with a page
FOREVER = "immutable"  # a file that a browser keeps and does not ask about again
LIMIT = 1 << 20


@dataclass
class Seen:
    """What happened to the people."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # of answers, by kind
    errors: list[str] = field(default_factory=list)
    told: int = 0  # events that came by themselves
    silences: list[float] = field(default_factory=list)  # seconds between two of them


class Connection:
    """One connection that is kept, as browsers do."""

    def __init__(self, host: str, port: int, cookie: str | None = None) -> None:
        self._host, self._port = host, port
        self._cookie = f"Cookie: {cookie}\r\n" if cookie else ""
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def get(self, path: str, unless: str = "") -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content of an answer; `unless`: the tag of a file that is there already."""
        reader = await self._ask(path, f"If-None-Match: {unless}\r\n" if unless else "")
        status, headers = await _head(reader)
        if headers.get("transfer-encoding") == "chunked":
            return status, headers, b"".join([chunk async for chunk in _chunks(reader)])
        return status, headers, await reader.readexactly(int(headers.get("content-length", "0")))

    async def stream(self, path: str) -> AsyncIterator[bytes]:
        """The parts of an answer as they come."""
        reader = await self._ask(path)
        status, _ = await _head(reader)
        if status != 200:
            raise OSError(f"{path}: {status}")
        async for chunk in _chunks(reader):
            yield chunk

    async def _ask(self, path: str, more: str = "") -> asyncio.StreamReader:
        if self._streams is None or self._streams[0].at_eof():
            self.close()
            self._streams = await asyncio.open_connection(self._host, self._port, limit=LIMIT)
        reader, writer = self._streams
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n{self._cookie}{more}\r\n".encode())
        return reader

    def close(self) -> None:
        """Leave."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
    headers = (line.partition(":") for line in lines)
    return int(first.split()[1]), {name.lower(): value.strip() for name, _, value in headers}


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int(await reader.readuntil(b"\r\n"), 16):
        yield (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)


@dataclass(frozen=True)
class World:
    """What there is to look at."""

    live: str  # a run that goes on
    done: str  # an audit with many findings
    rows: int
    values: dict[str, Any]  # of the findings, as the API says them


def findings_query(world: World, draw: random.Random, *, page: bool) -> str:
    """Some filters, some order, and any depth."""
    query: list[tuple[str, Any]] = [("sort", draw.choice(("gap", "order"))), ("after", draw.randrange(world.rows))]
    chosen = [name for name in world.values["protected"] if draw.random() < 0.4]
    for name in chosen:
        value = draw.choice(world.values["attributes"][name])
        place = world.values["protected"].index(name)
        query.append((f"v{place}", value) if page else ("value", f"{name}={value}"))
    if draw.random() < 0.3:
        query.append(("label", draw.choice(world.values["labels"])))
    if draw.random() < 0.2:
        query.append(("phase", draw.choice(world.values["phases"])))
    if draw.random() < 0.2:
        query.append(("gap", draw.randrange(100)) if page else ("least_gap", draw.random()))
    return urlencode(query)


LOOKS: tuple[tuple[str, int, Callable[[World, random.Random], str]], ...] = (  # a name, how often, and the address
    ("start page", 1, lambda world, draw: "/"),
    ("list of runs", 1, lambda world, draw: "/runs"),
    ("live page", 2, lambda world, draw: f"/runs/{world.live}"),
    ("page of an audit", 1, lambda world, draw: f"/runs/{world.done}"),
    ("findings page", 4, lambda world, draw: _explorer(world, draw)),
    ("findings, API", 4, lambda world, draw: _api(world, draw)),
    ("report", 1, lambda world, draw: f"/api/v1/runs/{world.done}/files/report.html"),
    ("run, API", 1, lambda world, draw: f"/api/v1/runs/{world.live}"),
    ("events, API", 1, lambda world, draw: f"/api/v1/runs/{world.live}/events"),
)


def _explorer(world: World, draw: random.Random) -> str:
    return f"/runs/{world.done}/findings?{findings_query(world, draw, page=True)}"


def _api(world: World, draw: random.Random) -> str:
    return f"/api/v1/runs/{world.done}/findings?{findings_query(world, draw, page=False)}"


@dataclass(frozen=True)
class Person:
    """Somebody who watches a run and browses."""

    address: tuple[str, int]
    world: World
    seen: Seen
    draw: random.Random
    pause: float  # seconds between two looks, on average
    cookie: str | None = None

    async def use(self, until: float) -> None:
        """Watch and browse for a while."""
        watching = asyncio.create_task(self._watch())
        try:
            await self._browse(until)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def see_all(self) -> None:
        """Each kind of page once: what is done once for all is done then."""
        connection = self._connection()
        for kind, _, address in LOOKS:
            await self._timed(kind, connection, address(self.world, self.draw))
        connection.close()

    async def _browse(self, until: float) -> None:
        """One page after the other, with the files that a browser fetches beside it, and pauses to read."""
        page, beside, kept = self._connection(), self._connection(), dict[str, str]()
        weights = [look[1] for look in LOOKS]
        await asyncio.sleep(self.draw.uniform(0, self.pause))  # people do not come at the same moment
        while time.monotonic() < until:
            kind, _, address = self.draw.choices(LOOKS, weights)[0]
            _, content = await self._timed(kind, page, address(self.world, self.draw))
            for file in map(bytes.decode, STATIC.findall(content)):
                if kept.get(file) != FOREVER:
                    headers, _ = await self._timed("style, script", beside, file, kept.get(file, ""))
                    kept[file] = FOREVER if FOREVER in headers.get("cache-control", "") else headers.get("etag", "")
            await asyncio.sleep(max(0.0, min(self.draw.expovariate(1 / self.pause), until - time.monotonic())))
        page.close()
        beside.close()

    async def _timed(
        self, kind: str, connection: Connection, path: str, unless: str = ""
    ) -> tuple[dict[str, str], bytes]:
        """Ask, and note how long it took; returns headers and content."""
        start = time.perf_counter()
        try:
            status, headers, content = await connection.get(path, unless)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            self.seen.errors.append(f"{path}: {error!r}")
            connection.close()
            return {}, b""
        self.seen.seconds[kind].append(time.perf_counter() - start)
        if status != 200 and not (unless and status == 304):
            self.seen.errors.append(f"{path}: {status} {content[:200]!r}")
        return headers, content

    async def _watch(self) -> None:
        """Keep the stream of events open; that it ends by itself is an error here."""
        last = None
        try:
            async for part in self._connection().stream(f"/api/v1/runs/{self.world.live}/events/stream"):
                for event in part.decode().split("\n\n"):
                    if "data: " in event:
                        json.loads(event.partition("data: ")[2])
                        now = time.perf_counter()
                        self.seen.told += 1
                        if last is not None:
                            self.seen.silences.append(now - last)
                        last = now
            self.seen.errors.append("a stream of events ended")
        except (OSError, EOFError, ValueError) as error:
            self.seen.errors.append(f"a stream of events broke: {error!r}")

    def _connection(self) -> Connection:
        return Connection(*self.address, self.cookie)


async def use_all(people: list[Person], seconds: float) -> None:
    """All of them at once."""
    until = time.monotonic() + seconds
    await asyncio.gather(*(person.use(until) for person in people))
