"""What a repair changes for people: who is now treated alike, who newly is not, and how well each group is judged."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from evenhand.data.dataset import Dataset
from evenhand.models.classifier import Classifier
from evenhand.search.check import Checked, check
from evenhand.search.space import TableSpace

MOST_EXAMPLES = 5
PEOPLE = 20_000  # rows that are looked at


def group_rows(
    data: Dataset, space: TableSpace, before: NDArray[np.bool_], after: NDArray[np.bool_]
) -> list[dict[str, Any]]:
    """Accuracy on held-out rows by each value of each protected attribute, before and after."""
    rows: list[dict[str, Any]] = []
    held_out = data.clipped[~data.train]
    for column in space.protected:
        attribute = data.schema.attributes[column]
        for code in np.unique(held_out[:, column]):
            there = held_out[:, column] == code
            rows.append({
                "attribute": attribute.title,
                "value": attribute.text(int(code)),
                "people": int(there.sum()),
                "accuracy_before": float(before[there].mean()),
                "accuracy_after": float(after[there].mean()),
            })  # fmt: skip
    return rows


def examples_of(
    data: Dataset, space: TableSpace, original: Classifier, repaired: nn.Module, seed: int
) -> dict[str, Any]:
    """Held-out people (training rows where none are held out) with a witness before only, and after only."""
    which = np.flatnonzero(~data.train) if not data.train.all() else np.arange(len(data.codes))
    which = np.random.default_rng(seed).permutation(which)[:PEOPLE]
    x = space.samples(data.clipped[which])
    before = check(original, space, x)
    output = original.output if repaired is original.module else "logits"
    after = check(Classifier(repaired, output=output), space, x)
    return {
        "people": len(which),
        "now_alike": int((before.hit & ~after.hit).sum()),
        "newly_differ": int((after.hit & ~before.hit).sum()),
        "still_differ": int((after.hit & before.hit).sum()),
        "now_alike_examples": _cards(data, space, before, after, before.hit & ~after.hit, "before"),
        "newly_differ_examples": _cards(data, space, after, before, after.hit & ~before.hit, "after"),
    }


def _cards(
    data: Dataset, space: TableSpace, differs: Checked, alike: Checked, which: torch.Tensor, when: str
) -> list[dict[str, Any]]:
    """Some pairs in words, those first whose scores differ most where they differ."""
    rows = which.nonzero().squeeze(1)
    gap = (differs.score - differs.pair_score).abs()[rows]
    cards = []
    for row in rows[gap.argsort(descending=True, stable=True)[:MOST_EXAMPLES]].tolist():
        codes = differs.x[row].int().tolist()
        other = space.with_combination(differs.x[row : row + 1], differs.pair[row : row + 1])[0].int().tolist()
        label = data.schema.label
        free = [i for i in range(len(codes)) if i not in space.protected]
        attributes = data.schema.attributes
        cards.append({
            "person": ", ".join(attributes[i].sentence(codes[i]) for i in free),
            "own_values": ", ".join(attributes[i].sentence(codes[i]) for i in space.protected),
            "other_values": ", ".join(attributes[i].sentence(other[i]) for i in space.protected),
            "differs": when,
            "label": label.text(int(differs.label[row])),
            "other_label": label.text(int(differs.pair_label[row])),
            "label_when_alike": label.text(int(alike.label[row])),
        })  # fmt: skip
    return cards
