"""When an audit must be at its end: its time counts from the start of the command, whatever it is spent on."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from evenhand.measures.people import RANDOM_PART
from evenhand.search.search import Limits

FOR_MODEL = 0.2  # of the time that is left when the model is tried
FOR_SEEDS = 0.5  # of the time that is left for the search, for the first look at its seeds
STEP_ROWS = 32  # that a step of a search may ask about for each seed
FOR_PEOPLE = 0.5  # of the time that is left when the people of the data are checked, so that the search has some too
LEAST = 0.1  # of the whole time for each of both, however long loading took: a result must say something


class Deadline:
    """A limit of seconds (None: no limit) from a start, on the clock of `time.perf_counter` (None: now)."""

    def __init__(self, seconds: float | None, started: float | None = None) -> None:
        self._seconds = seconds
        self._start = time.perf_counter() if started is None else started
        self.ended_people = False  # whether the check of the people was told to end

    def for_model(self) -> float | None:
        """The seconds that trying the model may take."""
        return None if self._seconds is None else max(FOR_MODEL * self._left(), LEAST * self._seconds)

    def seeds(self, wanted: int, people: int, variants: int, seconds: float) -> int:
        """How many seeds there is time for, if so many people with all their variants took so many seconds.

        Each is looked at with all variants, and a step of a search asks about some more rows for each.
        """
        if self._seconds is None or not people:
            return wanted
        left = max(self._left(), LEAST * self._seconds)
        rows = FOR_SEEDS * left * people * variants / max(seconds, 1e-9)
        return max(1, min(wanted, int(rows / (variants + STEP_ROWS))))

    def for_people(self, interrupted: Callable[[], bool]) -> Callable[[], bool]:
        """Whether the check of the people should end, for the user or for the limit."""
        if self._seconds is None:
            return interrupted
        until = time.perf_counter() + max(FOR_PEOPLE * self._left(), LEAST * self._seconds)

        def ended() -> bool:
            self.ended_people = self.ended_people or time.perf_counter() >= until
            return self.ended_people or interrupted()

        return ended

    def for_search(self, limits: Limits) -> Limits:
        """The limits with the time that is left for the search."""
        if self._seconds is None:
            return limits
        return replace(limits, max_seconds=max(self._left(), LEAST * self._seconds))

    def facts(self, rates: dict[str, Any]) -> dict[str, str]:
        """What a summary says where the limit left only a part of the people checked."""
        partly = any(rate["population"].startswith(RANDOM_PART) for rate in rates.values())
        return {"data_rate_stopped": "max-seconds"} if self.ended_people and partly else {}

    def _left(self) -> float:
        assert self._seconds is not None
        return self._start + self._seconds - time.perf_counter()
