"""The result of a text audit in sentences: what was found, in which population, with which budget, and its limits."""

import shlex
from html import escape
from typing import Any

from evenhand.methods.registry import TEXT_DEFAULT, TEXT_METHODS
from evenhand.report.text import budget_text, counted, interval_text, joined, part_text, percent, rate_text
from evenhand.report.text_marks import GAP, PROTECTED, excerpt, marks

SWAPS = {
    "one": "one mention is given another value",
    "all": "all mentions of one value in the text are given another value together",
}
PHASES = ("global", "local")

# Options that a command line leaves out where they have these values, and those that it always has.
DEFAULTS = {
    "method": TEXT_DEFAULT, "iterations": 10, "device": "auto", "lexicon": "evenhand", "vectors": "glove", "k": 10,
    "moves": "tokens", "swap": "one", "ambiguous": "keep", "local_changes": 2, "encoder": "auto",
}  # fmt: skip
ALWAYS = ("seeds", "steps", "seed")


def protected_name(summary: dict[str, Any]) -> str:
    """The protected attribute as a sentence has it."""
    return joined([name.replace("_", " ") for name in summary["protected"]])


def main_rate(summary: dict[str, Any]) -> dict[str, Any] | None:
    """The rate that a headline has: of held-out texts, which the model did not learn from, where there are any."""
    rates: dict[str, dict[str, Any]] = summary["data_rate"]
    return rates.get("held_out") or next(iter(rates.values()), None)


def text_headline(summary: dict[str, Any]) -> str:
    """The result in two sentences: the rate in the corpus, and what the search found."""
    search, about = summary["search"], protected_name(summary)
    rate = main_rate(summary)
    in_corpus = f" {rate_sentence(rate)}" if rate else ""
    return (
        f"{summary['dataset']['name']}, exchanging words of {about}: "
        f"{counted(kept_findings(summary), 'finding')} among "
        f"{counted(search['generated']['total'], 'generated text')} ({percent(success_rate(summary))}), from "
        f"{search['seeds_with_findings']:,} of {search['seeds']:,} seeds.{in_corpus}"
    )


def kept_findings(summary: dict[str, Any]) -> int:
    """Findings in the file: without those that are less similar to their original than was asked."""
    return sum(means["findings"] for _, means in by_phase(summary))


def by_phase(summary: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The means of the measures of validity, for each phase."""
    return [(phase, summary["validity"][phase]) for phase in PHASES]


def success_rate(summary: dict[str, Any]) -> float:
    """Findings by generated texts."""
    generated = summary["search"]["generated"]["total"]
    return kept_findings(summary) / generated if generated else 0.0


def rate_sentence(rate: dict[str, Any]) -> str:
    """A rate with its population and interval."""
    return (
        f"Of {rate['population']}, {rate['discriminatory']:,} of {rate['samples']:,} get another label as they are "
        f"({percent(rate['rate'], 2)}; {rate['confidence']:.0%} interval {interval_text(rate['interval'])})."
    )


def text_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The result as name and value, for a terminal or a notebook."""
    search, config, lexicon = summary["search"], summary["config"], summary["lexicon"]
    mentioning = summary["texts"]["mentioning"]
    kept = {phase: means["findings"] for phase, means in by_phase(summary)}
    ruled_out = search.get("ruled_out") or 0
    return [
        ("corpus", f"{summary['dataset']['title']}, {summary['dataset']['rows']:,} texts"),
        ("model", model_text(summary)),
        ("method", method_text(config["method"])),
        ("exchanged", f"{protected_name(summary)}: {SWAPS[lexicon['swap']]} ({len(lexicon['values'])} values)"),
        ("texts with such words", ", ".join(f"{n:,} {split.replace('_', '-')}" for split, n in mentioning.items())),
        *[
            (f"findings as written, {name.replace('_', '-')}", rate_text(rate) + part_text(summary))
            for name, rate in summary["data_rate"].items()
        ],
        ("budget", budget_text(summary)),
        ("generated", f"{search['generated']['total']:,} unique texts"),
        (
            "findings",
            f"{sum(kept.values()):,} unique ({kept['global']:,} global, {kept['local']:,} local)"
            + (f"; {ruled_out:,} less similar ones left out" if ruled_out else ""),
        ),
        ("success rate", f"{percent(success_rate(summary))} of the generated texts"),
        ("seeds", f"{search['seeds_with_findings']:,} of {search['seeds']:,} led to a finding"),
        *[(f"validity, {phase}", text) for phase, text in _validity_texts(summary)],
        ("work", f"{search['model_rows']:,} model rows, {search['findings_per_second']:,.0f} findings a second"),
    ]


def _validity_texts(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The means of each phase that has findings."""
    texts = []
    for phase, means in by_phase(summary):
        if means["findings"]:
            text = f"{means['l0']:.2f} words replaced, BLEU {means['bleu']:.3f}"
            if means["similarity"] is not None:
                text += f", similarity {means['similarity']:.3f} (of {means['similarity_of']:,})"
            texts.append((phase, f"{text} on average"))
    return texts


def model_text(summary: dict[str, Any]) -> str:
    """The model's name, with its kind where the name does not say it."""
    name, kind = summary["model"]["name"], summary["model"].get("kind")
    return f"{name} ({kind})" if kind and kind.lower() not in name.lower() else str(name)


def method_text(name: str) -> str:
    """A method's name and what it is."""
    return f"{name}: {TEXT_METHODS[name].about}" if name in TEXT_METHODS else name


def moves_text(config: dict[str, Any]) -> str:
    """What the search may replace, and how much of it."""
    what = "any word, number or sign" if config["moves"] == "tokens" else "words with a meaning of their own"
    most = f"at most {counted(config['max_changes'], 'word')}" if config["max_changes"] else "no limit to their number"
    part = " of the same part of speech" if config["same_part_of_speech"] else ""
    local = config["local_changes"]
    walks = f"; a local walk replaces at most {local} more than its start has" if local else ""
    return f"{what} by one of the {config['k']} nearest words{part}, {most}{walks}"


def text_html_table(summary: dict[str, Any]) -> str:
    """The result as a small table, for notebooks."""
    lines = text_rows(summary)
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in lines)
    return f"<table><caption>evenhand audit</caption>{rows}</table>"


def example_lines(example: dict[str, Any]) -> list[str]:
    """An example of a summary for a terminal: each member with its label, protected words in brackets; the changes."""
    marked = marks(example["original"], example["text"], example["witness"], tuple(example["values"]))
    lines = []
    for place, parts in enumerate((marked.text, marked.witness)):
        text = "".join(f"[{text}]" if kind == PROTECTED else text for kind, text in _without_gaps(excerpt(parts)))
        said = f"{example['labels'][place]} (score for ‘{example['score_of']}’ {percent(example['scores'][place])})"
        lines.append(f"{example['values'][place]}: {said}: {' '.join(text.split())}")
    changes = "; ".join(f"{before} → {after}" for before, after in example["changes"])
    return [*lines, f"replaced: {changes}" if changes else "nothing replaced: a text of the corpus as it is"]


def _without_gaps(parts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(kind, " … " if kind == GAP else text) for kind, text in parts]


def limits(summary: dict[str, Any]) -> list[str]:
    """What an audit of texts cannot see or do, in plain words."""
    config, lexicon, about = summary["config"], summary["lexicon"], protected_name(summary)
    tokens = config["moves"] == "tokens"
    return [
        "A label that changes is not always wrong. Some sentences say something else, or something false, when a "
        f"word of {about} is exchanged. Which findings matter is for a person to judge.",
        f"A mention is a word of the lexicon “{lexicon['title']}”. Words that it lacks are not seen. "
        + _ambiguous_text(lexicon["ambiguous"]),
        "Exchanging a word leaves the grammar around it as it is: “a” and “an”, articles, verbs and endings are not "
        "adjusted. Some texts therefore read oddly, and a model may react to that.",
        *_swap_limit(lexicon["swap"], about),
        f"A replaced word becomes one of the {config['k']} nearest in the word vectors. Near is not the same in "
        "meaning: opposites are often near. "
        + ("Any word, number or sign that is not protected may be replaced, function words too. " if tokens else "")
        + "Both members of a pair share every replaced word, so replaced words alone cannot make them differ.",
        _similarity_limit(summary),
        f"The model reads at most {summary['model']['reads']:,} words of a text. What comes later changes nothing.",
    ]


def _ambiguous_text(ambiguous: str) -> str:
    if ambiguous == "exclude":
        return (
            "Words with other meanings (“black” as a colour) count only where the words beside them speak for the "
            "protected meaning. This rule looks no further than that and errs in both directions."
        )
    return "Words with other meanings (“black” as a colour) count wherever they stand, in whatever meaning."


def _swap_limit(swap: str, about: str) -> list[str]:
    if swap == "all":
        return []
    return [
        f"One mention is exchanged at a time. A text that mentions {about} more than once then speaks of two values "
        "where it spoke of one."
    ]


def _similarity_limit(summary: dict[str, Any]) -> str:
    measured = [
        f"{means['similarity_of']:,} of {means['findings']:,} findings of the {phase} phase"
        for phase, means in by_phase(summary)
        if means["similarity"] is not None
    ]
    if not measured:
        return "Semantic similarity was not measured, so nothing says whether findings still mean what the text meant."
    return (
        f"Semantic similarity was measured on {joined(measured)}. It compares texts as a sentence encoder sees them; a "
        "high value does not promise the same meaning."
    )


def text_command_line(summary: dict[str, Any]) -> str:
    """The command that repeats an audit: its data, budget and seed, and whatever is not the default."""
    if "command" in summary:
        return str(summary["command"])
    config = summary["config"]
    words = ["evenhand", "audit", config["dataset"], "--protected", ",".join(config["protected"])]
    for name in ALWAYS:
        words += [f"--{name}", str(config[name])]
    for name, value in config.items():
        if (
            name in ("dataset", "protected", "settings", *ALWAYS)
            or value in (None, False)
            or value == DEFAULTS.get(name)
        ):
            continue
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    for name, value in config.get("settings", {}).items():
        words += ["--set", f"{name}={value}"]
    return shlex.join(words)
