"""Marks, strong words and numbers of a text audit's report, against slow ones."""

from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.report import text_statistics as statistics_module
from evenhand.report.pairs import example_pairs
from evenhand.report.text_marks import CONTEXT, GAP, PROTECTED, REPLACED, excerpt, has_strong_words, marks
from evenhand.report.text_statistics import (
    choose_examples,
    read_text_statistics,
    replaced_words,
)
from tests.worlds.text_report import (
    NEAR,
    finding,
    joined,
    made_findings,
    made_summary,
    of_kind,
    write_findings,
)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return made_findings()


@pytest.fixture
def findings(frame: pd.DataFrame, tmp_path: Path) -> Path:
    return write_findings(tmp_path / "findings.parquet", frame)


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


CLASSES = ["not toxic", "toxic"]


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
    statistics = read_text_statistics(findings, CLASSES, "not toxic")
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
    clearest = read_text_statistics(findings, CLASSES, "not toxic").clearest
    assert [found.seed_row for found in clearest] == slow["seed_row"].tolist()
    assert sorted(Counter(found.phase for found in clearest).items()) == [("global", 10), ("local", 2)]
    for column in ("phase", "text", "witness", "original", "value", "label", "l0"):
        assert [getattr(found, column) for found in clearest] == slow[column].tolist()
    assert [found.clarity for found in clearest] == pytest.approx(slow["clarity"].tolist())
    assert [found.similarity is None for found in clearest] == slow["similarity"].isna().tolist()


def test_few_texts_are_read_where_there_are_many_seeds(findings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    all_of_them = read_text_statistics(findings, CLASSES, "toxic").clearest
    monkeypatch.setattr(statistics_module, "MOST_TEXTS", 3)
    assert read_text_statistics(findings, CLASSES, "toxic").clearest == all_of_them[:3]


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
