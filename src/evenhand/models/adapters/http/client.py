"""Posting JSON to one address: connections that are kept, a rate limit, retries that wait longer each time."""

import contextlib
import email.utils
import http.client
import json
import random
import ssl
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, LifoQueue
from typing import Any
from urllib.parse import unquote, unquote_plus, urlsplit

from evenhand.errors import EvenhandError

LARGEST_ANSWER = 256 * 2**20  # bytes
LONGEST_WAIT = 60.0  # seconds between two tries, unless the server asks for more
LONGEST_ASKED = 600.0  # seconds that a server may ask us to wait
SHORTEST_SECRET = 6  # characters of a word of a header or of the query that is never shown
FIRST_WORDS = 200  # characters of a server's error that are shown
LONGEST_LOOK = 2**16  # bytes of it that are looked at


class Refused(EvenhandError):  # noqa: N818 - it is no mistake of ours
    """The server says that the request itself is wrong, so that asking again is of no use."""


class Failed(Exception):  # noqa: N818 - it is retried
    """One try failed; the reason is in words for people."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait  # seconds that the server asks us to wait


class Stopped(Exception):  # noqa: N818 - not an error
    """Another request failed for good, so that this one's answer is of no use."""


@dataclass
class Counters:
    """What asking took."""

    requests: int = 0
    rows: int = 0  # rows sent, those of failed requests included: they may be charged too
    retries: int = 0
    seconds: float = 0.0  # of waiting for answers, of all requests together


class Client:
    """Posts JSON documents to one address. Several threads may use it at once."""

    def __init__(
        self,
        url: str,
        headers: dict[str, str],
        *,
        method: str = "POST",
        timeout: float = 30,
        retries: int = 4,
        rate: float | None = None,
        first_wait: float = 0.5,
    ) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self.place = f"{parts.scheme}://{parts.netloc}{parts.path}"  # without the query, which may hold a key
        self._headers = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        self._secrets = _secrets(headers, parts.query)
        self._context = ssl.create_default_context() if parts.scheme == "https" else None
        self._method, self._timeout, self._retries, self._first_wait = method, timeout, retries, first_wait
        self._limit = _RateLimit(rate)
        self._kept: LifoQueue[http.client.HTTPConnection] = LifoQueue()
        weakref.finalize(self, _close_all, self._kept)
        self._jitter = random.Random(0)
        self._lock = threading.Lock()
        self.counters = Counters()

    def ask(self, body: Any, rows: int, read: Callable[[Any], Any], stop: threading.Event) -> Any:
        """What `read` makes of the answer. A try that fails, also because `read` raises Failed, is made again."""
        content = json.dumps(body, allow_nan=False).encode()
        attempt = 0
        while True:
            try:
                return read(self._parsed(self._try(content, rows, stop)))
            except Refused as refusal:
                raise Refused(self._without_secrets(str(refusal))) from None
            except Failed as failure:
                if attempt == self._retries:
                    raise Failed(self._without_secrets(str(failure))) from None
                pause = self._pause(attempt)
                stop.wait(pause if failure.wait is None else failure.wait)
            attempt += 1

    def _pause(self, attempt: int) -> float:
        """Seconds to wait after a failed try: twice as long each time, with jitter that changes no result."""
        with self._lock:
            self.counters.retries += 1
            return self._jitter.uniform(0.5, 1) * min(self._first_wait * 2.0**attempt, LONGEST_WAIT)

    def _without_secrets(self, words: str) -> str:
        """A server may repeat what it was sent; values of headers and of the query are not for a screen or a log."""
        for secret in self._secrets:
            words = words.replace(secret, "…")
        return words

    def _first_words(self, answer: bytes) -> str:
        """The beginning of an answer for people; half a secret would not be known as one, so it is cut last."""
        words = " ".join(answer[:LONGEST_LOOK].decode("utf-8", errors="replace").split())
        return self._without_secrets(words)[:FIRST_WORDS]

    def _parsed(self, answer: bytes) -> Any:
        try:
            return json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise Failed(f"the answer is not JSON: {self._first_words(answer) or 'it is empty'}") from error

    def _try(self, content: bytes, rows: int, stop: threading.Event) -> bytes:
        self._limit.wait(stop)
        if stop.is_set():
            raise Stopped
        start = time.perf_counter()
        try:
            return self._exchange(content)
        except TimeoutError as error:
            raise Failed(f"it did not answer within {self._timeout:g} seconds") from error
        except (OSError, http.client.HTTPException) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
            raise Failed(f"the connection failed ({reason})") from error
        finally:
            with self._lock:
                self.counters.requests += 1
                self.counters.rows += rows
                self.counters.seconds += time.perf_counter() - start

    def _exchange(self, content: bytes) -> bytes:
        """Send and receive once, over a kept connection where there is one that still lives."""
        connection, kept = self._connection()
        try:
            response = self._sent(connection, content)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            if not kept:
                raise
            connection = self._new_connection()  # servers close idle connections; that is no failure
            response = self._sent(connection, content)
        try:
            answer = _received(response, time.monotonic() + self._timeout)
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._kept.put(connection)
        _check_status(response, self._first_words(answer))
        return answer

    def _sent(self, connection: http.client.HTTPConnection, content: bytes) -> http.client.HTTPResponse:
        try:
            connection.request(self._method, self._target, body=content, headers=self._headers)
            return connection.getresponse()
        except BaseException:
            connection.close()
            raise

    def _connection(self) -> tuple[http.client.HTTPConnection, bool]:
        with contextlib.suppress(Empty):
            return self._kept.get_nowait(), True
        return self._new_connection(), False

    def _new_connection(self) -> http.client.HTTPConnection:
        if self._context is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._context)


def _secrets(headers: dict[str, str], query: str) -> list[str]:
    """Words that are never shown, the longest first: one may be part of another."""
    words = {word for value in headers.values() for word in value.split()}
    for part in query.split("&"):
        name, _, value = part.partition("=")
        secret = value or name
        words |= {secret, unquote(secret), unquote_plus(secret)}
    return sorted((word for word in words if len(word) >= SHORTEST_SECRET), key=len, reverse=True)


def _close_all(kept: LifoQueue[http.client.HTTPConnection]) -> None:
    while not kept.empty():
        kept.get().close()


class _RateLimit:
    """At most so many requests a second, evenly spread over all threads."""

    def __init__(self, rate: float | None) -> None:
        self._pause = 0.0 if rate is None else 1 / rate
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self, stop: threading.Event) -> None:
        if not self._pause:
            return
        with self._lock:
            now = time.monotonic()
            mine = max(now, self._next)
            self._next = mine + self._pause
        stop.wait(mine - now)


def _received(response: http.client.HTTPResponse, deadline: float) -> bytes:
    """The whole answer; one that drips in, or that has no end, is given up."""
    parts: list[bytes] = []
    size = 0
    while part := response.read1(2**16):
        size += len(part)
        if size > LARGEST_ANSWER:
            raise Failed(f"the answer is longer than {LARGEST_ANSWER / 2**20:.0f} MB")
        if time.monotonic() > deadline:
            raise TimeoutError
        parts.append(part)
    if response.length:  # it promised more
        raise http.client.IncompleteRead(b"".join(parts), response.length)
    response.close()  # it is at its end, but does not know, and would block the connection
    return b"".join(parts)


def _check_status(response: http.client.HTTPResponse, words: str) -> None:
    """Nothing for a good answer; Failed for what may pass, Refused for what will not."""
    status = response.status
    if 200 <= status < 300:
        return
    said = f"status {status} {response.reason}" + (f": {words}" if words else "")
    if 300 <= status < 400:
        place = urlsplit(response.getheader("Location") or "")
        raise Refused(f"it redirects to {place.netloc}{place.path or '?'} ({said}), which is not followed")
    if status in (408, 429) or status >= 500:
        raise Failed(said, _asked_wait(response.getheader("Retry-After")))
    raise Refused(said)


def _asked_wait(header: str | None) -> float | None:
    """Seconds from a Retry-After header: a number or a date."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(header).timestamp() - time.time()
        except ValueError:
            return None
    return min(max(seconds, 0.0), LONGEST_ASKED) if seconds == seconds else None
