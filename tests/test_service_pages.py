"""The pages as the server makes them: they answer, escape what people write, and can be read without JavaScript."""

import re
import shutil
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from evenhand.runs.audit import audit
from evenhand.runs.table_repair import repair_table
from evenhand.service.api.app import create_app
from evenhand.service.jobs import figures_of
from evenhand.service.pages.schema_form import schema_of, with_choices
from evenhand.service.pages.words import duration
from evenhand.service.settings import Service
from tests.service_world import SMALL_AUDIT, small_run

pytest_plugins = ["tests.service_world"]

EVIL = "<script>alert('x')</script>\"'&"
ESCAPED = "&lt;script&gt;alert("
JOBS = (EVIL.replace('"', ""), "clerk", "nurse")
TABLE = "sex,age,job,city,approved\n" + "".join(
    f"{'fm'[i % 2]},{20 + i % 40},{JOBS[i % 3]},{'XYZ'[i % 3]},{'no' if i % 4 else 'yes'}\n" for i in range(80)
)


class Markup(HTMLParser):
    """What a page must not have: script or style of its own, or anything from another host."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.labels: set[str] = set()
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        if tag == "style" or "style" in given or any(name.startswith("on") for name in given):
            self.wrong.append(f"own style or handler: {tag} {given}")
        if tag == "script" and not given.get("src", "").startswith("/static/"):
            self.wrong.append(f"own script: {given}")
        for name in ("src", "href", "action"):
            if given.get(name, "/")[:1] not in ("/", "#") or given.get(name, "").startswith("//"):
                self.wrong.append(f"another host: {tag} {given[name]}")
        if "id" in given:
            self.ids.append(given["id"])


def sound(answer: Any, status: int = 200) -> str:
    """The text of a page that is as it must be."""
    text = str(answer.text)
    assert answer.status_code == status, text
    assert answer.headers["content-type"].startswith("text/html")
    assert "unsafe-inline" not in answer.headers["content-security-policy"]
    markup = Markup(text)
    assert not markup.wrong
    assert len(set(markup.ids)) == len(markup.ids)
    assert "<script>alert" not in text
    return text


class Visitor:
    """Somebody with a browser without JavaScript."""

    def __init__(self, client: TestClient) -> None:
        self.client = client

    def see(self, path: str, status: int = 200) -> str:
        return sound(self.client.get(path), status)

    def send(self, path: str, fields: dict[str, Any] | None = None, files: Any = None) -> Any:
        """Send a form with the token that a page had."""
        token = re.findall(r'name="csrf" value="([^"]+)"', self.client.get("/new").text)[0]
        return self.client.post(path, data={"csrf": token} | (fields or {}), files=files, follow_redirects=False)

    def sent(self, path: str, fields: dict[str, Any] | None = None, files: Any = None) -> str:
        """Send a form that is taken; returns where it leads."""
        answer = self.send(path, fields, files)
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])


@pytest.fixture
def visitor(sqlite_service: Service) -> Iterator[Visitor]:
    with TestClient(create_app(sqlite_service), base_url="http://127.0.0.1:8321") as client:
        yield Visitor(client)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of an audit and a repair that were really made."""
    folder = tmp_path_factory.mktemp("results")
    audit("census", ["sex"], out=folder / "audit", seeds=40, steps=30, iterations=3, seed=1)
    repair_table(
        "census", ["sex"], "average", out=folder / "repair", seeds=10, steps=5, half_width=0.05, epochs=1, repeats=1
    )
    return {"audit": folder / "audit", "repair": folder / "repair"}


@pytest.fixture
def finished(sqlite_service: Service, results: dict[str, Path]) -> Callable[..., Any]:
    """Makes runs that are done, with their files."""

    def finish(kind: str = "audit", title: str = EVIL, parent: str | None = None) -> Any:
        from evenhand.files import read_json

        service = sqlite_service
        config = SMALL_AUDIT | ({"by": ["average"]} if kind == "repair" else {})
        run = service.runs.create("default", kind, title, config, parent)
        claim = service.runs.claim("a worker")
        assert claim is not None
        shutil.copytree(results[kind], service.home.run(run.id))
        service.runs.finish(claim, "done", figures_of(kind, read_json(results[kind] / "summary.json")))
        return service.runs.get(run.id)

    return finish


def uploaded(visitor: Visitor, name: str = EVIL) -> str:
    """The id of a table that was uploaded and whose decision was chosen."""
    where = visitor.sent("/new/data", {"name": name}, {"file": ("people.csv", TABLE, "text/csv")})
    data = where.partition("data=")[2]
    assert ESCAPED in visitor.see(where)
    assert visitor.sent("/new/columns/label", {"data": data, "label": "approved"}) == where
    return data


def test_every_page_answers_and_escapes(
    visitor: Visitor, sqlite_service: Service, finished: Callable[..., Any]
) -> None:
    finished()
    run = finished()
    repair = finished("repair", parent=run.id)
    data = uploaded(visitor)
    failed = small_run(sqlite_service)
    claim = sqlite_service.runs.claim("a worker")
    assert claim is not None
    sqlite_service.runs.finish(claim, "failed", error=EVIL)
    for path in (
        "/", "/runs", "/runs?state=failed", f"/runs/{run.id}", f"/runs/{run.id}/findings", f"/runs/{run.id}/report",
        f"/runs/{run.id}/repair", f"/runs/{run.id}/delete", f"/runs/{repair.id}", f"/runs/{failed.id}",
        f"/compare?a={run.id}", f"/new/columns?data={data}", f"/new/columns?data={data}&again=1",
        f"/new/model?data={data}&protected=sex", "/new", "/settings", f"/settings/datasets/{data}/delete",
    ):  # fmt: skip
        assert ESCAPED in visitor.see(path), path
    for path in (f"/compare?a={run.id}&b={run.id}", f"/runs/{'0' * 32}", f"/runs/{EVIL}", "/new/columns?data=nothing"):
        assert visitor.client.get(path).status_code in (400, 404)
        sound(visitor.client.get(path), visitor.client.get(path).status_code)
    sound(visitor.client.get("/nothing-here"), 404)


def test_a_finished_audit_is_read_without_javascript(visitor: Visitor, finished: Callable[..., Any]) -> None:
    run = finished()
    text = visitor.see(f"/runs/{run.id}")
    assert f"{run.result['findings']:,} pairs" in text  # the sentence
    assert text.count('class="card"') == 2  # examples
    assert re.search(r"<th scope=\"col\" class=\"number\">Samples tried</th>", text)  # the chart's table
    for file in ("report.html", "findings.parquet", "summary.json"):
        assert f"/api/v1/runs/{run.id}/files/{file}" in text
    assert "http-equiv" not in text


def test_a_run_that_goes_on_is_loaded_again_without_javascript(visitor: Visitor, sqlite_service: Service) -> None:
    run = small_run(sqlite_service)
    waiting = visitor.see(f"/runs/{run.id}")
    assert '<noscript><meta http-equiv="refresh"' in waiting
    assert "It waits for a worker" in waiting
    claim = sqlite_service.runs.claim("a worker")
    assert claim is not None
    progress = {"phase": "local", "done": 1, "total": 4, "findings": 5000, "seconds": 10.0, "left": 3600.0}
    sqlite_service.runs.beat(claim, progress)
    sides = [{"role": "Sample", "protected": [[EVIL, True]], "label": EVIL, "score": 0.5}]
    pair = {"description": EVIL, "sides": sides, "score_of": EVIL, "origin": ""}
    sqlite_service.runs.tell(claim, "pair", pair)
    text = visitor.see(f"/runs/{run.id}")
    assert "Looking around each pair" in text
    assert 'value="0.2500"' in text
    assert "About 1 h 0 min left" in text
    assert '<dd id="speed">500</dd>' in text
    assert f"<mark>{ESCAPED}" in text


def test_pages_of_pairs_show_each_pair_once(visitor: Visitor, finished: Callable[..., Any]) -> None:
    run = finished()
    for sort in ("gap", "order"):
        path, seen, pages = f"/runs/{run.id}/findings?sort={sort}", [], 0
        while path:
            text = visitor.see(path)
            seen += re.findall(r"<h3>Pair (\d+), score gap", text)
            following = re.findall(r'rel="next" href="([^"]+)"', text)
            path, pages = following[0].replace("&amp;", "&") if following else "", pages + 1
        assert seen == [str(number) for number in range(1, run.result["findings"] + 1)]
        assert pages >= 3


def test_pairs_are_filtered_by_what_the_form_says(visitor: Visitor, finished: Callable[..., Any]) -> None:
    run = finished()
    address = f"/runs/{run.id}/findings"
    text = visitor.see(address)
    total = sum(
        int(re.findall(r"<strong>([\d,]+) pairs?</strong>", visitor.see(f"{address}?label={label}"))[0])
        for label in ("%3C%3D50K", "%3E50K")
    )
    assert total == run.result["findings"]
    assert '<option value="&lt;=50K">income up to $50,000</option>' in text
    assert "No pair is like this" in visitor.see(f"{address}?gap=100")
    assert "Write a number from 0 to 100." in visitor.see(f"{address}?gap=many")
    assert f"{total} pairs" in visitor.see(f"{address}?v0=female")  # one of the two is, in every pair


def test_what_is_wrong_stands_beside_its_field_and_nothing_is_lost(visitor: Visitor) -> None:
    refused = sound(visitor.send("/new/data", {"name": "My people"}, {"file": ("a.pkl", b"\x80\x04.", "x/y")}), 400)
    assert re.search(r'id="error-file">[^<]*is not a table', refused)
    assert 'value="My people"' in refused
    data = uploaded(visitor)
    text = sound(visitor.send("/new/columns", {"data": data, "favourable": "no"}), 400)
    assert 'id="error-protected">Tick at least one column.' in text
    assert re.search(r'value="no" checked', text)
    fields = {"data": data, "protected": "sex", "model": "upload", "effort": "own", "seeds": "0", "steps": "many"}
    text = sound(visitor.send("/new/model", fields | {"minutes": "2.5"}), 400)
    for field in ("file", "seeds", "steps"):
        assert f'id="error-{field}"' in text
        assert f'aria-describedby="error-{field}' in text
    assert 'value="many"' in text
    assert 'value="2.5"' in text


def test_ticks_become_part_of_the_schema(visitor: Visitor, sqlite_service: Service) -> None:
    data = uploaded(visitor)
    before = sqlite_service.assets.dataset(data).schema_text or ""
    assert schema_of(before).protected == ["sex", "age"]  # guessed
    where = visitor.sent("/new/columns", {"data": data, "protected": ["sex", "city"], "favourable": "no"})
    assert where == f"/new/model?data={data}&protected=sex&protected=city"
    after = sqlite_service.assets.dataset(data).schema_text or ""
    assert schema_of(after).protected == ["sex", "city"]
    assert schema_of(after).label.favourable == "no"
    comments = [line for line in before.splitlines() if line.startswith("#")]
    assert [line for line in after.splitlines() if line.startswith("#")] == comments


def test_choices_that_cannot_be_written_are_refused_and_not_half_done() -> None:
    inline = (
        'name = "t"\nfile = "t.csv"\nlabel = { column = "y", values = ["a", "b"], favourable = "a" }\n'
        '[[attribute]]\nname = "one"\nkind = "category"\ncategories = ["[x]", "y"]\n'
        '[[attribute]]\nname = "two"\nkind = "category"\ncategories = ["x", "y"]\nprotected = true # why\n'
    )
    changed = with_choices(inline, ["one"], "a")
    assert schema_of(changed).protected == ["one"]
    with pytest.raises(Exception, match="ticks cannot change"):
        with_choices(inline, ["one"], "b")


def test_the_schema_as_text_comes_back_with_its_mistake(visitor: Visitor, sqlite_service: Service) -> None:
    data = uploaded(visitor)
    text = sqlite_service.assets.dataset(data).schema_text or ""
    wrong = text.replace('kind = "category"', 'kind = "cat"', 1) + "# my own note\n"
    answer = sound(visitor.send("/new/columns/text", {"data": data, "text": wrong}), 400)
    assert re.search(r'id="error-text">[^<]*line \d+', answer)
    assert "# my own note" in answer
    absent = text.replace('name = "city"', 'name = "town"')  # sound, but the table has no such column
    assert "no column" in sound(visitor.send("/new/columns/text", {"data": data, "text": absent}), 400)
    assert sqlite_service.assets.dataset(data).schema_text == text
    right = text.replace('name = "city"', 'name = "town"\ncolumn = "city"')
    visitor.sent("/new/columns/text", {"data": data, "text": right.replace("\n", "\r\n")})
    assert sqlite_service.assets.dataset(data).schema_text == right


def test_an_audit_of_built_in_data_is_asked_for(visitor: Visitor, sqlite_service: Service) -> None:
    where = visitor.sent("/new/columns", {"data": "census", "protected": ["sex", "race"]})
    assert where == "/new/model?data=census&protected=sex&protected=race"
    assert "The built-in network" in visitor.see(where)
    fields = {"data": "census", "protected": ["sex", "race"], "model": "builtin", "effort": "quick", "minutes": "2"}
    where = visitor.sent("/new/model", fields | {"output": "auto"})
    run = sqlite_service.runs.get(where.removeprefix("/runs/"))
    assert run.config["protected"] == ["sex", "race"]
    assert (run.config["seeds"], run.config["steps"], run.config["max_seconds"]) == (100, 100, 120.0)
    assert run.config["model"] is None


def test_a_repair_keeps_what_the_audit_was_about(
    visitor: Visitor, sqlite_service: Service, finished: Callable[..., Any]
) -> None:
    run = finished()
    wrong = sound(visitor.send(f"/runs/{run.id}/repair", {"by": "magic", "repeats": "0"}), 400)
    assert 'id="error-by"' in wrong
    assert 'id="error-repeats"' in wrong
    where = visitor.sent(f"/runs/{run.id}/repair", {"by": "average", "repeats": "3"})
    made = sqlite_service.runs.get(where.removeprefix("/runs/"))
    assert (made.kind, made.parent, made.config["by"], made.config["repeats"]) == ("repair", run.id, ["average"], 3)
    assert made.config["protected"] == ["sex"]
    assert visitor.send(f"{where}/repair", {"by": "average", "repeats": "3"}).status_code == 409  # not an audit


def test_a_repair_shows_before_and_after(visitor: Visitor, finished: Callable[..., Any]) -> None:
    repair = finished("repair")
    text = visitor.see(f"/runs/{repair.id}")
    assert "There is a repaired model" in text
    assert "average (kept)" in text
    assert f"/api/v1/runs/{repair.id}/files/model.json" in text
    groups = visitor.client.get(f"/runs/{repair.id}/before_after.json").json()["groups"]
    bars = {group["name"]: [bar["share"] for bar in group["bars"]] for group in groups}
    assert bars["findings that remain"] == [1.0, 0.0]


def test_runs_are_cancelled_taken_up_again_and_deleted(visitor: Visitor, sqlite_service: Service) -> None:
    runs, run = sqlite_service.runs, small_run(sqlite_service)
    visitor.sent(f"/runs/{run.id}/cancel")
    assert runs.get(run.id).state == "cancelled"
    visitor.sent(f"/runs/{run.id}/resume")
    assert runs.get(run.id).state == "queued"
    assert visitor.send(f"/runs/{run.id}/resume").status_code == 409
    assert runs.claim("a worker") is not None
    assert "Cancel it first" in sound(visitor.send(f"/runs/{run.id}/delete"), 409)
    visitor.sent(f"/runs/{run.id}/cancel")
    assert "It is being stopped" in visitor.see(f"/runs/{run.id}")


def test_data_that_a_run_needs_is_kept(visitor: Visitor, sqlite_service: Service) -> None:
    data = uploaded(visitor)
    run = small_run(sqlite_service, dataset=data)
    assert run.id in sound(visitor.send(f"/settings/datasets/{data}/delete"), 409)
    visitor.sent(f"/runs/{run.id}/cancel")
    assert visitor.sent(f"/settings/datasets/{data}/delete") == "/settings"
    assert not sqlite_service.home.dataset(data).exists()
    assert "a table that was deleted" in visitor.see(f"/runs/{run.id}")


def test_a_form_without_its_token_changes_nothing(visitor: Visitor, sqlite_service: Service) -> None:
    run = small_run(sqlite_service)
    visitor.see(f"/runs/{run.id}")
    for fields in ({"other": "1"}, {"csrf": "guessed"}):
        sound(visitor.client.post(f"/runs/{run.id}/cancel", data=fields), 403)
    assert sqlite_service.runs.get(run.id).state == "queued"


def test_older_runs_are_a_page_away(visitor: Visitor, sqlite_service: Service) -> None:
    made = [small_run(sqlite_service).id for _ in range(52)]
    first = visitor.see("/runs")
    older = re.findall(r'<a href="([^"]+)" rel="next"', first)[0].replace("&amp;", "&")
    listed = [
        re.findall(r'<th scope="row"><a href="/runs/([0-9a-f]{32})"', text) for text in (first, visitor.see(older))
    ]
    assert listed[0] + listed[1] == made[::-1]


def test_two_runs_are_compared(visitor: Visitor, finished: Callable[..., Any]) -> None:
    one, other = finished(title="one"), finished(title="two")
    text = visitor.see(f"/compare?a={one.id}&b={other.id}")
    assert "Side by side" in text
    assert "differ in" not in text  # the same data, columns and effort
    bars = visitor.client.get(f"/compare.json?a={one.id}&b={other.id}").json()["groups"]
    assert [group["name"] for group in bars] == ["first: one", "second: two"]
    assert "Choose another run" in sound(visitor.client.get(f"/compare?a={one.id}&b={one.id}"), 400)


@pytest.mark.parametrize(("seconds", "words"), [(7.6, "8 s"), (125, "2 min 5 s"), (3 * 3600 + 61, "3 h 1 min")])
def test_times_are_for_people(seconds: float, words: str) -> None:
    assert duration(seconds) == words
