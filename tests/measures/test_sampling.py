"""Rates by sampling: intervals cover, are as narrow as asked, and agree with enumeration."""

import itertools

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from evenhand.errors import EvenhandError
from evenhand.measures import sampling
from evenhand.measures.direction import Tally
from evenhand.measures.populations import Neighbourhood, Uniform
from evenhand.measures.rates import Rate, clopper_pearson
from evenhand.measures.sampling import error_share, sample_population, samples_needed
from evenhand.models.classifier import Classifier
from evenhand.search.draws import Draws
from evenhand.search.space import TableSpace
from tests.worlds.schemas import classifier_of, dataset_of, has_witness, network_of, schema_of


class Coin:
    """A population whose samples have a1 = 0 with a known probability."""

    name, words, per_sample, stream = "coin", "tosses of a coin", 1, 9

    def __init__(self, probability: float) -> None:
        self.probability = probability

    def samples(self, numbers: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(numbers), (numbers >= self.probability).float()], dim=1)


class HitsWhereA1IsZero(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        positive = (x[:, 0] > 0) & (x[:, 1] == 0)
        return torch.stack([~positive, positive], dim=1).float()


SPACE = TableSpace(schema_of([(0, 1), (0, 1)]), ["a0"])


@pytest.fixture
def model() -> Classifier:
    return classifier_of(HitsWhereA1IsZero())


@pytest.mark.parametrize(("truth", "half_width"), [(0.002, 0.004), (0.05, 0.03), (0.4, 0.06)])
def test_intervals_cover_at_their_level_and_are_as_narrow_as_asked(
    model: Classifier, truth: float, half_width: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 200 intervals at 80 % more than 40 and a tolerance may not miss; small stages, so that several are needed."""
    monkeypatch.setattr(sampling, "SMALLEST_PILOT", 50)
    repeats, confidence = 200, 0.8
    missed, stages = 0, 0
    for seed in range(repeats):
        found = sample_population(model, SPACE, Coin(truth), half_width=half_width, confidence=confidence, seed=seed)
        assert found.rate.half_width <= half_width
        assert found.note is None
        low, high = found.rate.interval
        missed += not low <= truth <= high
        stages += found.drawn > found.rate.samples
    assert missed <= stats.binom.ppf(0.9999, repeats, 1 - confidence)
    assert stages > repeats / 2  # the pilot alone did not do it


def test_the_shares_of_the_error_are_at_most_the_whole() -> None:
    assert sum(error_share(stage) for stage in range(50)) <= 1
    assert error_share(1) > 0.8  # the stage that is usually reported has most of it


def test_the_interval_is_that_of_the_reported_stage(model: Classifier) -> None:
    rate = sample_population(model, SPACE, Coin(0.1), half_width=0.01, confidence=0.95).rate
    assert rate.error == pytest.approx(0.9 * 0.05)
    assert rate.interval == clopper_pearson(rate.discriminatory, rate.samples, 1 - 0.9 * 0.05)
    assert rate.as_dict()["confidence"] == 0.95
    assert "error" not in Rate("people", 1, 10).as_dict()


@pytest.mark.parametrize(("share", "half_width", "error"), [(0.5, 0.05, 0.05), (0.0, 0.01, 0.01), (0.02, 0.004, 0.1)])
def test_the_fewest_samples_that_are_enough(share: float, half_width: float, error: float) -> None:
    def half(samples: int) -> float:
        low, high = clopper_pearson(share * samples, samples, 1 - error)
        return (high - low) / 2

    needed = samples_needed(share, half_width, error)
    assert half(needed) <= half_width < half(needed - 1)


@pytest.mark.parametrize("protected", [["a0"], ["a0", "a2"]])
def test_it_agrees_with_full_enumeration(protected: list[str]) -> None:
    schema = schema_of([(0, 2), (-1, 4), (1, 3), (0, 5)])
    module, space = network_of(4, 2, seed=4), TableSpace(schema, protected)
    ranges = [range(a.domain[0], a.domain[1] + 1) for a in schema.attributes]
    domain = np.array(list(itertools.product(*ranges)), dtype=np.int32)
    truth = np.mean([has_witness(module, schema, space.protected, row) for row in domain])
    assert 0.05 < truth < 0.95
    found = sample_population(classifier_of(module), space, Uniform(space), half_width=0.005, confidence=0.999).rate
    low, high = found.interval
    assert low <= truth <= high
    assert abs(found.share - truth) < 0.01


@pytest.mark.parametrize("kind", ["uniform", "neighbourhood"])
def test_chunks_batches_and_threads_leave_no_trace(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = schema_of([(0, 3), (0, 5), (0, 9)])
    module, space, data = network_of(3, 2, seed=0), TableSpace(schema, ["a0"]), dataset_of(schema, 50, seed=0)
    population = Uniform(space) if kind == "uniform" else Neighbourhood(space, data, 1)

    def run(chunk_rows: int | None, seed: int = 0) -> tuple[Rate, list[int]]:
        model = classifier_of(module, chunk_rows)
        found = sample_population(model, space, population, half_width=0.02, confidence=0.95, seed=seed)
        assert model.rows == found.drawn * space.variant_count
        return found.rate, found.tally.won.tolist()

    first = run(None)
    assert run(300) == first
    monkeypatch.setattr(sampling, "BATCH_ROWS", 500)
    assert run(None) == first
    monkeypatch.setattr(sampling, "MOST_THREADS", 1)
    assert run(64) == first
    assert run(None, seed=1) != first


def test_at_the_limit_it_says_that_the_interval_is_wider(model: Classifier) -> None:
    found = sample_population(model, SPACE, Coin(0.3), half_width=0.001, confidence=0.95, most_samples=20_000)
    assert found.drawn == 20_000
    assert found.rate.half_width > 0.001
    assert found.note == "wider than asked, since 20,000 samples were the limit"
    low, high = found.rate.interval
    assert low <= 0.3 <= high


@pytest.mark.parametrize("threads", [1, 4])
def test_an_interrupt_keeps_the_first_part_of_a_stage(
    model: Classifier, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the pilot of 3,202 samples in four batches of 1,000, four batches of the main stage and no more."""
    monkeypatch.setattr(sampling, "BATCH_ROWS", 2000)
    monkeypatch.setattr(sampling, "MOST_THREADS", threads)
    seen: list[int] = []
    found = sample_population(
        model,
        SPACE,
        Coin(0.3),
        half_width=0.001,
        confidence=0.95,
        interrupted=lambda: len(seen) >= 8,
        on_done=lambda done, total: seen.append(done),
    )
    assert found.note == "wider than asked, since it was interrupted"
    assert len(seen) == 8
    pilot = seen[3]
    assert pilot == sampling.pilot_size(0.001, 0.95)
    assert (found.rate.samples, found.drawn) == (4000, pilot + 4000)
    numbers = Draws(0, Coin.stream, torch.arange(pilot, pilot + 4000), Coin.per_sample, block_steps=1).all_of(0)
    assert found.rate.discriminatory == int((numbers < 0.3).sum())
    assert model.rows >= 2 * found.drawn  # threads may have looked further ahead


@pytest.mark.parametrize(("half_width", "confidence"), [(0.0, 0.9), (0.5, 0.9), (0.01, 0.0), (0.01, 1.0)])
def test_bad_precision_is_refused(model: Classifier, half_width: float, confidence: float) -> None:
    with pytest.raises(EvenhandError, match=r"half-width is|confidence is"):
        sample_population(model, SPACE, Coin(0.3), half_width=half_width, confidence=confidence)


def test_a_tally_adds_up() -> None:
    tally = Tally(2)
    tally.add(5, torch.tensor([[True, False], [True, False]]))
    tally.add(3, torch.tensor([[False, True]]))
    assert (tally.samples, tally.hits, tally.won.tolist()) == (8, 3, [2, 1])
