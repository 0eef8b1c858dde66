"""An audit of attributes that the model does not read: no search, but what differs between the groups."""

from typing import Any

from evenhand.data.dataset import Dataset
from evenhand.measures.groups import group_rates
from evenhand.models.classifier import Classifier
from evenhand.report.groups import groups_text
from evenhand.report.words import joined

STATUS, TESTED = "not tested", "tested"  # of an audit or a measurement
NONE = {"global": 0, "local": 0, "total": 0}


def no_search() -> dict[str, Any]:
    """What a summary says of a search that was not made."""
    return {
        "stopped": STATUS, "seeds": 0, "seeds_with_findings": 0, "tried": 0, "generated": dict(NONE),
        "findings": dict(NONE), "ruled_out": 0, "notes": {}, "success_rate": 0.0, "model_rows": 0,
        "model_share_of_time": None, "findings_per_second": 0.0, "seconds": {"global": 0.0, "local": 0.0}, "growth": [],
    }  # fmt: skip


def not_read(names: list[str]) -> str:
    """What to say of protected attributes where a model reads none of them."""
    return f"The model does not read {joined(names)}; this test cannot find anything."


def left_out(names: list[str]) -> str:
    """What to say of some of them where it reads others."""
    return f"The model does not read {joined(names)}, which this test leaves out."


def said_first(
    model: Classifier, data: Dataset, protected: list[str], idle: list[str]
) -> tuple[list[str], list[dict[str, Any]]]:
    """What every output says first where protected attributes are idle, and the differences between their groups."""
    if not idle:
        return [], []
    part = model.part(10)
    groups = group_rates(model, data, idle, **({} if part is None else {"most_rows": part}))
    return [f"{not_read(idle) if idle == protected else left_out(idle)} {groups_text(groups)}"], groups
