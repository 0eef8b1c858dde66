"""What a repair changes for texts: which are treated alike now, and how well those of each group are judged."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from evenhand.models.text.by_construction import RecurrentText
from evenhand.runs.text_world import TextSearchWorld
from evenhand.search.check import Checked, check

if TYPE_CHECKING:
    from evenhand.runs.text_judge import TextJudge

MOST_EXAMPLES, MOST_VALUES = 5, 12
SHOWN_CHARACTERS = 240
CPU = torch.device("cpu")


def value_rows(judge: "TextJudge", before: RecurrentText, after: RecurrentText) -> list[dict[str, Any]]:
    """Accuracy on held-out texts by the value that a text mentions first, before and after; the commonest values."""
    world = judge.still["held_out"]
    assert world is not None
    sources, words = world.sources, judge.work.subject.mentions.words
    values = np.array([text.mentions[0].value for text in sources.texts])
    right = [judge.right(model, sources.rows) for model in (before, after)]
    found, counts = np.unique(values, return_counts=True)
    rows = []
    for value in found[np.argsort(-counts, kind="stable")][:MOST_VALUES].tolist():
        there = values == value
        rows.append({
            "attribute": "mentions",
            "value": words.values[value],
            "people": int(there.sum()),
            "accuracy_before": float(right[0][there].mean()),
            "accuracy_after": float(right[1][there].mean()),
        })  # fmt: skip
    return rows


def text_examples(
    world: TextSearchWorld, before: RecurrentText, after: RecurrentText, classes: list[str]
) -> dict[str, Any]:
    """Held-out texts, as they were written, with a witness before only, and after only."""
    x = world.space.samples(np.arange(len(world.sources), dtype=np.int32)[:, None])
    first, second = (check(model.classifier(world.space.texts, CPU, None), world.space, x) for model in (before, after))
    return {
        "people": len(x),
        "now_alike": int((first.hit & ~second.hit).sum()),
        "newly_differ": int((second.hit & ~first.hit).sum()),
        "still_differ": int((second.hit & first.hit).sum()),
        "now_alike_examples": _cards(world, first, second, first.hit & ~second.hit, "before", classes),
        "newly_differ_examples": _cards(world, second, first, second.hit & ~first.hit, "after", classes),
    }


def _cards(
    world: TextSearchWorld, differs: Checked, alike: Checked, which: torch.Tensor, when: str, classes: list[str]
) -> list[dict[str, Any]]:
    """Some texts with the exchange that changes their label, those first whose scores differ most."""
    rows = which.nonzero().squeeze(1)
    gap = (differs.score - differs.pair_score).abs()[rows]
    rows = rows[gap.argsort(descending=True, stable=True)[:MOST_EXAMPLES]]
    if not len(rows):
        return []
    own, other = world.space.swapped_values(differs.x[rows], differs.pair[rows])
    names = world.space.texts.words.values
    return [
        {
            "person": shortened(world.sources.texts[row].tokens.text),
            "own_values": names[mine],
            "other_values": names[theirs],
            "differs": when,
            "label": classes[int(differs.label[row])],
            "other_label": classes[int(differs.pair_label[row])],
            "label_when_alike": classes[int(alike.label[row])],
        }
        for row, mine, theirs in zip(rows.tolist(), own.tolist(), other.tolist(), strict=True)
    ]


def shortened(text: str) -> str:
    """The beginning of a text."""
    flat = " ".join(text.split())
    return flat if len(flat) <= SHOWN_CHARACTERS else f"{flat[:SHOWN_CHARACTERS].rsplit(' ', 1)[0]} …"
