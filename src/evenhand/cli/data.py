"""`evenhand data`: the data sets that come with the package, and what their columns mean."""

import json
from typing import TYPE_CHECKING, Any

import typer

from evenhand.cli.options import Data, Json

if TYPE_CHECKING:
    from evenhand.data.attribute import Attribute
    from evenhand.data.dataset import Dataset

data_app = typer.Typer(
    no_args_is_help=True, help="The built-in data sets: evenhand data list, evenhand data show census."
)


@data_app.command("list")
def list_datasets(as_json: Json = False) -> None:
    """List the data sets that come with evenhand.

    Example:  evenhand data list
    """
    from evenhand.data.dataset import builtin_names, load_dataset

    cards = [_card(load_dataset(name)) for name in builtin_names()]
    if as_json:
        typer.echo(json.dumps(cards, indent=2, ensure_ascii=False))
        return
    for card in cards:
        typer.echo(f"{card['name']:8} {card['rows']:>7,} people  {card['title']}")
        typer.echo(f"{'':8} {len(card['attributes'])} attributes; protected: {', '.join(card['protected'])}")


@data_app.command("show")
def show_dataset(
    name: Data,
    as_json: Json = False,
) -> None:
    """Show a data set's card: source, licence, rows, attributes, which are protected.

    Example:  evenhand data show census
    """
    from evenhand.data.dataset import load_dataset

    dataset = load_dataset(name)
    card = _card(dataset)
    if as_json:
        typer.echo(json.dumps(card, indent=2, ensure_ascii=False))
        return
    _print_card(dataset, card)


def _card(dataset: "Dataset") -> dict[str, Any]:
    schema = dataset.schema
    return {
        "name": schema.name,
        "title": schema.title,
        "rows": len(dataset.codes),
        "train_rows": int(dataset.train.sum()),
        "held_out_rows": int((~dataset.train).sum()),
        "label": {"column": schema.label.column, "values": schema.label.values, "favourable": schema.label.favourable},
        "protected": schema.protected,
        "attributes": [
            {"name": item.name, "kind": item.kind, "domain": list(item.domain), "protected": item.protected}
            for item in schema.attributes
        ],
        **schema.card.model_dump(),
    }


def _print_card(dataset: "Dataset", card: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"[bold]{escape(card['title'])}[/bold]  ({escape(card['name'])})")
    facts = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    facts.add_row("people", escape(card["population"]))
    facts.add_row("rows", f"{card['rows']:,} ({card['train_rows']:,} train, {card['held_out_rows']:,} held out)")
    labels = " / ".join(dataset.schema.label.text(code) for code in range(len(card["label"]["values"])))
    facts.add_row("label", escape(f"{card['label']['column']}: {labels}"))
    for name in ("source", "licence", "citation"):
        facts.add_row(name, escape(card[name]))
    for note in card["notes"]:
        facts.add_row("note", escape(note))
    console.print(facts)
    attributes = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("attribute", "kind", "codes", "values", ""):
        attributes.add_column(heading)
    for item in dataset.schema.attributes:
        codes = f"{item.domain[0]}…{item.domain[1]}"
        words = escape(_values(item))
        attributes.add_row(escape(item.name), item.kind, codes, words, "protected" if item.protected else "")
    console.print(attributes)


def _values(attribute: "Attribute") -> str:
    """The first and last words of a domain."""
    texts = attribute.texts()
    return ", ".join(texts) if len(texts) <= 3 else f"{texts[0]}, {texts[1]}, … {texts[-1]}"
