"""Training of recurrent networks on texts, and their files."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch.nn import functional

from evenhand.errors import EvenhandError
from evenhand.models.text.recurrent import Cell, Recurrent, load_recurrent, save_recurrent
from evenhand.models.text.training import TextTrainingConfig, train_recurrent, word_sequences
from evenhand.models.training import Epoch
from evenhand.text.corpus import Corpus
from tests.worlds.text import RUDE, small_corpus, small_vectors
from tests.worlds.text_search import plain_logits

QUICK = TextTrainingConfig(epochs=2, batch_rows=16, most_words=20)


def corpus_of(texts: list[str], labels: list[int], held_out: int = 0) -> Corpus:
    """A corpus whose last texts are held out."""
    train = np.arange(len(texts)) < len(texts) - held_out
    return Corpus("mine", "Mine", pa.array(texts, type=pa.large_string()), np.array(labels), ["no", "yes"], train)


def scores(network: Recurrent, texts: list[str]) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """(n,) of the second class, one text at a time."""
    found = [plain_logits(network, small_vectors(), text, most_words=20).softmax(dim=0)[1] for text in texts]
    return torch.stack(found).numpy()


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_small_corpus_is_learned(cell: Cell) -> None:
    """Pages that are kind or rude, in many words; the loss falls where nothing was trained on."""
    things = ["article", "page", "edit", "source", "text", "link", "section", "title"]
    kind = ["good", "nice", "great", "lovely", "polite"]
    texts = [f"the {thing} is {word}." for word in [*kind, *RUDE.split()[:5]] for thing in things]
    corpus = corpus_of(texts, [0] * 40 + [1] * 40)
    epochs: list[Epoch] = []
    config = TextTrainingConfig(epochs=15, batch_rows=16, learning_rate=0.03, most_words=20, validation_share=0.2)
    network, description = train_recurrent(corpus, small_vectors(), cell, config, on_epoch=epochs.append)
    losses = [epoch.validation_loss for epoch in epochs if epoch.validation_loss is not None]
    assert len(losses) == 15
    assert min(losses) < 0.5 * losses[0]
    correct = (scores(network, texts) > 0.5) == corpus.labels
    assert correct.mean() > 0.9
    assert description["quality"]["train"]["accuracy"] == pytest.approx(correct.mean(), abs=1e-4)


def test_progress_rises_and_says_which_epoch_is_best() -> None:
    epochs: list[Epoch] = []
    train_recurrent(small_corpus(), small_vectors(), "gru", replace(QUICK, epochs=5), on_epoch=epochs.append)
    standing = [(epoch.number, epoch.share) for epoch in epochs]
    assert standing == sorted(standing)
    assert standing[-1] == (5, 1.0)
    ends = [epoch for epoch in epochs if epoch.validation_loss is not None]
    losses = [epoch.validation_loss or 0.0 for epoch in ends]
    lowest = [float("inf"), *np.minimum.accumulate(losses)]
    assert [epoch.best for epoch in ends] == [loss < before for loss, before in zip(losses, lowest, strict=False)]
    assert epochs[-1].left == 0
    assert epochs[0].left > 0


def test_the_best_weights_are_kept() -> None:
    """With steps so large that the last epoch is not the best, the network has the lowest loss that was said."""
    epochs: list[Epoch] = []
    corpus = small_corpus()
    config = TextTrainingConfig(epochs=12, batch_rows=8, learning_rate=0.3, most_words=20, validation_share=0.3)
    network, _ = train_recurrent(corpus, small_vectors(), "gru", config, on_epoch=epochs.append)
    losses = [epoch.validation_loss for epoch in epochs if epoch.validation_loss is not None]
    assert losses[-1] > min(losses)
    rows = np.random.default_rng(config.seed).permutation(np.flatnonzero(corpus.train))
    split = round(len(rows) * config.validation_share)
    counts = np.bincount(corpus.labels[rows[split:]])
    weight = torch.tensor((len(rows) - split) / (2 * counts), dtype=torch.float32)
    logits = torch.stack([plain_logits(network, small_vectors(), corpus.text(row), 20) for row in rows[:split]])
    loss = functional.cross_entropy(logits, torch.tensor(corpus.labels[rows[:split]]), weight)
    assert loss.item() == pytest.approx(min(losses), rel=1e-4)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_same_seed_same_weights(cell: Cell) -> None:
    state = torch.get_rng_state()
    first, description = train_recurrent(small_corpus(), small_vectors(), cell, QUICK)
    torch.rand(5)
    second, again = train_recurrent(small_corpus(), small_vectors(), cell, QUICK)
    other, _ = train_recurrent(small_corpus(), small_vectors(), cell, replace(QUICK, seed=1))
    for name, weights in first.state_dict().items():
        assert torch.equal(weights, second.state_dict()[name])
        assert not torch.equal(weights, other.state_dict()[name])
    assert description == again
    torch.set_rng_state(state)


def test_both_classes_weigh_alike() -> None:
    """Texts that say nothing, nine in ten of one class: a network that minds the balance cannot tell."""
    corpus = corpus_of(["the page"] * 1000, ([0] * 9 + [1]) * 100)
    config = TextTrainingConfig(epochs=1, batch_rows=40, learning_rate=0.1, most_words=20)
    network, description = train_recurrent(corpus, small_vectors(), "gru", config)
    assert scores(network, ["the page"])[0] == pytest.approx(0.5, abs=0.1)
    assert list(description["quality"]) == ["train", "paper_accuracy"]  # nothing is held out


def test_the_description_says_how_the_network_was_made() -> None:
    config = replace(QUICK, seed=7)
    arguments = ["--data", "my file.csv"]
    _, found = train_recurrent(small_corpus(), small_vectors(), "gru", config, data_arguments=arguments)
    assert found["dataset"] == "small"
    assert found["classes"] == ["not toxic", "toxic"]
    assert found["vectors"] == "small"
    assert found["most_words"] == 20
    assert found["made_by"] == "evenhand train --data 'my file.csv' --network gru --seed 7 --epochs 2"
    assert found["training"].items() >= {"epochs": 2, "learning_rate": 0.01, "batch_rows": 16, "seed": 7}.items()
    assert set(found["quality"]) == {"train", "held_out", "paper_accuracy"}
    assert set(found["quality"]["held_out"]) == {"accuracy", "auc", "f1", "majority_class"}
    assert json.loads(json.dumps(found)) == found


def test_quality_is_what_its_names_say() -> None:
    """Held out: three texts of the first class and one of the second, against a plain count."""
    texts = ["the page is good", "a stupid page"] * 20 + ["good", "nice", "kind", "stupid"]
    corpus = corpus_of(texts, [0, 1] * 20 + [0, 0, 0, 1], held_out=4)
    config = TextTrainingConfig(epochs=15, batch_rows=8, learning_rate=0.03, most_words=20)
    network, description = train_recurrent(corpus, small_vectors(), "gru", config)
    found = scores(network, texts[-4:])
    said, predicted = description["quality"]["held_out"], found > 0.5
    right = int(predicted[3])
    assert said["majority_class"] == 0.75
    assert said["accuracy"] == pytest.approx((predicted == np.array([0, 0, 0, 1])).mean())
    assert said["auc"] == pytest.approx((found[3] > found[:3]).mean(), abs=1e-4)
    assert said["f1"] == pytest.approx(2 * right / (predicted.sum() + 1), abs=1e-4)


def test_a_part_with_one_class_has_no_auc() -> None:
    corpus = corpus_of(["good page", "stupid page"] * 10 + ["nice"], [0, 1] * 10 + [0], held_out=1)
    config = TextTrainingConfig(epochs=15, batch_rows=8, learning_rate=0.03, most_words=20)
    _, description = train_recurrent(corpus, small_vectors(), "gru", config)
    assert description["quality"]["held_out"] == {"accuracy": 1.0, "auc": None, "f1": 0.0, "majority_class": 1.0}


def test_one_class_cannot_be_learned() -> None:
    with pytest.raises(EvenhandError, match="needs texts of both classes among its 9 training rows"):
        train_recurrent(corpus_of(["good page"] * 10, [0] * 10), small_vectors(), "lstm", QUICK)
    with pytest.raises(EvenhandError, match="at least 1"):
        TextTrainingConfig(epochs=0)


def test_texts_become_numbers_of_words() -> None:
    vectors = small_vectors()
    sequences = word_sequences(["The page!", "", " \n", "zzz of the zzz"], vectors, most_words=3)
    unknown = len(vectors)
    the, page, sign, of = vectors.index(["the", "page", "!", "of"]).tolist()
    assert sequences.lengths.tolist() == [3, 1, 1, 3]
    assert sequences.words.tolist() == [the, page, sign, unknown, unknown, unknown, of, the]
    batch, lengths = sequences.batch(np.array([3, 1]))
    assert lengths.tolist() == [3, 1]
    np.testing.assert_array_equal(batch[0], np.stack([vectors.mean, vectors.vectors[of], vectors.vectors[the]]))
    np.testing.assert_array_equal(batch[1], np.stack([vectors.mean, 0 * vectors.mean, 0 * vectors.mean]))


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_network_survives_its_files(cell: Cell, tmp_path: Path) -> None:
    network, description = train_recurrent(small_corpus(), small_vectors(), cell, QUICK)
    save_recurrent(network, description, tmp_path / "mine")
    again, said = load_recurrent(tmp_path / "mine")
    assert said.items() >= description.items()
    assert (again.cell, again.shape) == (cell, network.shape)
    for name, weights in network.state_dict().items():
        assert torch.equal(weights, again.state_dict()[name])


@pytest.mark.parametrize("change", [{"cell": "rnn"}, {"layers": 0}, {"states": "ten"}, {"outputs": None}])
def test_a_description_that_describes_no_network(change: dict[str, object], tmp_path: Path) -> None:
    save_recurrent(Recurrent("lstm", 4, 2), {}, tmp_path / "mine")
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(EvenhandError, match=r"mine\.json does not describe a network"):
        load_recurrent(tmp_path / "mine")
