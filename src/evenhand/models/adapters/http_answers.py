"""What an endpoint answers, row by row, as scores of the schema's classes. A row's company does not matter."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.data.schema import Label
from evenhand.models.adapters.base import scores_of
from evenhand.models.adapters.http_client import Failed, Refused
from evenhand.models.adapters.http_settings import Endpoint

USUAL_KEYS = ("predictions", "probabilities", "scores", "outputs", "labels")
ROUNDING = 1e-6  # probabilities may be beyond 0 and 1 by so much


class Answers:
    """Reads answers: lists of scores, objects of scores by class, one score for the second class, or labels."""

    def __init__(self, endpoint: Endpoint, label: Label, order: list[int] | None) -> None:
        """`order`: where each class of the schema stands among the scores of an answer."""
        self._key, self._output, self._label, self._order = endpoint.answer_key, endpoint.output, label, order
        self._classes = endpoint.classes or label.values

    def scores(self, answer: Any, rows: int) -> NDArray[np.float32]:
        """(rows, classes) scores; an answer that cannot be used is Failed, and asked for again."""
        entries = self._entries(answer)
        if len(entries) != rows:
            raise Failed(f"it answered {len(entries):,} rows when {rows:,} were asked")
        values = np.array([self._row(entry) for entry in entries], dtype=np.float64)
        outside = (values < -ROUNDING) | (values > 1 + ROUNDING)
        if self._output == "probabilities" and outside.any():
            raise Failed(
                f"{values[outside][0]:g} is not a probability; if the scores are logits, say output = 'logits' in the "
                "description"
            )
        return scores_of(values, rows, self._label, self._order).numpy()

    def _entries(self, answer: Any) -> list[Any]:
        keys = USUAL_KEYS if self._key is None else (self._key,)
        if isinstance(answer, dict):
            found = [answer[key] for key in keys if key in answer]
            if not found:
                given = ", ".join(map(str, list(answer)[:8])) or "nothing"
                wanted = " or ".join(keys) or "list by itself"
                raise Failed(f"the answer has no {wanted}; it has {given}. Say answer_key in a description")
            answer = found[0]
        if not isinstance(answer, list):
            raise Failed(f"the answer is {_kind(answer)} and not a list with one entry per row")
        return answer

    def _row(self, entry: Any) -> list[float]:
        """The scores of all classes, in the endpoint's order."""
        classes = self._classes
        if isinstance(entry, dict):
            if set(entry) != set(classes):
                raise Failed(f"an answer has scores for {', '.join(map(str, entry))} and not for {', '.join(classes)}")
            return [_number(entry[name]) for name in classes]
        if isinstance(entry, list) and len(entry) == len(classes):
            return [_number(value) for value in entry]
        if isinstance(entry, list) and len(entry) == 1:
            entry = entry[0]
        if isinstance(entry, list):
            raise Failed(f"an answer has {len(entry)} scores, but there are {len(classes)} classes")
        return self._from_one(entry)

    def _from_one(self, entry: Any) -> list[float]:
        """A label as 1 for its class and 0 for the others, or one score for the second of two classes."""
        text = str(entry).lower() if isinstance(entry, bool) else str(entry)
        if isinstance(entry, str | int) and text in self._classes:
            return [float(name == text) for name in self._classes]
        score = _number(entry)
        if len(self._classes) != 2:
            raise Failed(f"one score is not enough for {len(self._classes)} classes")
        if self._output == "probabilities" and not 0 <= score <= 1:
            raise Refused(
                f"an answer is the number {score:g}, which is no probability: a regressor cannot be audited. If it is "
                "a logit, say output = 'logits' in a description"
            )
        return [1 - score, score] if self._output == "probabilities" else [0.0, score]


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Failed(f"an answer has {_kind(value)} where a score should be")
    return float(value)


def _kind(value: Any) -> str:
    """A value in words, cut short."""
    words = "null" if value is None else f"'{value}'" if isinstance(value, str) else str(value)
    return words if len(words) <= 40 else words[:40] + "…"
