"""The pictures of README and documentation: reports and pages of the service, as a browser shows them.

    python -m tools.pictures [FOLDER] [--data NAME] [--seeds N] [--steps N] [--few]

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.comments import write_comments
from tools.small_png import small_png

from evenhand.data.dataset import load_dataset
from evenhand.service.client import Client, RemoteRun

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
WIDTH, HEIGHT = 1000, 860
WAIT = 600_000  # milliseconds; a busy machine is no failure
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
EVENHAND = [sys.executable, "-c", "from evenhand.cli.main import main; main()"]
CHART = "figure svg"
GROWTH = "#curve-rows tr:nth-child(12)"  # the live page knows how findings grew for a while
BOTTOM = "Math.ceil(document.body.getBoundingClientRect().bottom)"
UPLOADED_ROWS = 2_000  # of a built-in table, as one of the reader's own
LIVE_STEPS = 20_000_000  # of all seeds together, so that a search goes on while its page is looked at


@dataclass(frozen=True)
class Album:
    """Where pictures go, the browser that shows the pages, and the service that has them."""

    folder: Path
    page: Any
    empty_page: Any  # of the same browser
    client: Client
    data: str  # a built-in table
    budget: dict[str, Any]

    def take(self, name: str, path: str, shown: str = "h1") -> None:
        """A picture of the top of a page of the service, once all of it is there."""
        self.take_address(name, self.client.url + path, shown)

    def take_report(self, name: str, run: RemoteRun, home: Path) -> None:
        """A picture of the top of a run's report."""
        self.take_address(name, self.client.download(run.id, "report.html", home / f"{name}.html").as_uri())

    def take_address(self, name: str, address: str, shown: str = "h1") -> None:
        """A picture of the top of a page anywhere."""
        self.page.goto(address, wait_until="load")
        self.page.locator(shown).first.wait_for(state="attached")
        height = min(HEIGHT, self.page.evaluate(BOTTOM))
        picture = self.page.screenshot(clip={"x": 0, "y": 0, "width": WIDTH, "height": height}, animations="disabled")
        (self.folder / f"{name}.png").write_bytes(small_png(picture, self.empty_page))
        print(self.folder / f"{name}.png")


def main() -> None:
    """Make all pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--data", default="census", help="a built-in table with the attributes sex and age")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--few", action="store_true", help="leave out pages that take runs of their own")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made, browser() as (page, empty_page):
        files = Path(made)
        with service(files / "home") as url:
            budget = {"seeds": options.seeds, "steps": options.steps}
            album = Album(options.folder, page, empty_page, Client(url), options.data, budget)
            show_new_audit(album, files)
            audit = show_audit(album, files)
            if not options.few:
                show_figures(album, audit)
            show_texts(album, files)
            show_lists(album)
        show_sign_in(album, files / "with accounts")


def show_new_audit(album: Album, files: Path) -> None:
    """The way to an audit of a table of one's own: data, columns, model."""
    people = load_dataset(album.data)
    assert people.frame is not None
    people.frame[:UPLOADED_ROWS].to_csv(files / "people.csv", index=False)
    data = album.client.add_dataset(files / "people.csv", "Our people").id
    album.client.infer_schema(data, people.schema.label.column)
    album.take("data", "/new")
    album.take("columns", f"/new/columns?data={data}")
    album.take("model", f"/new/model?data={album.data}&protected=sex")


def show_audit(album: Album, files: Path) -> RemoteRun:
    """An audit of a built-in network, and a repair of it."""
    client = album.client
    audit = client.audit(album.data, ["sex"], **album.budget)
    repair = client.repair(audit.id, ["average"], seeds=20, steps=20, epochs=10, repeats=1, half_width=0.01)
    for run in (audit, repair):
        client.wait(run.id)
    album.take("service", f"/runs/{audit.id}", CHART)
    album.take("pairs", f"/runs/{audit.id}/findings")
    album.take("repair", f"/runs/{repair.id}", CHART)
    album.take_report("report", audit, files)
    album.take_report("repair_report", repair, files)
    return audit


def show_figures(album: Album, audit: RemoteRun) -> None:
    """How often the model of an audit decides otherwise, and the audit beside another one."""
    client = album.client
    measurement = client.measure(audit.id, half_width=0.01)
    other = client.audit(album.data, ["age"], **album.budget)
    for run in (measurement, other):
        client.wait(run.id)
    album.take("measurement", f"/runs/{measurement.id}", CHART)
    album.take("comparison", f"/compare?a={audit.id}&b={other.id}", CHART)


def show_texts(album: Album, files: Path) -> None:
    """An audit of a small network that decides about comments."""
    client = album.client
    comments, network = write_comments(files)
    data = client.add_texts(comments, "comment", "decision", favourable="fine", name="Comments")
    model = client.add_model(network, "our GRU")
    album.take("text_columns", f"/new/columns?data={data.id}")
    audit = client.audit(data.id, ["religion"], model=model.id, encoder="none", seeds=100, steps=10)
    client.wait(audit.id)
    album.take("text_run", f"/runs/{audit.id}")
    album.take("text_pairs", f"/runs/{audit.id}/findings")
    album.take_report("text_report", audit, files)


def show_lists(album: Album) -> None:
    """A search while it goes on, and the pages that list it and all others; it ends with the service."""
    seeds = album.budget["seeds"]
    going = album.client.audit(album.data, ["age"], seeds=seeds, steps=LIVE_STEPS // seeds)
    album.take("live", f"/runs/{going.id}", GROWTH)
    album.take("start", "/")
    album.take("runs", "/runs", "table")


def show_sign_in(album: Album, home: Path) -> None:
    """The door of a service with accounts."""
    command = [*EVENHAND, "users", "add", "ada", "--admin", "--password-stdin", "--home", str(home)]
    subprocess.run(command, input="for a picture only", text=True, check=True, stdout=subprocess.DEVNULL)
    with service(home) as url:
        album.take_address("sign_in", url)


@contextmanager
def service(home: Path) -> Iterator[str]:
    """A service of its own on a free port; its address."""
    command = [*EVENHAND, "serve", "--port", "0", "--home", str(home)]
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "EVENHAND_HOME": str(home)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment) as it:
        assert it.stdout is not None
        try:
            yield next(word for line in it.stdout for word in line.split() if word.startswith("http://")).rstrip("/.,")
        finally:
            it.send_signal(signal.SIGTERM)


@contextmanager
def browser() -> Iterator[tuple[Any, Any]]:
    """Two pages in a browser without a window: one to look at, one that stays empty."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("chromium is not installed: apt install chromium")
    with sync_playwright() as player:
        started = player.chromium.launch(executable_path=program, args=FLAGS)
        page = started.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.set_default_timeout(WAIT)
        yield page, started.new_page()
        started.close()


if __name__ == "__main__":
    main()
