"""The result of an audit or a measurement in sentences: what was found, in which population, with which budget.

Everything here says a summary, of tables or of texts, and needs neither the data nor the findings.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from evenhand.data.attribute import Attribute
from evenhand.methods.names import ABOUT, TEXT_ABOUT
from evenhand.report.text_marks import GAP, PROTECTED, excerpt, marks
from evenhand.report.words import counted, duration, joined, percent, rate_text, share_text, some_of

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
UNITS = {
    "data": ("rows of the data", "checked"),
    "global": ("seeds", "global iterations"),
    "local": ("walks", "local steps"),
}
SWAPS = {
    "one": "one mention is given another value",
    "all": "all mentions of one value in the text are given another value together",
}
PHASES = ("global", "local")


# What a summary is about


def is_about_texts(summary: dict[str, Any]) -> bool:
    """Whether a run was about texts; summaries of tables of before name no domain."""
    return summary.get("domain") == "text"


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


def protected_name(summary: dict[str, Any]) -> str:
    """The protected attributes as a sentence has them."""
    return joined([name.replace("_", " ") for name in summary["protected"]])


def by_phase(summary: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Of texts: the means of the measures of validity, for each phase."""
    return [(phase, summary["validity"][phase]) for phase in PHASES]


def findings_by_phase(summary: dict[str, Any]) -> dict[str, int]:
    """Findings in the file: of texts without those that are less similar to their original than was asked."""
    if is_about_texts(summary):
        return {phase: means["findings"] for phase, means in by_phase(summary)}
    return {phase: summary["search"]["findings"][phase] for phase in PHASES}


def found_share(summary: dict[str, Any]) -> float:
    """Findings as a share of the generated samples or texts: how well the search worked."""
    if not is_about_texts(summary):
        return float(summary["search"]["success_rate"])
    generated = summary["search"]["generated"]["total"]
    return sum(findings_by_phase(summary).values()) / generated if generated else 0.0


def main_rate(summary: dict[str, Any]) -> dict[str, Any] | None:
    """The rate that a headline has: of all people, or of held-out texts, which the model did not learn from."""
    rates: dict[str, dict[str, Any]] = summary["data_rate"]
    return rates.get("held_out" if is_about_texts(summary) else "all") or next(iter(rates.values()), None)


# One line


def headline(summary: dict[str, Any]) -> str:
    """The result in one line; of texts a second sentence has the rate in the corpus."""
    search, limit = summary["search"], within_words(summary)
    name, of = summary["dataset"]["name"], f"{search['seeds_with_findings']:,} of {search['seeds']:,} seeds"
    if is_not_tested(summary):
        return f"{name}, {NOT_TESTED}: {summary['warnings'][0]}"
    found = counted(sum(findings_by_phase(summary).values()), "finding")
    if is_about_texts(summary):
        rate = main_rate(summary)
        return (
            f"{name}, exchanging words of {protected_name(summary)}: {found} among "
            f"{counted(search['generated']['total'], 'generated text')} ({percent(found_share(summary))}), from {of}."
            f"{f' {texts_affected(rate)}' if rate else ''}"
        )
    return (
        f"{name}, changing {joined(summary['protected'])}{f' {limit}' if limit else ''}: {found} among "
        f"{counted(search['generated']['total'], 'generated sample')} ({search['success_rate']:.1%}), {of}"
    )


def introduced(summary: dict[str, Any], words: str) -> str:
    """A result for Python's prompt: the warnings first, a line each; one that the result says is not repeated."""
    return "\n".join([*(f"Warning: {text}" for text in summary.get("warnings", []) if text not in words), words])


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


def progress_text(title: str, progress: "Progress") -> str:
    """Where a search stands, in one line: at most 80 columns for usual numbers."""
    who, what = UNITS[progress.phase]
    speed = f" ({progress.findings / progress.seconds:,.0f}/s)" if progress.findings and progress.seconds else ""
    findings = "" if progress.phase == "data" else f", {progress.findings:,} findings{speed}"
    left = "" if progress.time_left is None else f", {duration(progress.time_left)} left"
    return f"{title}  {progress.walks:,} {who}, {what} {progress.done:,}/{progress.total:,}{findings}{left}"


# Facts as rows


def rows_of(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The result as name and value, for a terminal or a notebook; first what has to be known before any figure."""
    facts = [*warning_rows(summary), *model_rows(summary)]
    if is_not_tested(summary):
        return facts
    texts, search, found = is_about_texts(summary), summary["search"], findings_by_phase(summary)
    noun, ruled_out = "texts" if texts else "samples", search.get("ruled_out") or 0
    left_out = f"; {ruled_out:,} less similar ones left out" if texts and ruled_out else ""
    return [
        *facts,
        ("method", method_text(summary)),
        *(_corpus_rows(summary) if texts else _people_rows(summary)),
        ("budget", budget_text(summary)),
        ("generated", f"{search['generated']['total']:,} unique {noun}"),
        (
            "findings",
            f"{sum(found.values()):,} unique ({found['global']:,} global, {found['local']:,} local){left_out}",
        ),
        *([("ruled out", ruled_out_text(search))] if ruled_out and not texts else []),
        ("share of generated", f"{percent(found_share(summary))} of these {noun} are findings"),
        (
            "seeds",
            f"{search['seeds_with_findings']:,} of {search['seeds']:,} led to a finding"
            if search["seeds_with_findings"] or not search["findings"]["total"]
            else "none: this method starts from random samples",
        ),
        *(_validity_rows(summary) if texts else []),
        *([("measured", ", ".join(f"{k} {v:,.5g}" for k, v in search["notes"].items()))] if search["notes"] else []),
        ("work", f"{search['model_rows']:,} model rows, {search['findings_per_second']:,.0f} findings a second"),
    ]


def model_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The data and the model: of tables also what it reads, and its accuracy on the data."""
    model, data = summary["model"], summary["dataset"]
    if is_about_texts(summary):
        return [("corpus", f"{data['title']}, {data['rows']:,} texts"), ("model", model_text(summary))]
    return [
        ("data", f"{data['title']}, {data['rows']:,} people"),
        ("model", f"{model['name']}; {offers_text(model)}"),
        *([("reads", inputs_text(model))] if "inputs" in model else []),
        *([("does not read", ", ".join(some_of(list(model["unread"]))))] if model.get("unread") else []),
        *([("accuracy on data", agreement_text(model["agreement"]))] if "agreement" in model else []),
    ]


def _people_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """What was changed, and how many people of the data it concerns."""
    rates = summary["data_rate"]
    rows = [
        ("changed", changed_text(summary)),
        ("in the data itself", rate_text(rates["all"]) + part_text(summary)),
    ]
    if "all_values" in rates:  # people are compared within a distance of their own values
        rows += [("compared", within_words(summary)), ("against all values", rate_text(rates["all_values"]))]
    return rows


def _corpus_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Which words were exchanged, and how many texts of the corpus it concerns."""
    lexicon, mentioning = summary["lexicon"], summary["texts"]["mentioning"]
    values = f"{SWAPS[lexicon['swap']]} ({len(lexicon['values'])} values)"
    return [
        ("exchanged", f"{protected_name(summary)}: {values}"),
        ("texts with such words", ", ".join(f"{n:,} {split.replace('_', '-')}" for split, n in mentioning.items())),
        *(
            (f"findings as written, {name.replace('_', '-')}", rate_text(rate) + part_text(summary))
            for name, rate in summary["data_rate"].items()
        ),
    ]


def _validity_rows(summary: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """The means of each phase that has findings."""
    for phase, means in by_phase(summary):
        if means["findings"]:
            text = f"{means['l0']:.2f} words replaced, BLEU {means['bleu']:.3f}"
            if means["similarity"] is not None:
                text += f", similarity {means['similarity']:.3f} (of {means['similarity_of']:,})"
            yield f"validity, {phase}", f"{text} on average"


# Data and model


def model_text(summary: dict[str, Any]) -> str:
    """The model's name, with its kind where the name does not say it."""
    name, kind = summary["model"]["name"], summary["model"].get("kind")
    return f"{name} ({kind})" if kind and kind.lower() not in name.lower() else str(name)


def offers_text(model: dict[str, Any]) -> str:
    """What a model returns, and why it is a black box if it is one."""
    if "no_gradients" not in model:
        return f"returns {model['output']}"
    return f"returns {model['output']}, no gradients: {model['no_gradients'].rstrip('.')}"


def inputs_text(model: dict[str, Any]) -> str:
    """How a model is given people, how that is known, and from which score on it gives the last of the decisions."""
    inputs = model["inputs"]
    tried = ", ".join(f"{way} {percent(share)}" for way, share in inputs.get("agreement", {}).items())
    why = {
        "file": "as its file or object says",
        "user": "as was stated",
        "same": "all readings that fit are the same" if tried else "the only reading that fits",
        "evidence": f"the decisions in the data say so: {tried}",
    }[inputs["settled_by"]]
    threshold, label = model.get("threshold"), model.get("threshold_label")
    named = f"‘{label}’" if label else "the second class"
    cut = "" if threshold is None else f"; {named} from a score of {threshold:.4g} on"
    return f"{inputs['reading']} ({why}){cut}"


def agreement_text(agreement: dict[str, Any]) -> str:
    """A model's accuracy on the data, and what to look at where always saying one decision would do as well."""
    words = (
        f"{percent(agreement['share'])} of {agreement['rows']:,} rows (always ‘{agreement['commonest_label']}’: "
        f"{percent(agreement['commonest_share'])})"
    )
    if agreement["share"] <= agreement["commonest_share"]:
        words += "; that is no more: are the classes (label.values) and the model's inputs in the right order?"
    return words


def unread_text(unread: dict[str, str]) -> str:
    """What a model does not read, attributes with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in unread.items():
        by_reason.setdefault(reason, []).append(name)
    return "; ".join(f"{joined(some_of(names))} ({reason})" for reason, names in by_reason.items())


# Search


def method_text(summary: dict[str, Any]) -> str:
    """The method's name and what it is."""
    name = summary["config"]["method"]
    about = (TEXT_ABOUT if is_about_texts(summary) else ABOUT).get(name)
    return f"{name}: {about}" if about else str(name)


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


def changed_text(summary: dict[str, Any]) -> str:
    """What was changed, and how far where that is limited."""
    limit = within_words(summary)
    together = " together" if len(summary["protected"]) > 1 else ""
    return joined(summary["protected"]) + together + (f", {limit}" if limit else "")


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


def moves_text(config: dict[str, Any]) -> str:
    """What a search in texts may replace, and how much of it."""
    what = "any word, number or sign" if config["moves"] == "tokens" else "words with a meaning of their own"
    most = f"at most {counted(config['max_changes'], 'word')}" if config["max_changes"] else "no limit to their number"
    part = " of the same part of speech" if config["same_part_of_speech"] else ""
    local = config["local_changes"]
    walks = f"; a local walk replaces at most {local} more than its start has" if local else ""
    return f"{what} by one of the {config['k']} nearest words{part}, {most}{walks}"


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


# Results


def people_affected(summary: dict[str, Any]) -> str:
    """The figure for a decision in a sentence: how many people of the data, with the interval."""
    rate, limit = summary["data_rate"]["all"], within_words(summary)
    words = (
        f"{rate['discriminatory']:,} of {rate['samples']:,} people of the data ({share_text(rate)}) "
        "get another decision when nothing but "
        f"{joined(summary['protected'])} {'are' if len(summary['protected']) > 1 else 'is'} changed"
    )
    if not limit:
        return f"{words}."
    everywhere = summary["data_rate"].get("all_values")
    against_all = "" if everywhere is None else f" Compared with all values, it is {rate_text(everywhere)}."
    return f"{words}, {limit}.{against_all}"


def texts_affected(rate: dict[str, Any]) -> str:
    """How many texts of a population, with the interval."""
    return (
        f"Of {rate['population']}, {rate['discriminatory']:,} of {rate['samples']:,} get another decision as they are "
        f"({share_text(rate)})."
    )


def part_text(summary: dict[str, Any]) -> str:
    """That the time limit left only a part of the data checked; empty where it did not."""
    stopped = summary.get("data_rate_stopped") == "max-seconds"
    return "; a random part of them, since the time limit ended the check" if stopped else ""


def ruled_out_text(search: dict[str, Any]) -> str:
    """How many pairs the schema's rules kept out of the findings."""
    return f"{counted(search['ruled_out'], 'more sample')} would be findings, but one of the pair is impossible"


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


# Examples


def example_lines(example: dict[str, Any]) -> list[str]:
    """An example of a summary in four lines: what both members share, each with its decision, where they come from.

    What two texts share stands in their own lines, which have protected words in brackets.
    """
    if "sides" in example:
        lines = [example["description"]]
        for side in example["sides"]:
            values = ", ".join(value for value, _ in side["protected"])
            lines.append(f"{values}: {_decision(side['label'], example['score_of'], side['score'])}")
        return [*lines, example["origin"]]
    marked = marks(example["original"], example["text"], example["witness"], tuple(example["values"]))
    lines = ["Two texts"]
    for place, parts in enumerate((marked.text, marked.witness)):
        said = _decision(example["labels"][place], example["score_of"], example["scores"][place])
        shown = [(kind, " … " if kind == GAP else text) for kind, text in excerpt(parts)]
        text = "".join(f"[{text}]" if kind == PROTECTED else text for kind, text in shown)
        lines.append(f"{example['values'][place]}: {said}: {' '.join(text.split())}")
    changes = "; ".join(f"{before} → {after}" for before, after in example["changes"])
    return [*lines, f"replaced: {changes}" if changes else "nothing replaced: a text of the corpus as it is"]


def _decision(label: str, score_of: str, score: float) -> str:
    return f"{label} (score for ‘{score_of}’ {percent(score)})"
