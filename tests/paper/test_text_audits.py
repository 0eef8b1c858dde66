"""The paper's tables for texts: figures carried over right, rows measured right, in any number of processes."""

import json
import multiprocessing
import os
import signal
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from numpy.typing import NDArray

from evenhand.cli.reproduce import tables
from evenhand.errors import EvenhandError
from evenhand.models.text.by_construction import RecurrentModel
from evenhand.paper.driver import Study, reproduce
from evenhand.paper.figures import TEXT_AUDITS, TEXT_NETWORKS, TEXT_VALIDITY, VALIDITY_ROW, TextRow
from evenhand.paper.pages import PAGES, FinishedPage, make_page
from evenhand.paper.processes import InProcess, Interrupted, Say, in_processes
from evenhand.paper.text_audits import QUICK_TEXT, TEXT_AUDIT_STUDY, TextAudits
from evenhand.paper.text_searches import (
    OURS,
    TWO_PHASES,
    TextAuditPlan,
    TextAuditRow,
    TextGround,
    builtin_ground,
    measure_text_audit,
    run_text_method,
    validity_means,
)
from evenhand.runs.text_world import Mentions, TextSearchWorld, search_world
from evenhand.search.text_space import CODES
from evenhand.settings import TextAuditSettings
from evenhand.text.download import UnreachableError
from tests.worlds.text import small_corpus, small_vectors
from tests.worlds.text_search import MOST_WORDS, plain_label, protected_words, small_network

RELIGION, GRU = TextRow("wiki", "lstm", "religion"), TextRow("wiki", "gru", "religion")
COUNTRY = TextRow("jigsaw", "lstm", "country")
TINY = TextAuditPlan(seeds=12, dearest_seeds=5, steps=6, enough=10, enough_steps=0, similar=5)
QUALITY = {"held_out": {"accuracy": 0.9, "auc": 0.95, "f1": 0.7, "majority_class": 0.8}}

pytestmark = pytest.mark.usefixtures("own_cache")


class Letters:
    """A sentence encoder: how often each letter occurs."""

    name, dimensions = "letters", 26

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        return np.array([[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts], dtype=np.float32)


def small_ground(row: TextRow) -> TextGround:
    """The small world in place of the corpus; its network of the row's cell, its words for the row's attribute."""
    words = protected_words("gender" if row.protected == "race" else row.protected)
    network = small_network("lstm" if row.network == "lstm" else "gru")
    model = RecurrentModel("small", network, small_vectors(), MOST_WORDS)
    return TextGround(small_corpus(), words, small_vectors(), model, QUALITY, Letters())


def small_study(*rows: TextRow) -> Study[TextAuditPlan, TextAuditRow]:
    """The study on the small world."""
    measure = partial(measure_text_audit, load=small_ground)
    return replace(TEXT_AUDIT_STUDY, rows=rows, quick=TINY, measure=measure, prepare=lambda _: None)


@pytest.fixture(scope="module")
def made(own_cache: None) -> TextAudits:
    return reproduce(small_study(RELIGION, VALIDITY_ROW, COUNTRY), TINY, workers=1)


def without_seconds(content: Any) -> Any:
    """What may not depend on the machine."""
    if isinstance(content, dict):
        return {key: without_seconds(value) for key, value in content.items() if "seconds" not in key}
    return [without_seconds(item) for item in content] if isinstance(content, list) else content


def test_the_papers_figures_add_up() -> None:
    """Checks on what was carried over: averages that the paper states in its text."""
    rows = list(TEXT_AUDITS.values())
    assert len(rows) == 16
    assert sum(row["seeds"] for row in rows) == 2 * (2 * 1000 + 450 + 358) + 2 * 4 * 1000
    assert np.mean([row["adf-asc"] / row["random"] for row in rows]) == pytest.approx(4.40, abs=5e-3)
    assert np.mean([row["adf-asc"] / row["asc"] for row in rows]) - 1 == pytest.approx(0.2211, abs=5e-5)
    assert np.mean([row["adf-hotflip"] / row["hotflip"] for row in rows]) - 1 == pytest.approx(0.1818, abs=5e-5)
    assert np.mean([row["local adf-asc"] / row["local random"] for row in rows]) == pytest.approx(2.68, abs=5e-3)
    assert np.mean([row["local success adf-asc"] for row in rows]) == pytest.approx(0.917, abs=5e-4)
    assert np.mean([row["local success random"] for row in rows]) == pytest.approx(0.8269, abs=5e-5)
    assert max(row["adf-asc"] for row in rows) == 211
    # The paper's text says 1234.2; the table's own mean is another, as a remark of ours says.
    assert np.mean([row["seconds adf-asc"] for row in rows]) == pytest.approx(1198.1)
    for row in rows:  # as remarks of ours say
        assert row["random"] < row["asc"] < row["adf-asc"]
        assert row["random"] < row["hotflip"] < row["adf-hotflip"]
        assert row["local random"] < row["local adf-asc"]
        assert row["local success random"] < row["local success adf-asc"]
    assert {row[:2] for row in TEXT_AUDITS} == {tuple(name.split("/")) for name in TEXT_NETWORKS}


def test_the_papers_validity_adds_up() -> None:
    """By how much, the paper says, ADF lies closer to the originals than the plain attacks."""
    stated = {"l0": (0.44, 0.02), "l2": (0.26, 0.31), "jaccard": (0.03, 0.01), "similarity": (0.02, 0.01)}
    for metric, gains in (stated | {"bleu": (0.04, 0.02)}).items():
        for attack, gain in zip(("asc", "hotflip"), gains, strict=True):
            assert abs(TEXT_VALIDITY[attack][metric] - TEXT_VALIDITY[f"adf-{attack}"][metric]) == pytest.approx(
                gain, abs=6e-3
            )


def world_of(row: TextRow, count: int) -> TextSearchWorld:
    ground = small_ground(row)
    seeds = Mentions(ground.corpus, ground.words, MOST_WORDS).choose(True, count, seed=0)
    config = TextAuditSettings(dataset="small", protected=[row.protected])
    return search_world(seeds, ground.words, ground.vectors, ground.model, config, torch.device("cpu"))


def test_raw_findings_against_plain_labels_of_all_variants(made: TextAudits) -> None:
    """Each seed and each of its variants as a person reads them, one at a time."""
    space = world_of(RELIGION, TINY.seeds).space
    raw = 0
    for number in range(len(space.texts.tokens)):
        x = space.samples(np.array([[number]], dtype=np.int32))
        first, end = space.first_swap[number : number + 2].tolist()
        variants = [space.with_combination(x, torch.tensor([swap])) for swap in [0, *space.swaps[first:end].tolist()]]
        units = [space.inputs(variant)[0, 1:].numpy() for variant in variants]
        texts = [space.texts.render(number, row) for row in units]
        raw += len({plain_label(small_network("lstm"), small_vectors(), text) for text in texts}) > 1
    assert 0 < raw == made.rows[0].raw < made.rows[0].seeds


def test_a_row_counts_what_it_says(made: TextAudits) -> None:
    for row in made.rows:
        assert row.seeds == (TINY.dearest_seeds if row.row.protected == "country" else TINY.seeds)
        for name, run in row.runs.items():
            assert run.global_findings <= row.seeds - row.raw
            assert (run.local_generated > 0) == (name in TWO_PHASES and row.raw + run.global_findings > 0)
            assert run.local_findings <= run.local_generated <= TINY.steps * (row.raw + run.global_findings)
            assert bool(run.global_validity) == (run.global_findings > 0)
            assert bool(run.local_validity) == (run.local_findings > 0)
            if run.global_validity:
                assert run.global_validity["l0"] >= 1
                assert 0 < run.global_validity["bleu"] < 1
        assert row.reached(OURS) == (row.raw + row.runs[OURS].global_findings) / row.seeds


def test_time_for_enough_findings() -> None:
    """Where the steps do not suffice, a search of its own with more steps does; its findings do not count."""
    world = world_of(RELIGION, TINY.seeds)
    plan = replace(TINY, steps=1, enough=30)
    short, long = (
        run_text_method(world, OURS, replace(plan, enough_steps=steps), None, lambda: False)[0] for steps in (0, 20)
    )
    assert short.enough_seconds is None
    assert long.enough_seconds is not None
    assert long.findings == short.findings < 30
    enough = run_text_method(world, OURS, replace(plan, enough=5), None, lambda: False)[0]
    assert enough.enough_seconds is not None
    assert enough.enough_seconds <= enough.seconds


def test_validity_of_samples_by_hand() -> None:
    """Texts as they were written are at no distance; one changed word is one."""
    world = world_of(RELIGION, 4)
    x = world.space.samples(np.arange(4, dtype=np.int32)[:, None]).numpy().astype(np.int32)
    same = {"l0": 0, "l2": 0, "jaccard": 1, "bleu": 1, "similarity": 1}
    assert validity_means(world, x, Letters()) == pytest.approx(same)
    assert "similarity" not in validity_means(world, x, None)
    assert validity_means(world, x[:0], Letters()) == {}
    for row in x:
        row[CODES + int((world.space.choices[row[0]] > 1).int().argmax())] = 1
    means = validity_means(world, x, Letters())
    assert means["l0"] == 1
    assert means["similarity"] < 1
    assert 0 < means["bleu"] < 1


def test_tables(made: TextAudits, tmp_path: Path) -> None:
    shown = made.tables()
    assert len(shown) == 8
    for table in shown:
        assert all(len(row) == len(table.header) for row in table.rows), table.title
    counts, shares, local, as_printed, ours, local_validity, seconds, networks = shown
    assert [len(table.rows) for table in (counts, shares, local, ours, seconds)] == [3, 3, 3, 4, 3]
    assert counts.header == ["row", "Seed", "Raw", "RP", "ASC", "ADF_ASC", "HF", "ADF_HF", "ours"]
    first = made.rows[0]
    assert shares.rows[0][1] == f"{100 * first.raw / 12:.0f} (8)"
    assert counts.rows[0][:3] == ["wiki/lstm/religion", "12 (358)", f"{first.raw} (29)"]
    assert f"{first.runs['adf-hotflip'].global_findings} (150)" in counts.rows[0]
    assert f"({86350:,}, 94.6%)" in local.rows[0][2]
    assert [row[0] for row in as_printed.rows] == ["findings", "L_0", "L_2", "JSC", "BLEU", "SS"]
    assert as_printed.rows[1][2].endswith("(2.1851)")
    assert len(local_validity.rows) == 6
    assert seconds.rows[1][2].endswith("(1,587.4)")
    assert networks.rows[0] == ["wiki/lstm", "90.0% (89.9%)", "80.0%", "0.950", "0.700"]
    FinishedPage("Texts", {"": made}).write(tmp_path)
    assert "12 (358)" in (tmp_path / "tables.md").read_text()
    assert "12 (358)" in (tmp_path / "tables.html").read_text()
    assert json.loads((tmp_path / "tables.json").read_text())["rows"][0]["row"] == list(RELIGION)


def changed(row: TextAuditRow, **counts: int) -> TextAuditRow:
    """The row with other numbers of global findings; a method's dash is written as an underscore."""
    runs = {
        name: replace(run, global_findings=counts.get(name.replace("-", "_"), run.global_findings))
        for name, run in row.runs.items()
    }
    return replace(row, runs=runs)


def test_remarks_say_which_orders_hold_and_where_aims_are_missed(made: TextAudits) -> None:
    good = {"random": 0, "asc": 1, "adf_asc": 2, "hotflip": 3, "adf_hotflip": 4, "boundary": 5}
    raw = [replace(row, seeds=6, raw=1) for row in made.rows[:2]]
    both = replace(made, rows=[changed(raw[0], **good), changed(raw[1], **(good | {"asc": 2, "boundary": 3}))])
    remarks = " ".join(both.tables()[1].remarks)
    assert "On average: Raw 16.7 (6.7); RP 0.0 (3.8); ASC 25.0 (15.4); ADF_ASC 33.3 (19.5)" in remarks
    assert "ADF_HF > HF (in the paper on every row) holds on every row." in remarks
    assert "ADF_ASC > ASC (in the paper on every row) holds on 1 of 2 rows: not on wiki/lstm/race." in remarks
    assert "ours > ADF_HF holds on 1 of 2 rows: not on wiki/lstm/race." in remarks
    assert "ours reaches a finding from 83.3% of the seeds on average, ADF_HF from 83.3%" in remarks
    paper = np.mean([(29 + 150) / 358, (24 + 177) / 450])
    assert f"(in the paper {paper:.1%}). Aim: 80% by ours, below on: wiki/lstm/race (66.7%)." in remarks


def test_what_was_not_measured_is_said(made: TextAudits) -> None:
    """No encoder, no row to compare validity on, a local phase that had nowhere to start, rows left out."""
    runs = {
        name: replace(run, local_findings=0, local_generated=0, global_validity={"l0": 1.0}, local_validity={})
        for name, run in made.rows[0].runs.items()
    }
    bare = replace(made, rows=[replace(made.rows[0], runs=runs, quality={})], left_out=[COUNTRY])
    shown = bare.tables()
    assert len(shown) == 7
    page = " ".join(cell for table in shown for line in [*table.rows, table.remarks] for cell in line)
    assert "SS is not measured" in page
    assert "SS is not measured" not in str(made.tables())
    assert "ours – (aim 92%: missed)" in page
    assert "left out: jigsaw/lstm/country" in bare.intro()
    assert "quick run" in bare.intro()
    assert "quick run" not in replace(made, plan=TextAuditPlan()).intro()


def test_an_interrupted_reproduction_keeps_whole_rows() -> None:
    """Rows with most values are measured first."""
    told: list[str] = []

    def say(text: str) -> None:
        told.append(text)
        if text.startswith("wiki/lstm/religion: adf-asc"):
            os.kill(os.getpid(), signal.SIGINT)

    result = reproduce(small_study(RELIGION, GRU, COUNTRY), TINY, say, workers=1)
    assert [row.row for row in result.rows] == [COUNTRY]
    assert result.left_out == [RELIGION, GRU]
    assert told[-1] == "stopped; the rows that are whole are kept"
    assert "wiki/lstm/religion: boundary" not in " ".join(told)


def ground_after_ctrl_c(row: TextRow) -> TextGround:
    """One row begins only when the user wants to stop."""
    if row == GRU:
        assert InProcess.stop.wait(120)
    return small_ground(row)


def test_a_process_changes_nothing_and_ends_when_asked(made: TextAudits) -> None:
    """A terminal's Ctrl-C reaches every process; the first alone decides, here when all rows but one are whole."""
    told: list[str] = []
    whole: list[dict[str, Any]] = []

    def interrupted() -> bool:
        if len(whole) < 2:
            return False
        for process in multiprocessing.active_children():
            os.kill(process.pid or 0, signal.SIGINT)
        return True

    rows = [RELIGION, COUNTRY, GRU]
    task = partial(measure_text_audit, plan=TINY, load=ground_after_ctrl_c)
    for result in in_processes(rows, task, told.append, interrupted, workers=1):
        whole.append(asdict(result))
    expected = [asdict(row) for row in made.rows if row.row in rows]
    assert without_seconds(whole) == without_seconds(expected)
    assert "jigsaw/lstm/country: random from 5 seeds" in told  # said in the process
    assert multiprocessing.active_children() == []


def test_a_run_that_was_cut_off_is_resumed(made: TextAudits, tmp_path: Path) -> None:
    """Each row is stored as it is done; a plan of another size begins anew, and so does a run that had ended."""
    measured: list[TextRow] = []

    def measure(row: TextRow, say: Say, interrupted: Interrupted, plan: TextAuditPlan) -> TextAuditRow:
        if row == VALIDITY_ROW and len(measured) == 2:
            raise ZeroDivisionError
        measured.append(row)
        return measure_text_audit(row, say, interrupted, plan, small_ground)

    study = replace(small_study(RELIGION, VALIDITY_ROW, COUNTRY), measure=measure)
    page = replace(PAGES["text-tables"], studies={"": study})
    with pytest.raises(ZeroDivisionError):
        make_page(page, tmp_path, quick=True, workers=1)
    assert measured == [COUNTRY, RELIGION]
    assert [path.name for path in tmp_path.iterdir()] == ["unfinished.json"]
    measured.append(VALIDITY_ROW)  # from now on it does not fail
    whole = make_page(page, tmp_path, quick=True, workers=1)
    assert measured[3:] == [VALIDITY_ROW]
    assert without_seconds(whole.as_dict()) == without_seconds(FinishedPage("", {"": made}).as_dict())
    assert not (tmp_path / "unfinished.json").exists()
    make_page(page, tmp_path, quick=True, workers=1)
    assert len(measured) == 4 + 3
    (tmp_path / "tables.json").rename(tmp_path / "unfinished.json")
    again = make_page(page, tmp_path, quick=True, workers=1)  # cut off between the last row and the page
    assert len(measured) == 4 + 3
    assert again.parts[""].workers == 1
    assert not again.left_out
    (tmp_path / "tables.json").rename(tmp_path / "unfinished.json")
    make_page(page, tmp_path, quick=True, workers=1, change_plan=lambda plan: replace(plan, steps=1))
    assert len(measured) == 4 + 3 + 3


def test_the_command(made: TextAudits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    given: list[Any] = []

    def measured(study: Any, plan: TextAuditPlan, say: Say, *, workers: int, **_: Any) -> TextAudits:
        given.extend([plan, workers])
        return replace(made, left_out=[GRU])

    page = replace(PAGES["text-tables"], studies={"": replace(small_study(RELIGION), quick=QUICK_TEXT)})
    monkeypatch.setitem(PAGES, "text-tables", page)
    monkeypatch.setattr("evenhand.paper.pages.reproduce", measured)
    with pytest.raises(typer.Exit) as end:
        tables(text=True, quick=True, workers=3, out=tmp_path / "new", quiet=True, as_json=True)
    assert end.value.exit_code == 130
    assert given == [QUICK_TEXT, 3]
    assert json.loads(capsys.readouterr().out)["left_out"] == ["wiki/gru/religion"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["tables.html", "tables.json", "tables.md"]
    monkeypatch.setattr("evenhand.paper.pages.reproduce", lambda *_, **__: replace(made, rows=[]))
    with pytest.raises(typer.Exit):
        tables(text=True, out=tmp_path / "none", quiet=True)
    assert not (tmp_path / "none").exists()


def test_options_of_the_other_tables_are_refused() -> None:
    with pytest.raises(EvenhandError, match="--workers is for texts"):
        tables(workers=2)
    with pytest.raises(EvenhandError, match="--equal-seconds is for tables"):
        tables(text=True, equal_seconds=3.0)


@pytest.mark.real_text
def test_one_row_on_the_real_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENHAND_CACHE")
    try:
        ground = builtin_ground(VALIDITY_ROW)
    except UnreachableError as error:
        pytest.skip(f"NOT TESTED on real data: {error}")
    plan = replace(TINY, seeds=6, steps=3)
    row = measure_text_audit(VALIDITY_ROW, lambda _: None, lambda: False, plan, lambda _: ground)
    assert row.seeds == 6
    assert row.runs[OURS].global_findings > 0
    assert row.runs[OURS].local_findings > 0
    assert 1 <= row.runs[OURS].global_validity["l0"] < 9
    assert row.quality["held_out"]["auc"] > 0.9
