"""People checked as they stand in the table: protected columns change, every other cell reaches the model as it is."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenhand.data.dataset import Dataset
from evenhand.models.adapters.base import people_codes
from evenhand.models.classifier import Classifier
from evenhand.search.check import Checked
from evenhand.search.space import TableSpace

NO_COMBINATION = -1  # of somebody whose own protected values are not in the domain


class CheckedPeople(NamedTuple):
    """Rows of a table with what the check found out about them.

    A person is discriminatory where some combination of protected values of the domain, put in place of their own,
    gets another label than they do. `found.x` has the codes that the model was given, see `people_codes`.
    """

    found: Checked
    labels: Tensor  # (n, variants) the label with every combination of protected values
    there: Tensor  # (n, variants) false for combinations that the schema's rules call impossible for this person
    anywhere: Tensor  # (n,) who would be discriminatory if all values were compared, however far from their own

    @property
    def hit(self) -> Tensor:
        """(n,) who is discriminatory."""
        return self.found.hit


def check_people(model: Classifier, space: TableSpace, data: Dataset, rows: NDArray[np.int64]) -> CheckedPeople:
    """Check rows of the data, whose own values the schema's rules must allow, against all their variants."""
    codes = torch.tensor(people_codes(data, model.module)[rows], dtype=torch.float32, device=model.device)
    inside = space.samples(data.clipped[rows])
    sizes = space.chunks(codes, model.chunk_rows)
    numbers = _own_numbers(space, data, rows).to(model.device)
    split = (torch.split(each, sizes) for each in (codes, inside, numbers))
    parts = [_check(model, space, *part) for part in zip(*split, strict=True)]
    found, labels, there, anywhere = zip(*parts, strict=True)
    return CheckedPeople(Checked.joined(found), torch.cat(labels), torch.cat(there), torch.cat(anywhere))


def _own_numbers(space: TableSpace, data: Dataset, rows: NDArray[np.int64]) -> Tensor:
    """(n, limited) the numbers of the table in the attributes whose distance is limited."""
    columns = [torch.tensor(data.numbers(index)[rows]) for index in space.nearness.attributes]
    return torch.stack(columns, dim=1) if columns else torch.zeros(len(rows), 0)


def _check(
    model: Classifier, space: TableSpace, x: Tensor, inside: Tensor, numbers: Tensor
) -> tuple[Checked, Tensor, Tensor, Tensor]:
    n, shape = len(x), (len(x), space.variant_count)
    outputs = model.outputs(space.variants(x).view(n * space.variant_count, -1))
    labels, all_scores = outputs.labels.view(shape), outputs.scores.view(*shape, -1)
    own = own_combination(space, x)
    label, score = _own_answers(model, x, own, labels, all_scores)
    scores = all_scores.gather(2, label[:, None, None].expand(*shape, 1)).squeeze(2)
    possible = space.possible(space.variants(inside).view(n * space.variant_count, -1))
    there = torch.ones_like(labels, dtype=torch.bool) if possible is None else possible.view(shape)
    anywhere = ((labels != label[:, None]) & there).any(dim=1)
    ruled_out = (labels != label[:, None]).any(dim=1) & ~anywhere
    if space.nearness:
        there = there & space.nearness.of_people(numbers)
    differs = (labels != label[:, None]) & there
    hit = differs.any(dim=1)
    others = torch.where(hit[:, None], differs, there)
    gap = (scores - score[:, None]).abs().masked_fill(~others, -1)
    themselves = own[:, None] == torch.arange(space.variant_count, device=x.device)
    pair = gap.masked_fill(themselves, -2).argmax(dim=1)
    pair_label, pair_score = (of.gather(1, pair[:, None]).squeeze(1) for of in (labels, scores))
    return Checked(x, own, label, hit, pair, pair_label, score, pair_score, ruled_out), labels, there, anywhere


def own_combination(space: TableSpace, x: Tensor) -> Tensor:
    """(n,) the number of each person's own combination of protected values; NO_COMBINATION outside the domain."""
    protected = x[:, space.protected]
    inside = (protected >= space.lower[space.protected]) & (protected <= space.upper[space.protected])
    return torch.where(inside.all(dim=1), space.combination(space.clip(x)), NO_COMBINATION)


def _own_answers(model: Classifier, x: Tensor, own: Tensor, labels: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """(n,) the label of each person as they are, and its score; asked for where no variant is just that person."""
    place = own.clamp_min(0)[:, None]
    label = labels.gather(1, place).squeeze(1)
    of_own = scores.gather(1, place[:, :, None].expand(-1, 1, scores.shape[2])).squeeze(1)
    others = (own < 0).nonzero().squeeze(1)
    if len(others):
        outputs = model.outputs(x[others])
        label[others], of_own[others] = outputs.labels, outputs.scores
    return label, of_own.gather(1, label[:, None]).squeeze(1)
