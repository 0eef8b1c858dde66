"""The findings of an earlier audit, looked at again with another model."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.files import read_json
from evenhand.measures.direction import label_variants
from evenhand.measures.rates import Rate
from evenhand.models.classifier import Classifier
from evenhand.runs.audit import FINDINGS, SUMMARY
from evenhand.search.space import TableSpace

MOST_FINDINGS = 100_000  # that are looked at again
FINDINGS_AT_A_TIME = 10_000
OnProgress = Callable[[str, int, int], None]  # what is measured, samples so far, samples planned


@dataclass(frozen=True)
class EarlierFindings:
    """The findings of an earlier audit of the same table."""

    folder: Path
    data: Dataset
    protected: list[str]

    @classmethod
    def open(cls, folder: Path, data: Dataset) -> "EarlierFindings":
        """Find them, or say why they are not there."""
        summary = earlier_summary(folder, "table")
        if summary["dataset"]["name"] != data.name:
            raise EvenhandError(f"The findings of {folder} are about {summary['dataset']['name']}, not {data.name}.")
        return cls(folder, data, summary["protected"])

    def rate(
        self, model: Classifier, device: torch.device, confidence: float, seed: int, on_progress: OnProgress
    ) -> Rate:
        """The share that are still findings, among all of them or among a random part."""
        space = TableSpace(self.data.schema, self.protected, device)
        codes, total = self._codes(seed)
        hits = 0
        for start in range(0, len(codes), FINDINGS_AT_A_TIME):
            hits += len(label_variants(model, space, space.samples(codes[start : start + FINDINGS_AT_A_TIME])).won)
            on_progress("findings", min(start + FINDINGS_AT_A_TIME, len(codes)), len(codes))
        return Rate(findings_words(self.folder, len(codes), total), hits, len(codes), confidence)

    def _codes(self, seed: int) -> tuple[NDArray[np.int32], int]:
        columns = [f"sample_code.{name}" for name in self.data.schema.names]
        table = pq.read_table(self.folder / FINDINGS, columns=columns)
        if not len(table):
            raise EvenhandError(f"The audit in {self.folder} has no findings to look at again.")
        rows = np.random.default_rng(seed).permutation(len(table))[:MOST_FINDINGS]
        codes = np.stack([table[name].to_numpy()[rows] for name in columns], axis=1)
        return codes.astype(np.int32), len(table)


def earlier_summary(folder: Path, domain: str) -> dict[str, Any]:
    """The summary of an audit whose findings are there; `domain` is table or text."""
    summary = read_json(folder / SUMMARY)
    if summary.get("kind") != "audit" or not (folder / FINDINGS).is_file():
        raise EvenhandError(f"{folder} does not hold an audit: it needs {SUMMARY} and {FINDINGS} of one run.")
    if summary.get("domain", "table") != domain:
        raise EvenhandError(f"The findings of {folder} are of another kind: these data are a {domain}.")
    return summary


def findings_words(folder: Path, looked_at: int, total: int) -> str:
    """Findings as a population."""
    return f"{'all' if looked_at == total else f'a random part of the {total:,}'} findings of {folder}"
