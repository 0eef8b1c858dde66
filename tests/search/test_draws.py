"""Random numbers that belong to a walk and a step."""

import numpy as np
import pytest
import torch
from scipy import stats

from evenhand.search.draws import Draws


def numbers(seed: int, walks: list[int], steps: int, block_steps: int = 64, phase: int = 1) -> torch.Tensor:
    draws = Draws(seed, phase, torch.tensor(walks), 4, block_steps)
    return torch.stack([torch.stack([draws.step(t, k) for k in range(4)]) for t in range(steps)])  # (steps, 4, walks)


def test_a_walk_sees_the_same_numbers_in_any_company() -> None:
    together = numbers(5, [3, 8, 99], 150)
    assert torch.equal(together[:, :, 1:2], numbers(5, [8], 150))
    assert torch.equal(together, numbers(5, [3, 8, 99], 150, block_steps=1))
    draws = Draws(5, 1, torch.tensor([3, 8, 99]), 4)
    assert torch.equal(draws.step(149, 2), together[149, 2])  # no need to begin at the beginning


def test_seeds_and_phases_and_walks_differ() -> None:
    streams = [numbers(0, [7], 50), numbers(1, [7], 50), numbers(-1, [7], 50), numbers(0, [7], 50, phase=0)]
    streams += [numbers(0, [8], 50), numbers(2**70 + 3, [7], 50)]
    values = [tuple(stream.flatten().tolist()) for stream in streams]
    assert len(set(values)) == len(values)


def test_numbers_are_uniform_and_uncorrelated() -> None:
    sample = numbers(0, list(range(100)), 100).double()
    assert sample.min() >= 0
    assert sample.max() < 1
    assert stats.kstest(sample.flatten().numpy(), "uniform").pvalue > 0.001
    columns = sample.permute(1, 0, 2).reshape(4, -1).numpy()
    assert np.abs(np.corrcoef(columns) - np.eye(4)).max() < 0.05
    steps = sample[:, 0]
    assert abs(float(torch.corrcoef(torch.stack([steps[:-1].flatten(), steps[1:].flatten()]))[0, 1])) < 0.05


@pytest.mark.parametrize("seed", [0, 1, -5, 2**63, 2**200])
def test_any_whole_number_is_a_seed(seed: int) -> None:
    assert numbers(seed, [1], 1).shape == (1, 4, 1)
