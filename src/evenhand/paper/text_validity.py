"""The tables of how far findings in texts lie from the texts they came from."""

from statistics import mean

from evenhand.paper.text_figures import LOCAL_L0, LOCAL_L0_LESS, VALIDITY, VALIDITY_ROW
from evenhand.paper.text_rows import OURS, Means, RowResult
from evenhand.paper.text_tables import TextReproduction
from evenhand.report.tables import Table

NAMES = {  # as the paper heads its columns
    "random": "RP",
    "asc": "ASC",
    "adf-asc": "ADF_ASC",
    "hotflip": "HF",
    "adf-hotflip": "ADF_HF",
    OURS: "ours",
}
LOCAL_NAMES = {"random": "RP", "adf-asc": "ADF", OURS: "ours"}
METRICS = {"l0": "L_0", "l2": "L_2", "jaccard": "JSC", "bleu": "BLEU", "similarity": "SS"}
L0_AIM, BLEU_AIM, SIMILARITY_AIM = 3.0, 0.85, 0.88


def validity_tables(result: TextReproduction) -> list[Table]:
    """As the paper prints it, where its row was measured; ours on all rows; the local phase."""
    printed = [_validity_as_printed(row) for row in result.rows if row.row == VALIDITY_ROW]
    return [*printed, _our_validity(result), _local_validity(result)]


def _validity_as_printed(row: RowResult) -> Table:
    """The paper's table: the five measures for each global strategy."""
    methods = [*VALIDITY, OURS]
    rows = [["findings", *(f"{row.runs[name].global_findings:,}" for name in methods)]]
    for metric, title in METRICS.items():
        ours = [row.runs[name].global_validity.get(metric) for name in methods]
        papers = [f" ({VALIDITY[name][metric]:.4f})" if name in VALIDITY else "" for name in methods]
        rows.append([title, *(number(value, 4) + paper for value, paper in zip(ours, papers, strict=True))])
    remarks = ["Means over the findings beyond the raw ones. L_0 and L_2: less is closer; the others: more is closer."]
    remarks += _no_encoder([row])
    title = f"Validity, global generation: {row_name(row)}, ours (paper)"
    return Table(title, ["measure", *(NAMES[name] for name in methods)], rows, remarks)


def _our_validity(result: TextReproduction) -> Table:
    rows = [
        [row_name(row), f"{row.runs[OURS].global_findings:,}", *_measures(row.runs[OURS].global_validity)]
        for row in result.rows
    ]
    means = _mean_of([row.runs[OURS].global_validity for row in result.rows])
    all_found = sum(row.runs[OURS].global_findings for row in result.rows)
    missed = [
        text
        for text, miss in (
            (f"mean L_0 above {L0_AIM:g}", means.get("l0", 0) > L0_AIM),
            (f"mean BLEU below {BLEU_AIM}", means.get("bleu", 1) < BLEU_AIM),
            (f"mean SS below {SIMILARITY_AIM}", means.get("similarity", 1) < SIMILARITY_AIM),
        )
        if miss
    ]
    aims = f"mean L_0 at most {L0_AIM:g}, BLEU at least {BLEU_AIM}, SS at least {SIMILARITY_AIM}"
    verdict = f"Missed: {'; '.join(missed)}." if missed else f"The aims are met: {aims}."
    remarks = ["The paper prints the measures for one row only.", verdict, *_no_encoder(result.rows)]
    header = ["row", "findings", *METRICS.values()]
    rows.append(["average", f"{all_found:,} in all", *_measures(means)])
    return Table("Validity, global generation: ours on all rows", header, rows, remarks)


def _local_validity(result: TextReproduction) -> Table:
    rows = []
    wiki = [row for row in result.rows if row.row[:2] == VALIDITY_ROW[:2]]
    for where, of in (("/".join(VALIDITY_ROW[:2]), wiki), ("all", result.rows)):
        for name, title in LOCAL_NAMES.items():
            rows.append([f"{where}, {title}", *_measures(_mean_of([row.runs[name].local_validity for row in of]))])
    remarks = [
        f"Means over the rows' means. The paper: L_0 of {LOCAL_L0} for ADF on wiki/lstm, {LOCAL_L0_LESS:.2%} less than "
        f"RP. SS from at most {result.plan.similar:,} findings of each row, chosen at random.",
        *_no_encoder(result.rows),
    ]
    return Table("Validity, local generation", ["rows, method", *METRICS.values()], rows, remarks)


def _mean_of(validities: list[Means]) -> Means:
    """The mean over rows of each measure that some of them have."""
    return {
        metric: mean(known)
        for metric in METRICS
        if (known := [validity[metric] for validity in validities if metric in validity])
    }


def _measures(validity: Means) -> list[str]:
    return [number(validity.get(metric), 3) for metric in METRICS]


def _no_encoder(rows: list[RowResult]) -> list[str]:
    """What to say where there are findings, and none of their similarities was measured."""
    found = [run.global_validity for row in rows for run in row.runs.values() if run.global_validity]
    if not found or any("similarity" in validity for validity in found):
        return []
    return ['SS is not measured: the sentence encoder is not installed. Install it with: pip install "evenhand[text]"']


def row_name(row: RowResult) -> str:
    """As tables call a row."""
    return "/".join(row.row)


def number(value: float | None, digits: int) -> str:
    """A dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"
