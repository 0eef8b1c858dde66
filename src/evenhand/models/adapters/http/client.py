"""Posting JSON to one address: connections that are kept, a rate limit, retries that wait longer each time."""

import email.utils
import json
import random
import ssl
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, unquote_plus, urlsplit

import httpx

from evenhand.errors import EvenhandError

LARGEST_ANSWER = 256 * 2**20  # bytes
LONGEST_WAIT = 60.0  # seconds between two tries, unless the server asks for more
LONGEST_ASKED = 600.0  # seconds that a server may ask us to wait
SHORTEST_SECRET = 6  # characters of a word of a header or of the query that is never shown
FIRST_WORDS = 200  # characters of a server's error that are shown
LONGEST_LOOK = 2**16  # bytes of it that are looked at
UNLIMITED = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=None)


class RequestRefused(EvenhandError):  # noqa: N818 - it is no mistake of ours
    """The server says that the request itself is wrong, so that asking again is of no use."""


class RequestFailed(Exception):  # noqa: N818 - it is retried
    """One try failed; the reason is in words for people."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait  # seconds that the server asks us to wait


class RequestStopped(Exception):  # noqa: N818 - not an error
    """Another request failed for good, so that this one's answer is of no use."""


@dataclass
class Counters:
    """What asking took."""

    requests: int = 0
    rows: int = 0  # rows sent, those of failed requests included: they may be charged too
    retries: int = 0
    seconds: float = 0.0  # of waiting for answers, of all requests together


class EndpointClient:
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
        self.place = f"{parts.scheme}://{parts.netloc}{parts.path}"  # without the query, which may hold a key
        self._url, self._method = url, method
        # An answer may be long, so it is not unpacked: what comes in is what is counted.
        self._headers = {
            "Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity", **headers,
        }  # fmt: skip
        self._secrets = _secrets(headers, parts.query)
        # The bare transport: no cookies, no redirects, no proxies of the environment, and no addresses in a log.
        context = ssl.create_default_context() if parts.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._transport = httpx.HTTPTransport(verify=context, trust_env=False, limits=UNLIMITED)
        weakref.finalize(self, self._transport.close)
        self._timeout, self._retries, self._first_wait = timeout, retries, first_wait
        self._limit = _RateLimit(rate)
        self._jitter = random.Random(0)
        self._lock = threading.Lock()
        self.counters = Counters()

    def ask(self, body: Any, rows: int, read: Callable[[Any], Any], stop: threading.Event) -> Any:
        """What `read` makes of the answer. A try that fails, also because `read` raises Failed, is made again."""
        content = json.dumps(body, allow_nan=False).encode()
        attempt = 0
        while True:
            try:
                return read(self._parse(self._try(content, rows, stop)))
            except RequestRefused as refusal:
                raise RequestRefused(self._without_secrets(str(refusal))) from None
            except RequestFailed as failure:
                if attempt == self._retries:
                    raise RequestFailed(self._without_secrets(str(failure))) from None
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

    def _parse(self, answer: bytes) -> Any:
        try:
            return json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise RequestFailed(f"the answer is not JSON: {self._first_words(answer) or 'it is empty'}") from error

    def _try(self, content: bytes, rows: int, stop: threading.Event) -> bytes:
        self._limit.wait(stop)
        if stop.is_set():
            raise RequestStopped
        start = time.perf_counter()
        try:
            return self._exchange(content)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise RequestFailed(f"it did not answer within {self._timeout:g} seconds") from error
        except httpx.TransportError as error:
            raise RequestFailed(f"the connection failed ({_reason(error)})") from error
        finally:
            with self._lock:
                self.counters.requests += 1
                self.counters.rows += rows
                self.counters.seconds += time.perf_counter() - start

    def _exchange(self, content: bytes) -> bytes:
        """Send and receive once, over a kept connection where there is one that still lives."""
        steps: list[str] = []
        try:
            response = self._send(content, steps)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            if "connection.connect_tcp.started" in steps:
                raise
            response = self._send(content, steps)  # servers close idle connections; that is no failure
        try:
            answer = _receive(response, time.monotonic() + self._timeout)
        finally:
            response.close()
        _check_status(response, self._first_words(answer))
        return answer

    def _send(self, content: bytes, steps: list[str]) -> httpx.Response:
        """The answer, of which the body is still to come; `steps` are what it took."""
        extensions = {
            "timeout": httpx.Timeout(self._timeout).as_dict(), "trace": lambda step, _: steps.append(step),
        }  # fmt: skip
        request = httpx.Request(self._method, self._url, headers=self._headers, content=content, extensions=extensions)
        return self._transport.handle_request(request)


def _reason(error: BaseException) -> str:
    """What the system says of a failed connection."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__


def _secrets(headers: dict[str, str], query: str) -> list[str]:
    """Words that are never shown, the longest first: one may be part of another."""
    words = {word for value in headers.values() for word in value.split()}
    for part in query.split("&"):
        name, _, value = part.partition("=")
        secret = value or name
        words |= {secret, unquote(secret), unquote_plus(secret)}
    return sorted((word for word in words if len(word) >= SHORTEST_SECRET), key=len, reverse=True)


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


def _receive(response: httpx.Response, deadline: float) -> bytes:
    """The whole answer; one that drips in, or that has no end, is given up."""
    parts: list[bytes] = []
    size = 0
    for part in response.iter_raw():
        size += len(part)
        if size > LARGEST_ANSWER:
            raise RequestFailed(f"the answer is longer than {LARGEST_ANSWER / 2**20:.0f} MB")
        if time.monotonic() > deadline:
            raise TimeoutError
        parts.append(part)
    return b"".join(parts)


def _check_status(response: httpx.Response, words: str) -> None:
    """Nothing for a good answer; Failed for what may pass, Refused for what will not."""
    status = response.status_code
    if 200 <= status < 300:
        return
    said = f"status {status} {response.reason_phrase}" + (f": {words}" if words else "")
    if 300 <= status < 400:
        place = urlsplit(response.headers.get("Location", ""))
        raise RequestRefused(f"it redirects to {place.netloc}{place.path or '?'} ({said}), which is not followed")
    if status in (408, 429) or status >= 500:
        raise RequestFailed(said, _requested_wait(response.headers.get("Retry-After")))
    raise RequestRefused(said)


def _requested_wait(header: str | None) -> float | None:
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
