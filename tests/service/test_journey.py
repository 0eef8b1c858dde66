"""The whole way of a reviewer in a real browser: upload, columns, audit, live page, pairs, repair, download.

At every page: pictures (kept where $EVENHAND_SCREENSHOTS says), what axe finds in light and dark, whether a phone has
to scroll sideways, and whether anything is asked of another host.
"""

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import uvicorn

import evenhand
from evenhand.service.api.app import create_app
from evenhand.service.settings import Service
from evenhand.service.storage.runs import Claim
from evenhand.service.storage.tables import Run
from evenhand.service.worker import Worker
from tests.worlds.adapters import raw_people
from tests.worlds.pages import finish
from tests.worlds.service import needs, small_run
from tests.worlds.text_files import UserFiles
from tests.worlds.text_service import zipped_network

playwright = pytest.importorskip("playwright.sync_api")

pytest_plugins = ["tests.worlds.service", "tests.worlds.text_service"]

AXE = (Path(__file__).parents[1] / "vendor" / "axe.min.js").read_text(encoding="utf-8")
GRAVE = ("serious", "critical")
WAIT = 600_000  # milliseconds; a busy machine is no failure
DESKTOP, PHONE = {"width": 1200, "height": 900}, {"width": 390, "height": 844}
SCHEMA = """
name = "people"
file = "table.csv"
label = { column = "approved", values = ["0", "1"], favourable = "1" }
[[attribute]]
name = "NAME"
column = "sex"
kind = "category"
categories = ["f", "m"]
protected = true
[[attribute]]
name = "age"
kind = "number"
width = 10
domain = [2, 5]
"""
PAIR = {
    "description": "age 30, job <i>nurse</i>",
    "sides": [
        {"role": "Sample", "protected": [["<b>female</b>", True], ["white", False]], "label": "no", "score": 0.25},
        {"role": "Witness", "protected": [["male", True], ["white", False]], "label": "yes", "score": 0.75},
    ],
    "score_of": "yes",
    "origin": "Row 1 of the data, unchanged.",
}


@dataclass
class Visit:
    """A browser's page at a service, and what it noticed on the way."""

    page: Any
    address: str
    pictures: Path
    complaints: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def go(self, path: str) -> None:
        self.page.goto(self.address + path)

    def look(self, name: str) -> None:
        """Take pictures of the page as it is, and let axe judge it."""
        self.page.wait_for_load_state()  # a click only waits until the next page begins to come
        for scheme in ("light", "dark"):
            self.page.emulate_media(color_scheme=scheme)
            self.page.evaluate(AXE)
            found = self.page.evaluate("axe.run(document, {resultTypes: ['violations'], iframes: false})")["violations"]
            grave = [
                f"{one['id']}: {node['target']} {node['failureSummary']}"
                for one in found
                if one["impact"] in GRAVE
                for node in one["nodes"]
            ]
            assert not grave, f"{name}, {scheme}: {grave}"
            self.page.screenshot(path=self.pictures / f"{name}-{scheme}.png", full_page=True)
        self.page.emulate_media(color_scheme="light")
        self.page.set_viewport_size(PHONE)
        width = self.page.evaluate("document.documentElement.scrollWidth")
        self.page.screenshot(path=self.pictures / f"{name}-phone.png", full_page=True)
        assert width <= PHONE["width"], f"{name}: a phone has to scroll sideways, {width} pixels"
        self.page.set_viewport_size(DESKTOP)
        assert not self.complaints, self.complaints


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = needs("chromium", "chromium")
    with playwright.sync_playwright() as player:
        started = player.chromium.launch(
            executable_path=program, args=["--no-sandbox"] if os.geteuid() == 0 else [], timeout=WAIT
        )
        yield started
        started.close()


@pytest.fixture
def address(sqlite_service: Service) -> Iterator[str]:
    """Where the service answers, on a port of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            create_app(sqlite_service), log_level="error", log_config=None, timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture
def visit(browser: Any, address: str, tmp_path: Path) -> Iterator[Visit]:
    pictures = Path(os.environ.get("EVENHAND_SCREENSHOTS") or tmp_path / "pictures")
    pictures.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(viewport=DESKTOP, accept_downloads=True, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(WAIT)
    one = Visit(page, address, pictures)
    page.on("console", lambda message: one.complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: one.complaints.append(str(error)))
    page.on("request", lambda request: one.hosts.add(request.url.split("/")[2]))
    yield one
    context.close()


@pytest.fixture
def working(sqlite_service: Service) -> Iterator[Callable[[], None]]:
    """Starts a worker, which stops after the test."""
    worker = Worker(sqlite_service, poll_seconds=0.05)
    thread = threading.Thread(target=worker.run_forever)
    yield thread.start
    worker.stop()
    if thread.is_alive():
        thread.join()


@pytest.fixture(scope="module")
def upload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of people and a model of scikit-learn that decides by sex, among others."""
    import skops.io
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    folder = tmp_path_factory.mktemp("upload")
    frame = raw_people(rows=400)
    frame["job"] = frame["job"].fillna("none")
    frame["member"] = frame["member"].map({True: "yes", False: "no"})
    frame.to_csv(folder / "people & <b>friends.csv", index=False)
    table = pd.read_csv(folder / "people & <b>friends.csv", keep_default_na=False)
    words = OneHotEncoder(handle_unknown="ignore"), ["sex", "job", "member"]
    model = make_pipeline(make_column_transformer(words, remainder="passthrough"), LogisticRegression(max_iter=2000))
    skops.io.dump(model.fit(table.drop(columns="approved"), table["approved"]), folder / "scorer.skops")
    return folder


def test_from_upload_to_a_repaired_model(visit: Visit, upload: Path, working: Callable[[], None]) -> None:
    page = visit.page
    visit.go("/")
    visit.look("01-start")
    page.get_by_role("link", name="Start a new audit").click()
    visit.look("02-data")
    _upload_data(visit, upload)
    _choose_columns(visit)
    _choose_model(visit, upload)

    # No worker runs yet: the page says so. It follows by itself once one does, without being loaded again.
    page.get_by_text("It is waiting for a worker").wait_for()
    visit.look("07-waiting")
    working()
    page.get_by_role("link", name="Look at the pairs").wait_for()
    page.locator("figure[data-chart] svg").first.wait_for()
    visit.look("08-audit")
    audit = page.url

    _explore(visit)
    page.goto(audit)
    _measure(visit)
    page.goto(audit)
    page.get_by_role("link", name="Repair the model").click()
    page.get_by_text("More settings").click()
    page.get_by_label("People to start from").fill("60")
    page.get_by_label("Steps around each finding").fill("20")
    visit.look("11-repair")
    assert page.get_by_label("Average over the protected values").is_checked()
    page.get_by_role("button", name="Start the repair").click()
    page.get_by_text("There is a repaired model").wait_for()
    page.locator("figure[data-chart] svg").first.wait_for()
    visit.look("12-repaired")
    _download(visit)

    page.goto(f"{audit}/report")
    page.frame_locator("iframe.report").get_by_role("heading", level=1).wait_for()
    visit.look("13-report")
    assert visit.hosts == {visit.address.split("/")[2]}


def _upload_data(visit: Visit, upload: Path) -> None:
    """A wrong file is refused beside its field and the name is kept; then the table, and its decision."""
    page = visit.page
    page.get_by_label("Name").fill("Loans <2026>")
    page.get_by_label("File").set_input_files(upload / "scorer.skops")
    page.get_by_role("button", name="Upload and continue").click()
    assert "is not a table" in page.locator("#error-file").inner_text()
    assert page.get_by_label("Name").input_value() == "Loans <2026>"
    visit.complaints.clear()  # the browser's word about the status 400
    visit.look("03-data-refused")
    page.get_by_label("File").set_input_files(upload / "people & <b>friends.csv")
    page.get_by_role("button", name="Upload and continue").click()
    page.get_by_role("heading", name="Which column is the decision?").wait_for()
    visit.look("04-decision")
    page.get_by_label("Column with the decision").select_option("approved")
    page.get_by_role("button", name="Continue").click()


def _choose_columns(visit: Visit) -> None:
    """Sex and age are guessed to be protected; age is taken out by the keyboard."""
    page = visit.page
    assert page.get_by_role("checkbox", name="sex").is_checked()
    assert page.get_by_role("checkbox", name="age").is_checked()
    page.get_by_role("checkbox", name="age").focus()
    page.keyboard.press("Space")
    assert page.get_by_role("radio", name="yes").is_checked()
    visit.look("05-columns")
    page.get_by_role("button", name="Continue to the model").click()
    assert "protected=sex" in page.url
    assert "protected=age" not in page.url


def _choose_model(visit: Visit, upload: Path) -> None:
    """A number that is wrong comes back with its message, and the model that was sent is kept."""
    page = visit.page
    page.wait_for_load_state()  # and with it the script that hears of the fields
    page.get_by_label("File").set_input_files(upload / "scorer.skops")
    assert page.get_by_label("Upload a model", exact=True).is_checked()
    page.get_by_role("spinbutton", name="People to start from").fill("60")
    assert page.get_by_label("My own numbers", exact=True).is_checked()  # a field chooses what it belongs to
    page.get_by_role("spinbutton", name="Steps around each finding").fill("20")
    page.get_by_label("Stop after minutes").fill("-3")
    page.evaluate("document.querySelector('form').noValidate = true")  # as a browser that does not check
    page.get_by_role("button", name="Start", exact=True).click()
    assert "write a number" in page.locator("#error-minutes").inner_text()
    assert page.get_by_role("spinbutton", name="People to start from").input_value() == "60"
    assert page.get_by_role("radio", name="scorer.skops").is_checked()
    visit.complaints.clear()
    visit.look("06-model")
    page.get_by_label("Stop after minutes").fill("")
    page.get_by_role("button", name="Start", exact=True).click()


def _explore(visit: Visit) -> None:
    """All pairs from the widest gap on; then those with one decision; then none."""
    page = visit.page
    page.get_by_role("link", name="Look at the pairs").click()
    visit.look("09-pairs")
    first = page.locator(".card").first
    assert {first.locator("mark").nth(0).inner_text(), first.locator("mark").nth(1).inner_text()} == {
        "sex female", "sex male",
    }  # fmt: skip
    gaps = [float(text.split("gap ")[1].rstrip("%")) for text in page.locator(".card h3").all_inner_texts()]
    assert gaps == sorted(gaps, reverse=True)
    page.get_by_label("Decision about the first").select_option("no")
    page.get_by_role("button", name="Show").click()
    page.wait_for_load_state()
    assert set(page.locator(".card .side:first-child .decision").all_inner_texts()) == {"no"}
    visit.look("10-pairs-filtered")
    page.get_by_label("Least score gap, in %").fill("100")
    page.get_by_role("button", name="Show").click()
    page.wait_for_load_state()
    assert page.get_by_role("status").inner_text().startswith("0 pairs of")


def _measure(visit: Visit) -> None:
    """How often, with an interval beside each rate, in words, as a chart and as a table."""
    page = visit.page
    page.get_by_role("link", name="Measure how often").click()
    page.get_by_label("Roughly").check()
    visit.look("23-measure")
    page.get_by_role("button", name="Start the measurement").click()
    page.get_by_role("heading", name="Changing sex").wait_for()
    page.locator("figure[data-chart] svg").first.wait_for()
    visit.look("24-measured")
    assert page.get_by_role("table", name="Rate of discriminatory samples, changing sex").is_visible()


def _download(visit: Visit) -> None:
    with visit.page.expect_download() as waiting:
        visit.page.get_by_role("link", name="Download model.json").click()
    assert json.loads(waiting.value.path().read_text(encoding="utf-8"))["format"].startswith("evenhand")


def test_texts_go_the_same_way(
    visit: Visit, text_files: UserFiles, working: Callable[[], None], tmp_path: Path
) -> None:
    page, model = visit.page, tmp_path / "net.zip"
    model.write_bytes(zipped_network(text_files))
    visit.go("/new")
    page.get_by_label("Texts with a decision about each").check()
    page.get_by_label("File").set_input_files(text_files.data)
    page.get_by_role("button", name="Upload and continue").click()
    page.get_by_label("Column with the texts").select_option("comment")
    page.get_by_label("Column with the decisions").select_option("toxic")
    visit.look("21-text-columns")
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("radio", name="Gender (words in pairs)").check()
    page.get_by_role("radio", name="not toxic").check()
    visit.look("22-attribute")
    page.get_by_role("button", name="Continue to the model").click()
    page.wait_for_load_state()
    page.get_by_label("File").set_input_files(model)
    page.get_by_role("spinbutton", name="Texts to start from").fill("20")
    page.get_by_role("spinbutton", name="Steps around each finding").fill("10")
    visit.look("23-text-model")
    working()
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_role("link", name="Look at the pairs").wait_for()
    visit.look("24-text-audit")
    audit = page.url
    page.get_by_role("link", name="Look at the pairs").click()
    page.locator("ol.cards").wait_for()
    visit.look("25-text-pairs")
    page.goto(f"{audit}/repair")
    visit.look("26-text-repair")
    page.goto(f"{audit}/measure")
    visit.look("27-text-measure")
    page.get_by_role("button", name="Start the measurement").click()
    page.get_by_text("Texts that mention a protected group were checked").wait_for()
    visit.look("28-text-measured")
    assert visit.hosts == {visit.address.split("/")[2]}


def test_a_live_page_follows_its_run(visit: Visit, sqlite_service: Service) -> None:
    """Numbers, the curve and examples appear as the worker tells them; names are text and never markup."""
    runs, page = sqlite_service.runs, visit.page
    run = small_run(sqlite_service)
    visit.go(f"/runs/{run.id}")
    claim = runs.claim("a worker of the test")
    assert isinstance(claim, Claim)
    progress = {"phase": "global", "done": 3, "total": 10, "findings": 1234, "seconds": 2.0, "left": 75.0}
    runs.beat(claim, progress | {"growth": [[0.5, 100], [1.0, 600], [2.0, 1234]]})
    runs.tell(claim, "pair", PAIR)
    page.locator("#examples .card").wait_for()
    page.locator("#live-chart svg").wait_for()
    assert page.locator("#findings").inner_text() == "1,234"
    assert page.locator("#speed").inner_text() == "617"
    assert page.locator("#left").inner_text() == "About 1 min 15 s left in this phase"
    assert page.locator("#examples mark").all_inner_texts() == ["<b>female</b>", "male"]
    assert page.locator("#curve-rows tr").count() == 3
    visit.look("14-live")
    page.get_by_role("button", name="Cancel this run").click()
    page.get_by_text("It is being stopped").wait_for()
    assert runs.beat(claim)
    runs.finish(claim, "cancelled")
    page.get_by_text("The run was cancelled").wait_for()
    visit.look("15-cancelled")


def test_long_names_fit_on_a_phone(visit: Visit, sqlite_service: Service) -> None:
    """Names may have 200 characters and not one space; nothing is pushed off the page, nor off the paper."""
    service, page, long = sqlite_service, visit.page, "Wm" * 100
    table = b"sex,age,approved\n" + b"f,20,0\nm,30,1\n" * 20
    data = service.assets.add_dataset("default", long, [table], "people.csv", 1 << 20).id
    service.assets.set_schema(data, SCHEMA.replace("NAME", long))
    model = service.assets.add_model("default", long, [b"tree\n"], "model.txt", 1 << 20).id
    config = {"dataset": data, "model": model, "protected": [long]}
    waiting, failed = (service.runs.create("default", "measure", long, config, asked_by=long[:100]) for _ in range(2))
    service.runs.cancel(waiting.id)
    claim = service.runs.claim("a worker of the test")
    assert isinstance(claim, Claim)
    service.runs.finish(claim, "failed", error=f"The column '{long}' is not there.")
    wide: list[tuple[str, str, int]] = []
    for path in (
        "/", "/runs", f"/runs/{waiting.id}", f"/runs/{failed.id}", f"/runs/{failed.id}/delete", "/new", "/settings",
        f"/new/columns?data={data}", f"/new/model?data={data}&protected={long}&model={model}",
    ):  # fmt: skip
        visit.go(path)
        for size, medium in ((PHONE, "screen"), (DESKTOP, "screen"), (DESKTOP, "print")):
            page.set_viewport_size(size)
            page.emulate_media(media=medium)
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > size["width"]:
                wide.append((path, medium, width))
                page.screenshot(path=visit.pictures / f"25-wide-{len(wide)}.png", full_page=True)
        page.emulate_media(media="screen")
    assert not wide
    page.keyboard.press("Tab")  # the first stop is the way past the menu, and it is seen
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0


def test_the_other_pages_are_sound(visit: Visit, sqlite_service: Service, tmp_path: Path) -> None:
    """Two audits compared, a failed run, lists, settings, a deletion, an address that is not there."""
    runs, page = sqlite_service.runs, visit.page

    def audited(name: str) -> Run:
        evenhand.audit("census", name, out=tmp_path / name, seeds=20, steps=30, iterations=3)
        return finish(sqlite_service, tmp_path / name, title=f"census, {name}", config={"protected": [name]})

    one, other, failed = audited("sex"), audited("race"), small_run(sqlite_service)
    claim = runs.claim("a worker of the test")
    assert isinstance(claim, Claim)
    runs.finish(claim, "failed", error="The table is not there any more.")
    for run in (one, other):
        visit.go(f"/runs/{run.id}")
        page.get_by_role("heading", name="How many people in the data are affected").wait_for()
    visit.go(f"/compare?a={one.id}&b={other.id}")
    page.locator("figure[data-chart] svg").first.wait_for()
    visit.look("16-compare")
    visit.go(f"/runs/{failed.id}")
    page.get_by_text("The run failed").wait_for()
    visit.look("17-failed")
    for name, path in (("18-runs", "/runs"), ("19-settings", "/settings"), ("20-census", "/new/columns?data=census")):
        visit.go(path)
        visit.look(name)
    visit.go(f"/runs/{failed.id}/delete")
    visit.look("21-delete")
    page.get_by_role("button", name="Delete it").click()
    page.get_by_role("heading", name="Runs").wait_for()
    assert [run.id for run in runs.newest("default")] == [other.id, one.id]
    visit.go(f"/runs/{failed.id}")
    visit.complaints.clear()
    visit.look("22-not-there")
