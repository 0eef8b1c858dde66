"""Moves that methods for text share: which word, and what it becomes."""

import torch
from torch import Tensor

from evenhand.models.text.classifier import TextClassifier
from evenhand.search.text_space import CODES, SOURCE, TextSpace
from evenhand.search.walk import Walk

TextWalk = Walk[TextSpace, TextClassifier]
CHUNK_PLACES = 8192  # places whose candidates' vectors are looked at together


def options(walk: TextWalk, x: Tensor) -> tuple[Tensor, Tensor]:
    """(m,) walks and (m,) places of all words of samples x that may move."""
    free, _ = walk.space.freedom(x)
    row, place = free.nonzero().unbind(dim=1)
    return row, place


def candidate_vectors(walk: TextWalk, x: Tensor, row: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
    """(m, k + 1, e) how far each candidate lies from the word that stands at a place now, and (m, k + 1) which can be.

    The word that stands there is no candidate; the source's own word, code 0, is one again after it was replaced.
    """
    space, vectors = walk.space, walk.model.vectors
    source, code = x[row, SOURCE], x[row, CODES + place]
    units = space.candidates[source, place]  # (m, k + 1)
    codes = torch.arange(units.shape[1], device=units.device)
    allowed = (units >= 0) & (codes != code[:, None])
    found = vectors[units.clamp_min(0)]
    return found - found.gather(1, code[:, None, None].expand(-1, 1, found.shape[2])), allowed


def estimates(walk: TextWalk, x: Tensor, gradient: Tensor, impossible: float) -> Tensor:
    """(n, width, k + 1) the gradient (n, width, e) times each candidate's distance: what replacing a word brings.

    `impossible` stands where there is no such candidate.
    """
    row, place = options(walk, x)
    table = gradient.new_full((*gradient.shape[:2], walk.space.candidates.shape[2]), impossible)
    for rows, places in zip(torch.split(row, CHUNK_PLACES), torch.split(place, CHUNK_PLACES), strict=True):
        distance, allowed = candidate_vectors(walk, x, rows, places)
        change = (distance @ gradient[rows, places][:, :, None]).squeeze(2)
        table[rows, places] = change.masked_fill_(~allowed, impossible)
    return table


def random_word(walk: TextWalk, place: Tensor, number: Tensor) -> Tensor:
    """Samples with a random candidate at a place (n,) each, by random numbers (n,) (the paper's Algorithm 10).

    A text without any word that may move stays as it is.
    """
    source, code = walk.x[:, SOURCE], walk.x.gather(1, CODES + place[:, None]).squeeze(1)
    others = walk.space.choices[source, place] - 1
    choice = (number * others).long()
    choice = choice + (choice >= code)  # the word that stands there now is left out
    return walk.space.with_code(walk.x, place, torch.where(others > 0, choice, code))


def random_move(walk: TextWalk) -> Tensor:
    """A random word becomes a random one of its candidates."""
    place = walk.choose(torch.ones_like(walk.space.freedom(walk.x)[0]), which=0)
    return random_word(walk, place, walk.uniform(which=1))
