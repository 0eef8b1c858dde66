"""Boundary: our own method for text. It places the decision boundary between the variants of a text.

All variants of a text that is no finding lie on one side of the boundary. The one nearest to it is pushed across while
the farthest must stay: its gradient ranks all replacements of one word, the best are scored exactly on both, and one
that puts the boundary between them is taken, or else the one that brings the nearest closest to it. Of a text that is
split so, words are put back as they were as far as that lasts.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from evenhand.errors import EvenhandError
from evenhand.methods.margin import choose
from evenhand.methods.text_moves import TextWalk, estimates
from evenhand.models.classifier import log_odds
from evenhand.models.text.classifier import TextClassifier
from evenhand.search.check import Checked
from evenhand.search.method import Needs
from evenhand.search.text_space import CODES, SOURCE, TextSpace
from evenhand.search.two_phase import TwoPhase

IMPOSSIBLE = 1e6  # more than any estimated change of log-odds
UNLIKELY = 1e-9  # the weight of a replacement that is predicted to lose the pair


@dataclass(frozen=True, kw_only=True)
class Boundary(TwoPhase[TextSpace, TextClassifier]):
    """Exact scores for the replacements that the gradient ranks first, then walks inside the margin."""

    name: ClassVar[str] = "boundary"
    needs: ClassVar[Needs] = "gradients"
    tries: int = 48  # replacements that are scored exactly in each iteration
    caution: float = 0.8  # a replacement is taken to keep the pair if this share of its slack is left
    calm: float = 0.1  # replacements are the likelier the less they are predicted to do; below this it makes no odds
    patience: int = 3  # iterations with one replacement each
    haste: int = 2  # replacements in each later one
    refresh: int = 16  # local steps between two looks at the gradients

    def __post_init__(self) -> None:
        if min(self.tries, self.refresh, self.haste) < 1 or self.patience < 0:
            raise EvenhandError("tries, refresh and haste are whole numbers of at least 1, patience of at least 0.")
        if not 0 <= self.caution < 1:
            raise EvenhandError(f"caution is a share from 0 to below 1; {self.caution} is not.")

    def global_move(self, walk: TextWalk) -> Tensor:
        """Replace the word that best puts the boundary between the nearest and the farthest variant.

        A text that is still no finding after some iterations has more than one word replaced in each.
        """
        self._find_extremes(walk)
        x, split = walk.x, torch.zeros_like(walk.label, dtype=torch.bool)
        for _ in range(1 if walk.step < self.patience else self.haste):
            x, split = self._replaced(walk, x, split)
        return self._trimmed(walk, x, split)

    def _replaced(self, walk: TextWalk, x: Tensor, done: Tensor) -> tuple[Tensor, Tensor]:
        """One word replaced in texts that are not `done` (n,), and which then have variants on both sides."""
        memory = walk.memory
        nearest = walk.space.inputs(walk.space.with_combination(x, memory["low"]))
        gradient = walk.model.gradients(nearest, walk.label, of="odds")
        change = estimates(walk, x, gradient, IMPOSSIBLE).flatten(1)  # (n, width (k + 1)) of the nearest's log-odds
        middle = (memory["odds_low"] + memory["odds_high"])[:, None] / 2
        off, flat = (middle + change).abs().topk(min(self.tries, change.shape[1]), dim=1, largest=False)
        place, code = flat // walk.space.candidates.shape[2], flat % walk.space.candidates.shape[2]
        low, high = (_exact(walk, x, walk.label, memory[end], place, code) for end in ("low", "high"))
        allowed = off < IMPOSSIBLE / 2
        best = _best(low, high, allowed)[:, None]
        moves = allowed[:, 0] & ~done
        memory["odds_low"] = torch.where(moves, low.gather(1, best).squeeze(1), memory["odds_low"])
        memory["odds_high"] = torch.where(moves, high.gather(1, best).squeeze(1), memory["odds_high"])
        moved = walk.space.with_code(x, place.gather(1, best).squeeze(1), code.gather(1, best).squeeze(1))
        split = done | (moves & (memory["odds_low"] < 0) & (memory["odds_high"] > 0))
        return torch.where(moves[:, None], moved, x), split

    def _trimmed(self, walk: TextWalk, x: Tensor, split: Tensor) -> Tensor:
        """Texts whose variants are on both sides, with words put back as they were, as far as that lasts."""
        space, memory = walk.space, walk.memory
        rows = (split & (space.changes(x) > 1)).nonzero().squeeze(1)
        while len(rows):
            order = (x[rows, CODES:] > 0).int().argsort(dim=1, descending=True, stable=True)
            place = order[:, : int(space.changes(x[rows]).max())]  # the changed places first
            ends = (memory["low"][rows], memory["high"][rows])
            code = torch.zeros_like(place)
            low, high = (_exact(walk, x[rows], walk.label[rows], end, place, code) for end in ends)
            slack = torch.minimum(-low, high).masked_fill(x[rows].gather(1, CODES + place) == 0, -1)
            widest, best = slack.max(dim=1)
            shorter = space.with_code(x[rows], place.gather(1, best[:, None]).squeeze(1), torch.zeros_like(best))
            x[rows] = torch.where((widest > 0)[:, None], shorter, x[rows])
            rows = rows[(widest > 0) & (space.changes(shorter) > 1)]
        return x

    def _find_extremes(self, walk: TextWalk) -> None:
        """The swaps with the lowest and the highest score of the label, (n,) each, and their log-odds.

        All variants are asked once, at the seed. Later the check of each new text tells one end anew: the variant that
        differs most. Where all crossed the boundary at once, the label is another one and the ends change places.
        """
        memory = walk.memory
        if "low" not in memory:
            parts = torch.split(walk.x, walk.space.chunks(walk.x, walk.model.chunk_rows))
            labels = torch.split(walk.label, [len(part) for part in parts])
            ends = [_ends(walk, part, label) for part, label in zip(parts, labels, strict=True)]
            lowest, memory["low"], highest, memory["high"] = (torch.cat(column) for column in zip(*ends, strict=True))
            memory["odds_low"], memory["odds_high"] = log_odds(lowest), log_odds(highest)
        elif bool((crossed := walk.label != memory["label"]).any()):
            for one, other, sign in (("low", "high", 1), ("odds_low", "odds_high", -1)):
                first, second = memory[one], memory[other]
                memory[one] = torch.where(crossed, sign * second, first)
                memory[other] = torch.where(crossed, sign * first, second)
        memory["label"] = walk.label
        for swap, score in ((walk.own, walk.score), (walk.pair, walk.pair_score)):
            odds = log_odds(score)
            for end, farther in (("low", odds < memory["odds_low"]), ("high", odds > memory["odds_high"])):
                memory[end] = torch.where(farther, swap, memory[end])
                memory[f"odds_{end}"] = torch.where(farther, odds, memory[f"odds_{end}"])

    def local_move(self, walk: TextWalk) -> Tensor:
        """A random replacement among those that are predicted to keep the pair on both sides of the boundary."""
        if walk.step % self.refresh == 0 or "change" not in walk.memory:
            self._refresh(walk)
        odds, odds_pair = log_odds(walk.score)[:, None, None], log_odds(walk.pair_score)[:, None, None]
        change, change_pair = walk.memory["change"], walk.memory["change_pair"]
        code = walk.x[:, CODES:, None]
        step, step_pair = change - change.gather(2, code), change_pair - change_pair.gather(2, code)
        slack = torch.minimum(odds + step, -odds_pair - step_pair)
        keeps = slack > self.caution * torch.minimum(odds, -odds_pair)
        free, _ = walk.space.freedom(walk.x)
        possible = (walk.memory["possible"] > 0).scatter(2, code, False) & (free > 0)[:, :, None]
        effect = (step.abs() + step_pair.abs()) / torch.minimum(odds, -odds_pair).clamp_min(UNLIKELY)
        weight = torch.where(keeps, 1 / (effect + self.calm), UNLIKELY) * possible
        choice = choose(weight.flatten(1), walk.uniform(which=0))
        choice = torch.where(weight.flatten(1).gather(1, choice[:, None]).squeeze(1) > 0, choice, -1)
        place, picked = choice.clamp_min(0) // change.shape[2], choice % change.shape[2]
        moved = walk.space.with_code(walk.x, place, picked)
        return torch.where((choice >= 0)[:, None], moved, walk.x)

    def _refresh(self, walk: TextWalk) -> None:
        """Estimate anew what each replacement would bring to the text and to its pair."""
        g, g_pair = walk.gradients(of="odds")
        change, change_pair = (estimates(walk, walk.x, gradient, IMPOSSIBLE) for gradient in (g, g_pair))
        code = walk.x[:, CODES:, None]
        walk.memory["change"] = change.masked_fill(change >= IMPOSSIBLE, 0)
        walk.memory["change_pair"] = change_pair.masked_fill(change_pair >= IMPOSSIBLE, 0)
        walk.memory["possible"] = (change < IMPOSSIBLE).scatter(2, code, True)  # the word that stands there, too

    def accepts(self, walk: TextWalk, checked: Checked) -> Tensor:  # noqa: ARG002 - other methods ask the walk
        """Findings only."""
        return checked.hit


def _ends(walk: TextWalk, x: Tensor, label: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(n,) the lowest score of the label among all variants and its swap, then the highest and its swap."""
    answers = walk.space.answers(walk.model, x)
    scores = answers.scores.gather(2, label[:, None, None].expand(*answers.labels.shape, 1)).squeeze(2)
    assert answers.there is not None
    lowest, low = scores.masked_fill(~answers.there, 2).min(dim=1)
    highest, high = scores.masked_fill(~answers.there, -1).max(dim=1)
    return lowest, low, highest, high


def _exact(walk: TextWalk, x: Tensor, label: Tensor, swap: Tensor, place: Tensor, code: Tensor) -> Tensor:
    """(n, tries) the label's log-odds of one variant of texts x with each replacement."""
    x = walk.space.with_combination(x, swap)
    of = torch.arange(len(x), device=x.device).repeat_interleave(place.shape[1])
    unit = walk.space.candidates[x[of, SOURCE], place.flatten(), code.flatten()]
    _, outputs = walk.model.outputs_replacing(walk.space.inputs(x), of, place.flatten(), unit)
    return log_odds(outputs.scores.gather(1, label[of, None]).view_as(place))


def _best(low: Tensor, high: Tensor, allowed: Tensor) -> Tensor:
    """(n,) of replacements with the variants' log-odds (n, tries): the widest split, else the nearest to one.

    A split has the nearest variant across the boundary and the farthest not: the smaller of the two distances counts.
    Without one, the nearest variant should come closer and stay; where all cross at once, the closest.
    """
    split = (low < 0) & (high > 0)
    width = torch.minimum(-low, high)
    before = torch.where(high > 0, -low.abs(), -low.abs() - 100)
    value = torch.where(split, 1000 + width, before)
    return value.masked_fill(~allowed, -torch.inf).argmax(dim=1)
