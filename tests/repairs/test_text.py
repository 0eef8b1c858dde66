"""Repairs of text classifiers by training: what they learn from, that they help, and that they repeat."""

import copy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from evenhand.errors import EvenhandError
from evenhand.models.text.by_construction import BlindModel
from evenhand.models.text.recurrent import Cell
from evenhand.repairs.text import averaged_text_model, commonest_values, repair_text_network, spread, text_scores
from evenhand.repairs.text_certified import boxes, certified_texts
from evenhand.repairs.text_material import FoundPair, NearWords, TextMaterial, found_pairs
from evenhand.repairs.text_training import RepairStep, TextRepair, VariantGroups, repair_settings, validation_steps
from evenhand.search.check import check
from evenhand.search.text_space import SOURCE
from evenhand.text.tokens import tokenize
from tests.worlds.text import small_corpus, small_vectors
from tests.worlds.text_search import MOST_WORDS, plain_label, protected_words, small_network, text_world

QUICK = TextRepair(strength=1.0, memory=0.5, steps=12, learning_rate=0.02, batch_rows=8, group_rows=8, moved_words=0)


@cache
def material(attribute: str = "religion", cell: Cell = "gru") -> TextMaterial:
    words = protected_words(attribute)
    return TextMaterial(small_network(cell), small_vectors(), MOST_WORDS, small_corpus(), words)


def texts_of(of: TextMaterial, words: Any) -> list[str]:
    return [of.vectors.words[number] if number < len(of.vectors) else "?" for number in words]


def spread_of(model: Any, of: TextMaterial) -> float:
    """How far the log-odds of all training texts' variants lie apart."""
    apart = []
    for text in of.mentioning:
        for mention in text.mentions:
            every = [of.with_value(text, [mention], value) for value in of.values_of([mention])]
            with torch.no_grad():
                logits = [
                    model.network(of.table[torch.from_numpy(words).long()][None], torch.tensor([len(words)]))
                    for words in every
                ]
            apart.append(float(spread(torch.stack(logits, dim=1))))
    return float(np.mean(apart))


def test_only_training_texts_are_learned_from() -> None:
    """Also where the held-out texts are the same but for their labels and words."""
    corpus = small_corpus()
    swapped = corpus.texts.to_pylist()
    for row in np.flatnonzero(~corpus.train):
        swapped[row] = "A Muslim idiot."
    other = replace(
        corpus, texts=pa.array(swapped, type=pa.large_string()), labels=np.where(corpus.train, corpus.labels, 1)
    )
    first = repair_text_network(material(), QUICK)
    second = repair_text_network(replace(material(), corpus=other), QUICK)
    assert {text.row for text in material().mentioning} <= {*np.flatnonzero(corpus.train).tolist()}
    for name, tensor in first.network.state_dict().items():
        assert torch.equal(tensor, second.network.state_dict()[name])


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_pairing_brings_variants_together(cell: Cell) -> None:
    of = material(cell=cell)
    before = spread_of(of, of)
    model = repair_text_network(of, replace(QUICK, steps=30, strength=10.0))
    assert spread_of(model, of) < 0.5 * before


def test_the_given_network_stays_and_the_same_seed_repeats() -> None:
    of = material()
    weights = copy.deepcopy(of.network.state_dict())
    steps: list[RepairStep] = []
    models = [repair_text_network(of, replace(QUICK, seed=seed), steps.append) for seed in (1, 1, 2)]
    states = [torch.cat([tensor.flatten() for tensor in model.network.state_dict().values()]) for model in models]
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])
    assert all(torch.equal(weights[name], tensor) for name, tensor in of.network.state_dict().items())
    assert [step.number for step in steps] == [*range(1, 13)] * 3
    assert steps[11].left == 0
    assert [step.number for step in steps[:12] if step.validation_loss is not None] == [12]
    assert validation_steps(80) == {40, 80}
    assert validation_steps(400) == set(range(50, 401, 50))
    assert any(step.best for step in steps[:12])


def test_augment_learns_the_label_of_findings() -> None:
    """Both members of a pair get the label; one of the two had the other one before."""
    of = material()
    text, witness = "the muslim teacher is bad .", "the christian teacher is bad ."
    label = 1 - plain_label(of.network, of.vectors, text)
    found = [FoundPair(text.split(), witness.split(), label)] * 20
    model = repair_text_network(replace(of, findings=found), replace(QUICK, by="augment", share=1.0, steps=30))
    assert plain_label(model.network, of.vectors, text) == label
    assert plain_label(model.network, of.vectors, witness) == label


@pytest.mark.parametrize("swap", ["one", "all"])
def test_found_pairs_are_the_rendered_texts_with_the_label_of_most_variants(swap: Any) -> None:
    world = text_world("religion", "gru", swap=swap)
    checked = check(world.model(), world.space, world.samples(60, seed=3))
    found = checked.take(checked.hit)
    assert len(found) > 3
    pairs = found_pairs(world.space, world.model(), found.x, found.pair)
    witnesses = world.render(world.space.with_combination(found.x, found.pair))
    for x, text, witness, pair in zip(found.x, world.render(found.x), witnesses, pairs, strict=True):
        assert (pair.text, pair.witness) == (tokenize(text).words, tokenize(witness).words)
        numbers = torch.tensor([0, *world.swaps(int(x[SOURCE]))])
        variants = world.space.with_combination(x.repeat(len(numbers), 1), numbers)
        labels = [plain_label(world.network, world.vectors, variant) for variant in world.render(variants)]
        assert labels.count(pair.label) * 2 >= len(labels)


def test_augment_without_findings_says_so() -> None:
    with pytest.raises(EvenhandError, match="no findings"):
        repair_text_network(material(), replace(QUICK, by="augment"))


def test_certified_training_proves_more_texts() -> None:
    of = material()
    before = certified_texts(of, of.network, of.mentioning)
    how = replace(QUICK, by="certified", steps=60, strength=3.0, learning_rate=0.05, memory=0.0)
    model = repair_text_network(of, how)
    after = certified_texts(of, model.network, of.mentioning)
    assert after.mean() > before.mean()


@pytest.mark.parametrize("attribute", ["religion", "country"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_no_variant_of_a_certified_text_is_a_witness(attribute: str, cell: Cell) -> None:
    """With a network that hardly listens to any word, so that there are certificates; and terms of several words."""
    of = replace(material(attribute, cell), network=copy.deepcopy(small_network(cell)))
    with torch.no_grad():
        for parameter in of.network.layers.parameters():
            parameter.mul_(0.2)
        of.network.layers.get_parameter("weight_ih_l0").mul_(0.1)
        of.network.head.bias[1] += 1
    proved = certified_texts(of, of.network, of.mentioning)
    assert proved.any()
    for text in (text for text, is_proved in zip(of.mentioning, proved, strict=True) if is_proved):
        every = [of.with_value(text, [m], value) for m in text.mentions for value in of.values_of([m])]
        vectors = [of.table[torch.from_numpy(words).long()] for words in every]
        labels = {int(of.network(x[None], torch.tensor([len(x)])).argmax()) for x in vectors}
        assert len(labels) == 1


def test_a_settled_repair_gives_the_second_label_as_often_as_before() -> None:
    """Of the training texts, all of which are looked at here; without it, the same repair changes how often."""
    of = material()
    how = replace(QUICK, by="certified", strength=3.0, learning_rate=0.05)
    networks = [of.network, *(repair_text_network(of, replace(how, settle=settle)).network for settle in (False, True))]
    texts = [of.corpus.text(row) for row in np.flatnonzero(of.corpus.train).tolist()]
    before, loose, settled = (sum(plain_label(network, of.vectors, text) for text in texts) for network in networks)
    assert settled == before
    assert loose != before


@pytest.mark.parametrize("by", ["pairing", "augment", "certified", "blind"])
def test_presets_can_be_changed(by: Any) -> None:
    assert repair_settings(by).by == by
    assert repair_settings(by, steps=7) == replace(repair_settings(by), steps=7)


def test_an_unknown_kind_says_which_there_are() -> None:
    unknown: Any = "pairs"
    with pytest.raises(EvenhandError, match="pairing"):
        repair_settings(unknown)


def test_boxes_hold_the_terms_of_one_number_of_words() -> None:
    of = material("country")
    text = next(text for text in of.mentioning if "canada" in texts_of(of, text.words))
    one, two = boxes(of, text, text.mentions[0])
    names = [[texts_of(of, [number])[0] for number in of.term(text.mentions[0], value)] for value in range(6)]
    assert names[5] == ["canada"]
    assert [*one.terms.shape[:2], *two.terms.shape[:2]] == [5, 1, 1, 2]
    assert torch.equal(one.terms[0, 0], of.table[of.vectors.words.index("canada")])
    assert torch.equal(two.terms[0], of.table[[of.vectors.words.index(word) for word in ("saudi", "arabia")]])


def test_a_blind_repair_does_not_read_the_terms() -> None:
    model = repair_text_network(material(), replace(QUICK, by="blind", steps=5))
    assert isinstance(model, BlindModel)
    assert model.readings("A Muslim teacher") == model.readings("A Christian teacher") == [["a", "", "teacher"]]


def test_groups_are_variants_of_training_texts() -> None:
    """One member is the text itself; the others differ from it in the mention only."""
    of = material()
    groups = VariantGroups(of, QUICK)
    known = {" ".join(texts_of(of, text.words[:MOST_WORDS])) for text in of.mentioning}
    rng = np.random.default_rng(0)
    members, labels = groups.batch(rng)
    assert len(members) == len(labels) == 8
    for group in members:
        own, *others = [texts_of(of, words) for words in group]
        assert " ".join(own) in known
        assert any(other != own for other in others)
        protected = of.words.all_words | {"?"}
        for other in others:
            assert [w for w in other if w not in protected] == [w for w in own if w not in protected]


def test_near_words_leave_mentions_alone(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENHAND_CACHE", str(tmp_path))
    of = material()
    near, rng = NearWords(of), np.random.default_rng(0)
    text = of.mentioning[0]
    moved = near.moved(text, 200, of.most_words, rng)
    mention = text.mentions[0]
    assert (moved.words[mention.start : mention.end] == text.words[mention.start : mention.end]).all()
    assert (moved.words != text.words).any()
    assert len(moved.words) == len(text.words)


def test_the_commonest_values_are_those_of_training_texts() -> None:
    of = material("country")
    mentioned = [mention.value for text in of.mentioning for mention in text.mentions]
    two = commonest_values(of, 2)
    assert min(map(mentioned.count, two)) >= max(mentioned.count(v) for v in range(6) if v not in two)
    assert averaged_text_model(of, "evenhand").values == tuple(range(6))


def test_scores_are_those_of_texts_asked_one_by_one() -> None:
    of = material()
    model = averaged_text_model(of, "evenhand")
    blind = repair_text_network(of, replace(QUICK, by="blind", steps=2))
    for some in (model, blind):
        found = text_scores(some, of.corpus.texts.to_pylist(), of)
        for row in range(len(of.corpus)):
            each = some.readings(of.corpus.text(row))
            numbers = [torch.from_numpy(of.numbers(words)).long() for words in each]
            with torch.no_grad():
                scores = [some.network(of.table[n][None], torch.tensor([len(n)])).softmax(dim=1) for n in numbers]
            assert torch.allclose(found[row], torch.stack(scores).mean(dim=0)[0], atol=1e-6)


@pytest.mark.parametrize("wrong", [{"share": 0.0}, {"share": 1.5}, {"steps": 0}, {"members": 1}, {"memory": 2.0}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(EvenhandError):
        TextRepair(**wrong)


def test_an_attribute_that_no_training_text_mentions_is_an_error() -> None:
    corpus = small_corpus()
    of = replace(material(), corpus=replace(corpus, texts=pa.array(["Nobody."] * len(corpus), type=pa.large_string())))
    with pytest.raises(EvenhandError, match="mentions religion"):
        repair_text_network(of, QUICK)
    assert tokenize("Nobody.").words == ["nobody", "."]
