"""The pictures of README and documentation: a report and pages of the service, as a browser shows them.

    python -m tools.pictures [FOLDER] [--seeds N] [--steps N]

Needs Chromium on the path and the packages of the extra `dev`.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evenhand.service.client import Client

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
WIDTH, HEIGHT = 1000, 860
WAIT = 600_000  # milliseconds; a busy machine is no failure
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


def main() -> None:
    """Make all pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home, service(Path(home)) as url, browser() as page:
        client = Client(url)
        run = client.audit("census", ["sex"], seeds=options.seeds, steps=options.steps, seed=0)
        client.wait(run.id)
        taken(page, f"{url}/runs/{run.id}", options.folder / "service.png")
        taken(page, f"{url}/runs/{run.id}/findings", options.folder / "pairs.png")
        report = client.download(run.id, "report.html", Path(home) / "report.html")
        taken(page, report.as_uri(), options.folder / "report.png")


@contextmanager
def service(home: Path) -> Iterator[str]:
    """A service of its own on a free port; its address."""
    command = [
        sys.executable,
        "-c",
        "from evenhand.cli.main import main; main()",
        "serve",
        "--port",
        "0",
        "--home",
        str(home),
    ]
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "EVENHAND_HOME": str(home)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment) as it:
        assert it.stdout is not None
        try:
            yield next(word for line in it.stdout for word in line.split() if word.startswith("http://")).rstrip("/.,")
        finally:
            it.send_signal(signal.SIGTERM)


@contextmanager
def browser() -> Iterator[Any]:
    """A page in a browser without a window."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("chromium is not installed: apt install chromium")
    with sync_playwright() as player:
        started = player.chromium.launch(executable_path=program, args=FLAGS)
        page = started.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.set_default_timeout(WAIT)
        yield page
        started.close()


def taken(page: Any, address: str, path: Path) -> None:
    """A picture of the top of a page, after all of it is there."""
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.screenshot(path=path)
    print(path)


if __name__ == "__main__":
    main()
