"""Figures that the paper reports for tables of data, carried over from it for comparison.

Zhang et al., "Automatic Fairness Testing of Neural Classifiers through Adversarial Sampling": the comparison with
AEQUITAS, the comparison with SG in 500 seconds, the numbers of global and of local generation, the time for 1,000
findings. The paper's "gender" is our "sex".
"""

from typing import NamedTuple


class Pair(NamedTuple):
    """A data set and a protected attribute."""

    dataset: str
    protected: str


class PaperFigures(NamedTuple):
    """What the paper says about one pair."""

    aequitas_generated: int
    aequitas_findings: int
    adf_generated: int
    adf_findings: int
    sg_generated_500s: int
    sg_findings_500s: int
    adf_generated_500s: int
    adf_findings_500s: int
    global_aequitas: int
    global_sg: int
    global_adf: int
    local_aequitas: int
    local_sg: int
    local_adf: int
    seconds_aequitas: float
    seconds_sg: float
    seconds_adf: float


PAPER = {
    Pair("census", "age"): PaperFigures(
        56955, 6045, 491650, 256980, 1290, 544, 8202, 3453, 101, 291, 658, 216, 422, 598, 172.64, 720.49, 59.15
    ),
    Pair("census", "race"): PaperFigures(
        54734, 4737, 344162, 139179, 1541, 632, 10677, 4290, 95, 139, 456, 153, 371, 526, 128.75, 506.33, 65.95
    ),
    Pair("census", "sex"): PaperFigures(
        32148, 2930, 259227, 47644, 1482, 280, 22977, 4164, 37, 54, 334, 189, 210, 321, 158.37, 2128.42, 78.68
    ),
    Pair("bank", "age"): PaperFigures(
        32870, 8949, 700285, 364758, 1385, 842, 5911, 3587, 43, 142, 872, 221, 634, 708, 191.16, 521.79, 106.93
    ),
    Pair("credit", "age"): PaperFigures(
        99560, 38479, 398209, 233664, 2752, 1574, 5771, 3923, 175, 247, 594, 448, 600, 750, 176.31, 321.63, 64.92
    ),
    Pair("credit", "sex"): PaperFigures(
        33137, 4996, 312919, 73497, 3202, 926, 14711, 4091, 47, 87, 451, 142, 280, 337, 156.22, 476.52, 102.90
    ),
}

CREDIT_AGE_REMARK = (
    "credit/age: the published program looked for partners among the values 0–39 of another data set's table, so more "
    "than half of its global finds are not discriminatory within the age domain 1–8. The paper's row rests on this."
)
SEEDS = {"credit": 600}  # the paper's number of seeds where it is not 1,000
FIGURE_PAIR = Pair("census", "sex")  # whose curves are drawn
