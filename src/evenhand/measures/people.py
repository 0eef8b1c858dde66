"""People as they stand in the table: protected columns change, every other cell reaches the model as it is.

How often they are treated differently, and which way, in training and in held-out rows.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.measures.direction import Tally
from evenhand.measures.rates import Rate, Weighing, effective_samples, share_of
from evenhand.measures.sampling import SampledRate
from evenhand.models.adapters.base import Adapter, people_codes
from evenhand.models.classifier import Classifier, ModelGone
from evenhand.search.check import Checked
from evenhand.search.space import TableSpace

NO_COMBINATION = -1  # of somebody whose own protected values are not in the domain
ROWS_AT_A_TIME = 1_000_000
MOST_KEPT = 10_000  # discriminatory people whose pairs are kept, to choose examples from
FEWEST_PEOPLE = 1000
FIRST_ROWS = 1024  # model rows of the first batch
FEWEST_BATCHES = 10  # at least so many batches where rows have a price, so that an end on the way leaves something
MOST_ROWS = 25_000_000  # model rows; where a check of all people would take more, a random part of them is checked
RANDOM_PART = "a random part of the "  # how a population begins where not all of it was checked
Part = Literal["all", "train", "held_out"]
PART_WORDS = {"all": "", "train": "training ", "held_out": "held-out "}
PARTS: tuple[Part, ...] = ("train", "held_out")


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


@dataclass(frozen=True)
class PeopleFound:
    """Rows of the data that were checked, which of them are discriminatory, and a part of these with their pairs."""

    rows: NDArray[np.int64]
    hit: NDArray[np.bool_]  # (rows,)
    anywhere: NDArray[np.bool_]  # (rows,) the same if all values are compared, however far from their own
    some: Checked | None  # the first of the discriminatory rows, which are a random part
    some_rows: NDArray[np.int64]  # (some,)


def discriminatory_rows(
    model: Classifier,
    space: TableSpace,
    data: Dataset,
    *,
    seed: int = 0,
    interrupted: Callable[[], bool] = lambda: False,
    on_done: Callable[[int, int], None] = lambda done, total: None,
) -> PeopleFound:
    """Rows of the data as they stand in the table, and which of them have a witness.

    All rows that the schema calls possible, in a random order; where they have too many variants, or when interrupted,
    the first of these, which are a random part; and so where the model fails on the way. There is at least one batch.
    """
    rows, hits = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=bool)]
    anywhere = [np.zeros(0, dtype=bool)]
    some: list[Checked] = []
    kept = [np.zeros(0, dtype=np.int64)]
    try:
        for batch in row_batches(
            space, data, seed=seed, most_rows=rows_for_people(model), interrupted=interrupted, on_done=on_done
        ):
            looked = check_people(model, space, data, batch)
            found = looked.found
            anywhere.append(looked.anywhere.cpu().numpy())
            hits.append(found.hit.cpu().numpy())
            rows.append(batch)
            if sum(map(len, some)) < MOST_KEPT and hits[-1].any():
                some.append(found.take(found.hit))
                kept.append(batch[hits[-1]])
    except ModelGone:
        if len(hits) == 1:
            raise
    joined = Checked.joined(some) if some else None
    return PeopleFound(
        np.concatenate(rows), np.concatenate(hits), np.concatenate(anywhere), joined, np.concatenate(kept)
    )


def rows_for_people(model: Classifier) -> int:
    """How many rows a model may be asked about to look at the people of the data: fewer where rows have a price."""
    return (model.module.people_rows if isinstance(model.module, Adapter) else None) or MOST_ROWS


def row_batches(
    space: TableSpace,
    data: Dataset,
    *,
    seed: int = 0,
    most_rows: int = MOST_ROWS,
    interrupted: Callable[[], bool] = lambda: False,
    on_done: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[NDArray[np.int64]]:
    """Batches of rows to check. At least one batch."""
    order = rows_to_check(space, data, seed, most_rows)
    most = max(1, min(ROWS_AT_A_TIME, most_rows // FEWEST_BATCHES) // space.variant_count)
    for start, size in _batches(len(order), max(1, min(most, FIRST_ROWS // space.variant_count)), most):
        yield order[start : start + size]
        on_done(min(start + size, len(order)), len(order))
        if interrupted():
            return


def _batches(total: int, first: int, most: int) -> Iterator[tuple[int, int]]:
    """Where each batch starts, and its size: small at first, so that a slow model's limit of time is seen soon.

    None is larger than a quarter of what is done.
    """
    start, size = 0, first
    while start < total:
        yield start, size
        start, size = start + size, min(most, max(first, (start + size) // 4))


def rows_to_check(space: TableSpace, data: Dataset, seed: int, most_rows: int = MOST_ROWS) -> NDArray[np.int64]:
    """All possible rows in a random order; where they have too many variants, the first of these."""
    most = max(FEWEST_PEOPLE if most_rows == MOST_ROWS else 1, most_rows // space.variant_count)
    order = np.random.default_rng(seed).permutation(len(data.codes))
    possible = order[data.possible[order]]
    if not len(possible):
        raise EvenhandError(f"No row of {data.name} is possible by its schema: see [[impossible]] there.")
    return possible[:most]


def audit_rates(space: TableSpace, data: Dataset, found: PeopleFound) -> dict[str, Rate]:
    """The rates of an audit; where protected numbers are compared within a distance, also against all values."""
    rates = data_rates(data, found.rows, found.hit, how=limit_words(space))
    if not space.nearness:
        return rates
    everywhere = data_rates(data, found.rows, found.anywhere, ("all",), how=all_words(space))
    return rates | ({"all_values": everywhere["all"]} if everywhere else {})


def limit_words(space: TableSpace) -> str:
    """With whom people are compared, where that is limited."""
    return f", compared {space.nearness.words}" if space.nearness else ""


def all_words(space: TableSpace) -> str:
    """The same without the limit."""
    return f", compared with all values of {' and '.join(space.nearness.titles)}"


def data_rates(
    data: Dataset,
    rows: NDArray[np.int64],
    hit: NDArray[np.bool_],
    parts: Sequence[Part] = ("all", "held_out"),
    confidence: float = 0.95,
    how: str = "",
) -> dict[str, Rate]:
    """How many people of the data itself are treated differently, by part; a part without rows is left out."""
    which = "" if len(rows) == data.possible.sum() else RANDOM_PART
    possible = "" if data.possible.all() else " that its rules call possible"
    rates: dict[str, Rate] = {}
    for part in parts:
        there = part_of(data, rows, part)
        words = f"{which or ('all ' if part == 'all' else '')}{PART_WORDS[part]}rows of {data.name}{possible}{how}"
        if there.any() and (rate := people_rate(words, data, rows[there], hit[there], confidence)) is not None:
            rates[part] = rate
    return rates


def people_rate(
    population: str, data: Dataset, rows: NDArray[np.int64], hit: NDArray[np.bool_], confidence: float = 0.95
) -> Rate | None:
    """The share of hits among rows of the data, weighted where these have weights; None if all of these are 0."""
    if data.weights is None:
        return Rate(population, int(hit.sum()), len(rows), confidence)
    weights = data.weights[rows]
    share = share_of(hit, weights)
    if share is None:
        return None
    by = str(data.schema.weight)
    weighing = Weighing(by, share, effective_samples(weights))
    return Rate(f"{population}, weighted by {by}", int(hit.sum()), len(rows), confidence, weighing=weighing)


def part_of(data: Dataset, rows: NDArray[np.int64], part: str) -> NDArray[np.bool_]:
    """(n,) which of the rows belong to a part of the data."""
    if part == "all":
        return np.ones(len(rows), dtype=bool)
    return data.train[rows] if part == "train" else ~data.train[rows]


def people_rates(
    model: Classifier,
    space: TableSpace,
    data: Dataset,
    *,
    confidence: float = 0.95,
    seed: int = 0,
    interrupted: Callable[[], bool] = lambda: False,
    on_done: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, SampledRate]:
    """Rates of the training and of the held-out rows as they stand in the table.

    Rows that the schema calls impossible count nowhere. All others are looked at, so the interval says how far the
    rate may be from that of the people whom they stand for.
    """
    tallies = {part: Tally(space.variant_count, len(space.schema.label.values)) for part in PARTS}
    numbers, hits, anywhere = [], [], []
    favourable = space.schema.label.favourable_code
    for rows in row_batches(
        space, data, seed=seed, most_rows=rows_for_people(model), interrupted=interrupted, on_done=on_done
    ):
        looked = check_people(model, space, data, rows)
        hit = looked.hit.cpu().numpy()
        numbers.append(rows)
        hits.append(hit)
        anywhere.append(looked.anywhere.cpu().numpy())
        there, labels = looked.there[looked.hit], looked.labels[looked.hit]
        won = (labels == favourable) & there
        for part, tally in tallies.items():
            of_part = torch.tensor(part_of(data, rows[hit], part), device=won.device)
            weights = None if data.weights is None else torch.tensor(data.weights[rows[hit]], device=won.device)
            tally.add(
                int(part_of(data, rows, part).sum()), won[of_part], there[of_part], labels[of_part],
                None if weights is None else weights[of_part],
            )  # fmt: skip
    rows = np.concatenate(numbers)
    rates = data_rates(data, rows, np.concatenate(hits), PARTS, confidence, limit_words(space))
    found: dict[str, SampledRate] = {
        part: SampledRate(rates[part], tallies[part], rates[part].samples, None) for part in PARTS if part in rates
    }
    if space.nearness:
        more = data_rates(data, rows, np.concatenate(anywhere), PARTS, confidence, all_words(space))
        nobody = Tally(space.variant_count, len(space.schema.label.values))
        found |= {f"{part}_all_values": SampledRate(rate, nobody, rate.samples, None) for part, rate in more.items()}
    return found
