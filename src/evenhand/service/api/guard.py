"""What every request must be and every answer says, before any route is asked.

- Host: on a loopback service only names of this machine, so that a page elsewhere cannot reach it under a name of its
  own (DNS rebinding).
- Where it comes from: a request that changes something must not come from another site.
- How it is sent: JSON or a stream of bytes, which a page of another site cannot send without being asked about it; or
  a form with a token (see `forms`).
- How long it is.
"""

import re
import secrets
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenhand.service.api.errors import STATUS, ApiError, answer
from evenhand.service.settings import Settings
from evenhand.service.storage.uploads import TooLargeError, size_text

HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?", re.ASCII)
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
DIRECT_TYPES = ("application/json", "application/octet-stream")
FORM_TYPES = ("multipart/form-data", "application/x-www-form-urlencoded")
COOKIE = "evenhand_csrf"
SLACK = 1 << 20  # what a form may have beside its file

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "X-Content-Type-Options": "nosniff",
    # With no-referrer a browser would send our own forms with `Origin: null`.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


class Guard:
    """Refuses requests that no page or program of ours would send, and adds headers to answers."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, then pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        known = _cookie(request.headers)
        scope.setdefault("state", {})["csrf_token"] = known or secrets.token_urlsafe(32)
        send = _with_headers(send, scope, new_cookie=known is None)
        try:
            self._check(request)
            limit = self._limit(request.headers)
            _check_length(request.headers, limit)
        except ApiError as error:
            await answer(request, STATUS[error.what], error.what, str(error))(scope, receive, send)
            return
        await self.app(scope, _counted(receive, limit), send)

    def _check(self, request: Request) -> None:
        if host_of(request.headers.get("host", "")) not in LOCAL_NAMES:
            raise ApiError("forbidden", "This service only answers to localhost and 127.0.0.1.")
        if request.method in SAFE_METHODS:
            return
        if not _same_origin(request):
            raise ApiError("forbidden", "The request comes from another site.")
        if request.method != "DELETE" and _media_type(request.headers) not in (*DIRECT_TYPES, *FORM_TYPES):
            raise ApiError(
                "wrong-type", "Send application/json, or application/octet-stream for files, as Content-Type."
            )

    def _limit(self, headers: Headers) -> int:
        """The most bytes that a request may have; `Assets` has the exact limits of files."""
        if _media_type(headers) in ("application/octet-stream", "multipart/form-data"):
            return max(self.settings.upload_limit, self.settings.model_limit) + SLACK
        return self.settings.max_request


def host_of(header: str) -> str:
    """The name of a Host header without its port; nothing where it is not sound."""
    found = HOST.fullmatch(header)
    return found["name"].strip("[]").lower() if found else ""


def _media_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def is_form(request: Request) -> bool:
    """Whether a request is sent as forms are, and so needs a token."""
    return _media_type(request.headers) in FORM_TYPES


def _same_origin(request: Request) -> bool:
    """Whether our own page or no page at all sent a request. Browsers set both headers, and pages cannot."""
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    return origin is None or origin == f"{request.url.scheme}://{request.headers.get('host', '')}"


def _check_length(headers: Headers, limit: int) -> None:
    length = headers.get("content-length", "0")
    if not length.isascii() or not length.isdecimal():
        raise ApiError("invalid", "Content-Length is not a number.")
    if int(length) > limit:
        raise ApiError("too-large", f"The request is larger than {size_text(limit)}, which is the most that is taken.")


def _counted(receive: Receive, limit: int) -> Receive:
    """Receive at most so many bytes, whatever the request says about its length."""
    size = 0

    async def counted() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > limit:
            raise TooLargeError(f"The request is larger than {size_text(limit)}, which is the most that is taken.")
        return message

    return counted


def _cookie(headers: Headers) -> str | None:
    """The token that the browser was given, if it is one of ours by its form."""
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return cookie.value if cookie is not None and 20 <= len(cookie.value) <= 100 else None


def _with_headers(send: Send, scope: Scope, *, new_cookie: bool) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            if scope["path"].startswith("/static/"):
                headers.setdefault("Cache-Control", "no-cache")  # kept, but asked about: a new version shows at once
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            if new_cookie and headers.get("content-type", "").startswith("text/html"):
                token = scope["state"]["csrf_token"]
                headers.append("Set-Cookie", f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict")
        await send(message)

    return sending
