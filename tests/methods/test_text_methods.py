"""One table drives every method for text through the same properties."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from evenhand.choices import Swap
from evenhand.errors import EvenhandError
from evenhand.methods.names import TEXT_DEFAULT
from evenhand.methods.registry import TEXT_METHODS, make_text_method
from evenhand.methods.text_adf import TextADF
from evenhand.models.text import classifier as text_classifier
from evenhand.models.text.recurrent import Cell
from evenhand.search import search as search_module
from evenhand.search.check import Checked
from evenhand.search.recorder import Findings, Phase, Recorder
from evenhand.search.search import Limits, Search, SearchResult
from evenhand.search.text_space import CODES, SOURCE, SWAP, TextSpace
from evenhand.text.tokens import tokenize
from tests.worlds.text_search import TextWorld, near_tie, plain_logits, text_world

every_method = pytest.mark.parametrize("name", TEXT_METHODS)
LIMITS = Limits(iterations=4, steps=6)


class Ran:
    """A method run from all texts of a small world."""

    def __init__(
        self,
        name: str,
        world: TextWorld,
        limits: Limits = LIMITS,
        seed: int = 0,
        interrupted: Callable[[], bool] = lambda: False,
        **options: Any,
    ) -> None:
        self.world, self.parts, self.model = world, list[Findings](), world.model(**options)
        search = Search(
            self.model,
            world.space,
            make_text_method(name),
            seed=seed,
            limits=limits,
            sink=self.parts.append,
            interrupted=interrupted,
        )
        rows = np.arange(len(world.space.texts.tokens))
        self.result: SearchResult = search.run(rows[:, None].astype(np.int32), rows)

    def column(self, name: str) -> list[Any]:
        return [row for part in self.parts for row in getattr(part, name).tolist()]

    def as_rows(self) -> list[tuple[Any, ...]]:
        names = ["sample", "witness", "label", "witness_label", "score", "witness_score", "phase", "seed", "step"]
        return list(zip(*(self.column(name) for name in names), strict=True))


@every_method
@pytest.mark.parametrize(("attribute", "cell", "swap"), [("religion", "lstm", "one"), ("country", "gru", "all")])
def test_findings_hold_text_by_text(name: str, attribute: str, cell: Cell, swap: Swap) -> None:
    """Read again as plain text: the labels differ, within the pair only protected words, and moved words are near."""
    world = text_world(attribute, cell, swap=swap)
    ran = Ran(name, world, Limits(iterations=5, steps=10))
    samples, swaps = torch.tensor(ran.column("sample")), torch.tensor(ran.column("witness")).squeeze(1)
    assert len(samples) == ran.result.counts.all_findings > 20
    assert len(set(world.space.keys(samples).tolist())) == len(samples)
    texts = zip(world.render(samples), world.render(world.space.with_combination(samples, swaps)), strict=True)
    labels = zip(ran.column("label"), ran.column("witness_label"), strict=True)
    for row, pair, (label, witness_label) in zip(samples.tolist(), texts, labels, strict=True):
        assert label != witness_label
        logits = [plain_logits(world.network, world.vectors, text) for text in pair]
        if not any(map(near_tie, logits)):
            assert [int(each.argmax()) for each in logits] == [label, witness_label]
        assert masked(world, pair[0]) == masked(world, pair[1])
        assert tokenize(pair[0]).words != tokenize(pair[1]).words
        source = world.space.texts.tokens[row[SOURCE]].words
        moves = [(old, new) for old, new in zip(source, tokenize(pair[0]).words, strict=True) if old != new]
        assert len(moves) == np.count_nonzero(row[CODES:])
        assert all(new in world.nearest(old) for old, new in moves)


def masked(world: TextWorld, text: str) -> list[str]:
    """The words of a text with the protected terms struck out."""
    tokens = tokenize(text)
    words = list(tokens.words)
    for mention in reversed(world.words.mentions(tokens)):
        words[mention.start : mention.end] = ["*"]
    return words


class Trail(Recorder):
    """A recorder that also notes every sample it is given."""

    noted: list[tuple[Phase, Checked, list[int]]]

    def add(self, checked: Checked, phase: Phase, step: int, seeds: Tensor) -> None:
        self.noted.append((phase, checked, seeds.tolist()))
        super().add(checked, phase, step, seeds)


@pytest.fixture
def trail(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Phase, Checked, list[int]]]:
    monkeypatch.setattr(search_module, "Recorder", Trail)
    monkeypatch.setattr(Trail, "noted", [], raising=False)
    return Trail.noted


@every_method
def test_every_look_is_legal(name: str, trail: list[tuple[Phase, Checked, list[int]]]) -> None:
    """At most two changed words, only words that may move, only candidates, and the source's own terms."""
    world = text_world("religion", "gru", max_changes=2)
    Ran(name, world)
    x = torch.cat([checked.x for _, checked, _ in trail])
    assert world.space.changes(x).max() == 2
    assert (x[:, SWAP] == 0).all()
    assert (x[:, CODES:] < world.space.choices[x[:, SOURCE]]).all()
    assert {phase for phase, _, _ in trail} == {"global", "local"}


def test_boundary_walks_from_finding_to_finding(trail: list[tuple[Phase, Checked, list[int]]]) -> None:
    """Every local look is one word away from the last finding of its seed."""
    Ran("boundary", text_world("country", "gru"), Limits(iterations=4, steps=20))
    last: dict[int, Tensor] = {}
    failed = 0
    for phase, checked, seeds in trail:
        for seed, x, hit in zip(seeds, checked.x, checked.hit.tolist(), strict=True):
            assert phase == "global" or int((x != last[seed]).sum()) == 1
            failed += phase == "local" and not hit
            last = last | {seed: x} if hit else last
    assert failed > 5


@every_method
def test_same_seed_same_findings_however_the_work_is_cut(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = text_world("country")
    first = Ran(name, world, seed=3)
    assert Ran(name, world, seed=4).as_rows() != first.as_rows()
    monkeypatch.setattr(text_classifier, "CHUNK_TEXTS", 50)
    monkeypatch.setattr(text_classifier, "FEW_TEXTS", 0)
    assert Ran(name, world, seed=3, chunk_rows=37).as_rows() == first.as_rows()
    monkeypatch.setattr(TextSpace, "block_walks", 5)  # which of two equal samples comes first may change, no more
    assert keys_of(Ran(name, world, seed=3, share_prefixes=False, sort_by_length=False)) == keys_of(first)


def keys_of(ran: Ran) -> set[bytes]:
    return set(ran.world.space.keys(torch.tensor(ran.column("sample"))).tolist())


@every_method
@pytest.mark.parametrize("max_rows", [1, 700])
def test_the_budget_is_kept(name: str, max_rows: int) -> None:
    world, limits = text_world("country", "gru"), Limits(iterations=6, steps=10**6, max_rows=max_rows)
    ran = Ran(name, world, limits)
    assert ran.result.stopped == "max-rows"
    assert max_rows / 2 < ran.model.rows <= max_rows or max_rows == 1
    assert Ran(name, world, limits, chunk_rows=50).as_rows() == ran.as_rows()


@every_method
def test_limits_on_findings_and_a_wish_to_stop(name: str) -> None:
    world = text_world("country", "gru")
    ran = Ran(name, world, replace(LIMITS, max_findings=5))
    assert ran.result.stopped == "max-findings"
    assert ran.as_rows() == Ran(name, world).as_rows()[:5]
    asked = itertools.count()
    stopped = Ran(name, world, replace(LIMITS, steps=10**6), interrupted=lambda: next(asked) > 8)
    assert stopped.result.stopped == "interrupted"
    assert stopped.result.counts.all_findings == len(stopped.as_rows()) > 0


@every_method
def test_a_model_that_takes_all_protected_words_alike_yields_none(name: str) -> None:
    world = text_world("religion", texts=("The Muslim teacher was late.", "My Jewish friend is a good person."))
    vectors, protected = world.vectors, [w for w in world.vectors.words if w in world.words.all_words]
    numbers = vectors.index(protected)
    others = np.delete(vectors.vectors, numbers, axis=0).mean(axis=0)  # then it is the mean of all, unknown ones too
    alike = vectors.vectors.copy()
    alike[numbers] = others
    single = [unit for unit in world.space.terms.flatten().tolist() if unit >= 0]
    assert (world.model().expansion.size[single] == 1).all()
    ran = Ran(name, replace(world, vectors=replace(vectors, vectors=alike)))
    assert ran.result.counts.all_findings == 0
    assert ran.result.counts.all_generated > 2


@pytest.mark.parametrize("name", [name for name, entry in TEXT_METHODS.items() if entry.method.needs != "gradients"])
def test_a_black_box_method_asks_no_gradient(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(text_classifier.RecurrentClassifier, "_gradients")
    assert Ran(name, text_world("country", "gru")).result.counts.all_findings > 0


def test_names_and_settings() -> None:
    assert TEXT_METHODS[TEXT_DEFAULT].method.name == TEXT_DEFAULT
    assert make_text_method("asc") == TextADF(rule="asc", paired=False)
    assert make_text_method("adf-hotflip", {"local": "random"}) == TextADF(local="random")


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("boundary", {"tries": 0}, "at least 1"),
        ("boundary", {"refresh": 0}, "at least 1"),
        ("boundary", {"haste": 0}, "at least 1"),
        ("boundary", {"patience": -1}, "of at least 0"),
        ("boundary", {"caution": 1.0}, "a share from 0"),
        ("adf-asc", {"rule": "acs"}, "Did you mean 'asc'"),
        ("adf-asc", {"accept_failed": 2.0}, "is a probability"),
        ("adf-hotflip", {"local": "guide"}, "Did you mean 'guided'"),
        ("randm", {}, "Did you mean 'random'"),
    ],
)
def test_wrong_settings_are_said(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(EvenhandError, match=message):
        make_text_method(name, settings)
