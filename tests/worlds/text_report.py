"""A made-up text audit for the tests of its report."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from evenhand.report.page import write_report
from evenhand.report.text_marks import Part
from evenhand.report.text_statistics import (
    TextFinding,
)
from tests.report.test_report import Page

VALUES = ["christian", "muslim", "jewish", "atheist"]
NEAR = {"good": "nice", "music": "song", "the": "an", "heard": "saw", "street": "road"}
UNSAFE = "<b>&\"'</b>"


def of_kind(parts: list[Part], kind: str) -> list[str]:
    return [text for part, text in parts if part == kind]


def joined(parts: list[Part]) -> str:
    return "".join(text for _, text in parts)


def finding(**changes: Any) -> TextFinding:
    """A finding of a music lover; whatever is given is different."""
    plain: dict[str, Any] = {
        "seed_row": 7, "phase": "global", "label": "not toxic", "witness_label": "toxic", "value": "christian",
        "witness_value": "muslim", "score": 0.8, "witness_score": 0.3, "l0": 1, "bleu": 0.9, "similarity": 0.95,
        "clarity": 1.0, "original": "I heard good Christian music.", "text": "I heard nice Christian music.",
        "witness": "I heard nice Muslim music.",
    }  # fmt: skip
    return TextFinding(**(plain | changes))


def made_findings(count: int = 240, seeds: int = 12) -> pd.DataFrame:
    """Findings as a search would leave them, the global ones last, as the audit writes them."""
    rng = np.random.default_rng(0)
    rows = []
    for number in range(count):
        phase = "global" if number >= count - seeds + 2 else "local"  # two seeds have local findings only
        own, other = rng.choice(len(VALUES), size=2, replace=False)
        words = ["I", "heard", "the", "good", VALUES[own], "music", "in", "the", "street", f"number{number}", "."]
        places = [place for place in rng.choice(len(words), size=3, replace=False) if words[place] in NEAR]
        moved = [NEAR[word] if place in places else word for place, word in enumerate(words)]
        witness = [*moved[:4], VALUES[other], *moved[5:]]
        label = int(rng.integers(2))
        rows.append(
            {
                "phase": phase,
                "seed_row": number - count + seeds if phase == "global" else int(rng.integers(seeds)),
                "step": 1,
                "label": ["not toxic", "toxic"][label],
                "witness_label": ["toxic", "not toxic"][label],
                "score": np.float32(rng.uniform(0.5, 1)),
                "witness_score": np.float32(rng.uniform(0, 0.5)),
                "original": " ".join(words),
                "text": " ".join(moved),
                "witness": " ".join(witness),
                "value": VALUES[own],
                "witness_value": VALUES[other],
                "l0": len(places),
                "l2": 1.5,
                "jaccard": 0.9,
                "bleu": float(rng.uniform(0.5, 1)),
                "similarity": np.float32(rng.uniform(0.8, 1)) if phase == "global" else None,
            }
        )
    return pd.DataFrame(rows)


def write_findings(path: Path, frame: pd.DataFrame) -> Path:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for name in ("phase", "label", "witness_label", "value", "witness_value"):
        place = table.column_names.index(name)
        table = table.set_column(place, name, table[name].cast("string").dictionary_encode())
    place = table.column_names.index("similarity")
    table = table.set_column(place, "similarity", table["similarity"].cast(pa.float32()))
    pq.write_table(table, path, row_group_size=50)
    return path


def made_summary(frame: pd.DataFrame) -> dict[str, Any]:
    """The summary that belongs to findings."""
    total = {phase: int((frame["phase"] == phase).sum()) for phase in ("global", "local")} if len(frame) else {}
    found = {"global": total.get("global", 0), "local": total.get("local", 0)}
    generated = {"global": 100, "local": 300, "total": 400}
    means = {
        phase: {
            "findings": count,
            "l0": 1.25 if count else None,
            "l2": 1.5 if count else None,
            "jaccard": 0.9 if count else None,
            "bleu": 0.85 if count else None,
            "similarity": 0.91 if count and phase == "global" else None,
            "similarity_of": count if phase == "global" else 0,
        }
        for phase, count in found.items()
    }
    rate = {"confidence": 0.95, "discriminatory": 3, "samples": 60, "rate": 0.05, "interval": [0.0104, 0.1392]}
    return {
        "evenhand": "0.1",
        "kind": "audit",
        "domain": "text",
        "started": "2026-11-15T19:01:00+00:00",
        "dataset": {
            "name": "small", "title": "Small comments", "rows": 1234, "classes": ["not toxic", "toxic"],
            "favourable": "not toxic", "source": "written for a test", "licence": "CC0", "notes": ["A note."],
        },
        "protected": ["religion"],
        "lexicon": {
            "name": "own", "title": "Own words", "source": "us", "values": VALUES, "swap": "one", "ambiguous": "keep",
        },
        "model": {"name": "net.safetensors", "kind": "lstm", "reads": 200},
        "config": {
            "dataset": "small.csv", "protected": ["religion"], "model": "net.safetensors", "method": "boundary",
            "settings": {"tries": 8}, "seeds": 12, "iterations": 10, "steps": 30, "seed": 0, "device": "auto",
            "max_seconds": None, "max_findings": None, "max_rows": None, "chunk_rows": None, "text": "comment",
            "label": None, "lexicon": "my words.toml", "vectors": "glove", "k": 10, "moves": "tokens",
            "same_part_of_speech": False, "swap": "one", "ambiguous": "keep", "max_changes": None, "local_changes": 2,
            "min_similarity": None, "encoder": "auto",
        },
        "data_rate": {
            "train": rate | {"population": "training texts of small that mention religion", "discriminatory": 9},
            "held_out": rate | {"population": "held-out texts of small that mention religion"},
        },
        "texts": {"mentioning": {"train": 240, "held_out": 60}, "empty": 2},
        "search": {
            "stopped": "completed", "seeds": 12, "seeds_with_findings": 12, "tried": 500, "generated": generated,
            "findings": found | {"total": len(frame)}, "notes": {}, "success_rate": len(frame) / 400,
            "model_rows": 9999,
            "findings_per_second": 10.0, "seconds": {"global": 1.0, "local": 2.0}, "growth": [[250, 200, 100]],
            "ruled_out": 0,
        },
        "validity": means | {"encoder": "use"},
        "examples": [],
        "seconds": {"load": 0.5, "search": 3.0},
        "versions": {"python": "3.11", "torch": "2", "numpy": "2", "device": "cpu"},
        "seed": 0,
    }  # fmt: skip


def page_of(frame: pd.DataFrame, folder: Path, **changes: Any) -> Page:
    """The page about findings; `changes` replace parts of the summary."""
    summary = made_summary(frame)
    for name, value in changes.items():
        summary[name] = summary[name] | value if isinstance(value, dict) else value
    path = write_report(folder / "report.html", summary, write_findings(folder / "findings.parquet", frame))
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    check_page(page, text)
    return page


def check_page(page: Page, text: str) -> None:
    """A page that balances, names its parts, needs no script and reaches for nothing outside itself."""
    assert not {"script", "link", "img", "iframe", "object", "embed", "base", "form"} & set(page.tags)
    assert not page.values("src")
    assert "url(" not in text
    assert "@import" not in text
    assert "http" not in text.replace("http-equiv", "")
    identifiers = page.values("id")
    assert len(identifiers) == len(set(identifiers))
    assert {link.removeprefix("#") for link in page.values("href")} <= set(identifiers)
    assert {name for value in page.values("aria-labelledby") for name in value.split()} <= set(identifiers)
    assert set(page.values("for")) == {name for name in identifiers if name.startswith("reveal-")}
    assert page.tags["h1"] == 1
    assert page.tags["caption"] == page.tags["table"]
    assert not re.search(r"\b(fair|unfair|unbiased)\b", page.text, re.IGNORECASE)
