"""The pages as the server makes them: they answer, escape what people write, and can be read without JavaScript."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from evenhand.report.words import duration
from evenhand.service.pages.data import schema_of, with_choices
from evenhand.service.settings import Service
from tests.worlds.pages import ESCAPED, EVIL, Visitor, sound, uploaded
from tests.worlds.service import small_run

pytest_plugins = ["tests.worlds.service", "tests.worlds.pages"]


def test_every_page_answers_and_escapes(
    visitor: Visitor, sqlite_service: Service, finished: Callable[..., Any]
) -> None:
    finished()
    run = finished()
    repair = finished("repair", parent=run.id)
    measured = finished("measure", parent=run.id, asked_by=EVIL)
    data = uploaded(visitor)
    failed = small_run(sqlite_service)
    claim = sqlite_service.runs.claim("a worker")
    assert claim is not None
    sqlite_service.runs.finish(claim, "failed", error=EVIL)
    for path in (
        "/", "/runs", "/runs?state=failed", f"/runs/{run.id}", f"/runs/{run.id}/findings", f"/runs/{run.id}/report",
        f"/runs/{run.id}/repair", f"/runs/{run.id}/delete", f"/runs/{repair.id}", f"/runs/{failed.id}",
        f"/runs/{measured.id}", f"/runs/{run.id}/measure",
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
    assert "It is waiting for a worker" in waiting
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
    assert "No pair matches" in visitor.see(f"{address}?gap=100")
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
    assert (run.config["threshold"], run.config["accept_poor_model"]) == (None, False)


def test_a_threshold_and_a_poor_model_are_asked_for(visitor: Visitor, sqlite_service: Service) -> None:
    fields = {"data": "census", "protected": ["sex"], "model": "builtin", "effort": "quick", "output": "auto"}
    text = sound(visitor.send("/new/model", fields | {"threshold": "1.5", "accept_poor_model": "yes"}), 400)
    assert 'id="error-threshold">Threshold: write a number above 0 and below 1.' in text
    assert re.search(r'name="accept_poor_model" value="yes" checked', text)
    where = visitor.sent("/new/model", fields | {"threshold": "0.3", "accept_poor_model": "yes"})
    run = sqlite_service.runs.get(where.removeprefix("/runs/"))
    assert (run.config["threshold"], run.config["accept_poor_model"]) == (0.3, True)
    assert re.search(r"Threshold</dt>\s*<dd>0.3<", visitor.see(where))


def test_a_repair_keeps_what_the_audit_was_about(
    visitor: Visitor, sqlite_service: Service, finished: Callable[..., Any]
) -> None:
    run = finished()
    wrong = sound(visitor.send(f"/runs/{run.id}/repair", {"by": "magic", "repeats": "0", "steps": "-1"}), 400)
    assert 'id="error-steps"' in wrong
    assert 'id="error-by"' in wrong
    assert 'id="error-repeats"' in wrong
    where = visitor.sent(f"/runs/{run.id}/repair", {"by": "average", "repeats": "3", "seeds": "50"})
    made = sqlite_service.runs.get(where.removeprefix("/runs/"))
    assert (made.kind, made.parent, made.config["by"], made.config["repeats"]) == ("repair", run.id, ["average"], 3)
    assert (made.config["protected"], made.config["seeds"], made.config["steps"]) == (["sex"], 50, 1000)
    assert visitor.send(f"{where}/repair", {"by": "average", "repeats": "3"}).status_code == 409  # not an audit


def test_a_repair_shows_before_and_after(visitor: Visitor, finished: Callable[..., Any]) -> None:
    repair = finished("repair")
    text = visitor.see(f"/runs/{repair.id}")
    assert "There is a repaired model" in text
    assert '<code class="nowrap">--model model.safetensors</code>' in text
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
    assert "data that were deleted" in visitor.see(f"/runs/{run.id}")


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
    assert "Choose a run other than the first" in sound(visitor.client.get(f"/compare?a={one.id}&b={one.id}"), 400)


@pytest.mark.parametrize(("seconds", "words"), [(7.6, "8 s"), (125, "2 min 5 s"), (3 * 3600 + 61, "3 h 1 min")])
def test_times_are_for_people(seconds: float, words: str) -> None:
    assert duration(seconds) == words
