"""Figures that the paper reports, from `figures.toml`, by its rows."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

PaperFigures = dict[str, float]  # by column

# The paper's text on repairs: percent removed on average.
MEAN_REMOVED = {"aequitas": 45.1, "sg": 49.1, "adf": 57.2}
MEAN_TEXT_REMOVED = {"augment": 60.2, "certified": 61.0}
# Its text on the local phase, on the Wikipedia LSTM: words that ADF's findings change on average, and by which share
# that is less than with random perturbation.
LOCAL_L0, LOCAL_L0_LESS = 3.13, 0.1355


class TableRow(NamedTuple):
    """A row of the paper's tables for tables of data: a data set and a protected attribute."""

    dataset: str
    protected: str


class TextRow(NamedTuple):
    """A row of the paper's tables for texts: a corpus, a network and a protected attribute."""

    corpus: str
    network: str
    protected: str


@cache
def _sections() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("figures.toml").read_text(encoding="utf-8"))


def paper_figures(section: str) -> dict[str, PaperFigures]:
    """What a section of the file says, by row as it is written there."""
    content = _sections()[section]
    return {name: dict(zip(content["columns"], row, strict=True)) for name, row in content["rows"].items()}


def of_tables(section: str) -> dict[TableRow, PaperFigures]:
    """A section on tables of data."""
    return {TableRow(*name.split("/")): figures for name, figures in paper_figures(section).items()}


def of_texts(section: str) -> dict[TextRow, PaperFigures]:
    """A section on texts."""
    return {TextRow(*name.split("/")): figures for name, figures in paper_figures(section).items()}


TABLE_AUDITS, TABLE_REPAIRS = of_tables("table_audits"), of_tables("table_repairs")
TEXT_AUDITS, TEXT_REPAIRS = of_texts("text_audits"), of_texts("text_repairs")
TEXT_REPAIR_METHODS = of_texts("text_repair_methods")
TEXT_VALIDITY, TEXT_NETWORKS = paper_figures("text_validity"), paper_figures("text_networks")
VALIDITY_ROW = TextRow("wiki", "lstm", "race")  # the only row for which the paper prints TEXT_VALIDITY
TABLE_SEEDS = {"credit": 600}  # the paper's number of seeds where it is not 1,000
