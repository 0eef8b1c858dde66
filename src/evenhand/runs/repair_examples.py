"""What a repair changes for people: who is now treated alike, who newly is not, and how well each group is judged."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evenhand.data.dataset import Dataset
from evenhand.measures.people import check_people
from evenhand.measures.rates import share_of
from evenhand.measures.verdict import held_out_weights
from evenhand.models.adapters.base import reads_raw_values
from evenhand.models.classifier import Classifier
from evenhand.search.check import Checked
from evenhand.search.space import TableSpace

MOST_EXAMPLES = 5
PEOPLE = 20_000  # rows that are looked at


def group_rows(
    data: Dataset, space: TableSpace, before: NDArray[np.bool_], after: NDArray[np.bool_]
) -> list[dict[str, Any]]:
    """Accuracy on held-out rows by each value of each protected attribute, before and after.

    Weighted where rows have weights; a group without any weight has no accuracy and is left out.
    """
    rows: list[dict[str, Any]] = []
    held_out, weights = data.codes[~data.train], held_out_weights(data)
    for column in space.protected:
        attribute = data.schema.attributes[column]
        for code in np.unique(held_out[:, column]):
            there = held_out[:, column] == code
            own = None if weights is None else weights[there]
            if share_of(before[there], own) is None:
                continue
            rows.append({
                "attribute": attribute.title,
                "value": attribute.text(int(code)),
                "people": int(there.sum()),
                "accuracy_before": share_of(before[there], own),
                "accuracy_after": share_of(after[there], own),
            })  # fmt: skip
    return rows


def examples_of(
    data: Dataset, space: TableSpace, original: Classifier, repaired: Classifier, people: NDArray[np.int64]
) -> dict[str, Any]:
    """Of people by the numbers of their rows: those with a witness before only, and after only."""
    before, after = (check_people(model, space, data, people[:PEOPLE]).found for model in (original, repaired))
    exact = reads_raw_values(original.module)
    return {
        "people": len(before),
        "now_alike": int((before.hit & ~after.hit).sum()),
        "newly_differ": int((after.hit & ~before.hit).sum()),
        "still_differ": int((after.hit & before.hit).sum()),
        "now_alike_examples": _cards(data, space, before, after, before.hit & ~after.hit, "before", exact),
        "newly_differ_examples": _cards(data, space, after, before, after.hit & ~before.hit, "after", exact),
    }


def _cards(
    data: Dataset, space: TableSpace, differs: Checked, alike: Checked, which: torch.Tensor, when: str, exact: bool
) -> list[dict[str, Any]]:
    """Some pairs in words, those first whose scores differ most where they differ."""
    rows = which.nonzero().squeeze(1)
    gap = (differs.score - differs.pair_score).abs()[rows]
    cards = []
    for row in rows[gap.argsort(descending=True, stable=True)[:MOST_EXAMPLES]].tolist():
        codes = differs.x[row].int().tolist()
        other = space.with_combination(differs.x[row : row + 1], differs.pair[row : row + 1])[0].int().tolist()
        label = data.schema.label
        free = [i for i in data.shown(exact=exact) if i not in space.protected and i not in space.unread]
        cards.append({
            "person": ", ".join(data.sentence(i, codes[i], exact=exact) for i in free),
            "own_values": ", ".join(data.sentence(i, codes[i], exact=exact) for i in space.protected),
            "other_values": ", ".join(data.sentence(i, other[i], exact=exact) for i in space.protected),
            "differs": when,
            "label": label.text(int(differs.label[row])),
            "other_label": label.text(int(differs.pair_label[row])),
            "label_when_alike": label.text(int(alike.label[row])),
        })  # fmt: skip
    return cards
