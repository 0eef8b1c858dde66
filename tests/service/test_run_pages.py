"""Pages about measurements, and about runs that came from a terminal, were stopped, or belong to others."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evenhand.data.dataset import BUILTIN
from evenhand.files import read_json
from evenhand.service.api.answers import RunAnswer
from evenhand.service.settings import Service
from evenhand.service.storage.tables import Run
from tests.worlds.pages import Visitor, changed, finish, sound
from tests.worlds.people import peopled
from tests.worlds.service import SMALL_AUDIT, lapse, small_run

pytest_plugins = ["tests.worlds.service", "tests.worlds.pages"]


def test_a_measurement_is_asked_for_from_an_audit(
    visitor: Visitor, sqlite_service: Service, finished: Callable[..., Any]
) -> None:
    run = finished()
    assert f"/runs/{run.id}/measure" in visitor.see(f"/runs/{run.id}")
    fields = {"precision": "exact", "confidence": "1", "changes": "0"}
    wrong = sound(visitor.send(f"/runs/{run.id}/measure", fields), 400)
    for field in fields:
        assert f'id="error-{field}"' in wrong
    fields = {"precision": "rough", "confidence": "0.99", "changes": "3"}
    made = sqlite_service.runs.get(visitor.sent(f"/runs/{run.id}/measure", fields).removeprefix("/runs/"))
    asked = {name: made.config[name] for name in ("half_width", "confidence", "changes", "protected", "seed")}
    assert asked == {"half_width": 0.02, "confidence": 0.99, "changes": 3, "protected": ["sex"], "seed": 1}
    assert (made.kind, made.parent) == ("measure", run.id)
    assert made.title in visitor.see(f"/runs/{run.id}")
    claim = sqlite_service.runs.claim("a worker")
    assert claim is not None
    sqlite_service.runs.beat(claim, {"phase": "sex, uniform", "done": 1, "total": 4, "seconds": 1.0})
    text = visitor.see(f"/runs/{made.id}")
    assert "Changing sex: sampling the whole domain" in text
    assert "Findings so far" not in text  # it is no search
    assert visitor.send(f"/runs/{made.id}/measure", fields).status_code == 409


def test_a_measurement_is_asked_for_without_an_audit(visitor: Visitor, sqlite_service: Service) -> None:
    fields = {"data": "census", "protected": ["sex"], "model": "builtin", "task": "measure", "effort": "quick"}
    assert 'id="error-precision"' in sound(visitor.send("/new/model", fields | {"precision": "exact"}), 400)
    where = visitor.sent("/new/model", fields | {"precision": "fine", "output": "auto"})
    run = sqlite_service.runs.get(where.removeprefix("/runs/"))
    assert (run.kind, run.config["half_width"], run.title[:14]) == ("measure", 0.001, "Measurement of")
    assert 'id="task-measure" checked' in visitor.see("/new/model?data=census&protected=sex&task=measure")


def test_a_measurement_is_said_in_words_with_its_intervals(visitor: Visitor, finished: Callable[..., Any]) -> None:
    run = finished("measure", title="How often")
    text = visitor.see(f"/runs/{run.id}")
    rates = {(tuple(rate["changed"]), rate["population"]): rate for rate in run.result["rates"]}
    for (names, population), rate in rates.items():
        low, high = rate["interval"]
        verb = "are" if len(names) > 1 else "is"
        words = (
            f"{rate['discriminatory']:,} get another decision when nothing but {' and '.join(names)} {verb} changed: "
        )
        assert f"{words}{rate['rate']:.2%} (95% interval {low:.2%} to {high:.2%})" in text, population
    assert "‘income above $50,000’ goes most often to male, least often to female" in text
    for words in ("Changing sex", "Changing race and sex together", "samples drawn from the whole domain", "seed 0"):
        assert words in text
    assert text.count('<figure data-chart="bars"') == 3
    for place, attributes in enumerate((["sex"], ["race"], ["race", "sex"])):
        chart = visitor.client.get(f"/runs/{run.id}/rates.json?at={place}").json()
        shares = [bar["share"] for group in chart["groups"] for bar in group["bars"]]
        assert shares == [rate["rate"] for rate in run.result["rates"] if sorted(rate["changed"]) == attributes]
    for place in (3, -1):
        assert visitor.client.get(f"/runs/{run.id}/rates.json?at={place}").json()["groups"] == []
    assert f"/api/v1/runs/{run.id}/files/summary.json" in text


def test_an_audit_finds_its_repairs_however_many_runs_there_are(
    visitor: Visitor, sqlite_service: Service, finished: Callable[..., Any]
) -> None:
    run, other = finished(title="one"), finished(title="two")
    repair = finished("repair", title="the old repair", parent=run.id)
    with sqlite_service.database.writing() as session:
        facts = {name: getattr(repair, name) for name in RunAnswer.model_fields}
        session.add_all(
            Run(**facts | {"id": f"{number:032x}", "project": "default", "title": "another", "parent": other.id})
            for number in range(210)
        )
    assert "the old repair" in visitor.see(f"/runs/{run.id}")
    assert f'href="/runs/{run.id}"' in visitor.see(f"/runs/{repair.id}")
    assert "the old repair" not in visitor.see(f"/runs/{other.id}")


def test_pairs_are_shown_in_the_words_of_the_audits_own_schema(
    visitor: Visitor, sqlite_service: Service, finished: Callable[..., Any]
) -> None:
    """The schema may be changed after the audit, or the table deleted."""
    schema = (BUILTIN / "census.toml").read_text(encoding="utf-8")
    assert "income up to $50,000" in schema
    kept = schema.replace("income up to $50,000", "income as it was said then")
    run = finished(config={"dataset": "0" * 32, "model": "1" * 32}, schema_text=kept)
    assert "income as it was said then" in visitor.see(f"/runs/{run.id}/findings")
    earlier = finished(config={"dataset": "0" * 32, "model": "1" * 32})  # from before runs kept their schema
    assert "&lt;=50K" in visitor.see(f"/runs/{earlier.id}/findings")


def test_runs_of_a_terminal_have_pages(visitor: Visitor, sqlite_service: Service, finished: Callable[..., Any]) -> None:
    """They name files that the service does not have: what would need those is not offered."""
    terminal = {"dataset": "my/people.toml", "model": "net.onnx", "terminal": {"folder": "/x", "secret": False}}
    run = finished(place="terminal", config=terminal, asked_by="ann")
    text = visitor.see(f"/runs/{run.id}")
    assert "in a terminal" in text
    assert "by ann" in text
    assert "deleted" not in text
    for what in ("repair", "measure"):
        assert f"/runs/{run.id}/{what}" not in text
        assert visitor.client.get(f"/runs/{run.id}/{what}").status_code == 409
    assert "/repair" not in visitor.see(f"/runs/{run.id}/findings")
    plain = finished(place="terminal")
    assert f"/runs/{plain.id}/repair" in visitor.see(f"/runs/{plain.id}")
    failed = sqlite_service.runs.create("default", "measure", "mine", terminal, place="terminal")
    changed(sqlite_service, failed.id, state="interrupted")
    assert f"evenhand runs resume {failed.id[:8]}" in visitor.see(f"/runs/{failed.id}")
    assert "waiting again</span>" not in visitor.see("/runs")
    changed(sqlite_service, failed.id, state="failed", error="no such file")
    text = visitor.see(f"/runs/{failed.id}")
    assert "no such file" in text
    assert f"/runs/{failed.id}/resume" not in text


def test_runs_about_texts_are_left_to_their_report(
    visitor: Visitor, sqlite_service: Service, finished: Callable[..., Any]
) -> None:
    terminal = {"dataset": "wiki", "model": None, "texts": True, "terminal": {"folder": "/x", "secret": False}}
    run, table = finished(place="terminal", config=terminal), finished(title="a table")
    folder = sqlite_service.home.run(run.id)
    summary = read_json(folder / "summary.json")
    rates = {"train": summary["data_rate"]["all"]}
    (folder / "summary.json").write_text(json.dumps(summary | {"domain": "text", "data_rate": rates}), encoding="utf-8")
    result = {"texts": True, "headline": "wiki: 3 findings", "findings": 3, "data_rate": None}
    changed(sqlite_service, run.id, result=result)
    text = visitor.see(f"/runs/{run.id}")
    assert "wiki: 3 findings" in text
    assert f"/runs/{run.id}/findings" in text
    assert run.id in visitor.see("/compare")  # with others about texts
    sound(visitor.client.get(f"/compare?a={run.id}&b={table.id}"), 400)
    assert visitor.client.get(f"/compare.json?a={run.id}&b={table.id}").status_code == 200
    visitor.see("/runs")

    measured = finished("measure", place="terminal", config=terminal)
    path = sqlite_service.home.run(measured.id) / "summary.json"
    summary = read_json(path) | {"domain": "text", "config": {"confidence": 0.9}}
    for part in summary["measured"]:
        part["populations"] = [rate for rate in part["populations"] if rate["name"] in ("train", "held_out")]
    path.write_text(json.dumps(summary), encoding="utf-8")
    text = visitor.see(f"/runs/{measured.id}")
    assert "held-out texts" in text
    assert "domain" not in text


def test_what_a_stopped_run_had_found_is_shown(
    visitor: Visitor, sqlite_service: Service, finished: Callable[..., Any]
) -> None:
    run = finished()
    changed(sqlite_service, run.id, state="cancelled")
    text = visitor.see(f"/runs/{run.id}")
    assert "what it had found until then was saved" in text
    assert f"{run.result['findings']:,} pairs" in text
    assert f"/runs/{run.id}/repair" not in text
    assert "report.html" in text
    assert f"{run.result['findings']:,} findings kept" in visitor.see("/")
    visitor.see(f"/runs/{run.id}/findings")
    waiting = small_run(sqlite_service)
    visitor.sent(f"/runs/{waiting.id}/cancel")
    assert "it has no result" in visitor.see(f"/runs/{waiting.id}")


def test_a_viewer_sees_everything_and_is_offered_nothing(results: dict[str, Path], tmp_path: Path) -> None:
    with peopled(tmp_path / "home") as world:
        run = finish(world.service, results["audit"])
        measured = finish(world.service, results["measure"], "measure", parent=run.id)
        auditor, viewer = world.browser("olga"), world.browser("vera")
        asked = {"kind": "audit", "request": SMALL_AUDIT}
        waiting = auditor.post("/api/v1/runs", json=asked).json()
        assert waiting["asked_by"] == "olga"
        failed = small_run(world.service)
        changed(world.service, failed.id, state="failed", error="it broke")
        for path, offered in (
            ("/", "/new"), ("/runs", "/new"), ("/compare", "/new"), (f"/runs/{run.id}", f"/runs/{run.id}/repair"),
            (f"/runs/{run.id}", f"/runs/{run.id}/measure"), (f"/runs/{run.id}", f"/runs/{run.id}/delete"),
            (f"/runs/{run.id}/findings", f"/runs/{run.id}/repair"), (f"/runs/{failed.id}", f"/runs/{failed.id}/resume"),
            (f"/runs/{waiting['id']}", f"/runs/{waiting['id']}/cancel"),
            (f"/runs/{measured.id}", f"/runs/{run.id}/measure"),
        ):  # fmt: skip
            assert f'"{offered}"' in sound(auditor.get(path)), path
            assert f'"{offered}"' not in sound(viewer.get(path)), path
        assert "by olga" in sound(viewer.get(f"/runs/{waiting['id']}"))


def test_a_run_that_is_taken_up_says_so_and_keeps_its_examples(visitor: Visitor, sqlite_service: Service) -> None:
    run = small_run(sqlite_service)
    first = sqlite_service.runs.claim("a worker")
    assert first is not None
    pair = {"description": "A clerk of 40", "sides": [], "origin": "", "score_of": ">50K"}
    sqlite_service.runs.tell(first, "pair", {"number": 1, **pair})
    assert "checkpoint" not in visitor.see(f"/runs/{run.id}")
    lapse(sqlite_service, run.id)
    second = sqlite_service.runs.claim("another")
    assert second is not None
    sqlite_service.runs.tell(second, "resumed", {"step": 41, "total": 1000, "findings": 7, "seconds": 3.0})
    text = visitor.see(f"/runs/{run.id}")
    assert "It goes on from its last checkpoint, at step 41 of 1000." in text
    assert text.count("A clerk of 40") == 1
