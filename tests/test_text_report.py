"""The report of a text audit: its numbers against slow ones, its marks, and its page as a browser would read it."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.report import text_statistics as statistics_module
from evenhand.report.strong_words import has_strong_words
from evenhand.report.text_marks import CONTEXT, GAP, PROTECTED, REPLACED, Part, excerpt, marks
from evenhand.report.text_page import card, value_matrix, write_text_report
from evenhand.report.text_sentences import (
    example_lines,
    limits,
    text_command_line,
    text_headline,
    text_html_table,
    text_rows,
)
from evenhand.report.text_statistics import (
    TextFinding,
    TextFlips,
    ValueFlip,
    choose_examples,
    example_pairs,
    read_text_statistics,
    replaced_words,
)
from tests.test_report import Page

VALUES = ["christian", "muslim", "jewish", "atheist"]
NEAR = {"good": "nice", "music": "song", "the": "an", "heard": "saw", "street": "road"}
UNSAFE = "<b>&\"'</b>"


def of_kind(parts: list[Part], kind: str) -> list[str]:
    return [text for part, text in parts if part == kind]


def joined(parts: list[Part]) -> str:
    return "".join(text for _, text in parts)


def finding(**changes: Any) -> TextFinding:
    """A finding of a music lover; whatever is given is different."""
    plain: dict[str, Any] = {
        "seed_row": 7, "phase": "global", "label": "not toxic", "witness_label": "toxic", "value": "christian",
        "witness_value": "muslim", "score": 0.8, "witness_score": 0.3, "l0": 1, "bleu": 0.9, "similarity": 0.95,
        "clarity": 1.0, "original": "I heard good Christian music.", "text": "I heard nice Christian music.",
        "witness": "I heard nice Muslim music.",
    }  # fmt: skip
    return TextFinding(**(plain | changes))


def made_findings(count: int = 240, seeds: int = 12) -> pd.DataFrame:
    """Findings as a search would leave them, the global ones last, as the audit writes them."""
    rng = np.random.default_rng(0)
    rows = []
    for number in range(count):
        phase = "global" if number >= count - seeds + 2 else "local"  # two seeds have local findings only
        own, other = rng.choice(len(VALUES), size=2, replace=False)
        words = ["I", "heard", "the", "good", VALUES[own], "music", "in", "the", "street", f"number{number}", "."]
        places = [place for place in rng.choice(len(words), size=3, replace=False) if words[place] in NEAR]
        moved = [NEAR[word] if place in places else word for place, word in enumerate(words)]
        witness = [*moved[:4], VALUES[other], *moved[5:]]
        label = int(rng.integers(2))
        rows.append(
            {
                "phase": phase,
                "seed_row": number - count + seeds if phase == "global" else int(rng.integers(seeds)),
                "step": 1,
                "label": ["not toxic", "toxic"][label],
                "witness_label": ["toxic", "not toxic"][label],
                "score": np.float32(rng.uniform(0.5, 1)),
                "witness_score": np.float32(rng.uniform(0, 0.5)),
                "original": " ".join(words),
                "text": " ".join(moved),
                "witness": " ".join(witness),
                "value": VALUES[own],
                "witness_value": VALUES[other],
                "l0": len(places),
                "l2": 1.5,
                "jaccard": 0.9,
                "bleu": float(rng.uniform(0.5, 1)),
                "similarity": np.float32(rng.uniform(0.8, 1)) if phase == "global" else None,
            }
        )
    return pd.DataFrame(rows)


def write_findings(path: Path, frame: pd.DataFrame) -> Path:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for name in ("phase", "label", "witness_label", "value", "witness_value"):
        place = table.column_names.index(name)
        table = table.set_column(place, name, table[name].cast("string").dictionary_encode())
    place = table.column_names.index("similarity")
    table = table.set_column(place, "similarity", table["similarity"].cast(pa.float32()))
    pq.write_table(table, path, row_group_size=50)
    return path


def made_summary(frame: pd.DataFrame) -> dict[str, Any]:
    """The summary that belongs to findings."""
    total = {phase: int((frame["phase"] == phase).sum()) for phase in ("global", "local")} if len(frame) else {}
    found = {"global": total.get("global", 0), "local": total.get("local", 0)}
    generated = {"global": 100, "local": 300, "total": 400}
    means = {
        phase: {
            "findings": count,
            "l0": 1.25 if count else None,
            "l2": 1.5 if count else None,
            "jaccard": 0.9 if count else None,
            "bleu": 0.85 if count else None,
            "similarity": 0.91 if count and phase == "global" else None,
            "similarity_of": count if phase == "global" else 0,
        }
        for phase, count in found.items()
    }
    rate = {"confidence": 0.95, "discriminatory": 3, "samples": 60, "rate": 0.05, "interval": [0.0104, 0.1392]}
    return {
        "evenhand": "0.1",
        "kind": "audit",
        "domain": "text",
        "started": "2026-11-15T19:01:00+00:00",
        "dataset": {
            "name": "small", "title": "Small comments", "rows": 1234, "classes": ["not toxic", "toxic"],
            "favourable": "not toxic", "source": "written for a test", "licence": "CC0", "notes": ["A note."],
        },
        "protected": ["religion"],
        "lexicon": {
            "name": "own", "title": "Own words", "source": "us", "values": VALUES, "swap": "one", "ambiguous": "keep",
        },
        "model": {"name": "net.safetensors", "kind": "lstm", "reads": 200},
        "config": {
            "dataset": "small.csv", "protected": ["religion"], "model": "net.safetensors", "method": "boundary",
            "settings": {"tries": 8}, "seeds": 12, "iterations": 10, "steps": 30, "seed": 0, "device": "auto",
            "max_seconds": None, "max_findings": None, "max_rows": None, "chunk_rows": None, "text": "comment",
            "label": None, "lexicon": "my words.toml", "vectors": "glove", "k": 10, "moves": "tokens",
            "same_part_of_speech": False, "swap": "one", "ambiguous": "keep", "max_changes": None, "local_changes": 2,
            "min_similarity": None, "encoder": "auto",
        },
        "data_rate": {
            "train": rate | {"population": "training texts of small that mention religion", "discriminatory": 9},
            "held_out": rate | {"population": "held-out texts of small that mention religion"},
        },
        "texts": {"mentioning": {"train": 240, "held_out": 60}, "empty": 2},
        "search": {
            "stopped": "completed", "seeds": 12, "seeds_with_findings": 12, "tried": 500, "generated": generated,
            "findings": found | {"total": len(frame)}, "notes": {}, "success_rate": len(frame) / 400,
            "model_rows": 9999,
            "findings_per_second": 10.0, "seconds": {"global": 1.0, "local": 2.0}, "growth": [[250, 200, 100]],
            "ruled_out": 0,
        },
        "validity": means | {"encoder": "use"},
        "examples": [],
        "seconds": {"load": 0.5, "search": 3.0},
        "versions": {"python": "3.11", "torch": "2", "numpy": "2", "device": "cpu"},
        "seed": 0,
    }  # fmt: skip


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return made_findings()


@pytest.fixture
def findings(frame: pd.DataFrame, tmp_path: Path) -> Path:
    return write_findings(tmp_path / "findings.parquet", frame)


def page_of(frame: pd.DataFrame, folder: Path, **changes: Any) -> Page:
    """The page about findings; `changes` replace parts of the summary."""
    summary = made_summary(frame)
    for name, value in changes.items():
        summary[name] = summary[name] | value if isinstance(value, dict) else value
    path = write_text_report(folder / "report.html", summary, write_findings(folder / "findings.parquet", frame))
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    check_page(page, text)
    return page


def check_page(page: Page, text: str) -> None:
    """A page that balances, names its parts, needs no script and reaches for nothing outside itself."""
    assert not {"script", "link", "img", "iframe", "object", "embed", "base", "form"} & set(page.tags)
    assert not page.values("src")
    assert "url(" not in text
    assert "@import" not in text
    assert "http" not in text.replace("http-equiv", "")
    identifiers = page.values("id")
    assert len(identifiers) == len(set(identifiers))
    assert {link.removeprefix("#") for link in page.values("href")} <= set(identifiers)
    assert {name for value in page.values("aria-labelledby") for name in value.split()} <= set(identifiers)
    assert set(page.values("for")) == {name for name in identifiers if name.startswith("reveal-")}
    assert page.tags["h1"] == 1
    assert page.tags["caption"] == page.tags["table"]
    assert not re.search(r"\b(fair|unfair|unbiased)\b", page.text, re.IGNORECASE)


# Marks


def test_marks_tell_protected_from_replaced_words() -> None:
    found = marks(
        "I heard good Christian music.",
        "I saw good Christian song.",
        "I saw good Muslim song.",
        ("christian", "muslim"),
    )
    assert found.text == [
        ("", "I "),
        (REPLACED, "saw"),
        ("", " good "),
        (PROTECTED, "Christian"),
        ("", " "),
        (REPLACED, "song"),
        ("", "."),
    ]
    assert of_kind(found.witness, PROTECTED) == ["Muslim"]
    assert of_kind(found.witness, REPLACED) == ["saw", "song"]
    assert of_kind(found.original, PROTECTED) == ["Christian"]
    assert of_kind(found.original, REPLACED) == ["heard", "music"]
    assert found.changes == [("heard", "saw"), ("music", "song")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("France", "Saudi Arabia"),
        ("Saudi Arabia", "France"),
        ("North Korea", "South Korea"),
        ("Guinea", "Papua New Guinea"),
        ("Guinea-Bissau", "Guinea"),
        ("Bosnia and Herzegovina", "Chad"),
    ],
)
def test_terms_of_several_words_are_marked_whole(one: str, other: str) -> None:
    text = "He left {} for a good old friend, {} said."
    found = marks(text.format(one, "they"), text.format(one, "we"), text.format(other, "we"), (one, other))
    assert of_kind(found.text, PROTECTED) == of_kind(found.original, PROTECTED) == [one]
    assert of_kind(found.witness, PROTECTED) == [other]
    assert of_kind(found.text, REPLACED) == of_kind(found.witness, REPLACED) == ["we"]
    assert found.changes == [("they", "we")]


def test_a_text_that_grows_by_a_word_without_the_values_name_has_a_mark_all_the_same() -> None:
    found = marks("A Guinean.", "A Guinean.", "A Papua New Guinean.", ("Guinea", "Papua New Guinea"))
    assert of_kind(found.text, PROTECTED) == ["Guinean"]
    assert of_kind(found.witness, PROTECTED) == ["Papua New"]


def test_a_protected_word_that_the_search_exchanged_is_no_replaced_word() -> None:
    found = marks("A jewish town.", "A muslim city.", "A christian city.", ("muslim", "christian"))
    assert of_kind(found.original, PROTECTED) == ["jewish"]
    assert found.changes == [("town", "city")]


@given(st.lists(st.sampled_from([*NEAR, "muslim", "Red", "?", "don't"]), min_size=1, max_size=12), st.data())
def test_parts_join_back_and_changes_are_what_was_changed(words: list[str], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(words)))
    moved = data.draw(st.sets(st.sampled_from([p for p, word in enumerate(words) if word in NEAR] or [-1])))
    after = [NEAR[word] if number in moved else word for number, word in enumerate(words)]
    term = data.draw(st.sampled_from(["hindu", "saudi arabia"]))
    texts = [
        " ".join([*rest[:place], name, *rest[place:]])
        for rest, name in ((words, "sikh"), (after, "sikh"), (after, term))
    ]
    found = marks(texts[0], texts[1], texts[2], ("sikh", term))
    assert [joined(parts) for parts in (found.original, found.text, found.witness)] == texts
    assert of_kind(found.text, PROTECTED) == of_kind(found.original, PROTECTED) == ["sikh"]
    assert of_kind(found.witness, PROTECTED) == [term]
    assert found.changes == [(words[number], NEAR[words[number]]) for number in sorted(moved - {-1})]
    assert of_kind(found.witness, REPLACED) == of_kind(found.text, REPLACED) == [after for _, after in found.changes]


def test_excerpts_keep_the_marks_and_say_what_is_missing() -> None:
    filler = "one two three four five six seven eight nine ten " * 40  # 400 words
    parts = [("", filler), (PROTECTED, "sikh"), ("", f" {filler}"), (REPLACED, "road"), ("", " end.")]
    short = excerpt(parts)
    assert [part for part in short if part[0] in (PROTECTED, REPLACED)] == [parts[1], parts[3]]
    assert len(joined(short)) < 4 * CONTEXT
    missing = sum(int(text[1:].split()[0]) for text in of_kind(short, GAP))
    shown = sum(len(text.split()) for kind, text in short if kind != GAP)
    assert missing + shown == sum(len(text.split()) for _, text in parts)
    assert excerpt(parts[1:2] + parts[4:]) == parts[1:2] + parts[4:]


def test_excerpts_of_one_endless_word_are_short_too() -> None:
    short = excerpt([("", "a" * 9000), (PROTECTED, "sikh"), ("", "b" * 9000)])
    assert len(joined(short)) < 3 * CONTEXT
    assert of_kind(short, GAP) == ["[1 word]", "[1 word]"]


# Strong words


@pytest.mark.parametrize(
    "text", ["You STUPID man", "fuuuuuck", "sh1t happens", "what the f**k", "idiots!", "kill them"]
)
def test_strong_words_are_seen_in_their_disguises(text: str) -> None:
    assert has_strong_words(text)


@pytest.mark.parametrize(
    "text", ["a classic assessment", "gay Muslims", "the year 1455", "skilled", "2 * 3 * x", "spicy grapes", ""]
)
def test_other_words_are_not_strong(text: str) -> None:
    assert not has_strong_words(text)


# Statistics


@pytest.mark.parametrize("batch_rows", [7, 65_536])
def test_flips_equal_slow_ones(
    findings: Path, frame: pd.DataFrame, batch_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics_module, "BATCH_ROWS", batch_rows)
    expected: Counter[tuple[str, str]] = Counter()
    for row in frame.to_dict("records"):
        pair = (row["value"], row["witness_value"])
        expected[pair if row["label"] == "not toxic" else pair[::-1]] += 1
    statistics = read_text_statistics(findings, "not toxic")
    assert {(flip.favoured, flip.disfavoured): flip.findings for flip in statistics.flips.pairs} == expected
    assert [flip.findings for flip in statistics.flips.pairs] == sorted(expected.values(), reverse=True)
    assert statistics.findings == statistics.flips.total == len(frame)
    for count in statistics.flips.values:
        assert count.got == sum(number for (value, _), number in expected.items() if value == count.value)
        assert count.did_not == sum(number for (_, value), number in expected.items() if value == count.value)


@pytest.mark.parametrize("batch_rows", [7, 65_536])
def test_clearest_has_one_finding_of_each_seed(
    findings: Path, frame: pd.DataFrame, batch_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics_module, "BATCH_ROWS", batch_rows)
    monkeypatch.setattr(statistics_module, "TEXT_ROWS", 9)
    closeness = frame["similarity"].astype("float64").fillna(frame["bleu"])
    gap = (frame["score"].astype("float64") - frame["witness_score"].astype("float64")).abs()
    slow = frame.assign(clarity=gap + closeness - statistics_module.CHANGE_COST * frame["l0"])
    slow = slow.sort_values(["phase", "clarity"], ascending=[True, False]).drop_duplicates("seed_row")
    clearest = read_text_statistics(findings, "not toxic").clearest
    assert [found.seed_row for found in clearest] == slow["seed_row"].tolist()
    assert sorted(Counter(found.phase for found in clearest).items()) == [("global", 10), ("local", 2)]
    for column in ("phase", "text", "witness", "original", "value", "label", "l0"):
        assert [getattr(found, column) for found in clearest] == slow[column].tolist()
    assert [found.clarity for found in clearest] == pytest.approx(slow["clarity"].tolist())
    assert [found.similarity is None for found in clearest] == slow["similarity"].isna().tolist()


def test_few_texts_are_read_where_there_are_many_seeds(findings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    all_of_them = read_text_statistics(findings, "toxic").clearest
    monkeypatch.setattr(statistics_module, "MOST_TEXTS", 3)
    assert read_text_statistics(findings, "toxic").clearest == all_of_them[:3]


def test_examples_take_values_in_turn_and_strong_words_last() -> None:
    clear = [finding(seed_row=row, clarity=1.0 - row / 1000) for row in range(3)]
    other = finding(seed_row=3, clarity=0.9, value="jewish", witness_value="atheist")
    strong = finding(seed_row=4, clarity=1.2, text="I heard stupid Christian music.")
    local = finding(seed_row=5, clarity=2.0, phase="local")
    chosen = choose_examples([strong, *clear, other, local], 6)
    assert [found.seed_row for found in chosen] == [0, 3, 1, 2, 4, 5]


def test_replaced_words_are_counted_whatever_their_case() -> None:
    found = [
        finding(),
        finding(original="Good Christian music.", text="Nice Christian music.", witness="Nice Muslim music."),
        finding(original="Good Christian music.", text="Great Christian song.", witness="Great Muslim song."),
    ]
    good, music = replaced_words(found, 5)
    assert (good.word, good.findings, good.by) == ("good", 3, [("nice", 2), ("great", 1)])
    assert (music.word, music.findings, music.by) == ("music", 1, [("song", 1)])
    assert [word.word for word in replaced_words(found, 1)] == ["good"]


def test_example_pairs_are_what_a_summary_holds(findings: Path, frame: pd.DataFrame) -> None:
    summary = made_summary(frame)
    examples = example_pairs(summary, findings, 5)
    assert len({example["seed_row"] for example in examples}) == 5
    for example in examples:
        row = frame[(frame["text"] == example["text"]) & (frame["seed_row"] == example["seed_row"])].iloc[0]
        assert example["values"] == [row["value"], row["witness_value"]]
        assert example["labels"] == [row["label"], row["witness_label"]]
        score = float(row["score"]) if row["label"] == "toxic" else 1 - float(row["score"])
        assert example["score_of"] == "toxic"
        assert example["scores"][0] == pytest.approx(score)
        assert len(example["changes"]) == example["l0"] == row["l0"]


# The page


def test_page_says_what_was_found(frame: pd.DataFrame, tmp_path: Path) -> None:
    text = page_of(frame, tmp_path).text
    for words in (
        "240 findings when words of religion are exchanged: Small comments",
        "Of held-out texts of small that mention religion, 3 of 60 get another label as they are "
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


def test_card_puts_the_favoured_member_first_and_scores_one_class() -> None:
    summary = made_summary(made_findings(10, 4))
    shown = card(finding(), summary)
    assert [(side.value, side.label, side.got) for side in shown.sides] == [
        ("christian", "not toxic", True),
        ("muslim", "toxic", False),
    ]
    assert [side.score for side in shown.sides] == pytest.approx([0.2, 0.7])
    assert shown.score_of == "toxic"
    turned = card(finding(label="toxic", witness_label="not toxic"), summary)
    assert [(side.value, side.role) for side in turned.sides] == [("muslim", "witness"), ("christian", "text")]
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
    path = write_text_report(
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


def test_three_classes_leave_pairs_without_a_direction(tmp_path: Path) -> None:
    frame = made_findings(40, 5)
    frame.loc[frame.index[:15], ["label", "witness_label"]] = ["spam", "toxic"]
    statistics = read_text_statistics(write_findings(tmp_path / "f.parquet", frame), "not toxic")
    assert statistics.flips.neither == 15
    page = page_of(frame, tmp_path, dataset={"classes": ["not toxic", "spam", "toxic"]})
    assert "In 15 further findings neither member got" in page.text


def test_matrix_totals_are_the_findings(findings: Path, frame: pd.DataFrame) -> None:
    matrix = value_matrix(read_text_statistics(findings, "not toxic").flips, VALUES)
    assert matrix is not None
    assert matrix.total == sum(matrix.column_totals) == len(frame)
    assert all(row[place] == 0 for place, row in enumerate(matrix.cells))


def test_many_values_make_lists_and_few_of_many_a_matrix(frame: pd.DataFrame, tmp_path: Path) -> None:
    many = [f"country {number}" for number in range(160)]
    few = TextFlips([ValueFlip(many[3], many[150], 7)], 0)
    matrix = value_matrix(few, many)
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
    pages = [
        write_text_report(tmp_path / name, made_summary(frame), findings).read_bytes() for name in ("a.html", "b.html")
    ]
    assert pages[0] == pages[1]


# Sentences


def test_headline_has_population_interval_and_budget(frame: pd.DataFrame) -> None:
    summary = made_summary(frame)
    assert text_headline(summary) == (
        "small, exchanging words of religion: 240 findings among 400 generated texts (60.0%), from 12 of 12 seeds. "
        "Of held-out texts of small that mention religion, 3 of 60 get another label as they are "
        "(5.00%; 95% interval 1.04% to 13.92%)."
    )
    assert "as they are" not in text_headline(summary | {"data_rate": {}})


def test_rows_tell_the_same(frame: pd.DataFrame) -> None:
    summary = made_summary(frame)
    rows = dict(text_rows(summary))
    assert rows["findings"] == "240 unique (10 global, 230 local)"
    assert rows["validity, global"] == "1.25 words replaced, BLEU 0.850, similarity 0.910 (of 10) on average"
    assert rows["validity, local"] == "1.25 words replaced, BLEU 0.850 on average"
    summary["search"]["ruled_out"] = 5
    assert dict(text_rows(summary))["findings"].endswith("; 5 less similar ones left out")
    summary["dataset"]["title"] = UNSAFE
    assert Page(text_html_table(summary)).tags["b"] == 0


def test_example_lines_show_both_members_and_the_changes() -> None:
    example = {
        "original": "I heard\ngood Christian music.", "text": "I heard\nnice Christian music.", "score_of": "toxic",
        "witness": "I heard\nnice Muslim music.", "values": ["christian", "muslim"], "scores": [0.2, 0.7],
        "labels": ["not toxic", "toxic"], "changes": [["good", "nice"]],
    }  # fmt: skip
    assert example_lines(example) == [
        "christian: not toxic (score for ‘toxic’ 20.0%): I heard nice [Christian] music.",
        "muslim: toxic (score for ‘toxic’ 70.0%): I heard nice [Muslim] music.",
        "replaced: good → nice",
    ]
    assert example_lines(example | {"changes": []})[-1].startswith("nothing replaced")


def test_limits_follow_the_settings(frame: pd.DataFrame) -> None:
    summary = made_summary(frame)
    text = " ".join(limits(summary))
    assert "“a” and “an”" in text
    assert "in whatever meaning" in text
    assert "one of the 10 nearest" in text
    assert "One mention is exchanged at a time" in text
    summary["lexicon"] |= {"swap": "all", "ambiguous": "exclude"}
    summary["validity"]["global"]["similarity"] = None
    changed = " ".join(limits(summary))
    assert "One mention is exchanged at a time" not in changed
    assert "errs in both directions" in changed
    assert "Semantic similarity was not measured" in changed


def test_command_line_has_what_differs_from_the_defaults(frame: pd.DataFrame) -> None:
    summary = made_summary(frame)
    assert text_command_line(summary) == (
        "evenhand audit small.csv --protected religion --seeds 12 --steps 30 --seed 0 --model net.safetensors "
        "--text comment --lexicon 'my words.toml' --set tries=8"
    )
    summary["config"] |= {"same_part_of_speech": True, "min_similarity": 0.9, "swap": "all", "seed": 3}
    assert text_command_line(summary) == (
        "evenhand audit small.csv --protected religion --seeds 12 --steps 30 --seed 3 --model net.safetensors "
        "--text comment --lexicon 'my words.toml' --same-part-of-speech --swap all --min-similarity 0.9 --set tries=8"
    )
