"""The running service: the HTTP server in this process, beside workers in others."""

import signal
import socket
import ssl
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn

from evenhand.errors import EvenhandError
from evenhand.service.api.app import create_app
from evenhand.service.settings import Service, Settings
from evenhand.service.worker import Workers

GRACE_SECONDS = 5  # that open requests have to end
BACKLOG = 2048


def run_server(service: Service, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; then end open requests and the workers, which hand their runs back."""
    tls = _tls(service.settings)
    listening = _listen(service.settings)
    app = create_app(service)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,  # the application keeps its own
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        lifespan="on",
        proxy_headers=service.settings.proxy,  # else anybody could say that a request comes from elsewhere
        forwarded_allow_ips=["127.0.0.1", "::1"],
        **tls,
    )
    server = _Server(config, on_exit=lambda: setattr(app.state, "stopping", True))
    before = {number: signal.signal(number, server.end_soon) for number in (signal.SIGTERM, signal.SIGINT)}
    workers = Workers(service.settings)
    try:
        workers.start()
        announce(_address(listening, "https" if tls else "http"))
        server.run(sockets=[listening])
    finally:
        workers.stop()
        listening.close()
        for number, handler in before.items():
            signal.signal(number, handler)


class _Server(uvicorn.Server):
    """Tells the application at once that it ends, so that streams of events do not keep it waiting."""

    def __init__(self, config: uvicorn.Config, on_exit: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_exit = on_exit

    def end_soon(self, _number: int, _frame: FrameType | None) -> None:
        """A signal before the server listens to signals itself, or after: it ends in order, and at once if it can."""
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal ends kindly, a second one at once."""
        self._on_exit()
        super().handle_exit(sig, frame)


def _listen(settings: Settings) -> socket.socket:
    """The socket, taken before anything else is done: somebody else may have the port."""
    host = settings.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, or Nagle's delay stays on
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, settings.port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise EvenhandError(
            f"Cannot listen on {settings.host}, port {settings.port}: {error.strerror}. Choose another --port."
        ) from error
    listening.set_inheritable(False)
    return listening


def _tls(settings: Settings) -> dict[str, Any]:
    """The certificate and its key, tried before the server is."""
    if settings.certificate is None or settings.key is None:
        return {}
    try:
        # Without a password: a key that has one would otherwise be asked about on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.certificate, settings.key, lambda: b"")
    except (OSError, ValueError) as error:  # an error of TLS is one of the system too
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise EvenhandError(
            f"The certificate {settings.certificate} and the key {settings.key} cannot be used: {reason}. Both are "
            "files of PEM that belong together; the key has no password."
        ) from error
    return {"ssl_certfile": settings.certificate, "ssl_keyfile": settings.key}


def _address(listening: socket.socket, scheme: str) -> str:
    host, port = listening.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
