"""What a run's process says while it works: how far it is, the growing curve, the first pairs in words."""

import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenhand.search.recorder import Findings
    from evenhand.search.search import Progress

Tell = Callable[..., None]  # a kind of event and what there is to say about it
EVERY_SECONDS = 0.25
MOST_POINTS = 60  # of the growing curve
MOST_PAIRS = 10
PAIRS_AT_ONCE = 3


class Teller:
    """Writes events as lines of JSON; threads may share it."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream, self._lock = stream, threading.Lock()

    def __call__(self, event: str, **data: Any) -> None:
        """Say that something happened."""
        line = json.dumps({"event": event, **data}, ensure_ascii=True)
        with self._lock:
            self._stream.write(line + "\n")
            self._stream.flush()


class ProgressTeller:
    """Says how far the work is, a few times a second at most, and always when another part of it begins."""

    def __init__(self, tell: Tell) -> None:
        self._tell, self._told, self._phase, self._start = tell, 0.0, "", time.monotonic()
        self._points: list[tuple[float, int]] = []
        self._apart = 0.0  # seconds between points

    def search(self, progress: "Progress") -> None:
        """Where a search stands."""
        if self._due(progress.phase):
            if progress.phase != "data":
                self._grow(round(progress.seconds, 2), progress.findings)
            self._say(
                progress.phase, progress.done, progress.total, progress.time_left, progress.findings, progress.seconds
            )

    def resumed(self, step: int, total: int, findings: int, seconds: float) -> None:
        """That the work goes on from a checkpoint; the curve has the time before in one piece."""
        self._points = [(0.0, 0), (round(seconds, 2), findings)]
        self._tell("resumed", step=step, total=total, findings=findings, seconds=round(seconds, 2))

    def count(self, what: str, done: int, total: int) -> None:
        """So many of so many."""
        if self._due(what):
            self._say(what, done, total)

    def step(self, what: str, share: float) -> None:
        """A part of the work, and the share of it that is done."""
        if self._due(what):
            self._say(what, round(100 * share), 100)

    def _due(self, phase: str) -> bool:
        now = time.monotonic()
        if phase == self._phase and now - self._told < EVERY_SECONDS:
            return False
        self._phase, self._told = phase, now
        return True

    def _grow(self, seconds: float, findings: int) -> None:
        """Add a point to the curve; when there are too many, every other one goes."""
        if self._points and seconds - self._points[-1][0] < self._apart:
            return
        self._points.append((seconds, findings))
        if len(self._points) > MOST_POINTS:
            self._points = self._points[::2]
            self._apart = 2 * max(self._apart, seconds / MOST_POINTS / 2)

    def _say(
        self, phase: str, done: int, total: int, left: float | None = None, findings: int = 0, seconds: float = 0.0
    ) -> None:
        passed = seconds or time.monotonic() - self._start
        self._tell(
            "progress", phase=phase, done=done, total=total, findings=findings, seconds=round(passed, 2),
            left=None if left is None else round(left, 1), growth=self._points,
        )  # fmt: skip


class FirstPairs:
    """Says the first findings in words: of each batch the ones with the largest score gaps, until there are enough.

    Pairs that an earlier attempt at the same run has `told` are counted, and not told again.
    """

    def __init__(self, tell: Tell, told: Sequence[dict[str, Any]] = ()) -> None:
        self._tell, self._known, self._told = tell, set(map(_what, told)), len(told)

    def __call__(self, findings: "Findings", words: Callable[[int], dict[str, Any]]) -> None:
        """Look at new findings; `words` says one of them."""
        room = min(MOST_PAIRS - self._told, PAIRS_AT_ONCE)
        if room > 0:
            gap = abs(findings.score - findings.witness_score)
            for row in (-gap).argsort(kind="stable")[:room]:
                pair = words(int(row))
                if _what(pair) not in self._known:
                    self._told += 1
                    self._tell("pair", number=self._told, **pair)


def _what(pair: dict[str, Any]) -> Any:
    """What a pair is about: a person in words, or a text."""
    return pair.get("description") or "".join(words for _, words in pair["sides"][0]["text"])
