"""How often the people in the data are treated differently, and which way, in training and in held-out rows."""

from collections.abc import Callable

import numpy as np
import torch

from evenhand.data.dataset import Dataset
from evenhand.measures.as_they_are import check_people
from evenhand.measures.direction import Tally
from evenhand.measures.rates import (
    Part,
    all_words,
    data_rates,
    limit_words,
    part_of,
    row_batches,
    rows_for_people,
)
from evenhand.measures.sampling import Sampled
from evenhand.models.classifier import Classifier
from evenhand.search.space import TableSpace

PARTS: tuple[Part, ...] = ("train", "held_out")


def people_rates(
    model: Classifier,
    space: TableSpace,
    data: Dataset,
    *,
    confidence: float = 0.95,
    seed: int = 0,
    interrupted: Callable[[], bool] = lambda: False,
    on_done: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Sampled]:
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
    found: dict[str, Sampled] = {
        part: Sampled(rates[part], tallies[part], rates[part].samples, None) for part in PARTS if part in rates
    }
    if space.nearness:
        more = data_rates(data, rows, np.concatenate(anywhere), PARTS, confidence, all_words(space))
        nobody = Tally(space.variant_count, len(space.schema.label.values))
        found |= {f"{part}_all_values": Sampled(rate, nobody, rate.samples, None) for part, rate in more.items()}
    return found
