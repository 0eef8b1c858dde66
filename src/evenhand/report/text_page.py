"""The report of a text audit: one HTML file that needs no network and explains itself."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.files import write_text
from evenhand.report.charts import rate_bar
from evenhand.report.flips import MOST_PAIRS, Matrix, PairRow
from evenhand.report.page import moment, template
from evenhand.report.pairs import growth_points
from evenhand.report.strong_words import has_strong_words
from evenhand.report.text import STOPPED, budget_text
from evenhand.report.text_marks import Part, excerpt, marks
from evenhand.report.text_sentences import (
    SWAPS,
    by_phase,
    example_lines,
    limits,
    main_rate,
    method_text,
    model_text,
    moves_text,
    protected_name,
    rate_sentence,
    success_rate,
    text_command_line,
    text_headline,
    text_html_table,
    text_rows,
)
from evenhand.report.text_statistics import (
    ReplacedWord,
    TextFinding,
    TextFlips,
    TextStatistics,
    asked_label,
    choose_examples,
    comparable_scores,
    example_pairs,
    is_strong,
    read_text_statistics,
    replaced_words,
)

__all__ = [
    "example_lines",
    "example_pairs",
    "text_headline",
    "text_html_table",
    "text_rows",
    "write_text_report",
]

EXAMPLES = 12
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
class TextSide:
    """One member of an example pair."""

    role: str
    value: str
    parts: list[Part]
    label: str
    got: bool  # the label asked about
    score: float


@dataclass(frozen=True)
class TextCard:
    """An example pair: the member that got the label asked about first, then the other."""

    sides: list[TextSide]
    score_of: str
    original: list[Part]
    changes: list[tuple[str, str]]
    row: int
    similarity: float | None
    strong: bool


@dataclass(frozen=True)
class WordRow:
    """A replaced word, and whether it or what replaced it is a strong one."""

    word: ReplacedWord
    strong: bool


def write_text_report(path: Path, summary: dict[str, Any], findings: Path) -> Path:
    """Write the report about a text audit's summary and its file of findings."""
    write_text(path, render(summary, read_text_statistics(findings, asked_label(summary))))
    return path


def render(summary: dict[str, Any], statistics: TextStatistics) -> str:
    """The page as text."""
    cards = [card(finding, summary) for finding in choose_examples(statistics.clearest, EXAMPLES)]
    words = [_word_row(word) for word in replaced_words(statistics.clearest, MOST_WORDS)]
    rate = main_rate(summary)
    return template("text_report.html.j2").render(
        summary=summary,
        search=summary["search"],
        about=protected_name(summary),
        goal=asked_label(summary),
        goal_is_favourable=summary["dataset"]["favourable"] is not None,
        swap=SWAPS[summary["lexicon"]["swap"]],
        moves=moves_text(summary["config"]),
        budget=budget_text(summary),
        stopped=STOPPED[summary["search"]["stopped"]],
        rate=rate_sentence(rate) if rate else "",
        rates=_rates(summary),
        success_rate=success_rate(summary),
        findings=statistics.findings,
        clearest=statistics.clearest,
        unchanged=sum(finding.l0 == 0 for finding in statistics.clearest),
        cards=cards,
        words=words,
        strong=any(card.strong for card in cards) or any(word.strong for word in words),
        growth=growth_points(summary),
        validity=_validity_rows(summary),
        limits=limits(summary),
        command=text_command_line(summary),
        method=method_text(summary["config"]["method"]),
        model=model_text(summary),
        started=moment(summary["started"]),
        **_about_values(statistics.flips, summary),
    )


def card(finding: TextFinding, summary: dict[str, Any]) -> TextCard:
    """An example pair, ready to show."""
    asked = asked_label(summary)
    marked = marks(finding.original, finding.text, finding.witness, (finding.value, finding.witness_value))
    score_of, scores = comparable_scores(finding, summary)
    sides = [
        TextSide(role, value, excerpt(parts), label, label == asked, score)
        for role, value, parts, label, score in (
            ("text", finding.value, marked.text, finding.label, scores[0]),
            ("witness", finding.witness_value, marked.witness, finding.witness_label, scores[1]),
        )
    ]
    return TextCard(
        sorted(sides, key=lambda side: not side.got),
        score_of,
        excerpt(marked.original),
        marked.changes,
        finding.seed_row,
        finding.similarity,
        is_strong(finding),
    )


def _word_row(word: ReplacedWord) -> WordRow:
    return WordRow(word, any(has_strong_words(text) for text in (word.word, *(other for other, _ in word.by))))


def _rates(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """The rates in the corpus with their intervals, and bars on one scale."""
    rates = list(summary["data_rate"].values())
    most = max((rate["interval"][1] for rate in rates), default=1.0)
    return [rate | {"bar": rate_bar(rate["rate"], rate["interval"], most or 1)} for rate in rates]


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
