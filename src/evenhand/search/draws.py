"""Random numbers that belong to a walk and a step, not to a batch.

Each number is a hash of (run seed, phase, walk, step, which), so a walk sees the same numbers in any company, in any
order and on any device. The hash is the finaliser of SplitMix64.
"""

import copy

import torch
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_MIX_1 = 0xBF58476D1CE4E5B9 - 2**64
_MIX_2 = 0x94D049BB133111EB - 2**64
BLOCK_STEPS = 64  # generated together, since many small operations cost more than a few large ones


class Draws:
    """Uniform numbers for walks that step together."""

    def __init__(self, seed: int, phase: int, walks: Tensor, per_step: int, block_steps: int = BLOCK_STEPS) -> None:
        stream = _mix(_mix(torch.tensor(_wrapped(seed))) + phase)
        self._walks = _mix(stream.to(walks.device) + walks * _GOLDEN)  # (n,)
        self._per_step = per_step
        self._block_steps = block_steps
        self._block = -1
        self._numbers: list[Tensor] = []

    def step(self, step: int, which: int) -> Tensor:
        """(n,) numbers in [0, 1) for one step of every walk; each `which` below `per_step` is independent."""
        block, position = divmod(step, self._block_steps)
        if block != self._block:
            self._block = block
            self._numbers = list(self._generate(block).unbind())
        return self._numbers[position * self._per_step + which]

    def all_of(self, step: int) -> Tensor:
        """(n, per_step) all numbers of one step."""
        return torch.stack([self.step(step, which) for which in range(self._per_step)], dim=1)

    def derived(self, per_step: int) -> "Draws":
        """Other numbers for the same walks, independent of these."""
        other = copy.copy(self)
        other._walks, other._per_step, other._block = _mix(self._walks + _GOLDEN), per_step, -1
        return other

    def keep(self, walks: Tensor) -> None:
        """Go on with some of the walks, by mask; their numbers stay the same."""
        self._walks = self._walks[walks]
        self._block = -1

    def _generate(self, block: int) -> Tensor:
        """(block_steps * per_step, n) numbers of one block of steps."""
        size = self._block_steps * self._per_step
        counters = torch.arange(block * size, (block + 1) * size, device=self._walks.device)
        hashed = _mix(self._walks + (counters * _GOLDEN)[:, None])
        return _shifted(hashed, 40).float() * 2.0**-24  # the top 24 bits: as many as float32 holds exactly


def _mix(z: Tensor) -> Tensor:
    z = (z ^ _shifted(z, 30)) * _MIX_1
    z = (z ^ _shifted(z, 27)) * _MIX_2
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, bits: int) -> Tensor:
    """A shift to the right that brings in zeros; torch's own brings in the sign."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def _wrapped(seed: int) -> int:
    """Any whole number as a signed 64-bit one."""
    return (seed + 2**63) % 2**64 - 2**63
