"""The words that pages have for states, times, sizes and progress."""

import re
from datetime import UTC, datetime
from functools import cache
from typing import Any

from evenhand.data.dataset import builtin_names, load_schema
from evenhand.report.pairs import card_of
from evenhand.report.sentences import NOT_TESTED, warning_rows
from evenhand.report.words import counted, duration, interval_text, joined, percent
from evenhand.service.requests import NOUNS, domain_of_config
from evenhand.service.storage.tables import Run
from evenhand.service.storage.uploads import size_text
from evenhand.text import CORPORA

STATE_WORDS = {
    "queued": "waiting",
    "running": "running",
    "cancelling": "stopping",
    "done": "done",
    "failed": "failed",
    "cancelled": "cancelled",
    "interrupted": "waiting again",
}
PHASE_WORDS = {
    "data": "Checking the people in the data",
    "global": "Looking for first pairs, starting from people in the data",
    "local": "Looking around each pair that was found",
}
TEXT_PHASE_WORDS = PHASE_WORDS | {
    "data": "Checking the texts in the data",
    "global": "Looking for first pairs, starting from texts in the data",
}
POPULATION_WORDS = {  # what a measurement says it is looking at
    "uniform": "sampling the whole domain",
    "rows of the data": "checking every row of the data",
    "neighbourhood": "sampling the neighbourhood of the data",
}
FILE_WORDS = {
    "report.html": "The report",
    "findings.parquet": "All pairs",
    "summary.json": "The figures",
    "model.safetensors": "The repaired model",
    "model.json": "Description of the repaired model",
}
INPUTS_WORDS = (
    ("", "as its file says"),
    ("codes", "the codes of the schema"),
    ("values", "numbers as they are, categories as codes"),
    ("raw", "the table’s own numbers, text as codes"),
    ("onehot", "one column for each value (one-hot)"),
    ("standard", "numbers with mean 0 and spread 1"),
)
FORM_WORDS = (  # how messages name options, and where the form of a new audit has them
    (r"--accept-poor-model \(in Python [^)]*\)", "tick “Continue with a poor model” below the model"),
    (r"--inputs [^()]*\(in Python [^)]*\)", "choose it at “What it reads”"),
    (r"\(--inputs\)", "(“What it reads” on the form)"),
    (r"say --output (\w+) \(in Python [^)]*\)", r"choose \1 at “What it answers”"),
)
SWAP_WORDS = (("one", "one at a time"), ("all", "all that name the same group"))
AMBIGUOUS_WORDS = (("keep", "count too, where they seem to mean people"), ("exclude", "never count"))
OUTPUT_WORDS = (
    ("auto", "find out by itself"),
    ("logits", "scores without a limit (logits)"),
    ("probabilities", "probabilities"),
)


TEXT_SETTINGS = {"seeds": "Texts to start from", "texts": "Texts of each part at most", "swap": "Mentions changed"}
SETTINGS = {  # of a request, as forms and the page of a run name them
    "by": "Repair by", "method": "Method", "seeds": "People to start from", "steps": "Steps around each finding",
    "repeats": "Networks trained", "max_seconds": "Time limit", "half_width": "Half the width of intervals",
    "confidence": "Confidence", "changes": "Columns changed in the neighbourhood", "inputs": "Model reads",
    "output": "Model answers", "threshold": "Threshold", "within": "Compared within", "seed": "Seed",
}  # fmt: skip


def moment(at: datetime) -> str:
    """16 Nov 2026, 05:05 UTC."""
    at = at.astimezone(UTC)
    return f"{at.day} {at:%b %Y, %H:%M} UTC"


def outcome(run: Run) -> str:
    """A run's result in a few words, for lists."""
    if run.state == "failed":
        return (run.error or "").splitlines()[0][:120] if run.error else ""
    if run.state not in ("done", "cancelled") or not run.result:
        return ""
    if run.result.get("status") == NOT_TESTED:
        return f"{NOT_TESTED}: the model does not read {joined(run.result['protected'])}"
    words = _outcome(run.kind, run.state, run.result)
    return f"{words}; with a warning" if run.result.get("warnings") else words


def _outcome(kind: str, state: str, result: dict[str, Any]) -> str:
    if kind == "audit":
        words = counted(int(result.get("findings") or 0), "finding")
        return words if state == "done" else f"{words} kept"
    if kind == "repair":
        return f"kept: {result['chosen']}" if result.get("chosen") else "no repair was kept"
    return str(result.get("headline") or "")[:160]


def on_the_form(error: str) -> str:
    """An error whose remedy is an option of the command line, with the field of the form that does the same."""
    for option, place in FORM_WORDS:
        error = re.sub(option, place, error)
    return error


def phase_words(run: Run) -> dict[str, str]:
    """What the phases of a search are called."""
    return TEXT_PHASE_WORDS if domain_of_config(run.config) == "text" else PHASE_WORDS


def phase_text(phase: str, phases: dict[str, str] = PHASE_WORDS) -> str:
    """What a run is doing, from what its process calls it."""
    changed, _, population = phase.rpartition(", ")
    if changed and population in POPULATION_WORDS:
        return f"Changing {changed}: {POPULATION_WORDS[population]}"
    return phases.get(phase, phase.capitalize() or "Starting")


def state_text(state: str, place: str) -> str:
    """A run's state in a word; nobody takes up by itself what a terminal left."""
    return state if (state, place) == ("interrupted", "terminal") else STATE_WORDS[state]


def progress_words(run: Run) -> dict[str, Any]:
    """Where a run stands, as its page says it."""
    progress = run.progress or {}
    done, total = float(progress.get("done") or 0), float(progress.get("total") or 0)
    seconds, findings = float(progress.get("seconds") or 0), int(progress.get("findings") or 0)
    phase, left = str(progress.get("phase") or ""), progress.get("left")
    return {
        "words": phase_text(phase, phase_words(run)),
        "share": min(done / total, 1.0) if total else None,
        "left": "" if left is None else f"About {duration(float(left))} left in this phase",
        "findings": findings,
        "speed": f"{findings / seconds:,.0f}" if findings and seconds else "–",
        "seconds": duration(seconds),
    }


def requested(run: Run, data: str, model: str) -> list[tuple[str, str]]:
    """What a run was asked to do, as names and values."""
    config = run.config
    facts = [
        ("Data", data),
        ("Model", model),
        ("Protected", joined(config.get("protected") or ["what the schema marks"])),
    ]
    names = SETTINGS | (TEXT_SETTINGS if domain_of_config(config) == "text" else {})
    for key, name in names.items():
        value = config.get(key)
        if value is not None and value != {}:
            facts.append((name, _shown(key, value)))
    return facts


def _shown(key: str, value: Any) -> str:
    if key == "max_seconds":
        return duration(float(value))
    if key == "half_width":
        return f"{100 * float(value):g} percentage points"
    if key == "confidence":
        return f"{100 * float(value):g}%"
    if isinstance(value, dict):
        return ", ".join(f"{limit:g} of their own {name}" for name, limit in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


@cache
def builtin_titles() -> list[dict[str, str]]:
    """The data sets that come with the package, by name and title."""
    tables = [{"name": name, "title": load_schema(name).title} for name in builtin_names()]
    return tables + [{"name": name, "title": title} for name, title in CORPORA.items()]


def yes_no(value: Any) -> str:
    """A value of the log in words."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


FILTERS = {
    "card": card_of, "percent": percent, "interval": interval_text, "counted": counted, "size": size_text,
    "moment": moment, "outcome": outcome, "warnings": warning_rows, "on_the_form": on_the_form, "yes_no": yes_no,
    "state_text": state_text, "noun": lambda kind: NOUNS[kind],
}  # fmt: skip
