"""The report of an audit: one HTML file that needs no network and explains itself."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from evenhand.data.dataset import Dataset
from evenhand.files import write_text
from evenhand.report.charts import growth_chart, growth_points, rate_bar, share_bars
from evenhand.report.commands import audit_command, from_python
from evenhand.report.flips import MOST_PAIRS, Matrix, PairRow, flip_matrix, label_rows, pair_rows, spread_rows
from evenhand.report.groups import COLUMNS, group_rows
from evenhand.report.limits import text_limits
from evenhand.report.pairs import card_of, table_cards, text_example
from evenhand.report.sentences import (
    STOPPED,
    SWAPS,
    agreement_text,
    budget_text,
    by_phase,
    found_share,
    inputs_text,
    is_about_texts,
    is_not_tested,
    limit_text,
    main_rate,
    method_text,
    model_text,
    moves_text,
    offers_text,
    people_affected,
    protected_name,
    reading_text,
    texts_affected,
    unread_text,
    warning_rows,
    within_words,
)
from evenhand.report.statistics import Statistics, statistics_of
from evenhand.report.text_marks import has_strong_words
from evenhand.report.text_statistics import (
    ReplacedWord,
    TextFlips,
    TextStatistics,
    asked_label,
    choose_examples,
    read_text_statistics,
    replaced_words,
)
from evenhand.report.words import counted, interval_text, joined, moment, percent

TEXT_EXAMPLES = 12
MOST_MATRIX_VALUES = 16  # column heads are written upwards, so that more fit than in a table's report
MOST_VALUES = 20
MOST_WORDS = 20

MEASURES = {
    "l0": ("Words replaced (L0)", "places at which the finding has another word than the original"),
    "l2": ("Distance (L2)", "between the two texts in the word vectors, all places together; 0 for the same text"),
    "jaccard": ("Jaccard", "words that both texts have, as a share of the words that either has; 1 for the same words"),
    "bleu": ("BLEU-4", "how many runs of one to four words the two texts share; 1 for the same text"),
    "similarity": ("Semantic similarity", "cosine of the two texts in a sentence encoder; 1 for the same text"),
}


@dataclass(frozen=True)
class WordRow:
    """A replaced word, and whether it or what replaced it is a strong one."""

    word: ReplacedWord
    strong: bool


def write_report(path: Path, summary: dict[str, Any], findings: Path, data: Dataset | None = None) -> Path:
    """Write the report about an audit's summary and its file of findings; that of a table needs the data too."""
    write_text(path, render(summary, findings, data))
    return path


def render(summary: dict[str, Any], findings: Path, data: Dataset | None = None) -> str:
    """The page as text."""
    if is_about_texts(summary):
        texts = read_text_statistics(findings, asked_label(summary))
        return template("text_report.html.j2").render(**_of_both(summary), **_of_texts(summary, texts))
    assert data is not None  # findings of a table are codes
    statistics = statistics_of(summary, findings, data)
    return template("report.html.j2").render(**_of_both(summary), **_of_table(summary, statistics, data))


@cache
def template(name: str) -> Template:
    """A page of this folder, with what all pages use."""
    environment = Environment(
        loader=PackageLoader("evenhand.report", "."),
        autoescape=True,  # names and values come from data and may hold anything
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "interval": interval_text, "counted": counted}
    environment.globals |= {"growth_chart": growth_chart, "rate_bar": rate_bar, "share_bars": share_bars}
    return environment.get_template(name)


def _of_both(summary: dict[str, Any]) -> dict[str, Any]:
    """What pages about tables and about texts say alike."""
    return {
        "summary": summary,
        "search": summary["search"],
        "warnings": warning_rows(summary),
        "not_tested": is_not_tested(summary),
        "found_share": found_share(summary),
        "rates": _rates(summary),
        "budget": budget_text(summary),
        "stopped": STOPPED[summary["search"]["stopped"]],
        "method": method_text(summary),
        "growth": growth_points(summary),
        "command": audit_command(summary),
        "from_python": from_python(summary),
        "started": moment(summary["started"]),
    }


def _of_table(summary: dict[str, Any], statistics: Statistics, data: Dataset) -> dict[str, Any]:
    """What only a page about a table says."""
    schema, model = data.schema, summary["model"]
    protected = schema.protected_indices(summary["protected"])
    found = {
        "schema": schema,
        "protected": joined([schema.attributes[index].title for index in protected]),
        "several": len(protected) > 1,
        "goal": schema.label.text(schema.label.favourable_code),
        "goal_is_favourable": schema.label.favourable is not None,
        "offers": offers_text(model),
        "reads": inputs_text(model) if "inputs" in model else "",
        "unread": model.get("unread", {}),
        "unread_words": unread_text(model.get("unread", {})),
        "within": within_words(summary),
        "groups": [(figures, group_rows(figures)) for figures in summary.get("groups", [])],
        "group_columns": COLUMNS,
        "rules": [rule.words for rule in schema.rules],
        "limited": [
            limit_text(a)
            for a in schema.attributes
            if not a.protected and a.kind != "pass" and (a.moves != "any" or a.stride > 1)
        ],
        "coarser": [text for a in schema.attributes if (text := reading_text(a)) is not None],
        "own_model": summary["config"]["model"] is not None,
        "affected": people_affected(summary),
        "agrees": agreement_text(model["agreement"]) if "agreement" in model else "",
        "cards": table_cards(summary, statistics.examples, data),
        "findings": statistics.findings,
    }
    if not statistics.findings:
        return found
    flips = statistics.flips
    rows = pair_rows(flips, schema, protected)
    titles = {attribute.name: attribute.title for attribute in schema.attributes}
    return found | {
        "flips": flips,
        "matrix": flip_matrix(flips, schema, protected),
        "by_labels": label_rows(flips, schema, protected),
        "pairs": rows,
        "pairs_share": sum(row.share for row in rows),
        "changed": [(joined([titles[n] for n in names]), count, len(names) == 1) for names, count in flips.changed],
        "spreads": [spread_rows(spread, schema) for spread in statistics.spreads],
        "most_share": max((value.findings for spread in statistics.spreads for value in spread.over), default=1.0),
    }


def _of_texts(summary: dict[str, Any], statistics: TextStatistics) -> dict[str, Any]:
    """What only a page about texts says."""
    goal, rate = asked_label(summary), main_rate(summary)
    chosen = choose_examples(statistics.clearest, TEXT_EXAMPLES)
    cards = [card_of(text_example(finding, summary), goal) for finding in chosen]
    words = [_word_row(word) for word in replaced_words(statistics.clearest, MOST_WORDS)]
    return {
        "about": protected_name(summary),
        "goal": goal,
        "goal_is_favourable": summary["dataset"]["favourable"] is not None,
        "swap": SWAPS[summary["lexicon"]["swap"]],
        "moves": moves_text(summary["config"]),
        "rate": texts_affected(rate) if rate else "",
        "model": model_text(summary),
        "findings": statistics.findings,
        "clearest": statistics.clearest,
        "unchanged": sum(finding.l0 == 0 for finding in statistics.clearest),
        "cards": cards,
        "words": words,
        "strong": any(card.strong for card in cards) or any(word.strong for word in words),
        "validity": _validity_rows(summary),
        "limits": text_limits(summary),
        **_about_values(statistics.flips, summary),
    }


def _rates(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Rates in the data with their intervals, and of tables the share among generated samples, which has none."""
    search = summary["search"]
    rates = [dict(rate) for rate in summary["data_rate"].values()]
    if not is_about_texts(summary):
        rates.append(
            {
                "population": "samples that the search generated",
                "discriminatory": search["findings"]["total"],
                "samples": search["generated"]["total"],
                "rate": search["success_rate"],
                "interval": None,
            }
        )
    most = max([rate["interval"][1] if rate["interval"] else rate["rate"] for rate in rates], default=1.0)
    return [rate | {"bar": rate_bar(rate["rate"], rate["interval"], most or 1)} for rate in rates]


def _word_row(word: ReplacedWord) -> WordRow:
    return WordRow(word, any(has_strong_words(text) for text in (word.word, *(other for other, _ in word.by))))


def _about_values(flips: TextFlips, summary: dict[str, Any]) -> dict[str, Any]:
    """Which values flip which way."""
    pairs = [
        PairRow(flip.favoured, flip.disfavoured, flip.findings, flip.findings / flips.total)
        for flip in flips.pairs[:MOST_PAIRS]
    ]
    return {
        "flips": flips,
        "pairs": pairs,
        "pairs_share": sum(pair.share for pair in pairs),
        "matrix": value_matrix(flips, summary["lexicon"]["values"]),
        "values": flips.values[:MOST_VALUES],
        "most_values": max((max(count.got, count.did_not) for count in flips.values), default=1),
    }


def value_matrix(flips: TextFlips, values: list[str]) -> Matrix | None:
    """All values against each other; those that occur, if all are too many; None if these are too."""
    occur = {count.value for count in flips.values}
    names = values if len(values) <= MOST_MATRIX_VALUES else [value for value in values if value in occur]
    if not flips.pairs or len(names) > MOST_MATRIX_VALUES:
        return None
    count = {(flip.favoured, flip.disfavoured): flip.findings for flip in flips.pairs}
    return Matrix(names, [[count.get((row, column), 0) for column in names] for row in names])


def _validity_rows(summary: dict[str, Any]) -> list[tuple[str, list[str], str]]:
    """A measure, its mean in each phase, and what it means."""
    rows = []
    for name, (title, meaning) in MEASURES.items():
        means = [phase[name] for _, phase in by_phase(summary)]
        encoder = summary["validity"].get("encoder") if name == "similarity" else None
        rows.append(
            (
                title,
                ["–" if mean is None else f"{mean:.3f}" for mean in means],
                f"{meaning} ({encoder})" if encoder else meaning,
            )
        )
    return rows
