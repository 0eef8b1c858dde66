"""ADF on text, the attacks it grew out of, and random perturbation."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from evenhand.errors import EvenhandError, unknown_name
from evenhand.methods.text_moves import TextWalk, candidate_vectors, estimates, random_move, random_word
from evenhand.models.text.classifier import TextClassifier
from evenhand.search.method import Needs
from evenhand.search.text_space import TextSpace
from evenhand.search.two_phase import TwoPhase
from evenhand.search.walk import SMALLEST_SALIENCY

Rule = Literal["asc", "hotflip"]
Local = Literal["guided", "random"]


@dataclass(frozen=True, kw_only=True)
class TextADF(TwoPhase[TextSpace, TextClassifier]):
    """Zhang et al., "Automatic Fairness Testing of Neural Classifiers through Adversarial Sampling", on text.

    With `paired` off, the global phase sees the gradient of the text alone, not of its pair: the plain attack. A word's
    candidates are the words nearest to the source's own word, however often it was replaced before, so that a walk
    cannot drift away word by word. `accept_failed` is as in ADF for tables.
    """

    name: ClassVar[str] = "adf-hotflip"
    needs: ClassVar[Needs] = "gradients"
    rule: Rule = "hotflip"
    paired: bool = True
    local: Local = "guided"
    accept_failed: float = math.exp(-1)

    def __post_init__(self) -> None:
        for setting, value, known in (("rule", self.rule, get_args(Rule)), ("local", self.local, get_args(Local))):
            if value not in known:
                raise unknown_name(setting, str(value), known)
        if not 0 <= self.accept_failed <= 1:
            raise EvenhandError(f"accept_failed is a probability, from 0 to 1; {self.accept_failed} is not.")

    def global_move(self, walk: TextWalk) -> Tensor:
        """Algorithm 5 or 6: replace one word."""
        g, g_pair = walk.gradients()  # (n, width, e)
        if not self.paired:
            g_pair = torch.zeros_like(g)
        return self._asc(walk, g, g_pair) if self.rule == "asc" else self._hotflip(walk, g - g_pair)

    def _asc(self, walk: TextWalk, g: Tensor, g_pair: Tensor) -> Tensor:
        """Algorithm 5: the word of most impact becomes the candidate that lies most along the gradient's signs.

        The paper writes sign(x_a - c), which leads to the boundary when the objective is the label's score; our
        gradients are those of the loss, which rises towards the boundary, so it is sign(c - x_a) here.
        """
        free, _ = walk.space.freedom(walk.x)
        impact = (g - g_pair).abs().amax(dim=2)
        place = impact.masked_fill(free == 0, -1).argmax(dim=1)  # (n,)
        row = torch.arange(len(place), device=place.device)
        step, allowed = candidate_vectors(walk, walk.x, row, place)  # (n, k + 1, e)
        distance = (step.sign() - g[row, place].sign()[:, None]).norm(dim=2)
        code = distance.masked_fill(~allowed, torch.inf).argmin(dim=1)
        return torch.where(allowed.any(dim=1)[:, None], walk.space.with_code(walk.x, place, code), walk.x)

    def _hotflip(self, walk: TextWalk, difference: Tensor) -> Tensor:
        """Algorithm 6: of all words and candidates the one with the largest estimated change of the losses' difference.

        The plain attack has no difference to widen: it takes the largest estimated rise of the loss.
        """
        change = estimates(walk, walk.x, difference, -torch.inf)
        change = change.abs().masked_fill(change == -torch.inf, -torch.inf) if self.paired else change
        best, flat = change.flatten(1).max(dim=1)
        place, code = flat // change.shape[2], flat % change.shape[2]
        return torch.where((best > -torch.inf)[:, None], walk.space.with_code(walk.x, place, code), walk.x)

    def local_move(self, walk: TextWalk) -> Tensor:
        """Algorithms 8 and 10: a word with probability ∝ 1 / (‖g‖∞ + ‖g'‖∞) becomes a random candidate."""
        if self.local == "random":
            return random_move(walk)
        impact, impact_pair = walk.remembered("impacts", walk.model.impacts)  # (n, width)
        saliency = impact + impact_pair
        place = walk.choose(saliency.clamp_min_(SMALLEST_SALIENCY).reciprocal_(), which=0)
        return random_word(walk, place, walk.uniform(which=1))


@dataclass(frozen=True, kw_only=True)
class RandomPerturbation(TwoPhase[TextSpace, TextClassifier]):
    """The paper's baseline RP: a random word becomes a random candidate, in both phases."""

    name: ClassVar[str] = "random"
    needs: ClassVar[Needs] = "labels"
    accept_failed: float = math.exp(-1)

    def global_move(self, walk: TextWalk) -> Tensor:
        """A random word becomes a random one of its candidates."""
        return random_move(walk)

    def local_move(self, walk: TextWalk) -> Tensor:
        """The same around a finding."""
        return random_move(walk)
