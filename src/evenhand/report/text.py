"""An audit's result in sentences: what was found, in which population, with which budget."""

import math
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evenhand.data.attribute import Attribute
from evenhand.methods.names import ABOUT, AUTO, DEFAULT

if TYPE_CHECKING:  # torch, which the words of a summary do not need
    from evenhand.search.search import Progress

STOPPED = {
    "completed": "the whole budget was used",
    "max-seconds": "stopped at the time limit",
    "max-rows": "stopped at the number of model rows allowed",
    "max-findings": "stopped at the number of findings asked for",
    "interrupted": "interrupted; what was found until then is kept",
    "budget-spent": "ended when the budget of rows for the model was spent; what was found until then is kept",
    "not tested": "not made, since the model does not read what it would change",
    "model-failed": "ended by an error of the model; what was found until then is kept",
}

UNITS = {
    "data": ("rows of the data", "checked"),
    "global": ("seeds", "global iterations"),
    "local": ("walks", "local steps"),
}

# Options that a command line leaves out where they have these values.
DEFAULTS = {
    "method": DEFAULT,
    "model": None,
    "output": "auto",
    "inputs": None,
    "threshold": None,
    "iterations": 10,
    "device": "auto",
    "max_seconds": None,
    "max_findings": None,
    "max_rows": None,
    "chunk_rows": None,
}


def headline(summary: dict[str, Any]) -> str:
    """The result in one line."""
    search = summary["search"]
    if is_not_tested(summary):
        return f"{summary['dataset']['name']}, not tested: {summary['warnings'][0]}"
    return (
        f"{summary['dataset']['name']}, changing {joined(summary['protected'])}: "
        f"{counted(search['findings']['total'], 'finding')} among "
        f"{counted(search['generated']['total'], 'generated sample')} "
        f"({search['success_rate']:.1%}), {search['seeds_with_findings']:,} of {search['seeds']:,} seeds"
    )


def is_not_tested(summary: dict[str, Any]) -> bool:
    """Whether an audit found that its model does not read what would be changed."""
    return summary.get("status") == "not tested"


def rate_text(rate: dict[str, Any]) -> str:
    """A rate with its population and interval."""
    return f"{rate['discriminatory']:,} of {rate['samples']:,} ({share_text(rate)})"


def _against_all_values(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Where people are compared within a distance of their own values: how, and what it is against all values."""
    if "all_values" not in summary["data_rate"]:
        return []
    within = summary["data_rate"]["all"]["population"].partition(", compared ")[2].partition(", weighted by ")[0]
    return [("compared", within), ("against all values", rate_text(summary["data_rate"]["all_values"]))]


def share_text(rate: dict[str, Any]) -> str:
    """The share of a rate with its interval, and by which weights it is one."""
    weighted = f" weighted by {rate['weighing']['by']}" if "weighing" in rate else ""
    return f"{percent(rate['rate'], 2)}{weighted}; {rate['confidence']:.0%} interval {interval_text(rate['interval'])}"


def budget_text(summary: dict[str, Any]) -> str:
    """What the search was allowed to do, and how it ended."""
    config, search = summary["config"], summary["search"]
    return (
        f"{search['seeds']:,} seeds × {config['iterations']} global iterations, then {config['steps']:,} local steps "
        f"from each finding; {STOPPED[search['stopped']]}"
    )


def joined(names: list[str]) -> str:
    """Names as a sentence has them: age, race and sex."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def rows_of(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The result as name and value, for a terminal or a notebook; first what has to be known before any figure."""
    rows = [("not tested" if is_not_tested(summary) else "warning", text) for text in summary.get("warnings", [])]
    return rows + (_model_rows(summary) if is_not_tested(summary) else _rows(summary))


def _model_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The data and the model."""
    model = summary["model"]
    return [
        ("data", f"{summary['dataset']['title']}, {summary['dataset']['rows']:,} people"),
        ("model", f"{model['name']}; {offers_text(model)}"),
        *([("reads", inputs_text(model))] if "inputs" in model else []),
        *([("does not read", ", ".join(model["unread"]))] if model.get("unread") else []),
        *([("gives the label of", agreement_text(model["agreement"]))] if "agreement" in model else []),
    ]


def _rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    search = summary["search"]
    return [
        *_model_rows(summary),
        ("method", f"{summary['config']['method']}: {ABOUT[summary['config']['method']]}"),
        ("changed", joined(summary["protected"]) + (" together" if len(summary["protected"]) > 1 else "")),
        ("in the data itself", rate_text(summary["data_rate"]["all"]) + part_text(summary)),
        *_against_all_values(summary),
        ("budget", budget_text(summary)),
        ("generated", f"{search['generated']['total']:,} unique samples"),
        (
            "findings",
            f"{search['findings']['total']:,} unique ({search['findings']['global']:,} global, "
            f"{search['findings']['local']:,} local)",
        ),
        *([("ruled out", ruled_out_text(search))] if search.get("ruled_out") else []),
        ("success rate", f"{search['success_rate']:.1%} of the generated samples"),
        (
            "seeds",
            f"{search['seeds_with_findings']:,} of {search['seeds']:,} led to a finding"
            if search["seeds_with_findings"] or not search["findings"]["total"]
            else "none: this method starts from random samples",
        ),
        *([("measured", ", ".join(f"{k} {v:,.5g}" for k, v in search["notes"].items()))] if search["notes"] else []),
        ("work", f"{search['model_rows']:,} model rows, {search['findings_per_second']:,.0f} findings a second"),
    ]


def part_text(summary: dict[str, Any]) -> str:
    """That the time limit left only a part of the data checked; empty where it did not."""
    stopped = summary.get("data_rate_stopped") == "max-seconds"
    return "; a random part of them, since the time limit ended the check" if stopped else ""


def offers_text(model: dict[str, Any]) -> str:
    """What a model returns, and why it is a black box if it is one."""
    if "no_gradients" not in model:
        return f"returns {model['output']}"
    return f"returns {model['output']}, no gradients: {model['no_gradients'].rstrip('.')}"


def inputs_text(model: dict[str, Any]) -> str:
    """How a model is given people, how that is known, and from which score on it says the second class."""
    inputs = model["inputs"]
    tried = ", ".join(f"{way} {percent(share)}" for way, share in inputs.get("agreement", {}).items())
    why = {
        "file": "as its file or object says",
        "user": "as was stated",
        "same": "all readings that fit are the same" if tried else "the only reading that fits",
        "evidence": f"the labels of the data say so: {tried}",
    }[inputs["settled_by"]]
    threshold = model.get("threshold")
    cut = "" if threshold is None else f"; the second class from a score of {threshold:.4g} on"
    return f"{inputs['reading']} ({why}){cut}"


def agreement_text(agreement: dict[str, Any]) -> str:
    """How often a model gives the label of the data, and what to look at where that is rarer than always saying one."""
    words = (
        f"{percent(agreement['share'])} of {agreement['rows']:,} rows (always ‘{agreement['commonest_label']}’: "
        f"{percent(agreement['commonest_share'])})"
    )
    if agreement["share"] <= agreement["commonest_share"]:
        words += "; that is no more: are the classes (label.values) and the model's inputs in the right order?"
    return words


def affected_text(summary: dict[str, Any]) -> str:
    """The figure for a decision in a sentence: how many people of the data, with the interval."""
    rate = summary["data_rate"]["all"]
    return (
        f"{rate['discriminatory']:,} of {rate['samples']:,} people of the data ({share_text(rate)}) "
        "get another label when nothing but "
        f"{joined(summary['protected'])} {'are' if len(summary['protected']) > 1 else 'is'} changed."
    )


def limit_text(attribute: Attribute) -> str:
    """How a search may move an attribute, in words."""
    how = {"none": "stays as it is", "up": "only rises", "down": "only falls", "any": "moves"}[attribute.moves]
    return f"{attribute.title} {how}" + (f" in strides of {attribute.stride}" if attribute.stride > 1 else "")


def reading_text(attribute: Attribute) -> str | None:
    """How a number is made coarser before a model of raw values reads it; None where it is not."""
    if attribute.kind != "number" or (attribute.step == 1 and attribute.type == "integer"):
        return None
    if attribute.step is not None:
        return f"{attribute.title} to the nearest {attribute.step:g}"
    return f"{attribute.title} at one value of each range"


def ruled_out_text(search: dict[str, Any]) -> str:
    """How many pairs the schema's rules kept out of the findings."""
    return f"{counted(search['ruled_out'], 'more sample')} would be findings, but one of the pair is impossible"


def example_text(example: dict[str, Any]) -> list[str]:
    """An example pair from a summary as lines: what both share, then each with what the model says."""
    lines = [example["description"]]
    for side in example["sides"]:
        values = ", ".join(value for value, _ in side["protected"])
        lines.append(f"{values}: {side['label']} (score for ‘{example['score_of']}’ {percent(side['score'])})")
    return lines


def label_pair_texts(pair: dict[str, Any]) -> list[str]:
    """Who gets which label instead of which, from a measurement with more than two classes."""
    found = []
    for who in pair["direction"]:
        if who["favoured"] is not None:
            share = {value["value"]: percent(value["favourable"]) for value in who["values"]}
            found.append(
                f"Where some get ‘{pair['label']}’ and others ‘{pair['instead_of']}’ ({pair['samples']:,} samples), "
                f"{who['attribute'].replace('_', ' ')} {who['favoured']} gets ‘{pair['label']}’ most often "
                f"({share[who['favoured']]}) and {who['loses']} least often ({share[who['loses']]})."
            )
    return found


def percent(share: float, digits: int = 1) -> str:
    """A share in words; what is there at all is never rounded to nothing, nor nearly all to all."""
    smallest = 10.0 ** -(digits + 2)
    if 0 < share < smallest / 2:
        return f"<{smallest:.{digits}%}"
    if 1 - smallest / 2 < share < 1:
        return f">{1 - smallest:.{digits}%}"
    return f"{share:.{digits}%}"


def interval_text(interval: Sequence[float], digits: int = 2) -> str:
    """An interval with so many digits, or as many more as it takes to see how wide it is: 0.0000% to 0.0075%."""
    low, high = interval
    if 0 < high - low < 1:
        digits = max(digits, math.ceil(-math.log10(high - low)) - 1)
    return f"{low:.{digits}%} to {high:.{digits}%}"


def duration(seconds: float) -> str:
    """Seconds for people: 8 s, 2 min 5 s, 1 h 3 min."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def progress_text(title: str, progress: "Progress") -> str:
    """Where a search stands, in one line: at most 80 columns for usual numbers."""
    who, what = UNITS[progress.phase]
    speed = f" ({progress.findings / progress.seconds:,.0f}/s)" if progress.findings and progress.seconds else ""
    findings = "" if progress.phase == "data" else f", {progress.findings:,} findings{speed}"
    left = "" if progress.time_left is None else f", {duration(progress.time_left)} left"
    return f"{title}  {progress.walks:,} {who}, {what} {progress.done:,}/{progress.total:,}{findings}{left}"


def counted(count: int, noun: str) -> str:
    """A number with its noun: 1 finding, 2 findings."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def command_line(config: dict[str, Any]) -> str:
    """The command that repeats an audit: its data, budget and seed, and whatever is not the default."""
    words = ["evenhand", "audit", config["dataset"], "--protected", ",".join(config["protected"])]
    for name in ("seeds", "steps", "seed"):
        words += [f"--{name}", str(config[name])]
    for name, default in DEFAULTS.items():
        value = config.get(name, default)
        if value not in (default, AUTO):
            words += [f"--{name.replace('_', '-')}", str(value)]
    for name, distance in config.get("within", {}).items():
        words += ["--within", f"{name}={distance:g}"]
    words += ["--accept-poor-model"] if config.get("accept_poor_model") else []
    for name, value in config["settings"].items():
        words += ["--set", f"{name}={value}"]
    return shlex.join(words)
