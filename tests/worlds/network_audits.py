"""A full audit of a network's file through the command line, as a user would run it."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from evenhand.cli.main import app
from evenhand.data.dataset import load_dataset
from evenhand.models.adapters.features.matrix import Features


def credit_width() -> int:
    """How many columns a network for the credit data reads."""
    return Features(load_dataset("credit"), "standard").width


def audited(model: Path, out: Path, inputs: str | None = "standard") -> dict[str, Any]:
    """What `evenhand audit` says about a model for the credit data."""
    words = ["audit", "credit", "--model", str(model), "-p", "age", "--seeds", "20", "--steps", "10", "--out", str(out)]
    words.append("--accept-poor-model")  # nobody has trained it
    done = CliRunner().invoke(app, [*words, "--json", *(["--inputs", inputs] if inputs else [])])
    assert done.exit_code == 0, done.output
    summary: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return summary
