"""What the summaries of all tasks have in common, and the files that a run leaves."""

import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from evenhand.models.classifier import Model
from evenhand.search.search import SearchResult

FINDINGS, SUMMARY, REPORT = "findings.parquet", "summary.json", "report.html"
STATUS, TESTED = "not tested", "tested"  # of an audit or a measurement
NONE = {"global": 0, "local": 0, "total": 0}


class Stages:
    """Seconds per stage of the work."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Time a block of work."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start


def search_summary(result: SearchResult, model: Model, stages: Stages) -> dict[str, Any]:
    """What a search did and found, in numbers."""
    counts = result.counts
    return {
        "stopped": result.stopped,
        **({} if result.error is None else {"error": result.error}),
        **({"taken_up": result.resumed} if result.resumed else {}),  # the name that release 0.1 has for it
        "seeds": result.seeds,
        "seeds_with_findings": result.seeds_with_findings,
        "tried": counts.tried,
        "generated": counts.generated | {"total": counts.all_generated},
        "findings": counts.findings | {"total": counts.all_findings},
        "ruled_out": counts.ruled_out,
        "notes": result.notes,
        "success_rate": counts.success_rate,
        "model_rows": model.rows,
        # On CUDA the clock sees only how long it takes to hand over the work.
        "model_share_of_time": round(model.seconds / stages.seconds["search"], 4)
        if model.device.type == "cpu"
        else None,
        "findings_per_second": round(counts.all_findings / stages.seconds["search"], 1),
        "seconds": {phase: round(seconds, 3) for phase, seconds in result.seconds.items()},
        "growth": [list(point) for point in counts.growth],
    }


def no_search() -> dict[str, Any]:
    """What a summary says of a search that was not made."""
    return {
        "stopped": STATUS, "seeds": 0, "seeds_with_findings": 0, "tried": 0, "generated": dict(NONE),
        "findings": dict(NONE), "ruled_out": 0, "notes": {}, "success_rate": 0.0, "model_rows": 0,
        "model_share_of_time": None, "findings_per_second": 0.0, "seconds": {"global": 0.0, "local": 0.0}, "growth": [],
    }  # fmt: skip


def circumstances(device: torch.device, stages: Stages) -> dict[str, Any]:
    """How long the stages took, and with which versions."""
    return {
        "seconds": {stage: round(seconds, 3) for stage, seconds in stages.seconds.items()},
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        },
    }
