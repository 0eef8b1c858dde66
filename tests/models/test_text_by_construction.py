"""Models of text that no exchange of protected terms can change, and their files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from evenhand.errors import EvenhandError
from evenhand.methods.registry import TEXT_METHODS, make_text_method
from evenhand.models.text.by_construction import AveragedTextModel, BlindModel, RecurrentModel, terms_of, without_terms
from evenhand.models.text.loading import load_text_model, save_recurrent_text
from evenhand.models.text.recurrent import Cell
from evenhand.search.check import check
from evenhand.search.search import Limits, Search
from evenhand.search.text_space import TextSpace
from tests.worlds.text import COMMENTS, small_corpus, small_vectors
from tests.worlds.text_search import MOST_WORDS, TextWorld, plain_logits, protected_words, space_of, text_world

CPU = torch.device("cpu")
DESCRIPTION: dict[str, Any] = {
    "classes": ["not toxic", "toxic"],
    "vectors": "small",
    "vectors_fingerprint": small_vectors().fingerprint,
}


def blind_model(world: TextWorld) -> BlindModel:
    terms = terms_of(world.words)
    return BlindModel("blind", world.network, world.vectors, MOST_WORDS, world.words.name, terms)


def averaged_model(world: TextWorld, values: tuple[int, ...] | None = None) -> AveragedTextModel:
    every = tuple(range(len(world.words.values))) if values is None else values
    return AveragedTextModel("mean", world.network, world.vectors, MOST_WORDS, "evenhand", world.words, every)


def scores_by_hand(world: TextWorld, readings: list[list[str]]) -> Tensor:
    """(classes,) the mean score of readings, each asked for alone. A word that is not read is one that nobody knows."""
    texts = [" ".join(word or "qqqq" for word in words) for words in readings]
    return torch.stack([plain_logits(world.network, world.vectors, text).softmax(dim=0) for text in texts]).mean(dim=0)


@pytest.mark.parametrize("kind", [blind_model, averaged_model])
@pytest.mark.parametrize("attribute", ["religion", "country", "gender"])
@pytest.mark.parametrize("swap", ["one", "all"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_no_swap_changes_a_score(kind: Any, attribute: str, swap: Any, cell: Cell) -> None:
    """The network itself has witnesses among these very samples."""
    world = text_world(attribute, cell, swap=swap)
    x = world.samples(120, seed=1)
    assert check(world.model(), world.space, x).hit.any()
    model = kind(world).classifier(world.space.texts, CPU, None)
    checked = check(model, world.space, x)
    assert not checked.hit.any()
    assert torch.equal(checked.score, checked.pair_score)


@pytest.mark.parametrize("kind", [blind_model, averaged_model])
@pytest.mark.parametrize("method", TEXT_METHODS)
def test_no_search_finds_anything(kind: Any, method: str) -> None:
    """Where the network itself has findings from the same seeds."""
    world = text_world("country", "gru")
    found = []
    for model in (world.model(), kind(world).classifier(world.space.texts, CPU, None)):
        limits, sink = Limits(iterations=4, steps=5), (lambda findings: None)
        search = Search(model, world.space, make_text_method(method), seed=0, limits=limits, sink=sink)
        numbers = np.arange(len(world.space.texts.tokens), dtype=np.int32)
        result = search.run(numbers[:, None], numbers.astype(np.int64))
        found.append(result.counts.all_findings)
        assert result.counts.all_generated > len(numbers)
    assert found[0] > 0
    assert found[1] == 0


@pytest.mark.parametrize("attribute", ["religion", "country"])
def test_a_search_reads_what_a_blind_model_is_given(attribute: str) -> None:
    """The scores of samples in a search are those of the rendered texts; none of these is cut."""
    world = text_world(attribute, "gru", COMMENTS)
    model = blind_model(world)
    x = world.samples(40, seed=2, swapped=True)
    outputs = model.classifier(world.space.texts, CPU, None).outputs(world.space.inputs(x))
    for text, scores in zip(world.render(x), outputs.scores, strict=True):
        assert torch.allclose(scores, scores_by_hand(world, model.readings(text)), atol=1e-5), text


@pytest.mark.parametrize("attribute", ["religion", "country", "gender"])
def test_a_search_reads_what_an_averaged_model_is_given(attribute: str) -> None:
    """For texts as they were written: the form of a mention is that of the text that a search begins with."""
    world = text_world(attribute, "gru")
    model = averaged_model(world)
    x = world.seeds()
    outputs = model.classifier(world.space.texts, CPU, None).outputs(world.space.inputs(x))
    for text, scores, label in zip(world.render(x), outputs.scores, outputs.labels, strict=True):
        assert torch.allclose(scores, scores_by_hand(world, model.readings(text)), atol=1e-5), text
        assert label == scores.argmax()


def test_the_longest_term_becomes_one_unknown_word() -> None:
    terms = terms_of(protected_words("country"))
    words = ["in", "saudi", "arabia", "and", "french", "saudi"]
    assert without_terms(words, terms) == ["in", "", "and", "", "saudi"]


def test_a_mean_is_over_the_values_that_have_all_forms() -> None:
    """Saudi Arabia has no adjective here, so a text with an adjective is not read with it."""
    world = text_world("country", "gru")
    model = averaged_model(world, values=(0, 1, 3))
    assert model.readings("from Canada") == [["from", "france"], ["from", "saudi", "arabia"], ["from", "india"]]
    assert model.readings("an Egyptian from Canada") == [
        ["an", "french", "from", "france"],
        ["an", "indian", "from", "india"],
    ]
    assert averaged_model(world, values=(1,)).readings("an Egyptian") == [["an", "french"]]
    assert model.readings("no one") == [["no", "one"]]
    assert model.readings("") == [[""]]


@pytest.mark.parametrize("of", ["loss", "score", "odds"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_gradients_are_those_of_the_mean(of: Any, cell: Cell) -> None:
    """Against autograd through all readings of a text, whose words but the mention are the same vectors."""
    space = space_of(["The people of India are kind here."], protected_words("country"), most_tokens=MOST_WORDS)
    world = text_world("country", cell)
    model = averaged_model(world, values=(0, 2, 3))
    x = space.inputs(space.samples(np.zeros((1, 1), dtype=np.int32)))
    classifier = model.classifier(space.texts, CPU, None)
    gradient = classifier.gradients(x, torch.tensor([1]), of)[0]
    read = [
        torch.tensor(world.vectors.vectors[world.vectors.index(words)]) for words in model.readings(space_text(space))
    ]
    shared = read[0].clone().requires_grad_(True)
    rows = torch.stack([torch.where(torch.arange(len(shared))[:, None] == 3, words, shared) for words in read])
    score = world.network(rows, torch.full((3,), rows.shape[1])).softmax(dim=1)[:, 1].mean()
    value = {"loss": -score.log(), "score": score, "odds": (score / (1 - score)).log()}[of]
    value.backward()
    assert shared.grad is not None
    others = [place for place in range(len(shared)) if place != 3]
    assert shared.grad[others].abs().max() > 1e-4
    assert torch.allclose(gradient[others], shared.grad[others], rtol=1e-3, atol=1e-6)


def space_text(space: TextSpace) -> str:
    """The first source as it was written."""
    return space.texts.tokens[0].text


def test_another_attribute_is_averaged_where_its_mentions_stand() -> None:
    """An audit of one attribute asks a model that averages over another: it reads that one's mentions all the same."""
    space = space_of(["She likes the Muslim teacher and France."], protected_words("gender"))
    world = text_world("religion", "gru")
    model = averaged_model(world)
    x = space.samples(np.zeros((1, 1), dtype=np.int32))
    scores = model.classifier(space.texts, CPU, None).outputs(space.inputs(x)).scores[0]
    readings = model.readings("She likes the Muslim teacher and France.")
    assert len(readings) > 2
    assert torch.allclose(scores, scores_by_hand(world, readings), atol=1e-5)


def test_files_give_the_same_model_again(tmp_path: Path) -> None:
    world = text_world("religion", "gru")
    texts = ["A Muslim and a Jew.", "He is a Christian.", "Nobody."]
    for kind in (blind_model, averaged_model):
        model = kind(world)
        save_recurrent_text(model, DESCRIPTION, tmp_path / "net")
        again = load_text_model(small_corpus(), None, str(tmp_path / "net.safetensors"), world.vectors)
        assert type(again) is type(model)
        assert isinstance(again, BlindModel | AveragedTextModel)
        assert [again.readings(text) for text in texts] == [model.readings(text) for text in texts]
        x = world.space.inputs(world.samples(20))
        scores = [m.classifier(world.space.texts, CPU, None).outputs(x).scores for m in (model, again)]
        assert torch.equal(*scores)


def test_a_plain_network_saved_over_a_blind_one_is_plain(tmp_path: Path) -> None:
    world = text_world("religion", "gru")
    save_recurrent_text(blind_model(world), DESCRIPTION, tmp_path / "net")
    description = json.loads((tmp_path / "net.json").read_text())
    save_recurrent_text(RecurrentModel("x", world.network, world.vectors, MOST_WORDS), description, tmp_path / "net")
    again = load_text_model(small_corpus(), None, str(tmp_path / "net.safetensors"), world.vectors)
    assert isinstance(again, RecurrentModel)


@pytest.mark.parametrize("broken", [{"blind": None}, {"blind": {"terms": []}}, {"blind": {"terms": ["muslim"]}}])
def test_a_file_without_its_terms_is_refused(tmp_path: Path, broken: dict[str, Any]) -> None:
    world = text_world("religion", "gru")
    save_recurrent_text(blind_model(world), DESCRIPTION, tmp_path / "net")
    description = json.loads((tmp_path / "net.json").read_text()) | broken
    (tmp_path / "net.json").write_text(json.dumps(description))
    with pytest.raises(EvenhandError, match="which terms"):
        load_text_model(small_corpus(), None, str(tmp_path / "net.safetensors"), world.vectors)
