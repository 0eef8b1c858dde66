"""An audit's result in sentences: what was found, in which population, with which budget."""

import shlex
from html import escape
from typing import Any

from evenhand.data.attribute import Attribute
from evenhand.methods.names import ABOUT, AUTO, DEFAULT

STOPPED = {
    "completed": "the whole budget was used",
    "max-seconds": "stopped at the time limit",
    "max-rows": "stopped at the number of model rows allowed",
    "max-findings": "stopped at the number of findings asked for",
    "interrupted": "interrupted; what was found until then is kept",
    "model-failed": "ended by an error of the model; what was found until then is kept",
}

# Options that a command line leaves out where they have these values.
DEFAULTS = {
    "method": DEFAULT,
    "model": None,
    "output": "auto",
    "inputs": None,
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
    return (
        f"{summary['dataset']['name']}, changing {joined(summary['protected'])}: "
        f"{counted(search['findings']['total'], 'finding')} among "
        f"{counted(search['generated']['total'], 'generated sample')} "
        f"({search['success_rate']:.1%}), {search['seeds_with_findings']:,} of {search['seeds']:,} seeds"
    )


def rate_text(rate: dict[str, Any]) -> str:
    """A rate with its population and interval."""
    low, high = rate["interval"]
    return (
        f"{rate['discriminatory']:,} of {rate['samples']:,} ({percent(rate['rate'], 2)}; "
        f"{rate['confidence']:.0%} interval {low:.2%} to {high:.2%})"
    )


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
    """The result as name and value, for a terminal or a notebook."""
    search = summary["search"]
    return [
        ("data", f"{summary['dataset']['title']}, {summary['dataset']['rows']:,} people"),
        ("model", f"{summary['model']['name']}; {offers_text(summary['model'])}"),
        *(
            [("gives the label of", agreement_text(summary["model"]["agreement"]))]
            if "agreement" in summary["model"]
            else []
        ),
        ("method", f"{summary['config']['method']}: {ABOUT[summary['config']['method']]}"),
        ("changed", joined(summary["protected"]) + (" together" if len(summary["protected"]) > 1 else "")),
        ("in the data itself", rate_text(summary["data_rate"]["all"]) + _rounded_text(summary)),
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


def _rounded_text(summary: dict[str, Any]) -> str:
    """How many rows of the data were not checked with just the numbers that the table has; empty where all were."""
    rows = summary["dataset"].get("rows_read_otherwise", 0)  # what was written before it was counted has none
    return f"; {counted(rows, 'row')} with numbers rounded to their steps or filled in" if rows else ""


def offers_text(model: dict[str, Any]) -> str:
    """What a model returns, and why it is a black box if it is one."""
    if "no_gradients" not in model:
        return f"returns {model['output']}"
    return f"returns {model['output']}, no gradients: {model['no_gradients'].rstrip('.')}"


def agreement_text(agreement: dict[str, Any]) -> str:
    """How often a model gives the label of the data, and what to look at where that is rarer than always saying one."""
    words = (
        f"{percent(agreement['share'])} of {agreement['rows']:,} rows (always ‘{agreement['commonest_label']}’: "
        f"{percent(agreement['commonest_share'])})"
    )
    if agreement["share"] < agreement["commonest_share"]:
        words += "; that is less: are the classes (label.values) and the model's inputs in the right order?"
    return words


def affected_text(summary: dict[str, Any]) -> str:
    """The figure for a decision in a sentence: how many people of the data, with the interval."""
    rate = summary["data_rate"]["all"]
    low, high = rate["interval"]
    return (
        f"{rate['discriminatory']:,} of {rate['samples']:,} people of the data ({percent(rate['rate'], 2)}; "
        f"{rate['confidence']:.0%} interval {low:.2%} to {high:.2%}) get another label when nothing but "
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


def html_table(summary: dict[str, Any]) -> str:
    """The result as a small table, for notebooks."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows_of(summary))
    return f"<table><caption>evenhand audit</caption>{rows}</table>"


def percent(share: float, digits: int = 1) -> str:
    """A share in words; what is there at all is never rounded to nothing, nor nearly all to all."""
    smallest = 10.0 ** -(digits + 2)
    if 0 < share < smallest / 2:
        return f"<{smallest:.{digits}%}"
    if 1 - smallest / 2 < share < 1:
        return f">{1 - smallest:.{digits}%}"
    return f"{share:.{digits}%}"


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
    for name, value in config["settings"].items():
        words += ["--set", f"{name}={value}"]
    return shlex.join(words)
