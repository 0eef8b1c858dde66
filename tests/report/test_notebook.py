"""What a notebook shows of results, and how far the work is while it goes on."""

import json
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import evenhand
from evenhand.report.pairs import FROM_NOBODY, example_pairs
from evenhand.runs.audit import Audit
from evenhand.runs.measure import Measurement
from evenhand.runs.repair import Repair
from tests.worlds.repair import repaired
from tests.worlds.text_report import made_findings, made_summary, write_findings


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    return evenhand.audit("credit", "sex", seeds=20, steps=10, out=tmp_path_factory.mktemp("audit"))


@pytest.fixture(scope="module")
def measured() -> Measurement:
    return evenhand.measure("credit", ["sex", "age"], half_width=0.05)


@pytest.fixture(scope="module")
def repair() -> Repair:
    return repaired("average")


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    folder = tmp_path_factory.mktemp("texts")
    frame = made_findings()
    summary = made_summary(frame)
    summary["examples"] = example_pairs(summary, write_findings(folder / "findings.parquet", frame), 5)
    return Audit(folder, summary)


class Page(HTMLParser):
    """Text and tags of a piece of HTML, whose tags must be closed in their order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.tags, self._open = "", set[str](), list[str]()
        self.feed(html)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._open.append(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("kind", ["audit", "measured", "repair", "texts"])
def test_a_result_is_shown_by_itself(kind: str, request: pytest.FixtureRequest) -> None:
    result: Any = request.getfixturevalue(kind)
    page = Page(result._repr_html_())
    assert {"table", "svg", "style"} <= page.tags
    assert "script" not in page.tags
    assert "http" not in page.text


def test_an_audit_shows_facts_rates_and_pairs(audit: Audit) -> None:
    text = Page(audit._repr_html_()).text
    for name, rate in audit.summary["data_rate"].items():
        assert rate["population"] in text, name
    for example in audit.summary["examples"][:3]:
        assert example["description"] in text
        assert example["origin"] in text
    assert f"{audit.summary['search']['findings']['total']:,} unique" in text


def test_a_measurement_shows_every_population(measured: Measurement) -> None:
    text = Page(measured._repr_html_()).text
    assert all(rate["population"] in text for one in measured.summary["measured"] for rate in one["populations"])


def test_a_repair_shows_every_model(repair: Repair) -> None:
    text = Page(repair._repr_html_()).text
    assert all(row["name"] in text for row in repair.summary["rows"])
    assert f"{repair.summary['chosen']} (chosen)" in text


def test_data_cannot_write_markup(audit: Audit) -> None:
    summary = json.loads(json.dumps(audit.summary))
    summary["dataset"]["title"] = summary["examples"][0]["description"] = "<script>x</script>"
    page = Page(Audit(audit.folder, summary, audit.data)._repr_html_())
    assert "script" not in page.tags
    assert "<script>x</script>" in page.text


def test_an_audit_without_findings_is_shown(audit: Audit) -> None:
    summary = audit.summary | {"examples": [], "search": audit.summary["search"] | {"growth": []}}
    assert FROM_NOBODY not in Page(Audit(audit.folder, summary, audit.data)._repr_html_()).text


class Kernel:
    """As much of IPython as a display needs; what it shows is kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, kernel: object | None) -> None:
        self.lines: list[str] = []
        top, display = ModuleType("IPython"), ModuleType("IPython.display")
        top.get_ipython = lambda: SimpleNamespace(kernel=kernel)  # type: ignore[attr-defined]
        display.display = self.display  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "IPython", top)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def display(self, content: dict[str, str], *, raw: bool, display_id: bool = False) -> "Kernel":
        assert raw
        assert display_id
        self.lines.append(content["text/plain"])
        return self

    def update(self, content: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.lines[-1] = content["text/plain"]


def test_a_notebook_has_one_line_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenhand.runs.notebook_progress.SECONDS_BETWEEN_UPDATES", 0.0)
    kernel = Kernel(monkeypatch, kernel=object())
    evenhand.audit("credit", "sex", seeds=5, steps=5)
    assert len(kernel.lines) == 1
    assert kernel.lines[0].startswith("credit/sex  ")
    evenhand.measure("credit", "sex", half_width=0.1)
    repaired("average")
    assert len(kernel.lines) == 3
    assert kernel.lines[1].startswith("credit  sex, ")
    assert kernel.lines[2].startswith("repair of ")


def test_elsewhere_and_to_who_asks_for_it_progress_goes_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Kernel(monkeypatch, kernel=None)
    evenhand.audit("credit", "sex", seeds=5, steps=5)
    assert terminal.lines == []
    kernel, seen = Kernel(monkeypatch, kernel=object()), list[Any]()
    evenhand.audit("credit", "sex", seeds=5, steps=5, on_progress=seen.append)
    assert kernel.lines == []
    assert seen


def test_folders_do_not_matter(audit: Audit) -> None:
    assert Audit(Path("nowhere"), audit.summary, audit.data)._repr_html_() == audit._repr_html_()
