"""Texts and labels from files: what is read, and what is said about files that cannot be."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenhand.errors import EvenhandError
from evenhand.text import CORPORA, corpus
from evenhand.text.corpus import BUILTIN, Corpus, held_out, load_corpus
from tests.worlds.text import small_corpus

ROWS = [('Hello,\nyou "there"', "0"), ("so-so", "1"), ("", "1"), ("Čau!", "0"), ("  ", "0"), ("NA", "1")]


def write(path: Path, rows: list[tuple[Any, Any]], names: tuple[str, str] = ("text", "label")) -> Path:
    """The rows as a file of the kind that the name says."""
    texts, labels = map(list, zip(*rows, strict=True)) if rows else ([], [])
    if path.suffix == ".parquet":
        pq.write_table(pa.table({names[0]: texts, names[1]: labels}), path)
    elif path.suffix in (".jsonl", ".ndjson"):
        lines = [json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in rows]
        path.write_text("\n".join(lines), encoding="utf-8")
    else:
        quoted = [",".join('"' + str(value).replace('"', '""') + '"' for value in row) for row in [names, *rows]]
        path.write_text("\n".join(quoted) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl", ".ndjson"])
def test_every_kind_of_file_gives_the_same_corpus(suffix: str, tmp_path: Path) -> None:
    loaded = load_corpus(write(tmp_path / f"mine{suffix}", ROWS, ("comment", "toxic")), "comment", "toxic")
    assert loaded.name == "mine"
    assert loaded.texts.to_pylist() == [text for text, _ in ROWS]
    assert loaded.text(3) == "Čau!"
    assert loaded.labels.tolist() == [0, 1, 1, 0, 0, 1]
    assert loaded.classes == ["0", "1"]
    assert loaded.favourable is None
    assert len(loaded) == 6
    assert loaded.empty == 2
    assert loaded.train.tolist() == (~held_out(6)).tolist()


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([1, 0], ["0", "1"]),
        ([1.0, 0.0], ["0", "1"]),
        ([1, -1], ["-1", "1"]),
        ([10, 9], ["9", "10"]),
        ([True, False], ["false", "true"]),
        (["toxic", "not toxic"], ["not toxic", "toxic"]),
        (["yes ", "no"], ["no", "yes"]),
    ],
)
@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_labels_are_named_as_people_write_them(
    labels: list[Any], classes: list[str], suffix: str, tmp_path: Path
) -> None:
    loaded = load_corpus(write(tmp_path / f"mine{suffix}", [("a", labels[0]), ("b", labels[1]), ("c", labels[0])]))
    assert loaded.classes == classes
    assert loaded.labels.tolist() == [1, 0, 1]


def test_a_split_column_and_a_favourable_label(tmp_path: Path) -> None:
    path = tmp_path / "mine.tsv"
    path.write_text("label\tpart\ttext\nno\ttrain\tone\nyes\tTest\ttwo\nno\ttest\tthree\n")
    loaded = load_corpus(path, split="part", favourable="no")
    assert loaded.train.tolist() == [True, False, False]
    assert loaded.favourable == "no"
    with pytest.raises(EvenhandError, match=r"'maybe' is not a label of .* Its labels: no, yes"):
        load_corpus(path, split="part", favourable="maybe")


def test_a_dictionary_column_and_a_separator(tmp_path: Path) -> None:
    table = pa.table({"text": pa.array(["x", None, "x"]).dictionary_encode(), "label": pa.array(["b", "a", "b"])})
    pq.write_table(table.set_column(1, "label", table["label"].dictionary_encode()), tmp_path / "mine.parquet")
    loaded = load_corpus(tmp_path / "mine.parquet")
    assert (loaded.texts.to_pylist(), loaded.labels.tolist()) == (["x", "", "x"], [1, 0, 1])
    (tmp_path / "mine.csv").write_text("\ufefftext;label\na,b;0\nc;1\n", encoding="utf-8")
    assert load_corpus(tmp_path / "mine.csv", separator=";").texts.to_pylist() == ["a,b", "c"]


def splitmix(number: int) -> int:
    """The hash in whole numbers of any size, as its authors wrote it down."""
    whole = 2**64 - 1
    x = (number + 1) * 0x9E3779B97F4A7C15 & whole
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & whole
    x = (x ^ x >> 27) * 0x94D049BB133111EB & whole
    return x ^ x >> 31


@pytest.mark.parametrize("rows", [1, 2, 7, 1000])
def test_the_fifth_with_the_lowest_hashes_is_held_out(rows: int) -> None:
    expected = sorted(range(rows), key=splitmix)[: max(1, round(rows / 5))]
    assert np.flatnonzero(held_out(rows)).tolist() == sorted(expected)


BAD = {
    "no header.csv": (b"", "is empty"),
    "no rows.csv": (b"text,label\n", "has no rows"),
    "no rows.jsonl": (b"\n\n", "has no rows"),
    "no column.csv": (b"comment,label\na,0\n", "has no column 'text'. It has: comment, label"),
    "no column.jsonl": (b'{"comment": "a", "label": 0}\n', "has no column 'text'. It has: comment, label"),
    "two columns.csv": (b"text,label,text\na,0,b\n", "several columns called 'text'"),
    "ragged.csv": (b"text,label\na,0\nb,1,2\n", "Row #3: Expected 2 columns, got 3"),
    "latin.csv": (b"text,label\na,0\ncaf\xe9,1\n", "not UTF-8: line 3 holds the byte 0xe9 at offset 18"),
    "latin header.csv": (b"text,label,caf\xe9\na,0,b\n", "not UTF-8: line 1 holds the byte 0xe9 at offset 14"),
    "latin.jsonl": (
        b'{"text": "a", "label": 0}\n{"text": "\xe9"}\n',
        "not UTF-8: line 2 holds the byte 0xe9 at offset 36",
    ),
    "wide.csv": ("text,label\na,0\n".encode("utf-16"), "not UTF-8: line 1 holds the byte 0xff at offset 0"),
    "broken.jsonl": (b'{"text": "a", "label": 0}\n\n{"text": "b", label: 1}\n', "line 3: not valid JSON"),
    "list.jsonl": (b'["a", 0]\n', "line 1: not a JSON object"),
    "number.jsonl": (
        b'{"text": "a", "label": 0}\n{"text": 7, "label": 1}\n',
        "row 2, column 'text': expected text, not 7",
    ),
    "nested.jsonl": (b'{"text": "a", "label": [0]}\n', "row 1, column 'label': expected a plain value"),
    "one class.csv": (b"text,label\na,1\nb,1.0\n", "column 'label': every label is '1'"),
    "three classes.csv": (b"text,label\na,x\nb,y\nc,z\n", r"3 different labels \(x, y, z\)"),
    "shares.csv": (b"text,label\na,0\nb,0.83\nc,1\n", "the label 0.83 is a share between 0 and 1. Round"),
    "two shares.csv": (b"text,label\na,0.2\nb,0.83\n", "the label 0.2 is a share"),
    "no label.csv": (b"text,label\na,0\nb,\nc,1\n", "row 2, column 'label': the value is missing"),
    "no label.jsonl": (b'{"text": "a", "label": 0}\n{"text": "b", "label": NaN}\n', "row 2, column 'label'"),
    "not parquet.parquet": (b"text,label\n", "Cannot read the corpus"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_an_error_that_says_where(name: str, tmp_path: Path) -> None:
    content, message = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(EvenhandError, match=message) as caught:
        load_corpus(tmp_path / name)
    assert name in str(caught.value)


def test_bad_columns_of_parquet(tmp_path: Path) -> None:
    path = tmp_path / "mine.parquet"
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"fine", b"caf\xe9"]).buffers())
    pq.write_table(pa.table({"text": broken, "label": [0, 1], "n": [1, 2], "list": [[1], [2]]}), path)
    with pytest.raises(EvenhandError, match="row 2, column 'text': the text is not UTF-8"):
        load_corpus(path)
    with pytest.raises(EvenhandError, match="column 'n': it holds int64 and not text"):
        load_corpus(path, text="n")
    with pytest.raises(EvenhandError, match=r"column 'list': it holds .* and not plain values"):
        load_corpus(path, label="list")


def test_bad_splits(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("text,label,part,other\na,0,train,train\nb,1,train,dev\n")
    with pytest.raises(EvenhandError, match="column 'part': every row is 'train'"):
        load_corpus(path, split="part")
    with pytest.raises(EvenhandError, match="row 2, column 'other': 'dev' is neither train nor test"):
        load_corpus(path, split="other")
    with pytest.raises(EvenhandError, match="must differ"):
        load_corpus(path, split="label")
    with pytest.raises(EvenhandError, match="one ASCII character"):
        load_corpus(path, separator="||")


def test_names_that_are_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(EvenhandError, match="does not exist"):
        load_corpus(tmp_path / "absent.csv")
    with pytest.raises(EvenhandError, match="Did you mean 'wiki'"):
        load_corpus("wikki")
    with pytest.raises(EvenhandError, match="built in"):
        load_corpus("wiki", text="comment")


# ---- built-in corpora, from stand-ins for their downloads ----

COMMENTS = """rev_id\tcomment\tyear\tlogged_in\tns\tsample\tsplit
9.0\tlastNEWLINE_TOKENline\t2002\tTrue\tarticle\trandom\ttest
2.0\t"`one ""two"" TAB_TOKENthree"\t2002\tTrue\tarticle\trandom\ttrain
5.0\tit's fine\t2002\tTrue\tarticle\trandom\tdev
"""
ANNOTATIONS = "rev_id\tworker_id\ttoxicity\ttoxicity_score\n" + "".join(
    f"{comment}\t{worker}\t{toxic}\t0.0\n"
    for worker, marks in enumerate([(1, 0, 1), (0, 1, 1), (1, 1, 1), (0, 0, 0)])
    for comment, toxic in zip(("9.0", "5.0", "2.0"), marks, strict=True)
)


@pytest.fixture
def small_wiki(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Wikipedia of three comments; gives the cache folder."""
    members = {"comments.tsv": COMMENTS, "annotations.tsv": ANNOTATIONS}
    monkeypatch.setenv("EVENHAND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(corpus, "read_member", lambda name, member, *rest: members[member.split("_")[-1]].encode())
    wiki = corpus.BUILTIN["wiki"]
    small = corpus.BuiltinCorpus(wiki.title, wiki.package, wiki.read, rows=(2, 1), toxic=(1, 0), card=wiki.card)
    monkeypatch.setitem(corpus.BUILTIN, "wiki", small)
    return tmp_path / "cache"


def assert_is_small_wiki(loaded: Corpus) -> None:
    # In the order of rev_id. Two votes of four are not more than half.
    assert loaded.texts.to_pylist() == ['`one "two"  three', "it's fine", "last line"]
    assert loaded.labels.tolist() == [1, 0, 0]
    assert loaded.train.tolist() == [True, True, False]
    assert loaded.classes == ["not toxic", "toxic"]
    assert loaded.favourable == "not toxic"
    assert "CC BY-SA" in loaded.card.licence


def test_wiki_is_read_as_described_and_then_kept(small_wiki: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_is_small_wiki(load_corpus("wiki"))
    with monkeypatch.context() as patch:
        patch.setattr(corpus, "read_member", lambda *arguments: pytest.fail("it was read again"))
        assert_is_small_wiki(load_corpus("wiki"))
    (kept,) = small_wiki.iterdir()
    kept.write_bytes(kept.read_bytes()[:-20])
    assert_is_small_wiki(load_corpus("wiki"))


def test_a_corpus_with_other_counts_is_refused_and_not_kept(small_wiki: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wiki = corpus.BUILTIN["wiki"]
    other = corpus.BuiltinCorpus(wiki.title, wiki.package, wiki.read, rows=(2, 1), toxic=(1, 1), card=wiki.card)
    monkeypatch.setitem(corpus.BUILTIN, "wiki", other)
    with pytest.raises(EvenhandError, match="not read as it should be"):
        load_corpus("wiki")
    assert not small_wiki.exists() or not list(small_wiki.iterdir())


def test_the_small_corpus_has_both_labels_in_both_parts() -> None:
    small = small_corpus()
    assert {(int(label), bool(train)) for label, train in zip(small.labels, small.train, strict=True)} == {
        (0, False),
        (0, True),
        (1, False),
        (1, True),
    }


def test_the_light_list_of_built_in_corpora_is_complete() -> None:
    assert list(CORPORA) == list(BUILTIN)
