"""The report of a text audit: its page as a browser would read it, and its sentences."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evenhand.report.flips import Flip, Flips, flip_matrix
from evenhand.report.limits import text_limits
from evenhand.report.notebook import audit_html
from evenhand.report.page import MOST_MATRIX_VALUES, write_report
from evenhand.report.pairs import PairCard, card_of, text_example
from evenhand.report.sentences import example_lines, headline, rows_of
from evenhand.report.text_statistics import TextFinding, read_text_statistics
from tests.report.test_report import Page
from tests.worlds.text_report import (
    UNSAFE,
    VALUES,
    finding,
    made_findings,
    made_summary,
    page_of,
    write_findings,
)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return made_findings()


@pytest.fixture
def findings(frame: pd.DataFrame, tmp_path: Path) -> Path:
    return write_findings(tmp_path / "findings.parquet", frame)


# The page


def test_page_says_what_was_found(frame: pd.DataFrame, tmp_path: Path) -> None:
    text = page_of(frame, tmp_path).text
    for words in (
        "240 findings when words of religion are exchanged: Small comments",
        "Of held-out texts of small that mention religion, 3 of 60 get another decision as they are "
        "(5.00%; 95% interval 1.04% to 13.92%).",
        "12 seeds × 10 global iterations, then 30 local steps from each finding; the whole budget was used",
        "240 training texts and 60 held-out texts mention religion",
        "the global phase 10, the local phase 230",
        "CC0",
        "my words.toml",
        "9,999 model rows",
        "Semantic similarity was measured on 10 of 10 findings of the global phase.",
    ):
        assert words in text


def test_cards_mark_and_blur_just_what_they_should(frame: pd.DataFrame, tmp_path: Path) -> None:
    plain = page_of(frame, tmp_path)
    cards = plain.values("class").count("card")
    assert cards == 12
    assert not [name for name in plain.values("id") if name.startswith("reveal-")]
    rude = frame.copy()
    for column in ("original", "text", "witness"):
        rude.loc[rude["seed_row"] == 2, column] = "stupid " + rude[column]
    page = page_of(rude, tmp_path)
    assert page.values("class").count("card strong") == 1
    assert page.values("class").count("card") == cards - 1
    assert len([name for name in page.values("id") if name.startswith("reveal-")]) == 2  # the card's, and all
    assert "reveal-all" in page.values("id")


class Nested(Page):
    """Also keeps what each tag stands in, and after which of its siblings' classes."""

    def __init__(self, text: str) -> None:
        self.children: list[list[dict[str, str | None]]] = [[]]
        self.found: list[tuple[str, dict[str, str | None], list[dict[str, str | None]]]] = []
        super().__init__(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), list(self.children[-1])))
        self.children[-1].append(dict(attrs))
        before = len(self.open)
        super().handle_starttag(tag, attrs)
        if len(self.open) > before:
            self.children.append([])

    def handle_endtag(self, tag: str) -> None:
        super().handle_endtag(tag)
        self.children.pop()


def test_boxes_stand_where_the_style_needs_them(tmp_path: Path) -> None:
    """Without scripts a box can show only what comes after it beside it."""
    frame = made_findings(30, 4)
    for column, word in (("original", "idiot"), ("text", "stupid"), ("witness", "stupid")):
        frame[column] = f"{word} " + frame[column]
    page_of(frame, tmp_path)
    page = Nested((tmp_path / "report.html").read_text(encoding="utf-8"))
    main = next(before for tag, _, before in page.found if tag == "main")
    assert "reveal-all" in [box.get("id") for box in main]
    covered = [before for _, attributes, before in page.found if "covered" in (attributes.get("class") or "").split()]
    assert len(covered) == page.values("class").count("card strong") + 1  # the table of words
    for before in covered:
        assert [box.get("type") for box in before if box.get("class") == "reveal"] == ["checkbox"]


def test_a_replaced_strong_word_is_blurred_in_the_table_too(tmp_path: Path) -> None:
    frame = made_findings(30, 4)
    for column, word in (("original", "idiot"), ("text", "fool"), ("witness", "fool")):
        frame[column] = f"{word} " + frame[column]
    page = page_of(frame, tmp_path)
    assert "reveal-words" in page.values("id")
    assert ("span", "class", "quote") in page.attributes


def shown_card(found: TextFinding, summary: dict[str, Any]) -> PairCard:
    return card_of(text_example(found, summary), "not toxic")


def test_card_puts_the_favoured_member_first_and_scores_one_class() -> None:
    summary = made_summary(made_findings(10, 4))
    shown = shown_card(finding(), summary)
    assert [(side.protected[0][0], side.label, side.got) for side in shown.sides] == [
        ("christian", "not toxic", True),
        ("muslim", "toxic", False),
    ]
    assert [side.score for side in shown.sides] == pytest.approx([0.2, 0.7])
    assert shown.score_of == "toxic"
    turned = shown_card(finding(label="toxic", witness_label="not toxic"), summary)
    assert [(side.protected[0][0], side.role) for side in turned.sides] == [
        ("muslim", "witness"),
        ("christian", "text"),
    ]
    assert [side.score for side in turned.sides] == pytest.approx([0.3, 0.8])


def test_words_from_texts_and_summaries_are_escaped(tmp_path: Path) -> None:
    frame = made_findings(20, 3)
    for column in ("original", "text", "witness"):
        frame[column] = f"{UNSAFE} " + frame[column]
    for column in ("value", "witness_value"):
        frame[column] = frame[column] + UNSAFE
    names = {"name": UNSAFE, "title": UNSAFE, "source": UNSAFE}
    page = page_of(
        frame,
        tmp_path,
        dataset={**names, "classes": ["not toxic", "toxic"], "notes": [UNSAFE], "licence": UNSAFE},
        lexicon={**names, "values": [f"{value}{UNSAFE}" for value in VALUES]},
        model={"name": UNSAFE, "kind": UNSAFE},
        protected=[UNSAFE],
    )
    assert page.tags["b"] == 0
    assert UNSAFE in page.text


def test_no_findings_make_a_page(frame: pd.DataFrame, tmp_path: Path) -> None:
    none = frame.iloc[:0].astype({"similarity": "float32", "seed_row": "int64", "l0": "int64"})
    page = page_of(none, tmp_path)
    assert "No findings when words of religion are exchanged" in page.text
    assert "Within this budget there are no findings" in page.text
    assert not {"flips", "words", "validity", "examples"} & set(page.values("id"))


def test_a_search_that_was_stopped_at_once_makes_a_page(frame: pd.DataFrame, tmp_path: Path) -> None:
    none = frame.iloc[:0].astype({"similarity": "float32", "seed_row": "int64", "l0": "int64"})
    nothing = {"global": 0, "local": 0, "total": 0}
    search = {"tried": 0, "generated": nothing, "growth": [], "stopped": "interrupted", "seeds_with_findings": 0}
    summary = made_summary(none)
    path = write_report(
        tmp_path / "r.html",
        summary | {"search": summary["search"] | search, "data_rate": {}},
        write_findings(tmp_path / "f.parquet", none),
    )
    text = Page(path.read_text(encoding="utf-8")).text
    assert "ended before it tried a text" in text
    assert "No text was checked" in text


def test_findings_left_out_for_their_similarity_are_told(frame: pd.DataFrame, tmp_path: Path) -> None:
    found = {"global": 10, "local": 330, "total": 340}
    changes = {"search": {"ruled_out": 100, "findings": found}, "config": {"min_similarity": 0.9}}
    page = page_of(frame, tmp_path, **changes)
    assert "100 findings less similar to the original than 0.9" in page.text
    assert "240 findings when" in page.text
    assert "60.0%" in page.text  # 240 of 400, not 340


def test_without_a_favourable_label_none_is_claimed(frame: pd.DataFrame, tmp_path: Path) -> None:
    page = page_of(frame, tmp_path, dataset={"favourable": None})
    assert "favourable" not in page.text
    assert "one member got ‘toxic’ and the other did not" in page.text


def test_three_classes_are_told_by_pairs_of_decisions(tmp_path: Path) -> None:
    frame = made_findings(40, 5)
    frame.loc[frame.index[:15], ["label", "witness_label"]] = ["spam", "toxic"]
    classes = ["not toxic", "spam", "toxic"]
    statistics = read_text_statistics(write_findings(tmp_path / "f.parquet", frame), classes, "not toxic")
    assert statistics.flips.neither == 15
    assert {(of.label, of.instead_of): of.findings for of in statistics.flips.by_labels} == {
        ("not toxic", "toxic"): 25,
        ("toxic", "spam"): 15,
    }
    page = page_of(frame, tmp_path, dataset={"classes": classes})
    assert "‘toxic’ instead of ‘spam’ (15 findings): most often" in page.text
    assert "‘not toxic’ instead of ‘toxic’ (25 findings): most often" in page.text


def test_matrix_totals_are_the_findings(findings: Path, frame: pd.DataFrame) -> None:
    matrix = flip_matrix(
        read_text_statistics(findings, ["not toxic", "toxic"], "not toxic").flips, VALUES, MOST_MATRIX_VALUES
    )
    assert matrix is not None
    assert matrix.total == sum(matrix.column_totals) == len(frame)
    assert all(row[place] == 0 for place, row in enumerate(matrix.cells))


def test_many_values_make_lists_and_few_of_many_a_matrix(frame: pd.DataFrame, tmp_path: Path) -> None:
    many = [f"country {number}" for number in range(160)]
    few = Flips([Flip(many[3], many[150], 7)], 0)
    matrix = flip_matrix(few, many, MOST_MATRIX_VALUES)
    assert matrix is not None
    assert matrix.names == [many[3], many[150]]
    assert matrix.cells == [[0, 7], [0, 0]]
    spread = frame.copy()
    spread["value"] = [many[number % 80] for number in range(len(frame))]
    spread["witness_value"] = [many[80 + number % 80] for number in range(len(frame))]
    page = page_of(spread, tmp_path, lexicon={"values": many})
    assert "matrix narrow" not in page.values("class")
    assert re.search(r"The 20 most frequent of \d+ pairs", page.text)
    assert "The 20 values that most often went without ‘not toxic’" in page.text


def test_same_findings_give_the_same_page(findings: Path, frame: pd.DataFrame, tmp_path: Path) -> None:
    pages = [write_report(tmp_path / name, made_summary(frame), findings).read_bytes() for name in ("a.html", "b.html")]
    assert pages[0] == pages[1]


# Sentences


def test_headline_has_population_interval_and_budget(frame: pd.DataFrame) -> None:
    summary = made_summary(frame)
    assert headline(summary) == (
        "small, exchanging words of religion: 240 findings among 400 generated texts (60.0%), from 12 of 12 seeds. "
        "Of held-out texts of small that mention religion, 3 of 60 get another decision as they are "
        "(5.00%; 95% interval 1.04% to 13.92%)."
    )
    assert "as they are" not in headline(summary | {"data_rate": {}})


def test_rows_tell_the_same(frame: pd.DataFrame) -> None:
    summary = made_summary(frame)
    rows = dict(rows_of(summary))
    assert rows["findings"] == "240 unique (10 global, 230 local)"
    assert rows["validity, global"] == "1.25 words replaced, BLEU 0.850, similarity 0.910 (of 10) on average"
    assert rows["validity, local"] == "1.25 words replaced, BLEU 0.850 on average"
    summary["search"]["ruled_out"] = 5
    assert dict(rows_of(summary))["findings"].endswith("; 5 less similar ones left out")
    summary["dataset"]["title"] = UNSAFE
    assert Page(audit_html(summary)).tags["b"] == 0


def test_example_lines_show_both_members_and_the_changes() -> None:
    example = {
        "original": "I heard\ngood Christian music.", "text": "I heard\nnice Christian music.", "score_of": "toxic",
        "witness": "I heard\nnice Muslim music.", "values": ["christian", "muslim"], "scores": [0.2, 0.7],
        "labels": ["not toxic", "toxic"], "changes": [["good", "nice"]],
    }  # fmt: skip
    assert example_lines(example) == [
        "Two texts",
        "christian: not toxic (score for ‘toxic’ 20.0%): I heard nice [Christian] music.",
        "muslim: toxic (score for ‘toxic’ 70.0%): I heard nice [Muslim] music.",
        "replaced: good → nice",
    ]
    assert example_lines(example | {"changes": []})[-1].startswith("nothing replaced")


def test_limits_follow_the_settings(frame: pd.DataFrame) -> None:
    summary = made_summary(frame)
    text = " ".join(text_limits(summary))
    assert "“a” and “an”" in text
    assert "in whatever meaning" in text
    assert "one of the 10 nearest" in text
    assert "One mention is exchanged at a time" in text
    summary["lexicon"] |= {"swap": "all", "ambiguous": "exclude"}
    summary["validity"]["global"]["similarity"] = None
    changed = " ".join(text_limits(summary))
    assert "One mention is exchanged at a time" not in changed
    assert "errs in both directions" in changed
    assert "Semantic similarity was not measured" in changed
