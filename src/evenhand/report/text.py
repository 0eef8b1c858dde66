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

NOT_TESTED = "not tested"
MOST_NAMES = 15  # of attributes in a sentence
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
    search, limit = summary["search"], within_words(summary)
    if is_not_tested(summary):
        return f"{summary['dataset']['name']}, {NOT_TESTED}: {summary['warnings'][0]}"
    return (
        f"{summary['dataset']['name']}, changing {joined(summary['protected'])}{f' {limit}' if limit else ''}: "
        f"{counted(search['findings']['total'], 'finding')} among "
        f"{counted(search['generated']['total'], 'generated sample')} "
        f"({search['success_rate']:.1%}), {search['seeds_with_findings']:,} of {search['seeds']:,} seeds"
    )


def introduced(summary: dict[str, Any], words: str) -> str:
    """A result for Python's prompt: the warnings first, a line each; one that the result says is not repeated."""
    return "\n".join([*(f"Warning: {text}" for text in summary.get("warnings", []) if text not in words), words])


def is_not_tested(summary: dict[str, Any]) -> bool:
    """Whether an audit or a measurement found that its model reads nothing of what would be changed."""
    if "status" in summary or "measured" not in summary:
        return summary.get("status") == NOT_TESTED
    return bool(summary["measured"]) and not measured_parts(summary)


def measured_parts(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts of a measurement that changed something the model reads: the others have no rate that says anything."""
    unread = summary["model"].get("unread", {})
    return [
        part
        for part in summary["measured"]
        if any(name not in unread for name in part["protected"])
        or any(rate["discriminatory"] for rate in part["populations"])
    ]


def warning_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """What has to be known before any figure; first that nothing was tested, where it is so."""
    first = NOT_TESTED if is_not_tested(summary) else "warning"
    return [(first if number == 0 else "warning", text) for number, text in enumerate(summary.get("warnings", []))]


def measurement_text(summary: dict[str, Any]) -> str:
    """A measurement in lines: its warnings, then every rate of what the model reads."""
    lines = [f"{summary['dataset']['name']}, model {summary['model']['name']}"]
    lines += ["  not tested"] if is_not_tested(summary) else []
    for part in measured_parts(summary):
        names = joined(part["protected"])
        lines += [f"  {names}, {rate['name']}: {rate_text(rate)}" for rate in part["populations"]]
    return introduced(summary, "\n".join(lines))


def within_words(summary: dict[str, Any]) -> str:
    """With whom an audit or a repair compares people, where that is limited: within 10 of their own age; else empty."""
    if "rows" in summary:  # a repair
        rates = [row[name] for row in summary["rows"] for name in ("people", "uniform")]
    else:
        rates = [summary.get("data_rate", {}).get("all")]
    found = [limit for rate in rates if rate is not None and (limit := _limit_of(rate))]
    limits = summary["config"].get("within") or {}
    return found[0] if found else " and ".join(f"within {size:g} of their own {name}" for name, size in limits.items())


def _limit_of(rate: dict[str, Any]) -> str:
    """The limit in the words of a rate's population."""
    words: str = rate["population"].partition(", compared ")[2].partition(", weighted by ")[0]
    return words if words.startswith("within ") else ""


def some_of(names: list[str]) -> list[str]:
    """Names for a sentence: of very many the first, and how many more there are."""
    return names if len(names) <= MOST_NAMES else [*names[: MOST_NAMES - 1], f"{len(names) - MOST_NAMES + 1:,} more"]


def unread_text(unread: dict[str, str]) -> str:
    """What a model does not read, attributes with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in unread.items():
        by_reason.setdefault(reason, []).append(name)
    return "; ".join(f"{joined(some_of(names))} ({reason})" for reason, names in by_reason.items())


def rate_text(rate: dict[str, Any]) -> str:
    """A rate with its population and interval."""
    return f"{rate['discriminatory']:,} of {rate['samples']:,} ({share_text(rate)})"


def _against_all_values(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Where people are compared within a distance of their own values: how, and what it is against all values."""
    if "all_values" not in summary["data_rate"]:
        return []
    return [("compared", within_words(summary)), ("against all values", rate_text(summary["data_rate"]["all_values"]))]


def share_text(rate: dict[str, Any]) -> str:
    """The share of a rate with its interval, and by which weights it is one."""
    weighted = f" weighted by {rate['weighing']['by']}" if "weighing" in rate else ""
    return f"{percent(rate['rate'], 2)}{weighted}; {rate['confidence']:.0%} interval {interval_text(rate['interval'])}"


def budget_text(summary: dict[str, Any]) -> str:
    """What the search was allowed to do, and how it ended."""
    config, search = summary["config"], summary["search"]
    return (
        f"{search['seeds']:,} seeds{_out_of_time(summary)} × {config['iterations']} global iterations, then "
        f"{config['steps']:,} local steps from each finding; {STOPPED[search['stopped']]}"
    )


def _out_of_time(summary: dict[str, Any]) -> str:
    """What to say where a slow model left time for fewer seeds than were asked for."""
    wanted = min(summary["config"]["seeds"], summary["dataset"].get("rows", 0))
    limited = summary["config"].get("max_seconds") is not None and summary["search"]["seeds"] < wanted
    return f" (of {wanted:,}: the time limit left no more)" if limited else ""


def joined(names: list[str]) -> str:
    """Names as a sentence has them: age, race and sex."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def rows_of(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The result as name and value, for a terminal or a notebook; first what has to be known before any figure."""
    return warning_rows(summary) + (model_rows(summary) if is_not_tested(summary) else _rows(summary))


def model_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The data and the model: of tables also what it reads, and how often it gives the label of the data."""
    model = summary["model"]
    if summary.get("domain") == "text":
        return [("model", model["name"])]
    return [
        ("data", f"{summary['dataset']['title']}, {summary['dataset']['rows']:,} people"),
        ("model", f"{model['name']}; {offers_text(model)}"),
        *([("reads", inputs_text(model))] if "inputs" in model else []),
        *([("does not read", ", ".join(some_of(list(model["unread"]))))] if model.get("unread") else []),
        *([("accuracy on data", agreement_text(model["agreement"]))] if "agreement" in model else []),
    ]


def _rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    search = summary["search"]
    return [
        *model_rows(summary),
        ("method", f"{summary['config']['method']}: {ABOUT[summary['config']['method']]}"),
        ("changed", changed_text(summary)),
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


def changed_text(summary: dict[str, Any]) -> str:
    """What was changed, and how far where that is limited."""
    limit = within_words(summary)
    together = " together" if len(summary["protected"]) > 1 else ""
    return joined(summary["protected"]) + together + (f", {limit}" if limit else "")


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
    """How a model is given people, how that is known, and from which score on it gives the last of the labels."""
    inputs = model["inputs"]
    tried = ", ".join(f"{way} {percent(share)}" for way, share in inputs.get("agreement", {}).items())
    why = {
        "file": "as its file or object says",
        "user": "as was stated",
        "same": "all readings that fit are the same" if tried else "the only reading that fits",
        "evidence": f"the labels of the data say so: {tried}",
    }[inputs["settled_by"]]
    threshold, label = model.get("threshold"), model.get("threshold_label")
    named = f"‘{label}’" if label else "the second class"
    cut = "" if threshold is None else f"; {named} from a score of {threshold:.4g} on"
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
    rate, limit = summary["data_rate"]["all"], within_words(summary)
    words = (
        f"{rate['discriminatory']:,} of {rate['samples']:,} people of the data ({share_text(rate)}) "
        "get another label when nothing but "
        f"{joined(summary['protected'])} {'are' if len(summary['protected']) > 1 else 'is'} changed"
    )
    if not limit:
        return f"{words}."
    everywhere = summary["data_rate"].get("all_values")
    against_all = "" if everywhere is None else f" Compared with all values, it is {rate_text(everywhere)}."
    return f"{words}, {limit}.{against_all}"


def limit_text(attribute: Attribute) -> str:
    """How a search may move an attribute, in words."""
    how = {"none": "stays as it is", "up": "only rises", "down": "only falls", "any": "moves"}[attribute.moves]
    return f"{attribute.title} {how}" + (f" in strides of {attribute.stride}" if attribute.stride > 1 else "")


def reading_text(attribute: Attribute) -> str | None:
    """How coarse a number is in generated samples; None where it is as fine as the data can have it."""
    if attribute.kind != "number" or (attribute.step == 1 and attribute.type == "integer"):
        return None
    if attribute.step is not None:
        return f"{attribute.title} in steps of {attribute.step:g}"
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
            most, least = (percent(who["values"][end]["favourable"]) for end in (0, -1))
            found.append(
                f"Where some get ‘{pair['label']}’ and others ‘{pair['instead_of']}’ "
                f"({counted(pair['samples'], 'sample')}), "
                f"‘{pair['label']}’ goes most often to {who['attribute'].replace('_', ' ')} {who['favoured']} ({most}) "
                f"and least often to {who['loses']} ({least})."
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
