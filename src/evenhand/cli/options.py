"""Options that several commands share, so that they read the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer

from evenhand.errors import EvenhandError

Data = Annotated[
    str, typer.Argument(help="A built-in data set (census, credit, bank) or a schema file (.toml).", metavar="DATA")
]
AnyData = Annotated[
    str | None,
    typer.Argument(
        help="A built-in data set (census, credit, bank), a corpus (wiki, jigsaw), a schema file (.toml) or a file of "
        "texts (.csv, .parquet, .jsonl).",
        metavar="DATA",
        show_default=False,
    ),
]
DataOption = Annotated[str | None, typer.Option("--data", help="The same as DATA.", metavar="DATA", show_default=False)]
Protected = Annotated[
    str | None,
    typer.Option(
        "--protected",
        "-p",
        help="Attributes to change, separated by commas.",
        show_default="all that the schema marks; none for texts",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        help="NAME.safetensors of `evenhand train`; for tables also .skops, .onnx, .keras, .pt2, .pt, .txt (LightGBM), "
        ".ubj (XGBoost), a description (.toml), an address (http), or module:function of your own; for texts also a "
        "Hugging Face directory.",
        show_default="built in",
    ),
]
Inputs = Annotated[
    str | None,
    typer.Option(
        help="Tables: how a model that reads a matrix wants it: codes, values, raw, onehot or standard.",
        show_default="as the model's file says, else what the decisions in the data bear out",
    ),
]
Output = Annotated[
    str | None,
    typer.Option(help="Tables: what the model returns: auto, logits or probabilities.", show_default="auto"),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        help="Tables, two classes: the decision is the last of label.values where its score is at least this, as in "
        "predict_proba[:, 1] >= 0.3.",
        show_default="what the model's own predict does",
    ),
]
AcceptPoorModel = Annotated[
    bool,
    typer.Option(
        "--accept-poor-model",
        help="Tables: go on with a model that seems to be misread: its accuracy on the data is no better than that of "
        "always saying the commonest decision (beyond chance), or clearly better with its columns swapped or scaled.",
    ),
]
Seed = Annotated[int, typer.Option(help="Decides all random choices.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
Out = Annotated[Path | None, typer.Option(help="Folder for the results.", show_default="a new one in evenhand-out")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Within = Annotated[
    list[str] | None,
    typer.Option(
        help="NAME=DISTANCE: compare people with themselves up to so far from their own value of a protected number, "
        "such as age=10; may be repeated.",
        show_default="all values",
    ),
]


def sizes_in(option: str, pairs: list[str]) -> dict[str, float]:
    """COLUMN=NUMBER pairs; a column's name may hold = itself."""
    sizes = {}
    for pair in pairs:
        column, equals, text = pair.rpartition("=")
        try:
            sizes[column] = float(text)
        except ValueError:
            equals = ""
        if not equals or not column:
            raise EvenhandError(f"{option} needs COLUMN=NUMBER; '{pair}' is not.")
    return sizes
