"""How often the people in the data are treated differently, and which way, in training and in held-out rows."""

from collections.abc import Callable

import numpy as np
import torch

from evenhand.data.dataset import Dataset
from evenhand.measure.direction import Tally, look
from evenhand.measure.rates import Part, data_rates, part_of, row_batches, rows_for_people
from evenhand.measure.sampling import Sampled
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
    """Rates of the training and of the held-out rows, clipped into the domain and otherwise as they are.

    Rows that the schema calls impossible count nowhere. All others are looked at, so the interval says how far the
    rate may be from that of the people whom they stand for.
    """
    tallies = {part: Tally(space.variant_count) for part in PARTS}
    numbers, hits = [], []
    for rows, x in row_batches(
        space, data, seed=seed, most_rows=rows_for_people(model), interrupted=interrupted, on_done=on_done
    ):
        found = look(model, space, x)
        hit = found.hit.cpu().numpy()
        numbers.append(rows)
        hits.append(hit)
        for part, tally in tallies.items():
            of_part = torch.tensor(part_of(data, rows[hit], part), device=found.won.device)
            tally.add(int(part_of(data, rows, part).sum()), found.won[of_part], found.there[of_part])
    rates = data_rates(data, np.concatenate(numbers), np.concatenate(hits), PARTS, confidence)
    return {part: Sampled(rates[part], tallies[part], rates[part].samples, None) for part in PARTS if part in rates}
