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
from evenhand.models.text.loading import RecurrentModel
from evenhand.paper.processes import Worker, in_processes
from evenhand.paper.text_figures import ACCURACY, TEXT_PAPER, VALIDITY, VALIDITY_ROW, TextRow
from evenhand.paper.text_rows import (
    OURS,
    QUICK_TEXT,
    TWO_PHASES,
    Ground,
    RowResult,
    TextPlan,
    _run,
    measure_row,
    validity_means,
)
from evenhand.paper.text_tables import TextReproduction, _measured, builtin_ground, reproduce_text
from evenhand.paper.text_tables_page import text_intro, text_tables, write_text_reproduction
from evenhand.runs.config import TextAuditConfig
from evenhand.runs.text_world import Mentions, TextSearchWorld, search_world
from evenhand.search.text_space import CODES
from evenhand.text.download import UnreachableError
from tests.worlds.text import small_corpus, small_vectors
from tests.worlds.text_search import MOST_WORDS, plain_label, protected_words, small_network

RELIGION, GRU = TextRow("wiki", "lstm", "religion"), TextRow("wiki", "gru", "religion")
COUNTRY = TextRow("jigsaw", "lstm", "country")
TINY = TextPlan(seeds=12, dearest_seeds=5, steps=6, enough=10, enough_steps=0, similar=5)
QUALITY = {"held_out": {"accuracy": 0.9, "auc": 0.95, "f1": 0.7, "majority_class": 0.8}}

pytestmark = pytest.mark.usefixtures("own_cache")


class Letters:
    """A sentence encoder: how often each letter occurs."""

    name, dimensions = "letters", 26

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        return np.array([[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts], dtype=np.float32)


def small_ground(row: TextRow) -> Ground:
    """The small world in place of the corpus; its network of the row's cell, its words for the row's attribute."""
    words = protected_words("gender" if row.protected == "race" else row.protected)
    network = small_network("lstm" if row.network == "lstm" else "gru")
    model = RecurrentModel("small", network, small_vectors(), MOST_WORDS)
    return Ground(small_corpus(), words, small_vectors(), model, QUALITY, Letters())


@pytest.fixture(scope="module")
def made(own_cache: None) -> TextReproduction:
    return reproduce_text(TINY, rows=[RELIGION, VALIDITY_ROW, COUNTRY], workers=1, load=small_ground)


def without_seconds(content: Any) -> Any:
    """What may not depend on the machine."""
    if isinstance(content, dict):
        return {key: without_seconds(value) for key, value in content.items() if "seconds" not in key}
    return [without_seconds(item) for item in content] if isinstance(content, list) else content


def test_the_papers_figures_add_up() -> None:
    """Checks on what was carried over: averages that the paper states in its text."""
    rows = list(TEXT_PAPER.values())
    assert len(rows) == 16
    assert sum(row.seeds for row in rows) == 2 * (2 * 1000 + 450 + 358) + 2 * 4 * 1000
    assert np.mean([row.adf_asc / row.rp for row in rows]) == pytest.approx(4.40, abs=5e-3)
    assert np.mean([row.adf_asc / row.asc for row in rows]) - 1 == pytest.approx(0.2211, abs=5e-5)
    assert np.mean([row.adf_hotflip / row.hotflip for row in rows]) - 1 == pytest.approx(0.1818, abs=5e-5)
    assert np.mean([row.local_adf / row.local_rp for row in rows]) == pytest.approx(2.68, abs=5e-3)
    assert np.mean([row.local_adf_success for row in rows]) == pytest.approx(0.917, abs=5e-4)
    assert np.mean([row.local_rp_success for row in rows]) == pytest.approx(0.8269, abs=5e-5)
    assert max(row.adf_asc for row in rows) == 211
    # The paper's text says 1234.2; the table's own mean is another, as a remark of ours says.
    assert np.mean([row.seconds_adf_asc for row in rows]) == pytest.approx(1198.1)
    for row in rows:  # as remarks of ours say
        assert row.rp < row.asc < row.adf_asc
        assert row.rp < row.hotflip < row.adf_hotflip
        assert row.local_rp < row.local_adf
        assert row.local_rp_success < row.local_adf_success
    assert {row[:2] for row in TEXT_PAPER} == set(ACCURACY)


def test_the_papers_validity_adds_up() -> None:
    """By how much, the paper says, ADF lies closer to the originals than the plain attacks."""
    stated = {"l0": (0.44, 0.02), "l2": (0.26, 0.31), "jaccard": (0.03, 0.01), "similarity": (0.02, 0.01)}
    for metric, gains in (stated | {"bleu": (0.04, 0.02)}).items():
        for attack, gain in zip(("asc", "hotflip"), gains, strict=True):
            assert abs(VALIDITY[attack][metric] - VALIDITY[f"adf-{attack}"][metric]) == pytest.approx(gain, abs=6e-3)


def world_of(row: TextRow, count: int) -> TextSearchWorld:
    ground = small_ground(row)
    seeds = Mentions(ground.corpus, ground.words, MOST_WORDS).choose(True, count, seed=0)
    config = TextAuditConfig(dataset="small", protected=[row.protected])
    return search_world(seeds, ground.words, ground.vectors, ground.model, config, torch.device("cpu"))


def test_raw_findings_against_plain_labels_of_all_variants(made: TextReproduction) -> None:
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


def test_a_row_counts_what_it_says(made: TextReproduction) -> None:
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
    short, long = (_run(world, OURS, replace(plan, enough_steps=steps), None, lambda: False)[0] for steps in (0, 20))
    assert short.enough_seconds is None
    assert long.enough_seconds is not None
    assert long.findings == short.findings < 30
    enough = _run(world, OURS, replace(plan, enough=5), None, lambda: False)[0]
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


def test_tables(made: TextReproduction, tmp_path: Path) -> None:
    shown = text_tables(made)
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
    write_text_reproduction(made, tmp_path)
    assert "12 (358)" in (tmp_path / "tables.md").read_text()
    assert "12 (358)" in (tmp_path / "tables.html").read_text()
    assert json.loads((tmp_path / "tables.json").read_text())["rows"][0]["row"] == list(RELIGION)


def changed(row: RowResult, **counts: int) -> RowResult:
    """The row with other numbers of global findings; a method's dash is written as an underscore."""
    runs = {
        name: replace(run, global_findings=counts.get(name.replace("-", "_"), run.global_findings))
        for name, run in row.runs.items()
    }
    return replace(row, runs=runs)


def test_remarks_say_which_orders_hold_and_where_aims_are_missed(made: TextReproduction) -> None:
    good = {"random": 0, "asc": 1, "adf_asc": 2, "hotflip": 3, "adf_hotflip": 4, "boundary": 5}
    raw = [replace(row, seeds=6, raw=1) for row in made.rows[:2]]
    both = replace(made, rows=[changed(raw[0], **good), changed(raw[1], **(good | {"asc": 2, "boundary": 3}))])
    remarks = " ".join(text_tables(both)[1].remarks)
    assert "On average: Raw 16.7 (6.7); RP 0.0 (3.8); ASC 25.0 (15.4); ADF_ASC 33.3 (19.5)" in remarks
    assert "ADF_HF > HF (in the paper on every row) holds on every row." in remarks
    assert "ADF_ASC > ASC (in the paper on every row) holds on 1 of 2 rows: not on wiki/lstm/race." in remarks
    assert "ours > ADF_HF holds on 1 of 2 rows: not on wiki/lstm/race." in remarks
    assert "ours reaches a finding from 83.3% of the seeds on average, ADF_HF from 83.3%" in remarks
    paper = np.mean([(29 + 150) / 358, (24 + 177) / 450])
    assert f"(in the paper {paper:.1%}). Aim: 80% by ours, below on: wiki/lstm/race (66.7%)." in remarks


def test_what_was_not_measured_is_said(made: TextReproduction) -> None:
    """No encoder, no row to compare validity on, a local phase that had nowhere to start, rows left out."""
    runs = {
        name: replace(run, local_findings=0, local_generated=0, global_validity={"l0": 1.0}, local_validity={})
        for name, run in made.rows[0].runs.items()
    }
    bare = replace(made, rows=[replace(made.rows[0], runs=runs, quality={})], left_out=[COUNTRY])
    shown = text_tables(bare)
    assert len(shown) == 7
    page = " ".join(cell for table in shown for line in [*table.rows, table.remarks] for cell in line)
    assert "SS is not measured" in page
    assert "SS is not measured" not in str(text_tables(made))
    assert "ours – (aim 92%: missed)" in page
    assert "left out: jigsaw/lstm/country" in text_intro(bare)
    assert "quick run" in text_intro(bare)
    assert "quick run" not in text_intro(replace(made, plan=TextPlan()))


def test_an_interrupted_reproduction_keeps_whole_rows() -> None:
    """Rows with most values are measured first."""
    told: list[str] = []

    def say(text: str) -> None:
        told.append(text)
        if text.startswith("wiki/lstm/religion: adf-asc"):
            os.kill(os.getpid(), signal.SIGINT)

    result = reproduce_text(TINY, say, [RELIGION, GRU, COUNTRY], workers=1, load=small_ground)
    assert [row.row for row in result.rows] == [COUNTRY]
    assert result.left_out == [RELIGION, GRU]
    assert told[-1] == "stopped; the rows that are whole are kept"
    assert "wiki/lstm/religion: boundary" not in " ".join(told)


def ground_after_ctrl_c(row: TextRow) -> Ground:
    """One row begins only when the user wants to stop."""
    if row == GRU:
        assert Worker.stop.wait(120)
    return small_ground(row)


def test_a_process_changes_nothing_and_ends_when_asked(made: TextReproduction) -> None:
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
    task = partial(_measured, plan=TINY, load=ground_after_ctrl_c)
    for result in in_processes(rows, task, told.append, interrupted, workers=1):
        whole.append(asdict(result))
    expected = [asdict(row) for row in made.rows if row.row in rows]
    assert without_seconds(whole) == without_seconds(expected)
    assert "jigsaw/lstm/country: random from 5 seeds" in told  # said in the process
    assert multiprocessing.active_children() == []


def test_the_command(made: TextReproduction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    asked: list[Any] = []

    def measured(*given: Any, **options: Any) -> TextReproduction:
        asked.extend([given[0], options])
        return replace(made, left_out=[GRU])

    monkeypatch.setattr("evenhand.paper.text_tables.download_all", lambda _: None)
    monkeypatch.setattr("evenhand.paper.text_tables.reproduce_text", measured)
    with pytest.raises(typer.Exit) as end:
        tables(text=True, quick=True, workers=3, out=tmp_path / "new", quiet=True, as_json=True)
    assert end.value.exit_code == 130
    assert asked == [QUICK_TEXT, {"workers": 3}]
    assert json.loads(capsys.readouterr().out)["left_out"] == ["wiki/gru/religion"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["tables.html", "tables.json", "tables.md"]
    made_nothing = replace(made, rows=[])
    monkeypatch.setattr("evenhand.paper.text_tables.reproduce_text", lambda *_, **__: made_nothing)
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
    row = measure_row(VALIDITY_ROW, plan, ground, lambda _: None, lambda: False)
    assert row.seeds == 6
    assert row.runs[OURS].global_findings > 0
    assert row.runs[OURS].local_findings > 0
    assert 1 <= row.runs[OURS].global_validity["l0"] < 9
    assert row.quality["held_out"]["auc"] > 0.9
