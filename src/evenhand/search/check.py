"""The discrimination check: exact over every combination of protected values (the paper's Algorithm 2)."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from evenhand.models.classifier import Model
from evenhand.search.space import Space


class Checked(NamedTuple):
    """Samples with what the check found out about them.

    The pair is a witness where there is one, and otherwise the variant whose score differs most. It is a combination's
    number; `space.with_combination(x, pair)` is the sample.
    """

    x: Tensor  # (n, d)
    own: Tensor  # (n,) the sample's own combination of protected values
    label: Tensor  # (n,) the model's own label y
    hit: Tensor  # (n,) true where some variant gets another label
    pair: Tensor  # (n,) the pair's combination of protected values
    pair_label: Tensor  # (n,) differs from label just where hit
    score: Tensor  # (n,) O_y(x)
    pair_score: Tensor  # (n,) O_y(x')
    ruled_out: Tensor  # (n,) a variant gets another label, but one of the two is impossible

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: Tensor) -> "Checked":
        """Some of the samples, by mask or by index."""
        return Checked(*(field[rows] for field in self))

    @staticmethod
    def joined(parts: "Sequence[Checked]") -> "Checked":
        """Several batches as one."""
        return Checked(*(torch.cat(column) for column in zip(*parts, strict=True)))

    @staticmethod
    def nothing(x: Tensor) -> "Checked":
        """No sample at all, in the shapes of samples like x."""
        scores = torch.zeros(0, device=x.device)
        numbers = scores.long()
        return Checked(x[:0], numbers, numbers, scores.bool(), numbers, numbers, scores, scores, scores.bool())


def check(model: Model, space: Space[Any], x: Tensor) -> Checked:
    """Check (n, d) samples against all their variants."""
    return _in_chunks(_check, model, space, (x, space.combination(x)))


def check_near(model: Model, space: Space[Any], x: Tensor, own: Tensor, guess: Tensor) -> Checked:
    """Check samples whose neighbours had the witness `guess` (n,), which is looked at first and kept if it is one here.

    All other variants are looked at where it is not, so the verdict is as exact as that of `check`; only the choice
    among several witnesses differs. `own` (n,) is `space.combination(x)`.
    """
    if space.binary:  # nothing but the guess to look at
        return _in_chunks(_check, model, space, (x, own))
    checked = _in_chunks(_check_guess, model, space, (x, own, guess))
    rest = (~checked.hit).nonzero().squeeze(1)
    if rest.shape[0]:
        for field, found in zip(checked[2:], _in_chunks(_check, model, space, (x[rest], own[rest]))[2:], strict=True):
            field[rest] = found
    return checked


def _in_chunks(how: Callable[..., Checked], model: Model, space: Space[Any], samples: tuple[Tensor, ...]) -> Checked:
    """Apply a check to as many samples at a time as the model takes with their variants."""
    sizes = space.chunks(samples[0], model.chunk_rows)
    if len(sizes) <= 1:
        return how(model, space, *samples)
    parts = [how(model, space, *part) for part in zip(*(torch.split(field, sizes) for field in samples), strict=True)]
    return Checked.joined(parts)


def _check_guess(model: Model, space: Space[Any], x: Tensor, own: Tensor, guess: Tensor) -> Checked:
    outputs, of_guess = space.answers_of(model, x, guess)
    label = outputs.labels[:, None]
    score, guess_score = outputs.scores.gather(1, label).squeeze(1), of_guess.scores.gather(1, label).squeeze(1)
    hit = outputs.labels != of_guess.labels
    here = space.possible(x)
    if here is not None:
        there = space.possible(space.with_combination(x, guess))
        assert there is not None
        hit = hit & here & there
    near = space.near(own, guess)
    hit = hit if near is None else hit & near
    ruled_out = torch.zeros_like(hit)  # where all variants have been looked at, `_check` knows
    return Checked(x, own, outputs.labels, hit, guess.clone(), of_guess.labels, score, guess_score, ruled_out)


def _check(model: Model, space: Space[Any], x: Tensor, own: Tensor) -> Checked:
    """All variants of every sample; of several witnesses the one whose score differs most."""
    answers = space.answers(model, x)
    labels = answers.labels
    own = own[:, None]
    label = labels.gather(1, own)  # (n, 1)
    scores = answers.scores.gather(2, label[:, None].expand(*labels.shape, 1)).squeeze(2)
    score = scores.gather(1, own)
    differs, gap = labels != label, (scores - score).abs()
    ruled_out = torch.zeros_like(own, dtype=torch.bool)
    if answers.near is not None:
        differs = differs & answers.near
    if answers.there is not None:
        ruled_out = differs.any(dim=1, keepdim=True)
        differs, gap = differs & answers.there & answers.there.gather(1, own), torch.where(answers.there, gap, -1)
    hit = differs.any(dim=1, keepdim=True)
    pair = 1 - own if space.binary else _most_different(gap, differs, hit, own)
    fields = (own, label, hit, pair, labels.gather(1, pair), score, scores.gather(1, pair), ruled_out & ~hit)
    return Checked(x, *[field.squeeze(1) for field in fields])


def _most_different(gap: Tensor, differs: Tensor, hit: Tensor, own: Tensor) -> Tensor:
    """(n, 1) the variant with the largest gap of scores: among the witnesses where there are some, else among all."""
    return gap.masked_fill(differs != hit, -1).scatter(1, own, -1).argmax(dim=1, keepdim=True)
