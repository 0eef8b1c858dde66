"""An audit of attributes that the model does not read: no search, but what differs between the groups."""

from typing import Any

from evenhand.data.dataset import Dataset
from evenhand.measure.group_rates import group_rates
from evenhand.report.groups import groups_text
from evenhand.runs.subject import Subject, not_read

STATUS = "not tested"
NONE = {"global": 0, "local": 0, "total": 0}


def no_search() -> dict[str, Any]:
    """What a summary says of a search that was not made."""
    return {
        "stopped": STATUS, "seeds": 0, "seeds_with_findings": 0, "tried": 0, "generated": dict(NONE),
        "findings": dict(NONE), "ruled_out": 0, "notes": {}, "success_rate": 0.0, "model_rows": 0,
        "model_share_of_time": None, "findings_per_second": 0.0, "seconds": {"global": 0.0, "local": 0.0}, "growth": [],
    }  # fmt: skip


def said_first(subject: Subject, data: Dataset, protected: list[str]) -> tuple[str, list[dict[str, Any]]]:
    """What every output says first, and the differences between groups that it rests on."""
    groups = group_rates(subject.classifier, data, protected, **_few(subject))
    return f"{not_read(protected)} {groups_text(groups)}", groups


def _few(subject: Subject) -> dict[str, int]:
    """Fewer rows where each has a price."""
    priced: int | None = getattr(subject.classifier.module, "people_rows", None)
    return {} if priced is None else {"most_rows": max(1, priced // 10)}
