"""The paper's figures on retraining (its RQ4), carried over for comparison. The paper's "gender" is our "sex"."""

from typing import NamedTuple

from evenhand.paper.table_figures import Pair
from evenhand.paper.text_figures import TextRow


class TableRepair(NamedTuple):
    """Percent of discriminatory samples among random ones, before and after retraining with each tool's findings."""

    before: float
    aequitas: float
    sg: float
    adf: float


TABLE_REPAIRS = {
    Pair("census", "age"): TableRepair(10.88, 4.03, 2.41, 2.26),
    Pair("census", "race"): TableRepair(9.75, 7.05, 6.89, 6.15),
    Pair("census", "sex"): TableRepair(3.14, 2.33, 1.90, 1.65),
    Pair("bank", "age"): TableRepair(4.60, 1.68, 2.04, 1.19),
    Pair("credit", "age"): TableRepair(27.93, 13.91, 13.19, 12.05),
    Pair("credit", "sex"): TableRepair(7.68, 4.58, 4.66, 3.93),
}
MEAN_REMOVED = {"aequitas": 45.1, "sg": 49.1, "adf": 57.2}  # percent, as the paper's text has them


MEAN_TEXT_REMOVED = (60.2, 61.0)  # augmented, certified


class TextRepairFigures(NamedTuple):
    """Percent of independent findings that are findings no more."""

    augmented: float
    certified: float


_TEXT = {
    ("wiki", "lstm"): ((72.4, 54.9), (70.2, 64.1), (64.2, 61.8), (54.2, 63.4)),
    ("wiki", "gru"): ((48.6, 66.3), (66.2, 71.0), (58.1, 65.8), (51.0, 59.8)),
    ("jigsaw", "lstm"): ((71.6, 51.5), (70.4, 55.6), (58.5, 60.4), (63.8, 55.5)),
    ("jigsaw", "gru"): ((64.1, 57.9), (56.6, 61.4), (53.5, 66.3), (40.4, 59.8)),
}
TEXT_REPAIRS = {
    TextRow(corpus, network, protected): TextRepairFigures(*figures)
    for (corpus, network), rows in _TEXT.items()
    for protected, figures in zip(("country", "ethnic", "race", "religion"), rows, strict=True)
}
# Retraining with the findings of other methods, judged on those of ADF_ASC.
TEXT_METHODS = {
    TextRow("wiki", "lstm", "race"): {"asc": 63.4, "hotflip": 66.3, "adf-hotflip": 67.5},
    TextRow("jigsaw", "gru", "ethnic"): {"asc": 57.1, "hotflip": 61.7, "adf-hotflip": 62.0},
}
