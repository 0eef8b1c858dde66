"""Figures that the paper reports for texts, carried over from it for comparison.

Zhang et al., "Automatic Fairness Testing of Neural Classifiers through Adversarial Sampling": effectiveness, validity
of the global phase, the time for 5,000 findings, the accuracy of the networks.
"""

from typing import NamedTuple


class TextRow(NamedTuple):
    """A row of the paper's tables: a corpus, a network and a protected attribute."""

    corpus: str
    network: str
    protected: str


class TextFigures(NamedTuple):
    """What the paper says about one row: findings of the global phase beyond the raw ones, then local ones."""

    seeds: int
    raw: int  # seeds that are findings as they were written
    rp: int
    asc: int
    adf_asc: int
    hotflip: int
    adf_hotflip: int
    local_rp: int
    local_rp_success: float
    local_adf: int
    local_adf_success: float
    seconds_rp: float  # for 5,000 findings
    seconds_adf_asc: float


TEXT_PAPER = {
    TextRow("wiki", "lstm", "country"): TextFigures(
        1000, 31, 29, 119, 131, 308, 401, 47094, 0.806, 145481, 0.921, 2894.8, 2371.5
    ),
    TextRow("wiki", "lstm", "ethnic"): TextFigures(
        1000, 117, 29, 123, 166, 326, 423, 128174, 0.906, 261746, 0.949, 563.9, 837.2
    ),
    TextRow("wiki", "lstm", "race"): TextFigures(
        450, 24, 17, 76, 95, 157, 177, 32967, 0.830, 107678, 0.928, 659.0, 1587.4
    ),
    TextRow("wiki", "lstm", "religion"): TextFigures(
        358, 29, 14, 50, 64, 117, 150, 37382, 0.887, 86350, 0.946, 542.0, 746.8
    ),
    TextRow("wiki", "gru", "country"): TextFigures(
        1000, 33, 22, 83, 100, 303, 405, 43580, 0.815, 117541, 0.909, 2037.8, 746.8
    ),
    TextRow("wiki", "gru", "ethnic"): TextFigures(
        1000, 52, 34, 121, 142, 366, 429, 70093, 0.847, 174488, 0.924, 1307.4, 1142.6
    ),
    TextRow("wiki", "gru", "race"): TextFigures(
        450, 27, 11, 56, 82, 172, 208, 30651, 0.828, 93944, 0.882, 451.7, 638.3
    ),
    TextRow("wiki", "gru", "religion"): TextFigures(
        358, 19, 9, 31, 39, 122, 143, 24748, 0.903, 53866, 0.948, 510.9, 551.1
    ),
    TextRow("jigsaw", "lstm", "country"): TextFigures(
        1000, 22, 26, 106, 123, 224, 254, 32922, 0.729, 123182, 0.887, 2069.5, 1848.1
    ),
    TextRow("jigsaw", "lstm", "ethnic"): TextFigures(
        1000, 37, 33, 101, 147, 262, 321, 54741, 0.820, 161807, 0.917, 738.3, 1136.9
    ),
    TextRow("jigsaw", "lstm", "race"): TextFigures(
        1000, 49, 60, 195, 211, 359, 372, 78513, 0.749, 218982, 0.872, 1296.3, 2677.5
    ),
    TextRow("jigsaw", "lstm", "religion"): TextFigures(
        1000, 51, 52, 163, 204, 325, 358, 83102, 0.862, 227167, 0.933, 444.2, 685.6
    ),
    TextRow("jigsaw", "gru", "country"): TextFigures(
        1000, 22, 34, 84, 95, 232, 250, 39242, 0.745, 98753, 0.889, 1572.1, 910.6
    ),
    TextRow("jigsaw", "gru", "ethnic"): TextFigures(
        1000, 66, 38, 124, 139, 274, 323, 84765, 0.863, 181891, 0.933, 1265.5, 2267.6
    ),
    TextRow("jigsaw", "gru", "race"): TextFigures(
        1000, 55, 58, 179, 198, 290, 333, 85106, 0.793, 218404, 0.901, 472.6, 583.1
    ),
    TextRow("jigsaw", "gru", "religion"): TextFigures(
        1000, 58, 55, 147, 169, 361, 400, 88945, 0.848, 200968, 0.935, 919.8, 438.5
    ),
}

VALIDITY_ROW = TextRow("wiki", "lstm", "race")  # the only row whose validity the paper prints
VALIDITY = {  # of the findings of the global phase, by method
    "asc": {"l0": 2.6296, "l2": 5.5460, "jaccard": 0.8514, "bleu": 0.8186, "similarity": 0.8914},
    "adf-asc": {"l0": 2.1851, "l2": 5.2825, "jaccard": 0.8770, "bleu": 0.8577, "similarity": 0.9135},
    "hotflip": {"l0": 2.6364, "l2": 5.8291, "jaccard": 0.8624, "bleu": 0.8482, "similarity": 0.8862},
    "adf-hotflip": {"l0": 2.6136, "l2": 5.5203, "jaccard": 0.8724, "bleu": 0.8634, "similarity": 0.8967},
}
LOCAL_L0 = 3.13  # words that ADF's local findings change on average, on the Wikipedia LSTM
LOCAL_L0_LESS = 0.1355  # by which share that is less than with random perturbation

ACCURACY = {("wiki", "lstm"): 0.899, ("wiki", "gru"): 0.907, ("jigsaw", "lstm"): 0.858, ("jigsaw", "gru"): 0.868}
