"""Walks that step together: where each stands, its gradients and its random numbers."""

from collections.abc import Callable
from functools import partial
from typing import Generic

import torch
from torch import Tensor

from evenhand.models.classifier import GradientOf
from evenhand.search.check import Checked
from evenhand.search.checkpoint import Place
from evenhand.search.draws import Draws
from evenhand.search.space import ModelT, SpaceT

DRAWS_PER_STEP = 4  # which element, which direction, whether to accept, one to spare
ACCEPTANCE_DRAW = 3
STANDING = ("x", "own", "label", "pair", "score", "pair_score")
SMALLEST_SALIENCY = 1e-30  # an element without any gradient is as unimportant as float32 can say


class Walk(Generic[SpaceT, ModelT]):
    """A batch of walks. A method reads it and says where to go; the search checks and moves it."""

    x: Tensor  # (n, d) where each walk stands, and what the check said there: see `Checked`
    own: Tensor
    label: Tensor
    pair: Tensor
    score: Tensor
    pair_score: Tensor

    def __init__(self, model: ModelT, space: SpaceT, at: Checked, draws: Draws) -> None:
        self.model = model
        self.space = space
        self._stand(at)
        self.step = 0
        self.memory: dict[str, Tensor] = {}  # what a method remembers for each walk, (n, …) each
        self._draws = draws
        self._gradient: Tensor | None = None  # (n, 2, …) of x and of its pair
        self._what = ""  # the gradient of what
        self._moved: Tensor | None = None  # (n,) which walks have moved since it was computed; None: none

    def gradients(self, of: GradientOf = "loss", refresh: bool = True) -> tuple[Tensor, Tensor]:
        """(n, …) each: the gradients of x and of its pair x', both at x's label, in one backward pass."""
        return self.remembered(of, partial(self.model.gradients, of=of), refresh)

    def remembered(
        self, what: str, ask: Callable[[Tensor, Tensor], Tensor], refresh: bool = True
    ) -> tuple[Tensor, Tensor]:
        """(n, …) each: what the model, asked for `what`, says of the inputs of x and of its pair x' at x's label.

        Only walks that have moved are asked about again, and with `refresh` off not even those.
        """
        if self._gradient is None or what != self._what:
            self._gradient, self._what = self._of_pairs(ask, self.x, self.label, self.pair), what
        elif refresh and self._moved is not None:
            moved = self._moved.nonzero().squeeze(1)
            if moved.shape[0]:
                at = (field.index_select(0, moved) for field in (self.x, self.label, self.pair))
                self._gradient.index_copy_(0, moved, self._of_pairs(ask, *at))
        if refresh:
            self._moved = None
        return self._gradient[:, 0], self._gradient[:, 1]

    def _of_pairs(self, ask: Callable[[Tensor, Tensor], Tensor], x: Tensor, label: Tensor, pair: Tensor) -> Tensor:
        both = torch.stack([x, self.space.with_combination(x, pair)], dim=1)
        inputs = self.space.inputs(both.view(-1, x.shape[1]))
        answer = ask(inputs, label.repeat_interleave(2))
        return answer.view(len(x), 2, *answer.shape[1:])

    def odds(self) -> tuple[Tensor, Tensor]:
        """(n,) each: the log-odds of x's label for x and for its pair, which have different signs just for findings."""
        return self.model.margin(self.score, self.label), self.model.margin(self.pair_score, self.label)

    def uniform(self, which: int) -> Tensor:
        """(n,) this step's random numbers in [0, 1); each `which` is independent of the others."""
        return self._draws.step(self.step, which)

    def uniform_elements(self) -> Tensor:
        """(n, d) more of this step's random numbers, one for each element."""
        return self._draws.derived(self.x.shape[1]).all_of(self.step)

    def choose(self, weights: Tensor, which: int) -> Tensor:
        """(n,) an element for each walk, with probability proportional to its weight (n, elements).

        Protected elements are never chosen; every other weight must be above zero.
        """
        free, last = self.space.freedom(self.x)
        reach = (weights * free).cumsum(dim=1)
        mark = self.uniform(which)[:, None] * reach[:, -1:]
        return torch.searchsorted(reach, mark, right=True).squeeze(1).clamp_max_(last)

    def coin(self, which: int) -> Tensor:
        """(n,) +1 or -1 with equal probability."""
        number = self.uniform(which)
        return torch.ones_like(number).copysign_(number - 0.5)

    def move(self, to: Checked, accept: Tensor | None = None) -> None:
        """Go on from `to` where accepted (n,), or everywhere, and from here otherwise; then the next step begins."""
        if accept is None:
            accept = torch.ones_like(to.hit)
            self._stand(to)
        else:
            self.x = torch.where(accept[:, None], to.x, self.x)
            self.label = torch.where(accept, to.label, self.label)
            self.pair = torch.where(accept, to.pair, self.pair)
            self.score = torch.where(accept, to.score, self.score)
            self.pair_score = torch.where(accept, to.pair_score, self.pair_score)
        self._moved = accept if self._moved is None else self._moved | accept
        self.step += 1

    def keep(self, walks: Tensor) -> None:
        """Go on with some of the walks (n,), by mask."""
        self._take(walks)
        self.memory = {name: field[walks] for name, field in self.memory.items()}
        self._gradient = self._moved = None
        self._draws.keep(walks)

    def place(self) -> Place:
        """All that the walks know; their random numbers follow from their step."""
        tensors = {name: getattr(self, name) for name in STANDING}
        tensors |= {f"memory/{name}": field for name, field in self.memory.items()}
        cached = {"gradient": self._gradient, "moved": self._moved}
        tensors |= {name: field for name, field in cached.items() if field is not None}
        return Place({"step": self.step, "what": self._what}, tensors)

    def restore(self, place: Place) -> None:
        """Go on from where the same walks were in an earlier process."""
        for name in STANDING:
            setattr(self, name, place.tensors[name])
        names = [name for name in place.tensors if name.startswith("memory/")]
        self.memory = {name.removeprefix("memory/"): place.tensors[name] for name in names}
        self.step, self._what = place.numbers["step"], place.numbers["what"]
        self._gradient, self._moved = place.tensors.get("gradient"), place.tensors.get("moved")

    def _stand(self, at: Checked) -> None:
        self.x, self.own, self.label, self.pair = at.x, at.own, at.label, at.pair
        self.score, self.pair_score = at.score, at.pair_score

    def _take(self, walks: Tensor) -> None:
        self.x, self.own, self.label, self.pair = (f[walks] for f in (self.x, self.own, self.label, self.pair))
        self.score, self.pair_score = self.score[walks], self.pair_score[walks]
