"""The running service: the HTTP server in this process, beside workers in others."""

import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from evenhand.errors import EvenhandError
from evenhand.service.api.app import create_app
from evenhand.service.settings import Service, Settings
from evenhand.service.workers import Workers

GRACE_SECONDS = 5  # that open requests have to end
BACKLOG = 2048


def run_server(service: Service, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; then end open requests and the workers, which hand their runs back."""
    listening = _listen(service.settings)
    app = create_app(service)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,  # the application keeps its own
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        lifespan="on",
    )
    server = _Server(config, on_exit=lambda: setattr(app.state, "stopping", True))
    before = {number: signal.signal(number, _ignored) for number in (signal.SIGTERM, signal.SIGINT)}
    workers = Workers(service.settings)
    try:
        workers.start()
        announce(_address(listening))
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

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal ends kindly, a second one at once."""
        self._on_exit()
        super().handle_exit(sig, frame)


def _listen(settings: Settings) -> socket.socket:
    """The socket, taken before anything else is done: somebody else may have the port."""
    host = settings.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
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


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _ignored(_number: int, _frame: FrameType | None) -> None:
    """What happens to a signal once the server has heard it: nothing more, so that all is closed in order."""
