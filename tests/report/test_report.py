"""The report: its numbers against slow, obvious ones, and its page as a browser would read it."""

import re
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import evenhand
from evenhand.data.dataset import Dataset
from evenhand.data.schema import Schema
from evenhand.measures.rates import clopper_pearson
from evenhand.models.network import FeedForward
from evenhand.report import statistics as statistics_module
from evenhand.report.charts import HEIGHT, LABEL_ROOM, growth_chart, share_bars, short_number, ticks
from evenhand.report.flips import flip_matrix, pair_rows
from evenhand.report.page import MOST_MATRIX_COMBINATIONS, write_report
from evenhand.report.pairs import origin, table_cards
from evenhand.report.statistics import EXAMPLES, MOST_PEOPLE, Example, Statistics, read_statistics
from evenhand.report.words import interval_text, percent
from evenhand.runs.audit import Audit
from evenhand.runs.summary import FINDINGS, REPORT
from evenhand.settings import repeat_of
from tests.worlds.schemas import UNTRAINED

VOID = {"meta", "link", "img", "br", "hr", "input"}
UNSAFE = "<b>&\"'"


class Page(HTMLParser):
    """Reads a page strictly: tags balance, attributes and text are kept."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    def values(self, name: str) -> list[str]:
        return [value for _, attribute, value in self.attributes if attribute == name]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


class ByGroup(nn.Module):
    """Three classes that hang on the group; the third only for large sizes."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([2 - x[:, 0], 0.5 + 0 * x[:, 1], x[:, 2] - 6], dim=1)


class Indifferent(nn.Module):
    """Always the same class, with scores that depend a little on everything."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([0 * x[:, 0], 1e-3 * x.sum(dim=1) + 1], dim=1)


@pytest.fixture(scope="module", params=["sex", "race,sex", "age,race"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    folder = tmp_path_factory.mktemp("audit")
    return evenhand.audit("census", request.param, seeds=40, steps=30, out=folder)


@pytest.fixture(scope="module")
def unsafe(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """Three classes, no favourable one, and words that are markup where they can be."""
    schema = Schema.parse(
        {
            "name": f"small{UNSAFE}",
            "title": f"title{UNSAFE}",
            "file": "small.csv",
            "label": {"column": "y", "values": [f"{UNSAFE}{place}" for place in range(3)]},
            "card": {"source": UNSAFE, "notes": [UNSAFE]},
            "attribute": [
                {
                    "name": "group",
                    "title": UNSAFE,
                    "kind": "category",
                    "categories": [f"{UNSAFE}{i}" for i in range(4)],
                },
                {"name": "level", "kind": "ordered", "categories": [f"{UNSAFE}{i}" for i in range(9)]},
                {"name": "size", "kind": "number", "domain": [0, 9], "unit": UNSAFE},
            ],
        },
        where="a test",
    )
    codes = np.random.default_rng(0).integers(0, (4, 9, 10), size=(60, 3), dtype=np.int32)
    codes[0] = [0, 0, 99]  # outside the domain
    data = Dataset(schema, codes, np.zeros(60, dtype=np.int64), schema.split.train_mask(60))
    folder = tmp_path_factory.mktemp("unsafe")
    return evenhand.audit(data, ["group"], model=ByGroup(), seeds=30, steps=20, out=folder, **UNTRAINED)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    folder = tmp_path_factory.mktemp("empty")
    return evenhand.audit("census", "sex", model=Indifferent(), seeds=10, steps=5, out=folder, **UNTRAINED)


def statistics_of(audit: Audit) -> Statistics:
    return read_statistics(audit.folder / FINDINGS, audit.data, audit.summary["protected"])


def page_of(audit: Audit) -> Page:
    return Page((audit.folder / REPORT).read_text(encoding="utf-8"))


def slow_pairs(audit: Audit) -> tuple[Counter[tuple[tuple[int, ...], tuple[int, ...]]], int]:
    """Favoured and disfavoured combinations, one finding at a time."""
    names = [name for name in audit.data.schema.names if name in audit.summary["protected"]]
    label = audit.data.schema.label
    goal = label.favourable or label.values[-1]
    pairs: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
    neither = 0
    for row in audit.findings.to_dict("records"):
        sample = tuple(int(row[f"sample_code.{name}"]) for name in names)
        witness = tuple(int(row[f"witness_code.{name}"]) for name in names)
        if row["label"] == goal:
            pairs[sample, witness] += 1
        elif row["witness_label"] == goal:
            pairs[witness, sample] += 1
        else:
            neither += 1
    return pairs, neither


def check_against_slow(audit: Audit) -> None:
    """All statistics of an audit against pandas."""
    statistics = statistics_of(audit)
    frame = audit.findings
    pairs, neither = slow_pairs(audit)
    assert {(flip.favoured, flip.disfavoured): flip.findings for flip in statistics.flips.pairs} == pairs
    assert statistics.flips.neither == neither
    assert statistics.findings == len(frame) == audit.summary["search"]["findings"]["total"] > 0
    free = [name for name in audit.data.schema.names if name not in audit.summary["protected"]]
    assert sorted(audit.data.schema.names[spread.attribute] for spread in statistics.spreads) == sorted(free)
    for spread in statistics.spreads:
        name = audit.data.schema.names[spread.attribute]
        findings = frame[f"sample_code.{name}"].value_counts(normalize=True)
        people = pd.Series(audit.data.clipped[:, spread.attribute]).value_counts(normalize=True)
        excess = findings.sub(people, fill_value=0)
        assert spread.distance == pytest.approx(excess.abs().sum() / 2)
        assert [v.findings - v.people for v in spread.over] == pytest.approx(list(excess[excess > 0].nlargest(3)))
        for value in spread.over:
            assert value.findings == pytest.approx(findings[value.code])
            assert value.people == pytest.approx(people.get(value.code, 0))
    assert [spread.distance for spread in statistics.spreads] == sorted(
        (spread.distance for spread in statistics.spreads), reverse=True
    )


@pytest.mark.parametrize("batch_rows", [7, 65_536])
def test_statistics_equal_slow_ones(found: Audit, batch_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_module, "BATCH_ROWS", batch_rows)
    check_against_slow(found)


@pytest.mark.parametrize("batch_rows", [7, 65_536])
def test_statistics_of_three_classes(unsafe: Audit, batch_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_module, "BATCH_ROWS", batch_rows)
    assert statistics_of(unsafe).flips.neither > 0
    check_against_slow(unsafe)


def test_who_gets_which_label_instead_of_which(unsafe: Audit, found: Audit) -> None:
    """With three classes, against one finding at a time; the last label counts as better than those before it."""
    values, expected = unsafe.data.schema.label.values, Counter[tuple[str, str, int, int]]()
    for row in unsafe.findings.to_dict("records"):
        one = values.index(row["label"]), int(row["sample_code.group"])
        other = values.index(row["witness_label"]), int(row["witness_code.group"])
        (better, has), (worse, has_not) = max(one, other), min(one, other)
        expected[values[better], values[worse], has, has_not] += 1
    flips = statistics_of(unsafe).flips.by_labels
    counted = {
        (of.label, of.instead_of, flip.favoured[0], flip.disfavoured[0]): flip.findings
        for of in flips
        for flip in of.pairs
    }
    assert counted == expected
    assert len(flips) == 2
    assert [of.findings for of in flips] == sorted((of.findings for of in flips), reverse=True)
    tables = [name for name in page_of(unsafe).values("aria-label") if "instead of" in name]
    assert tables == [f"‘{of.label}’ instead of ‘{of.instead_of}’" for of in flips]
    assert statistics_of(found).flips.by_labels == []


def test_labels_are_read_by_their_words(found: Audit, tmp_path: Path) -> None:
    """Not by their place in a dictionary, which another writer may order as the labels come, or leave out."""
    for place, dictionary in enumerate((True, False)):
        frame = found.findings.astype({"label": "str", "witness_label": "str"})
        last_first = frame.sort_values("label", ascending=False, kind="stable")
        types = {
            "label": pd.CategoricalDtype([">50K", "<=50K"]),
            "witness_label": pd.CategoricalDtype([">50K", "<=50K"]),
        }
        path = tmp_path / f"{place}.parquet"
        (last_first.astype(types) if dictionary else last_first).to_parquet(path)
        again = read_statistics(path, found.data, found.summary["protected"])
        assert again.flips == statistics_of(found).flips


def test_changed_attributes_add_up(found: Audit) -> None:
    frame, names = found.findings, sorted(found.summary["protected"])
    expected: Counter[tuple[str, ...]] = Counter()
    for row in frame.to_dict("records"):
        expected[tuple(name for name in names if row[f"sample_code.{name}"] != row[f"witness_code.{name}"])] += 1
    assert {tuple(sorted(changed)): count for changed, count in statistics_of(found).changed} == expected


def test_matrix_totals_are_the_findings(found: Audit) -> None:
    statistics = statistics_of(found)
    values = sorted({value.value for value in statistics.flips.values})
    matrix = flip_matrix(statistics.flips, values, MOST_MATRIX_COMBINATIONS)
    assert page_of(found).values("class").count("matrix") == (0 if matrix is None else 1)
    if found.summary["protected"] == ["age", "race"]:  # 45 combinations are too many for a matrix
        assert matrix is None
        rows = pair_rows(statistics.flips.pairs)
        assert len(rows) == 20
        assert [row.findings for row in rows] == sorted((row.findings for row in rows), reverse=True)
    else:
        assert matrix is not None
        assert matrix.total == sum(matrix.column_totals) == statistics.findings
        assert all(row[place] == 0 for place, row in enumerate(matrix.cells))


@pytest.mark.parametrize("batch_rows", [7, 65_536])
def test_examples_are_the_clearest_of_their_seeds(
    found: Audit, batch_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics_module, "BATCH_ROWS", batch_rows)
    examples = statistics_of(found).examples
    frame = found.findings
    gaps = (frame["score"].astype("float64") - frame["witness_score"]).abs()
    generated = gaps.groupby(frame["seed_row"]).max().nlargest(EXAMPLES)
    assert [example.gap for example in examples] == pytest.approx([*generated])
    assert {example.seed_row for example in examples} == {*generated.index}


def test_people_come_first_as_they_stand_in_the_table(found: Audit, census_network: FeedForward) -> None:
    people = [Example(**example) for example in found.summary["people"]]
    assert 0 < len(people) <= MOST_PEOPLE
    protected = found.data.schema.protected_indices(found.summary["protected"])
    for example in people:
        row = found.data.codes[example.seed_row]
        assert list(example.sample) == row.tolist()
        witness = row.copy()
        witness[protected] = np.array(example.witness)[protected]
        assert list(example.witness) == witness.tolist()
        labels = census_network(torch.tensor(np.stack([row, witness]), dtype=torch.float32)).argmax(dim=1).tolist()
        assert labels == [example.label, example.witness_label]
        assert labels[0] != labels[1]
    cards = table_cards(found.summary, statistics_of(found).examples, found.data)
    assert [card.origin for card in cards[: len(people)]] == [
        f"Row {example.seed_row + 1:,} of the data, unchanged." for example in people
    ]


def test_examples_are_findings(found: Audit) -> None:
    schema = found.data.schema
    protected = schema.protected_indices(found.summary["protected"])
    for example in statistics_of(found).examples:
        sample, witness = np.array(example.sample), np.array(example.witness)
        differs = np.flatnonzero(sample != witness)
        assert len(differs) > 0
        assert set(differs) <= set(protected)
        assert example.label != example.witness_label
        assert example.score > 0.5 > example.witness_score  # two classes, scores of the sample's label
        assert ((sample >= schema.lower) & (sample <= schema.upper)).all()


def test_page_is_whole_and_loads_nothing(found: Audit) -> None:
    check_page(page_of(found), found)


def check_page(page: Page, audit: Audit) -> None:
    """A page that balances, names its parts and reaches for nothing outside itself."""
    assert not {"script", "link", "img", "iframe", "object", "embed", "base", "form"} & set(page.tags)
    assert not page.values("src")
    assert all(link.startswith("#") for link in page.values("href"))
    text = (audit.folder / REPORT).read_text(encoding="utf-8")
    assert "url(" not in text
    assert "@import" not in text
    identifiers = page.values("id")
    assert len(identifiers) == len(set(identifiers))
    assert {link[1:] for link in page.values("href")} <= set(identifiers)
    assert {name for value in page.values("aria-labelledby") for name in value.split()} <= set(identifiers)
    assert page.tags["h1"] == 1
    assert page.tags["caption"] == page.tags["table"]
    assert ("html", "lang", "en") in page.attributes
    assert not re.search(r"\b(fair|unfair|unbiased)\b", page.text, re.IGNORECASE)


def test_page_says_what_was_found(found: Audit) -> None:
    text, search = page_of(found).text, found.summary["search"]
    for number in (search["findings"]["total"], search["generated"]["total"], search["tried"], search["model_rows"]):
        assert f"{number:,}" in text
    assert percent(search["success_rate"]) in text
    for rate in found.summary["data_rate"].values():
        assert f"{rate['interval'][0]:.2%} to {rate['interval'][1]:.2%}" in text
    assert "Checked as they stand in the table" in text
    assert repeat_of(found.summary) in text
    assert found.data.schema.card.licence in text


def test_page_says_which_rows_were_checked(schema_file: Path, tmp_path: Path) -> None:
    schema_file.write_text(schema_file.read_text() + '\n[[impossible]]\nsex = "f"\ncity = "Y"\n')
    settings = UNTRAINED | {"seeds": 5, "steps": 2, "out": tmp_path / "out"}
    audit = evenhand.audit(str(schema_file), "sex", model=Indifferent(), **settings)
    text, rate = page_of(audit).text, audit.summary["data_rate"]["all"]
    assert rate["population"] == "all rows of people that its rules call possible"
    assert f"value of sex: {rate['population']} ({rate['samples']} rows). A row counts" in text
    assert rate["samples"] < 40
    assert "at random, were" not in text


def test_cards_mark_just_what_differs(found: Audit) -> None:
    page, cards = page_of(found), table_cards(found.summary, statistics_of(found).examples, found.data)
    differences = sum(differs for card in cards for _, differs in card.sides[0].protected)
    assert page.values("class").count("card") == len(cards) == EXAMPLES
    assert page.tags["mark"] == 2 * differences + 1  # both members, and the word that explains the mark


def test_words_from_data_are_escaped(unsafe: Audit) -> None:
    page = page_of(unsafe)
    check_page(page, unsafe)
    assert page.tags["b"] == 0
    assert UNSAFE in page.text
    assert f"title{UNSAFE}" in page.text
    assert "the favourable decision" not in page.text
    assert "instead of" in page.text
    assert "passed from Python" in page.text


def test_no_findings_make_a_page(empty: Audit) -> None:
    assert statistics_of(empty) == Statistics(0, statistics_of(empty).flips, [], [], [])
    page = page_of(empty)
    check_page(page, empty)
    assert "No findings when sex changes" in page.text
    assert "Within this budget there are no findings" in page.text
    assert not {"flips", "attributes", "examples"} & set(page.values("id"))


def test_a_search_that_tried_nothing_makes_a_page(empty: Audit, tmp_path: Path) -> None:
    nothing = {"global": 0, "local": 0, "total": 0}
    search = empty.summary["search"] | {"tried": 0, "generated": nothing, "growth": [], "stopped": "interrupted"}
    path = write_report(tmp_path / "r.html", empty.summary | {"search": search}, empty.folder / FINDINGS, empty.data)
    assert "ended before it tried a sample" in Page(path.read_text(encoding="utf-8")).text


def test_same_audit_gives_the_same_page(found: Audit, tmp_path: Path) -> None:
    again = found.report(tmp_path / "again.html")
    assert again.read_bytes() == (found.folder / REPORT).read_bytes()


def test_origin_tells_changes_and_values_outside_the_domain(unsafe: Audit) -> None:
    def example(row: int, sample: list[int]) -> Example:
        return Example(row, tuple(sample), tuple(sample), 0, 1, 0.9, 0.1)

    row = unsafe.data.clipped[1].tolist()
    assert origin(example(1, row), unsafe.data) == "Row 2 of the data, unchanged."
    moved = [row[0], (row[1] + 1) % 9, row[2]]
    names = unsafe.data.schema.attributes[1].texts()
    expected = f"Started from row 2 of the data; changed: level {names[row[1]]} → {names[moved[1]]}."
    assert origin(example(1, moved), unsafe.data) == expected
    outside = origin(example(0, unsafe.data.clipped[0].tolist()), unsafe.data)
    assert outside == "Row 1 of the data, as the schema reads it."


def test_favourable_label_is_the_named_one_or_the_last(found: Audit, unsafe: Audit) -> None:
    assert found.data.schema.label.favourable_code == 1
    assert unsafe.data.schema.label.favourable_code == 2


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0.0%"), (0.0001, "<0.1%"), (0.0123, "1.2%"), (0.9999, ">99.9%"), (1, "100.0%")]
)
def test_percent_never_rounds_to_nothing_or_all(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        ((0.0271, 0.0301), "2.71% to 3.01%"),
        ((0.0, 0.000075), "0.0000% to 0.0075%"),
        ((0.99998, 1.0), "99.9980% to 100.0000%"),
        ((0.5, 0.5), "50.00% to 50.00%"),
        ((0.0, 1.0), "0.00% to 100.00%"),
    ],
)
def test_an_interval_shows_how_wide_it_is(interval: tuple[float, float], text: str) -> None:
    assert interval_text(interval) == text


@given(st.integers(0, 10**6), st.integers(1, 10**9), st.sampled_from([0.9, 0.95, 0.999]))
def test_the_ends_of_an_interval_never_look_the_same(hits: int, samples: int, confidence: float) -> None:
    low, high = interval_text(clopper_pearson(min(hits, samples), samples, confidence)).split(" to ")
    assert low != high


@pytest.mark.parametrize("most", [1, 3, 7, 99, 223_348, 10**9])
def test_ticks_are_few_whole_and_inside(most: int) -> None:
    marks = ticks(most)
    assert marks[0] == 0
    assert 2 <= len(marks) <= 6
    assert marks[-1] <= most
    assert len({after - before for before, after in pairwise(marks)}) == 1


@pytest.mark.parametrize("last", [(100, 90, 90), (100, 90, 0), (1, 1, 1), (10**9, 10**8, 7)])
def test_names_of_lines_keep_apart_and_inside(last: tuple[int, int, int]) -> None:
    drawn = growth_chart([last])
    heights = [float(y) for y in re.findall(r'class="name \w+" x="\d+" y="([\d.]+)"', drawn)]
    assert len(heights) == 2
    assert heights[1] - heights[0] >= LABEL_ROOM
    assert 0 < heights[0] < heights[1] < HEIGHT
    Page(drawn)


def test_bars_are_in_proportion() -> None:
    assert [float(width) for width in re.findall(r' width="([\d.]+)"', share_bars(0.4, 0.1, 0.8))] == [50, 12.5]
    assert short_number(250_000) == "250,000"
    assert short_number(2_500_000) == "2.5 M"
