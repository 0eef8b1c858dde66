"""What a run does not say, in sentences for a model card."""

from typing import Any

from evenhand.report.text_sentences import limits as text_limits

PROXIES = (
    "Only protected values are changed. Attributes or words that stand in for them (proxies) are not, so what happens "
    "through them is not seen, and groups may get different decisions on the whole."
)
NO_PROOF = (
    "Each pair was put to the model and is real. Finding few or none within a budget is no proof that there are no "
    "more."
)
BINS = (
    "People of the data are checked as they stand in the table. Generated samples have the values of the schema, where "
    "one number stands for all of a bin or a step."
)
NEW_FINDINGS = (
    "A trained repair removes findings that were made against the old model; a new search may find others. "
    "Audit the repaired model again."
)
LABELS = "Accuracy is agreement with the labels in the data, which may themselves be the result of discrimination."
ENDED = {
    "interrupted": "The run was interrupted",
    "budget-spent": "The budget of rows for the model was spent on the way",
    "model-failed": "The model failed on the way",
}
DOMAIN = "In the whole domain every combination of values is equally likely; most such people do not exist."


def limits_of(summary: dict[str, Any]) -> list[str]:
    """The limits of an audit, a measurement or a repair, from its summary."""
    texts, kind = summary.get("domain") == "text", summary["kind"]
    found = [NO_PROOF] if kind == "audit" else [NEW_FINDINGS, LABELS] if kind == "repair" else []
    found += [PROXIES, _intervals(summary)]
    if not texts:
        found += [BINS] if kind == "audit" else [BINS, DOMAIN]
    elif kind == "audit":
        found += text_limits(summary)
    else:
        found.append("Texts are changed in words of the lexicon alone; the grammar around them stays as it is.")
    stopped = summary.get("stopped", summary.get("search", {}).get("stopped"))
    return found + ([f"{ENDED[stopped]}: less was looked at than was asked for."] if stopped in ENDED else [])


def _intervals(summary: dict[str, Any]) -> str:
    confidence = summary["config"].get("confidence", 0.95)
    return (
        f"An interval of {confidence:.0%} is meant for each rate by itself, and for the people whom the rows stand for "
        "only if these are a random sample of them."
    )
