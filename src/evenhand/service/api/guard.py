"""What every request must be and every answer says, before any route is asked.

- Host: without accounts only names of this machine, so that a page elsewhere cannot reach it under a name of its own
  (DNS rebinding); with accounts the names that the service was given. Where it was given none, any: the cookie of a
  sign-in does not go to another name.
- Where it comes from: a request that changes something must not come from another site.
- How it is sent: JSON or a stream of bytes, which a page of another site cannot send without being asked about it; or
  a form with a token (see `identity`).
- How long it is: long where a file is sent, short everywhere else.
- Without accounts, that no proxy hands it on: then others than this machine could reach the service.
"""

import re
import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenhand.report.words import joined
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
TABLE_PATHS = ("/new/data", "/api/v1/datasets")
MODEL_PATHS = ("/new/model", "/api/v1/models")
FILE_PATHS = (*TABLE_PATHS, *MODEL_PATHS)
SCHEMA_PATHS = ("/new/columns", "/new/columns/text")
SCHEMA = re.compile(r"/api/v1/datasets/[0-9a-f]{32}/schema", re.ASCII)
SCHEMA_LIMIT = 16 << 20  # a schema's text, each letter of which a form or JSON may send as three or more
PROXY_HEADERS = ("x-forwarded-for", "forwarded", "via")
A_YEAR = "max-age=31536000"

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
        known = _cookie(request)
        new_token = None if known else secrets.token_urlsafe(32)
        scope.setdefault("state", {})["csrf_token"] = known or new_token
        answering = _AnswerHeaders(send, scope, new_token)
        try:
            self._check(request)
            limit = self.limit(request)
            _check_length(request.headers, limit)
        except ApiError as error:
            await answer(request, STATUS[error.what], error.what, str(error))(scope, receive, answering.send)
            return
        try:
            await self.app(scope, _limited(receive, limit), answering.send)
        except Exception:
            if not answering.begun:
                words = f"Something failed inside the service. Its log says more under {_request_id(scope)}."
                await answer(request, 500, "internal", words)(scope, receive, answering.send)
            raise  # the journal writes it down

    def _check(self, request: Request) -> None:
        self._check_host(host_of(request.headers.get("host", "")))
        if not self.settings.accounts and any(name in request.headers for name in PROXY_HEADERS):
            raise ApiError(
                "forbidden",
                "The request came through a proxy, so others than this machine could reach this service, which has no "
                "accounts. Make an admin (evenhand users add NAME --admin) and start it with evenhand serve --proxy.",
            )
        if request.method in SAFE_METHODS:
            return
        if not _same_origin(request):
            raise ApiError("forbidden", "The request comes from another site.")
        if request.method != "DELETE" and _media_type(request.headers) not in (*DIRECT_TYPES, *FORM_TYPES):
            raise ApiError(
                "wrong-type", "Send application/json, or application/octet-stream for files, as Content-Type."
            )

    def _check_host(self, name: str) -> None:
        settings = self.settings
        if name in LOCAL_NAMES or (settings.accounts and name and (not settings.names or name in settings.names)):
            return
        known = [*settings.names, "localhost", "127.0.0.1"] if settings.accounts else ["localhost", "127.0.0.1"]
        raise ApiError("forbidden", f"This service only answers to {joined(known)}.")

    def limit(self, request: Request) -> int:
        """The most bytes that a request may have; `Assets` has the exact limits of files."""
        path, usual = request.scope["path"], self.settings.max_request
        is_file = _media_type(request.headers) in ("application/octet-stream", "multipart/form-data")
        if request.method == "POST" and is_file and path in FILE_PATHS:
            most = self.settings.upload_limit if path in TABLE_PATHS else self.settings.model_limit + usual
            return most + SLACK
        is_schema = path in SCHEMA_PATHS if request.method == "POST" else SCHEMA.fullmatch(path) is not None
        return max(usual, SCHEMA_LIMIT) if is_schema else usual


def host_of(header: str) -> str:
    """The name of a Host header without its port; nothing where it is not sound."""
    found = HOST.fullmatch(header)
    return found["name"].strip("[]").lower() if found else ""


def is_secure(request: Request) -> bool:
    """Whether nobody on the way can read a request, as far as this server or its proxy knows."""
    return bool(request.scope["scheme"] == "https")


def cookie_name(name: str, secure: bool) -> str:
    """The name of a cookie. Over TLS browsers let no other host and no unprotected page set one of that name."""
    return f"__Host-{name}" if secure else name


def _request_id(scope: Scope) -> str:
    return str(scope["state"].get("request_id", "this moment"))


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
    return origin is None or origin == f"{request.scope['scheme']}://{request.headers.get('host', '')}"


def _check_length(headers: Headers, limit: int) -> None:
    length = headers.get("content-length", "0")
    if not length.isascii() or not length.isdecimal():
        raise ApiError("invalid", "Content-Length is not a number.")
    if len(length.lstrip("0")) > 18 or int(length) > limit:
        raise ApiError(
            "too-large", f"The request is larger than {size_text(limit)}, the largest size that is accepted."
        )


def _limited(receive: Receive, limit: int) -> Receive:
    """Receive at most so many bytes, whatever the request says about its length."""
    size = 0

    async def counted() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > limit:
            raise TooLargeError(f"The request is larger than {size_text(limit)}, the largest size that is accepted.")
        return message

    return counted


def _cookie(request: Request) -> str | None:
    """The token that the browser was given, if it is one of ours by its form."""
    value = request.cookies.get(cookie_name(COOKIE, is_secure(request)), "")
    return value if 20 <= len(value) <= 100 else None


class _AnswerHeaders:
    """An answer on its way out, which gets its headers; `begun` as soon as some of it is sent."""

    def __init__(self, send: Send, scope: Scope, new_token: str | None) -> None:
        self._send, self._scope, self._new_token, self.begun = send, scope, new_token, False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            self._add(MutableHeaders(scope=message))
        await self._send(message)

    def _add(self, headers: MutableHeaders) -> None:
        if self._scope["path"].startswith("/static/"):
            headers.setdefault("Cache-Control", "no-cache")  # kept, but asked about: a new version shows at once
        for name, value in HEADERS.items():
            headers.setdefault(name, value)
        host = host_of(Headers(scope=self._scope).get("host", ""))
        if self._scope["scheme"] == "https" and host not in LOCAL_NAMES:  # else all that this machine serves had to
            headers.setdefault("Strict-Transport-Security", A_YEAR)
        # Somebody who has signed in has a token of that sign-in, and needs no cookie for it.
        is_used = self._new_token is not None and self._scope["state"]["csrf_token"] == self._new_token
        if is_used and headers.get("content-type", "").startswith("text/html"):
            secure = is_secure(Request(self._scope))
            rest = "; Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if secure else "")
            headers.append("Set-Cookie", f"{cookie_name(COOKIE, secure)}={self._new_token}{rest}")
