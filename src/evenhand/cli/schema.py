"""`evenhand schema`: a schema file from a table, and whether a schema file fits its table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.options import Json, Quiet, sizes_in
from evenhand.cli.printing import print_facts, print_json, print_rows
from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.data.attribute import Attribute
    from evenhand.data.infer.schema import Inferred
    from evenhand.data.schema_check import SchemaFit

FEW_SAME = 3  # columns without any information that are named one by one
SHOWN_SAME = 8  # of more, so many are named
SAME_VALUE = "it has the same value in every row"

schema_app = typer.Typer(
    no_args_is_help=True,
    help="Schema files for your own tables: evenhand schema infer people.csv --label approved.",
)

Table = Annotated[
    Path,
    typer.Argument(
        help="A CSV file (also .csv.gz), a .parquet file, or a folder of a saved Hugging Face dataset.",
        metavar="TABLE",
        show_default=False,
    ),
]
SchemaFile = Annotated[
    str, typer.Argument(help="A schema file (.toml) or a built-in data set.", metavar="SCHEMA", show_default=False)
]


@schema_app.command("infer")
def infer(
    table: Table,
    label: Annotated[str, typer.Option(help="The column that the model predicts.", show_default=False)],
    protected: Annotated[
        str | None,
        typer.Option("--protected", "-p", help="Columns, separated by commas.", show_default="guessed by name"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The schema file to write.", show_default="TABLE.toml")
    ] = None,
    favourable: Annotated[str | None, typer.Option(help="The favourable decision.", show_default="guessed")] = None,
    bins: Annotated[
        str | None, typer.Option(help="quantile:N: numbers in N bins of equally many rows.", show_default="none")
    ] = None,
    width: Annotated[
        list[str] | None, typer.Option(help="COLUMN=WIDTH: bins of a width; may be repeated.", show_default=False)
    ] = None,
    step: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=STEP: search a number in such steps; may be repeated.", show_default=False),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="Only these columns and that of the decision, separated by commas.", show_default="all"),
    ] = None,
    drop: Annotated[
        str | None, typer.Option(help="Columns to leave out, separated by commas.", show_default="none")
    ] = None,
    weight: Annotated[
        str | None, typer.Option(help="The column of sampling weights, if there is one.", show_default=False)
    ] = None,
    separator: Annotated[str | None, typer.Option(help="Separator of a CSV file.", show_default="detected")] = None,
    split: Annotated[
        str | None, typer.Option(help="Split of a Hugging Face DatasetDict.", show_default="train")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The data set's short name.", show_default="the file's")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing schema file.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a schema file for a table: kinds, domains, missing values, what is set aside and why.

    The file is commented; read it and correct what is wrong. Numbers are searched at their own resolution where that
    gives up to 1,000 values, else in a round step, which the file says.

    Examples:
      evenhand schema infer people.csv --label approved -p gender,ethnicity

      evenhand schema infer a.parquet --label hired --step pay=100 --width age=5

      evenhand schema infer people.csv --label approved --columns gender,age,pay
    """
    from evenhand.data.infer.schema import infer_file
    from evenhand.files import write_text

    if table.name in ("", ".."):  # the folder that one is in, or that above it
        table = table.resolve()
    out = out or _beside(table)
    _check_out(out, force=force)
    inferred = infer_file(
        table,
        label,
        _names(protected),
        beside=out.parent,
        separator={"\\t": "\t", "tab": "\t"}.get(separator or "", separator),
        split=split,
        favourable=favourable,
        bins=_bins(bins),
        widths=sizes_in("--width", width or []),
        steps=sizes_in("--step", step or []),
        columns=_names(columns),
        drop=_names(drop) or (),
        weight=weight,
        name=name,
    )
    content = _inferred_json(inferred, out)
    write_text(out, inferred.toml)
    if as_json:
        print_json(content)
    elif not quiet:
        _print_inferred(inferred, out)


@schema_app.command("check")
def check(schema: SchemaFile, as_json: Json = False) -> None:
    """Say whether a schema file is right and fits its table; a mistake is shown with its line and column.

    Example:  evenhand schema check people.toml
    """
    from evenhand.data.dataset import load_dataset
    from evenhand.data.schema_check import check_dataset

    checked = check_dataset(load_dataset(schema))
    if as_json:
        print_json(checked.as_dict())
    else:
        _print_checked(schema, checked)


def _beside(table: Path) -> Path:
    """The schema file of a table where no other is named."""
    if not table.name:
        raise EvenhandError(f"{table} is no table. Name a file, or a folder of a saved Hugging Face dataset.")
    return table.with_name((table.name.partition(".")[0] or table.name.strip(".")) + ".toml")


def _check_out(out: Path, *, force: bool) -> None:
    if out.suffix != ".toml":
        raise EvenhandError(f"A schema file's name ends in .toml; '{out}' does not.")
    if out.is_dir() or (out.exists() and not force):
        raise EvenhandError(f"{out} exists already. Choose another name with --out, or replace it with --force.")
    if not out.parent.is_dir():
        raise EvenhandError(f"There is no folder {out.parent} to write {out.name} to.")


def _names(text: str | None) -> list[str] | None:
    """Names of columns, separated by commas; None where the option is not given."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _bins(text: str | None) -> int | None:
    if text is None:
        return None
    kind, _, number = text.partition(":")
    if kind != "quantile" or not number.isdecimal():
        raise EvenhandError(f"--bins must be quantile:N, such as quantile:10, and not '{text}'.")
    return int(number)


def _inferred_json(inferred: "Inferred", out: Path) -> dict[str, Any]:
    schema = inferred.schema
    return {
        "schema": str(out),
        "rows": inferred.rows,
        "decimal": schema.decimal,
        "thousands": schema.thousands,
        "label": {
            "column": schema.label.column,
            "values": schema.label.values,
            "favourable": schema.label.favourable,
            "notes": inferred.label_notes,
        },
        "protected": schema.protected,
        "protected_guessed": inferred.protected_guessed,
        "attributes": [
            {
                "name": attribute.name,
                "kind": attribute.kind,
                "type": attribute.type,
                "codes": attribute.size,
                "domain": attribute.domain,
                "notes": inferred.notes[attribute.name],
            }
            for attribute in schema.attributes
        ],
        "remarks": inferred.remarks,
        "passed": inferred.passed,
        "set_aside": inferred.set_aside,
    }


def _print_inferred(inferred: "Inferred", out: Path) -> None:
    """What was decided, in a table that fits a terminal; text from data is never read as markup."""
    from rich.console import Console
    from rich.text import Text

    from evenhand.data.notation import Notation

    schema = inferred.schema
    console = Console(highlight=False, markup=False)
    console.print(Text(f"{inferred.rows:,} rows; decision {schema.label.column}: {', '.join(schema.label.values)}"))
    console.print(Text(inferred.label_notes[-1]))
    if schema.split.column is not None or schema.weight is not None:
        weight = "" if schema.weight is None else f"; weights: {schema.weight}"
        console.print(Text(f"split: {schema.split.words}{weight}"))
    if schema.notation != Notation():
        console.print(Text(f"{schema.notation}: please check."))
    console.print()
    rows = [
        (
            attribute.name + (" (protected)" if attribute.protected else ""),
            attribute.kind,
            values_text(attribute),
            " ".join(note for note in inferred.notes[attribute.name] if not note.startswith("From ")),
        )
        for attribute in schema.attributes
        if attribute.kind != "pass"
    ]
    print_rows(("attribute", "kind", "values", "remarks"), rows)
    for heading, columns in (
        ("passed on to models as they stand, never searched", inferred.passed),
        ("set aside", inferred.set_aside),
    ):
        if columns:
            console.print(Text(f"\n{heading}", style="bold"))
        for line in _reasons(columns):
            console.print(Text(f"- {line}"))
    if inferred.protected_guessed:
        names = ", ".join(schema.protected) or "none found"
        console.print(Text(f"\nProtected attributes were guessed by their names ({names}): please check."))
    for remark in inferred.remarks:
        console.print(Text(f"\n{remark}"))
    typer.echo(f"\nwrote {out}\nnext: read it, then `evenhand schema check {out}`")


def _reasons(columns: dict[str, str]) -> list[str]:
    """Why columns are not searched, in lines; those that say nothing share one, since wide tables have hundreds."""
    same = [column for column, reason in columns.items() if reason.startswith(SAME_VALUE)]
    if len(same) <= FEW_SAME:
        same = []
    lines = [f"{column.strip() or 'a column'}: {reason}" for column, reason in columns.items() if column not in same]
    if same:
        shown = ", ".join(same[:SHOWN_SAME]) + (", …" if len(same) > SHOWN_SAME else "")
        lines.append(f"{len(same)} columns have the same value in every row: {shown}")
    return lines


def values_text(attribute: "Attribute") -> str:
    """The values of an attribute in a few words."""
    from evenhand.data.notation import number_text

    if attribute.kind == "pass":
        return "as they stand"
    if attribute.kind != "number":
        return f"{attribute.size} categories"
    first, last = attribute.span
    low, high = attribute.text(first), attribute.text(last)
    missing = " or missing" if last < attribute.domain[1] else ""
    if attribute.step is not None:
        return f"{low} to {high} by {number_text(attribute.step)}{missing}"
    return f"{last - first + 1} bins, {low} to {high}{missing}"


def _print_checked(schema: str, checked: "SchemaFit") -> None:
    from rich.console import Console

    print_facts(Console(highlight=False), checked.facts())
    typer.echo(f"{schema} {checked.summary()}")
