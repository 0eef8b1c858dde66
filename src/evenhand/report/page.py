"""The report of an audit: one HTML file that needs no network and explains itself."""

import math
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from evenhand.data.dataset import Dataset
from evenhand.data.schema import Schema
from evenhand.files import write_text
from evenhand.report.charts import growth_chart, growth_points, rate_bar, share_bars
from evenhand.report.commands import from_python
from evenhand.report.flips import Codes, asked_class, flip_matrix, flip_parts
from evenhand.report.groups import COLUMNS, group_rows
from evenhand.report.limits import text_limits
from evenhand.report.pairs import card_of, table_cards, text_example
from evenhand.report.sentences import (
    STOPPED,
    SWAPS,
    agreement_text,
    budget_text,
    by_phase,
    findings_by_phase,
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
from evenhand.report.statistics import Spread, Statistics, statistics_of
from evenhand.report.text_marks import has_strong_words
from evenhand.report.text_statistics import (
    ReplacedWord,
    TextStatistics,
    choose_examples,
    replaced_words,
    text_statistics_of,
)
from evenhand.report.words import counted, interval_text, joined, moment, percent
from evenhand.settings import repeat_of

TEXT_EXAMPLES = 12
MOST_MATRIX_COMBINATIONS = 12
MOST_MATRIX_VALUES = 16  # column heads are written upwards, so that more fit than in a table's report
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
        parts = _of_texts(summary, text_statistics_of(summary, findings))
        return template("text_report.html.j2").render(**_of_both(summary), **parts)
    assert data is not None  # findings of a table are codes
    parts = _of_table(summary, statistics_of(summary, findings, data), data)
    return template("table_report.html.j2").render(**_of_both(summary), **parts)


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
        "main_rate": main_rate(summary),
        "found_share": found_share(summary),
        "rates": _rates(summary),
        "groups": [(figures, group_rows(figures)) for figures in summary.get("groups", [])],
        "group_columns": COLUMNS,
        "stopped": STOPPED[summary["search"]["stopped"]],
        "method": method_text(summary),
        "growth": growth_points(summary),
        "command": repeat_of(summary),
        "from_python": from_python(summary),
        "started": moment(summary["started"]),
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


def _search_facts(summary: dict[str, Any]) -> list[tuple[str, str]]:
    found = findings_by_phase(summary)
    return [
        ("Method", method_text(summary)),
        ("Budget", budget_text(summary)),
        ("Found in", f"the global phase {found['global']:,}, the local phase {found['local']:,}"),
    ]


# Tables


def _of_table(summary: dict[str, Any], statistics: Statistics, data: Dataset) -> dict[str, Any]:
    """What only a page about a table says."""
    schema, card, within = data.schema, data.schema.card, within_words(summary)
    indices = schema.protected_indices(summary["protected"])
    protected, several = joined([schema.attributes[index].title for index in indices]), len(indices) > 1
    found, groups = statistics.findings, summary.get("groups")
    cards = table_cards(summary, statistics.examples, data)
    sections = [
        ("rates", "In the data itself", True),
        ("groups", "Groups that were not tested", groups),
        ("flips", "Which way decisions flip", found),
        ("examples", "Examples", cards),
        ("attributes", "Where findings sit", found),
        ("growth", "Growth with work", True),
        ("made", "How it was made", True),
    ]
    card_rows = [("Source", card.source), ("Licence", card.licence), ("Citation", card.citation)]
    return {
        "title": schema.title or schema.name,
        "noun": "sample",
        "protected": protected,
        "several": several,
        "changes": f"{protected} {'change' if several else 'changes'}{f' {within}' if within else ''}",
        "changed_only": f"{protected} {'are' if several else 'is'} changed{f', {within}' if within else ''}",
        "affected": people_affected(summary),
        "affected_whom": f"People affected{f' {within}' if within else ''}",
        "facts": _table_facts(summary, schema, protected),
        "sections": [(name, words) for name, words, there in sections if there],
        "rules": [rule.words for rule in schema.rules],
        "limited": [
            limit_text(a)
            for a in schema.attributes
            if not a.protected and a.kind != "pass" and (a.moves != "any" or a.stride > 1)
        ],
        "coarser": [text for a in schema.attributes if (text := reading_text(a)) is not None],
        "own_model": summary["config"]["model"] is not None,
        "cards": cards,
        "strong": False,
        "findings": found,
        "where_noun": "which attributes findings sit in",
        "limits": [],
        "same": "data, model",
        "data_facts": [(name, text) for name, text in [*card_rows, ("Population", card.population)] if text],
        "notes": card.notes,
        "lexicon_facts": [],
        **(_of_findings(statistics, schema, indices, protected) if found else {}),
    }


def _table_facts(summary: dict[str, Any], schema: Schema, protected: str) -> list[tuple[str, str]]:
    model, within, not_tested = summary["model"], within_words(summary), is_not_tested(summary)
    about = f": {schema.card.population}" if schema.card.population else ""
    facts = [
        ("Data", f"{schema.title or schema.name}, {summary['dataset']['rows']:,} rows{about}"),
        ("Model", f"{model['name']}; {offers_text(model)}"),
    ]
    if "inputs" in model:
        facts.append(("Reads", inputs_text(model)))
    if unread := model.get("unread"):
        left_out = "left out of the search, of what makes a sample unique, and of what follows"
        how = f"{'It is' if len(unread) == 1 else 'They are'} {'not tested' if not_tested else left_out}"
        facts.append(("Does not read", f"{unread_text(unread)}. {how}."))
    if "agreement" in model:
        facts.append(("Accuracy on the data", agreement_text(model["agreement"])))
    what = "attributes, changed together" if len(summary["protected"]) > 1 else "attribute"
    facts.append((f"Protected {what}", f"{protected}{f', {within}' if within else ''}"))
    return facts if not_tested else [*facts, *_search_facts(summary)]


def _of_findings(statistics: Statistics, schema: Schema, indices: list[int], protected: str) -> dict[str, Any]:
    """What a page about a table has only where there are findings."""
    flips, attributes = statistics.flips, [schema.attributes[index] for index in indices]

    def words(codes: Codes) -> str:
        return ", ".join(attribute.sentence(code) for attribute, code in zip(attributes, codes, strict=True))

    values = sorted({value.value for value in flips.values})
    if math.prod(attribute.size for attribute in attributes) <= MOST_MATRIX_COMBINATIONS:
        domains = [attribute.domain for attribute in attributes]
        values = list(product(*(range(low, high + 1) for low, high in domains)))
    matrix = flip_matrix(flips, values, MOST_MATRIX_COMBINATIONS, words)
    titles = {attribute.name: attribute.title for attribute in attributes}
    return {
        **flip_parts(flips, matrix, words, lambda value: schema.label.text(schema.label.values.index(value))),
        "matrix_kind": "",
        "value_noun": protected,
        "goal": schema.label.text(schema.label.favourable_code),
        "goal_is_favourable": schema.label.favourable is not None,
        "changed": [(joined([titles[n] for n in names]), n, len(names) == 1) for names, n in statistics.changed],
        "spreads": [_spread_row(spread, schema) for spread in statistics.spreads],
        "most_share": max((value.findings for spread in statistics.spreads for value in spread.over), default=1.0),
    }


def _spread_row(spread: Spread, schema: Schema) -> tuple[str, float, list[tuple[str, float, float]]]:
    """An attribute's distance and its over-represented values: words, share of findings, share of people."""
    attribute = schema.attributes[spread.attribute]
    values = [(attribute.text(value.code), value.findings, value.people) for value in spread.over]
    return attribute.title, spread.distance, values


# Texts


def _of_texts(summary: dict[str, Any], statistics: TextStatistics) -> dict[str, Any]:
    """What only a page about texts says."""
    dataset, protected, rate = summary["dataset"], protected_name(summary), main_rate(summary)
    goal = asked_class(dataset["classes"], dataset["favourable"])
    chosen, found = choose_examples(statistics.clearest, TEXT_EXAMPLES), statistics.findings
    cards = [card_of(text_example(finding, summary), goal) for finding in chosen]
    words = [_word_row(word) for word in replaced_words(statistics.clearest, MOST_WORDS)]
    values, flips = summary["lexicon"]["values"], statistics.flips
    sections = [
        ("rates", "In the corpus itself", True),
        ("flips", "Which way decisions flip", found),
        ("examples", "Examples", found),
        ("validity", "Closeness to the originals", found),
        ("words", "Replaced words", found),
        ("growth", "Growth with work", True),
        ("limits", "Limits", True),
        ("made", "How it was made", True),
    ]
    swap = f": {SWAPS[summary['lexicon']['swap']]}" if found else ""
    return {
        "title": dataset["title"],
        "noun": "text",
        "protected": protected,
        "changes": f"words of {protected} are exchanged",
        "changed_only": f"{protected} is exchanged{swap}",
        "affected": texts_affected(rate) if rate else "",
        "affected_whom": "Texts affected",
        "facts": _text_facts(summary),
        "sections": [(name, words) for name, words, there in sections if there],
        "goal": goal,
        "goal_is_favourable": dataset["favourable"] is not None,
        "findings": found,
        "clearest": statistics.clearest,
        "unchanged": sum(finding.l0 == 0 for finding in statistics.clearest),
        "cards": cards,
        "words": words,
        "strong": any(card.strong for card in cards) or any(word.strong for word in words),
        "validity": _validity_rows(summary),
        "where_noun": "which words were replaced",
        "limits": text_limits(summary),
        "same": "corpus, word vectors, model",
        "data_facts": _corpus_facts(dataset),
        "notes": dataset["notes"],
        "lexicon_facts": _lexicon_facts(summary["lexicon"]),
        "matrix_kind": "narrow",
        "value_noun": "value",
        **flip_parts(flips, flip_matrix(flips, values, MOST_MATRIX_VALUES)),
    }


def _text_facts(summary: dict[str, Any]) -> list[tuple[str, str]]:
    lexicon, ruled_out = summary["lexicon"], summary["search"].get("ruled_out")
    least, values = summary["config"]["min_similarity"], f"{len(lexicon['values'])} values of the lexicon"
    swap = f"{values} “{lexicon['title']}”; {SWAPS[lexicon['swap']]}"
    left_out = (
        f"{counted(ruled_out or 0, 'finding')} less similar to the original than {least}; the counts of seeds and the "
        "growth below still have them"
    )
    return [
        ("Corpus", f"{summary['dataset']['title']}, {counted(summary['dataset']['rows'], 'text')}"),
        ("Model", model_text(summary)),
        ("Protected words", f"{protected_name(summary)}: {swap}"),
        ("Replaced words", moves_text(summary["config"])),
        *_search_facts(summary),
        *([("Left out", left_out)] if ruled_out else []),
    ]


def _corpus_facts(dataset: dict[str, Any]) -> list[tuple[str, str]]:
    favourable = f"; favourable: {dataset['favourable']}" if dataset["favourable"] is not None else ""
    return [
        ("Source", dataset["source"] or "not stated"),
        *([("Licence", dataset["licence"])] if dataset["licence"] else []),
        ("Decisions", f"{', '.join(dataset['classes'])}{favourable}"),
    ]


def _lexicon_facts(lexicon: dict[str, Any]) -> list[tuple[str, str]]:
    in_context = "counted only where their context speaks for the protected meaning"
    return [
        ("Name", f"{lexicon['title']} ({lexicon['name']})"),
        *([("Source", lexicon["source"])] if lexicon["source"] else []),
        ("Ambiguous words", "kept" if lexicon["ambiguous"] == "keep" else in_context),
        ("Values", ", ".join(lexicon["values"])),
    ]


def _word_row(word: ReplacedWord) -> WordRow:
    return WordRow(word, any(has_strong_words(text) for text in (word.word, *(other for other, _ in word.by))))


def _validity_rows(summary: dict[str, Any]) -> list[tuple[str, list[str], str]]:
    """A measure, its mean in each phase, and what it means."""
    rows = []
    for name, (title, meaning) in MEASURES.items():
        means = [phase[name] for _, phase in by_phase(summary)]
        encoder = summary["validity"].get("encoder") if name == "similarity" else None
        shown = ["–" if mean is None else f"{mean:.3f}" for mean in means]
        rows.append((title, shown, f"{meaning} ({encoder})" if encoder else meaning))
    return rows
