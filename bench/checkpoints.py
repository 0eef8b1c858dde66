"""What checkpoints cost: the census audit with one every second, and with the usual interval, against none.

`python -m bench.checkpoints --help`. Prints one line of JSON for each interval: the ratio of seconds with and without,
the checkpoints that were written, the seconds that the search waited for them, the bytes that they took, and how long
an audit takes that was killed at its end. On a busy machine the ratios say little, and the seconds of waiting more.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import evenhand
from evenhand.runs.audit import Audit
from evenhand.runs.checkpoints import SECONDS, Checkpoints, FolderKeeper, News
from evenhand.search.checkpoint import State


def audit(checkpoints: Checkpoints | None, seeds: int, steps: int) -> tuple[Audit, float, float]:
    """The audit, the seconds that a user waits for it, and those of the processor."""
    start, start_processor = time.perf_counter(), time.process_time()
    done = evenhand.audit("census", "sex", seeds=seeds, steps=steps, checkpoints=checkpoints)
    return done, time.perf_counter() - start, time.process_time() - start_processor


class Waited:
    """How long searches wait for their checkpoints."""

    def __init__(self) -> None:
        self.seconds, self._save = 0.0, FolderKeeper.save

    def __enter__(self) -> "Waited":
        def timed(keeper: FolderKeeper, state: State) -> None:
            start = time.perf_counter()
            self._save(keeper, state)
            self.seconds += time.perf_counter() - start

        FolderKeeper.save = timed  # type: ignore[assignment,method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        FolderKeeper.save = self._save  # type: ignore[method-assign]


def cost(every: float, repeats: int, seeds: int, steps: int) -> dict[str, Any]:
    """The least of some runs with and without, taken in turns so that a busy machine is busy for both."""
    plain, kept, heard = list[tuple[float, float]](), list[tuple[float, float]](), list[News]()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(repeats):
            heard.clear()
            checkpoints = Checkpoints(Path(folder) / str(number), every, heard.append, keep=True)
            without, *seconds = audit(None, seeds, steps)
            plain.append((seconds[0], seconds[1]))
            with Waited() as waited:
                with_them, *seconds = audit(checkpoints, seeds, steps)
            kept.append((seconds[0], seconds[1]))
            names = [done.folder / "findings.parquet" for done in (without, with_them)]
            assert names[0].read_bytes() == names[1].read_bytes()
        written = [path.stat().st_size for path in checkpoints.folder.glob("*.npz")]
        again = audit(checkpoints, seeds, steps)[1] if written else None
    least_plain, least_kept = ([min(one[which] for one in runs) for which in (0, 1)] for runs in (plain, kept))
    findings = with_them.summary["search"]["findings"]["total"]
    return {
        "every_seconds": every,
        "seconds": [round(least_plain[0], 2), round(least_kept[0], 2)],
        "ratio": round(least_kept[0] / least_plain[0], 3),
        "ratio_of_processor_time": round(least_kept[1] / least_plain[1], 3),
        "checkpoints": sum(news.kind == "saved" for news in heard),
        "waited_seconds": round(waited.seconds, 3),
        "bytes": sum(written),
        "bytes_per_finding": round(sum(written) / findings, 1),
        "seconds_from_the_last": None if again is None else round(again, 2),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=1000)
    asked = parser.parse_args()
    audit(None, 50, 50)  # warm-up
    for every in (1.0, SECONDS):
        print(json.dumps(cost(every, asked.repeats, asked.seeds, asked.steps)), flush=True)


if __name__ == "__main__":
    main()
