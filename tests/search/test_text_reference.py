"""The batched search on texts against the one-text-at-a-time reference."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from bench.text_reference import Source, TextReference, source_of
from torch import Tensor

from evenhand.methods.text_adf import Rule, TextADF
from evenhand.models.text.recurrent import Cell
from evenhand.search import search as search_module
from evenhand.search.check import Checked
from evenhand.search.recorder import Findings, Phase, Recorder
from evenhand.search.search import Limits, Search, SearchResult
from evenhand.search.text_space import NO_GROUP, Marked
from tests.worlds.text_search import MOST_WORDS, TextWorld, near_tie, text_world

TEXTS, ITERATIONS, STEPS = 10, 4, 8
Noted = dict[tuple[str, int, int], tuple[Tensor, bool]]


class Trail(Recorder):
    """A recorder that also notes every sample it is given."""

    noted: Noted

    def add(self, checked: Checked, phase: Phase, step: int, seeds: Tensor) -> None:
        for x, hit, seed in zip(checked.x, checked.hit.tolist(), seeds.tolist(), strict=True):
            self.noted[phase, seed, step] = (x, hit)
        super().add(checked, phase, step, seeds)


@pytest.fixture
def trail(monkeypatch: pytest.MonkeyPatch) -> Noted:
    monkeypatch.setattr(search_module, "Recorder", Trail)
    monkeypatch.setattr(Trail, "noted", {}, raising=False)
    return Trail.noted


def sources_of(world: TextWorld) -> list[Source]:
    texts = world.space.texts
    marked = [Marked(tokens, list(of.values())) for tokens, of in zip(texts.tokens, texts.mentions, strict=True)]
    nearest = {word: world.nearest(word) for text in marked for word in text.tokens.words}
    return [source_of(text, world.words, nearest, MOST_WORDS) for text in marked]


def reference_of(world: TextWorld, **settings: Any) -> TextReference:
    vectors = torch.tensor(np.concatenate([world.vectors.vectors, world.vectors.mean[None]]))
    settings = {"seed": 1, "accept_failed": math.exp(-1), "iterations": ITERATIONS, "steps": STEPS} | settings
    numbers = world.vectors.numbers
    return TextReference(world.network, numbers, vectors, sources_of(world), MOST_WORDS, **settings)


def batched(world: TextWorld, rule: Rule, accept_failed: float, rows: range) -> tuple[SearchResult, list[Findings]]:
    found: list[Findings] = []
    method = TextADF(rule=rule, accept_failed=accept_failed)
    search = Search(world.model(), world.space, method, seed=1, limits=Limits(ITERATIONS, STEPS), sink=found.append)
    return search.run(np.array(rows, dtype=np.int32)[:, None], np.array(rows)), found


def surfaces(world: TextWorld, x: Tensor) -> list[str]:
    """A sample as the words and terms that the reference knows."""
    return [world.space.texts.units.surfaces[unit] for unit in world.space.inputs(x[None])[0, 1:].tolist() if unit >= 0]


@pytest.mark.parametrize(
    ("attribute", "cell", "rule", "accept_failed", "local_changes"),
    [
        ("religion", "lstm", "asc", math.exp(-1), None),
        ("religion", "gru", "hotflip", 1.0, 2),
        ("country", "lstm", "hotflip", 0.0, 2),
        ("country", "gru", "asc", math.exp(-1), None),
    ],
)
def test_every_step_equals_the_references(
    trail: Noted, attribute: str, cell: Cell, rule: Rule, accept_failed: float, local_changes: int | None
) -> None:
    """Same random numbers, same moves: each walk looks at the same text at every step of both phases."""
    world = text_world(attribute, cell)
    world.space.local_changes = local_changes
    rows = range(len(world.space.texts.tokens))[-TEXTS:]  # the longest are the last
    result, found = batched(world, rule, accept_failed, rows)
    reference = reference_of(
        world, rule=rule, accept_failed=accept_failed, first_witness=False, local_changes=local_changes
    )
    reference.run(rows)
    steps = {(phase, row, step): (text, hit) for phase, row, step, text, hit in reference.trail}
    assert {key: (surfaces(world, x), hit) for key, (x, hit) in trail.items()} == steps
    assert {hit for _, hit in steps.values()} == {True, False}
    assert {phase for phase, _, _ in steps} == {"global", "local"}
    assert result.counts.all_generated == len(reference.generated)
    assert result.counts.all_findings == len(reference.found)
    samples = torch.tensor(np.concatenate([part.sample for part in found])).long()
    groups = world.space.group[samples[:, 0]]
    assert {
        tuple("" if group != NO_GROUP else word for word, group in zip(surfaces(world, x), of, strict=False))
        for x, of in zip(samples, groups.tolist(), strict=True)
    } == reference.found


def test_the_first_witness_is_enough_for_the_verdict() -> None:
    """Looking no further than the first witness changes which pair is kept, never whether there is one."""
    world = text_world("country")
    quick, slow = reference_of(world), reference_of(world, first_witness=False)
    witnesses = 0
    for source in quick.sources:
        first, best = quick.check(source, source.words), slow.check(source, source.words)
        assert (first.label, first.hit) == (best.label, best.hit)
        witnesses += first.hit
        if not first.hit:
            assert first.swap == best.swap
    assert 0 < witnesses < len(quick.sources)
    assert quick.asked < slow.asked == sum(len(source.swaps) + 1 for source in slow.sources)


def test_the_reference_reads_texts_as_a_person_does() -> None:
    """A source's words, and each of its swaps, score as the rendered texts do."""
    world = text_world("country")
    reference = reference_of(world)
    plain = world.plain_logits(world.seeds())
    assert not any(near_tie(logits) for logits in plain)
    for source, logits in zip(reference.sources, plain, strict=True):
        torch.testing.assert_close(reference.scores(source.words), logits.softmax(dim=0))


def test_gradients_are_slopes_of_the_loss() -> None:
    """Against differences of the loss, at a text with a term of two words."""
    world = text_world("country")
    reference = reference_of(world)
    x = next(source.words for source in reference.sources if "Saudi Arabia" in source.words)
    place, label, step = 1, 0, 1e-2
    gradient = reference.gradient(x, label)
    assert gradient.shape == (len(x), world.vectors.dimensions)
    number = reference.numbers[x[place]]
    losses = []
    for sign in (1, -1):
        moved = reference_of(world)
        moved.vectors[number, 3] += sign * step
        losses.append(-moved.scores(x)[label].log().item())
    assert x.count(x[place]) == 1
    assert gradient[place, 3].item() == pytest.approx((losses[0] - losses[1]) / (2 * step), rel=0.02)
