"""The section of a model card that finished runs fill: what was tested, on whom, results with intervals, limits."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from evenhand.errors import EvenhandError
from evenhand.report.commands import from_python, shareable, without_folder
from evenhand.report.limits import limits_of
from evenhand.report.pairs import FROM_NOBODY, card_of
from evenhand.report.repair import ABOUT, repair_sentences
from evenhand.report.sentences import (
    budget_text,
    example_lines,
    findings_by_phase,
    found_share,
    is_about_texts,
    is_not_tested,
    label_pair_texts,
    measured_parts,
    method_text,
    model_text,
    protected_name,
    ruled_out_text,
    within_words,
)
from evenhand.report.text_marks import has_strong_words
from evenhand.report.words import counted, interval_text, moment, percent
from evenhand.settings import repeat_of

PAIRS = 2
NO_PEOPLE = "Pairs that are people or texts of the data, or were made from them, are left out of this card."
RATE, ACCURACY = "discriminatory-rate", "accuracy"  # the types of our metrics in a card's front matter
TASKS = {"table": "tabular-classification", "text": "text-classification"}
SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&$])")


@dataclass(frozen=True)
class CardRate:
    """A rate as a card shows it: which attributes were changed, in whom, how often, how sure."""

    changed: str
    population: str
    counts: str
    rate: str
    interval: str
    value: float
    kept: bool = True  # stands in the front matter, too


@dataclass(frozen=True)
class CardRun:
    """One run as a section of a card shows it. Nothing in it is escaped yet."""

    title: str
    command: str
    facts: list[tuple[str, str]] = field(default_factory=list)
    rates: list[CardRate] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    pairs: list[list[str]] = field(default_factory=list)
    pairs_title: str = "Clearest pairs"
    limits: list[str] = field(default_factory=list)
    task: str = ""
    dataset: dict[str, Any] = field(default_factory=dict)
    metrics: list[dict[str, Any]] = field(default_factory=list)  # beside the rates
    from_python: str = ""  # why the command by itself does not repeat the run
    warnings: list[str] = field(default_factory=list)  # what has to be known before any figure


def card_run(summary: dict[str, Any], *, with_people: bool = False) -> CardRun:
    """A run's summary as a card says it; a card is for everybody, so people of the data are in it only if asked for."""
    makers: dict[str, Callable[[dict[str, Any]], CardRun]] = {"audit": _audit, "measure": _measure, "repair": _repair}
    kind = summary.get("kind")
    if kind not in makers:
        raise EvenhandError(
            f"A card is written about an audit, a measurement or a repair; this run is of the kind '{kind}'."
        )
    try:
        run = makers[kind](summary)
        shown = run.pairs if with_people else [pair for pair in run.pairs if pair[-1] == FROM_NOBODY]
        return replace(
            run,
            command=shareable(run.command),
            facts=[*_facts(summary), *run.facts, *_circumstances(summary)],
            pairs=shown,
            limits=limits_of(summary) + ([NO_PEOPLE] if len(shown) < len(run.pairs) else []),
            task=TASKS["text" if is_about_texts(summary) else "table"],
            dataset=summary["dataset"],
            from_python=from_python(summary),
            warnings=summary.get("warnings", []),
        )
    except (KeyError, IndexError, TypeError) as error:
        raise EvenhandError(
            f"The summary, by evenhand {summary.get('evenhand', '?')}, lacks {error}. Run the {kind} again with "
            "this version."
        ) from error


def render_section(runs: list[CardRun], version: str) -> str:
    """The section as Markdown, headings of the second and third level."""
    environment = Environment(
        loader=PackageLoader("evenhand.report", "."), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"md": escaped, "fence": fenced}
    return environment.get_template("card.md.j2").render(runs=runs, version=version).strip() + "\n"


def metrics_of(run: CardRun) -> list[dict[str, Any]]:
    """A run's figures as a card's front matter lists them."""
    rates = [
        {"type": RATE, "name": f"changing {one.changed}, {one.population} ({one.interval})", "value": one.value}
        for one in run.rates
        if one.kept
    ]
    return [*rates, *run.metrics]


def escaped(text: str) -> str:
    """Text of the data as Markdown shows it: one line, with nothing that would be markup."""
    return SPECIAL.sub(r"\\\1", " ".join(str(text).split())).replace("\\<", "&lt;").replace("\\>", "&gt;")


def fenced(text: str) -> str:
    """A block of code, between more backticks than it has itself."""
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{ticks}\n{text}\n{ticks}"


def _audit(summary: dict[str, Any]) -> CardRun:
    """An audit of a table or of texts."""
    names, command = protected_name(summary), repeat_of(summary)
    if is_not_tested(summary):
        return CardRun(f"Not tested: changing {names}", command)
    texts, search, found = is_about_texts(summary), summary["search"], sum(findings_by_phase(summary).values())
    mild = [example for example in summary["examples"] if not card_of(example).strong]
    return CardRun(
        f"Audit: changing {names}",
        command,
        facts=[("Method", method_text(summary)), ("Budget", budget_text(summary))],
        rates=[_rate(names, rate) for rate in summary["data_rate"].values()],
        said=[
            f"The search found {counted(found, 'unique discriminatory pair')} among "
            f"{counted(search['generated']['total'], 'generated text' if texts else 'generated sample')} "
            f"({percent(found_share(summary))}), from {search['seeds_with_findings']:,} of {search['seeds']:,} seeds. "
            "That is how well the search worked, and not a rate in any population.",
            *_ruled_out(search, texts=texts),
        ],
        pairs=[example_lines(example) for example in mild[:PAIRS]],
    )


def _ruled_out(search: dict[str, Any], *, texts: bool) -> list[str]:
    """What the similarity asked for, or rules of the schema, kept out of the findings."""
    if not search.get("ruled_out"):
        return []
    less_similar = f"{counted(search['ruled_out'], 'more pair')} did not count: less similar than was asked for"
    return [f"{less_similar if texts else ruled_out_text(search)}."]


def _measure(summary: dict[str, Any]) -> CardRun:
    """A measurement of a table or of texts."""
    rates, said = [], []
    for measured in measured_parts(summary):
        names = protected_name(measured)
        rates += [_rate(names, rate, kept=rate["name"] != "neighbourhood") for rate in measured["populations"]]
        said += [
            text for rate in measured["populations"][:1] for text in _direction(names, rate, summary["favourable"])
        ]
    not_tested, names = is_not_tested(summary), protected_name(summary)
    if summary["findings"] is not None and not not_tested:
        rates.append(_rate(names, summary["findings"], kept=False))
    half_width = summary["config"].get("half_width")
    precision = [("Precision asked for", f"half the interval's length at most {half_width}")]
    return CardRun(
        f"{'Not tested' if not_tested else 'Measurement'}: changing {names}",
        repeat_of(summary),
        facts=precision if "half_width" in summary["config"] else [],
        rates=rates,
        said=said,
    )


def _repair(summary: dict[str, Any]) -> CardRun:
    """A repair: the figures of the model that was written, beside those of the model as it was."""
    before, by_name = summary["rows"][0], {row["name"]: row for row in summary["rows"]}
    if summary["chosen"] is None:
        raise EvenhandError(
            "This repair wrote no model, since none kept to the condition: there is nothing to describe."
        )
    after, names = by_name[summary["chosen"]], protected_name(summary)
    changed = summary["examples"].get("newly_differ_examples", []) + summary["examples"]["now_alike_examples"]
    accuracy = [] if after["accuracy"] is None else [{"type": ACCURACY, "name": "held out", "value": after["accuracy"]}]
    return CardRun(
        f"Repair: less dependence on {names}",
        summary["command"],
        facts=[("Repaired by", f"{after['name']}: {ABOUT[after['by']]}")],
        rates=[
            _rate(names, row[which], when, kept=row is after)
            for which in ("people", "uniform")
            for row, when in ((before, "before"), (after, "after"))
            if row[which] is not None
        ],
        said=repair_sentences(summary),
        pairs=[_changed_pair(example) for example in changed if not has_strong_words(example["person"])][:PAIRS],
        pairs_title="Whose decisions the repair changed",
        metrics=accuracy,
    )


def _facts(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Model, data and what was changed."""
    model, data, texts = summary["model"], summary["dataset"], is_about_texts(summary)
    several = " (each by itself and together)" if summary["kind"] == "measure" else " together"
    changed = protected_name(summary) + (several if len(summary["protected"]) > 1 and not texts else "")
    changed += f", {limit}" if (limit := within_words(summary)) else ""
    return [
        ("Model", model_text({"model": model | {"name": without_folder(model["name"])}})),
        ("Data", f"{data['title']}, {data['rows']:,} {'texts' if texts else 'rows'}"),
        ("Protected, changed", changed),
    ]


def _circumstances(summary: dict[str, Any]) -> list[tuple[str, str]]:
    versions = summary["versions"]
    return [
        ("When", moment(summary["started"])),
        ("Random seed", str(summary["seed"])),
        ("With", f"evenhand {summary['evenhand']}, torch {versions['torch']}, {versions['device']}"),
    ]


def _rate(changed: str, rate: dict[str, Any], when: str = "", kept: bool = True) -> CardRate:
    return CardRate(
        changed,
        f"{rate['population']}, {when}" if when else rate["population"],
        f"{rate['discriminatory']:,} of {rate['samples']:,}",
        percent(rate["rate"], 2),
        f"{rate['confidence']:.0%} interval {interval_text(rate['interval'])}",
        round(rate["rate"], 6),
        kept,
    )


def _direction(changed: str, rate: dict[str, Any], favourable: str) -> list[str]:
    """Who wins among the discriminatory samples of a population; with more than two classes by pairs of labels."""
    if rate.get("label_pairs"):
        return [
            f"Changing {changed} ({rate['population']}): {text[0].lower()}{text[1:]}"
            for pair in rate["label_pairs"]
            for text in label_pair_texts(pair)
        ]
    found = []
    for who in rate["direction"]:
        if who["favoured"] is None:  # all win alike
            continue
        most, least = (percent(who["values"][end]["favourable"]) for end in (0, -1))
        found.append(
            f"Changing {changed}, of the variants of discriminatory samples ({rate['population']}) those with "
            f"{who['attribute'].replace('_', ' ')} {who['favoured']} get ‘{favourable}’ most often "
            f"({most}), those with {who['loses']} least often ({least})."
        )
    return found


def _changed_pair(example: dict[str, Any]) -> list[str]:
    """A person or text whom the old or the new model treats otherwise because of protected values."""
    other = "after" if example["differs"] == "before" else "before"
    return [
        example["person"],
        f"{example['own_values']}: {example['label']} ({example['differs']} the repair)",
        f"{example['other_values']}: {example['other_label']} ({example['differs']} the repair)",
        f"both: {example['label_when_alike']} ({other} the repair)",
    ]
