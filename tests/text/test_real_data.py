"""The real corpora, vectors and WordNet, downloaded on first use. Skipped, with the reason, where no index answers."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pytest

from evenhand.text.corpus import Corpus, load_corpus
from evenhand.text.download import UnreachableError
from evenhand.text.neighbours import candidate_words, nearest_words, neighbours
from evenhand.text.parts_of_speech import load_wordnet
from evenhand.text.vectors import WordVectors, load_vectors

pytestmark = pytest.mark.real_text
T = TypeVar("T")


def real(load: Callable[[], T]) -> T:
    """What is loaded; the test is skipped only if it would have to be downloaded and no index can be reached."""
    try:
        return load()
    except UnreachableError as error:
        pytest.skip(f"NOT TESTED on real data: {error}")


@pytest.fixture(scope="module")
def glove() -> WordVectors:
    return real(load_vectors)


def counts(corpus: Corpus) -> tuple[int, int, int, int]:
    """Training rows, those of them that are toxic, held-out rows, those of them that are toxic."""
    toxic = corpus.labels == 1
    train = corpus.train
    return int(train.sum()), int((train & toxic).sum()), int((~train).sum()), int((~train & toxic).sum())


def test_wikipedia_comments() -> None:
    wiki = real(lambda: load_corpus("wiki"))
    assert counts(wiki) == (127_820, 12_314, 31_866, 3_048)
    assert wiki.text(0).startswith("This: :One can make an analogy in mathematical terms")
    assert not any("NEWLINE_TOKEN" in text or "TAB_TOKEN" in text for text in wiki.texts.to_pylist())
    assert wiki.empty < 10


def test_jigsaw_comments() -> None:
    jigsaw = real(lambda: load_corpus("jigsaw"))
    train, toxic, held_out, toxic_held_out = counts(jigsaw)
    assert train + held_out == 159_571
    assert toxic + toxic_held_out == 16_225
    assert held_out == 31_914
    assert jigsaw.text(0).startswith("Then go to the village pump")
    assert sum(text.startswith("RT @") for text in jigsaw.texts.to_pylist()) == 0  # the tweets are gone


def test_glove(glove: WordVectors) -> None:
    assert (len(glove), glove.dimensions) == (400_000, 50)
    assert glove.words[:5] == ["the", ",", ".", "of", "to"]
    np.testing.assert_allclose(glove.vectors[0, :3], [0.418, 0.24968, -0.41242])
    assert len(glove.numbers) == 400_000
    assert np.isfinite(glove.mean).all()


def test_nearest_words_in_glove(
    glove: WordVectors, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENHAND_CACHE", str(tmp_path_factory.mktemp("cache")))
    words = ["jews", "stupid", "paris"]
    found = neighbours(glove, words, 15)
    near = [{glove.words[number] for number in row} for row in found]
    assert {"muslims", "catholics", "arabs"} & near[0]
    assert {"dumb", "silly"} <= near[1]
    assert {"london", "france"} & near[2]
    protected = {"jews", "jewish", "muslims", "catholics", "arabs"}
    assert not protected & {glove.words[number] for number in neighbours(glove, ["germans"], 15, protected)[0]}


def test_nearest_words_in_glove_are_those_of_float64(glove: WordVectors) -> None:
    allowed = candidate_words(glove)
    candidates = np.flatnonzero(allowed)
    ids = np.linspace(0, 399_999, 40).astype(np.int64)
    found = nearest_words(glove, ids, 40, allowed=allowed)
    wide = glove.vectors[candidates].astype(np.float64)
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    for number, row in zip(ids, found, strict=True):
        similarity = wide @ glove.vectors[number].astype(np.float64)
        similarity[candidates == number] = -np.inf
        assert row.tolist() == candidates[np.argsort(-similarity, kind="stable")[:40]].tolist()


def test_wordnet() -> None:
    wordnet = real(load_wordnet)
    assert wordnet.parts("muslims") == {"noun plural"}
    assert wordnet.parts("went") == {"verb ed"}
    assert wordnet.parts("children") == {"noun plural"}
    assert "adjective est" in wordnet.parts("happiest")
    assert "verb ing" in wordnet.parts("running")
    assert wordnet.parts("wikipedia") == {"unknown"}
