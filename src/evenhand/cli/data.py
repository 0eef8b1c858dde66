"""`evenhand data`: the data sets, corpora and lexicons of the package, and what is in them."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.options import Json
from evenhand.cli.printing import print_json, print_rows, print_section
from evenhand.errors import unknown_name

if TYPE_CHECKING:
    from evenhand.data.attribute import Attribute
    from evenhand.data.dataset import Dataset
    from evenhand.text.lexicon import Lexicon, ProtectedWords

data_app = typer.Typer(
    no_args_is_help=True,
    help="The built-in data sets, corpora and lexicons: evenhand data list, evenhand data show census.",
)

Shown = Annotated[
    str,
    typer.Argument(
        help="A built-in data set (census, credit, bank), a corpus (wiki, jigsaw) or a schema file (.toml).",
        metavar="DATA",
    ),
]
LexiconName = Annotated[
    str | None,
    typer.Argument(help="evenhand, paper, or a TOML file of your own.", metavar="LEXICON", show_default=False),
]
AttributeName = Annotated[
    str | None, typer.Argument(help="A protected attribute of it.", metavar="ATTRIBUTE", show_default=False)
]


@data_app.command("list")
def list_data(as_json: Json = False) -> None:
    """List the data sets that come with evenhand, the corpora that it downloads, and the lexicons.

    Example:  evenhand data list
    """
    from evenhand.data.dataset import builtin_names, load_dataset
    from evenhand.text.corpus import BUILTIN
    from evenhand.text.lexicon import load_lexicon, shipped_lexicons

    tables = [_card(load_dataset(name)) for name in builtin_names()]
    corpora = [_corpus_card(name) for name in BUILTIN]
    lexicons = [_lexicon_card(load_lexicon(name)) for name in shipped_lexicons()]
    if as_json:
        print_json({"data_sets": tables, "corpora": corpora, "lexicons": lexicons})
        return
    print_section("tables", [(card["name"], _table_line(card)) for card in tables])
    print_section("\ntexts", [(card["name"], _corpus_line(card)) for card in corpora])
    print_section("\nlexicons", [(card["name"], _lexicon_line(card)) for card in lexicons])


@data_app.command("show")
def show_data(name: Shown, as_json: Json = False) -> None:
    """Show the card of a data set or a corpus: source, licence, size, and a table's attributes.

    Example:  evenhand data show census
    """
    from evenhand.data.dataset import builtin_names, load_dataset
    from evenhand.text.corpus import BUILTIN

    if name in BUILTIN:
        corpus = _corpus_card(name)
        print_json(corpus) if as_json else _print_corpus_card(corpus)
        return
    if name not in builtin_names() and not name.endswith(".toml"):
        raise unknown_name("data set or corpus", name, [*builtin_names(), *BUILTIN, "PATH/TO/SCHEMA.toml"])
    dataset = load_dataset(name)
    card = _card(dataset)
    print_json(card) if as_json else _print_card(dataset, card)


@data_app.command("lexicon")
def show_lexicon(name: LexiconName = None, attribute: AttributeName = None, as_json: Json = False) -> None:
    """List the lexicons, the attributes of one with their values, or the words of one attribute.

    Examples:
      evenhand data lexicon

      evenhand data lexicon paper

      evenhand data lexicon evenhand religion
    """
    from evenhand.text.lexicon import load_lexicon, shipped_lexicons

    if name is None:
        cards = [_lexicon_card(load_lexicon(known)) for known in shipped_lexicons()]
        rows = [(card["name"], _lexicon_line(card)) for card in cards]
        print_json(cards) if as_json else print_section("lexicons", rows)
    elif attribute is None:
        card = _lexicon_card(load_lexicon(name))
        print_json(card) if as_json else _print_lexicon(card)
    else:
        words = _words_card(load_lexicon(name).attribute(attribute))
        print_json(words) if as_json else _print_words(words)


def _card(dataset: "Dataset") -> dict[str, Any]:
    schema = dataset.schema
    return {
        "name": schema.name,
        "title": schema.title,
        "rows": len(dataset.codes),
        "train_rows": int(dataset.train.sum()),
        "held_out_rows": int((~dataset.train).sum()),
        "split": schema.split.words,
        "weight": schema.weight,
        "label": {"column": schema.label.column, "values": schema.label.values, "favourable": schema.label.favourable},
        "protected": schema.protected,
        "attributes": [
            {"name": item.name, "kind": item.kind, "domain": list(item.domain), "protected": item.protected}
            for item in schema.attributes
        ],
        **schema.card.model_dump(),
    }


def _table_line(card: dict[str, Any]) -> str:
    about = f"{len(card['attributes'])} attributes; protected: {', '.join(card['protected'])}"
    return f"{card['title']}, {card['rows']:,} people\n{about}"


def _print_card(dataset: "Dataset", card: dict[str, Any]) -> None:
    labels = " / ".join(dataset.schema.label.text(code) for code in range(len(card["label"]["values"])))
    facts = [
        ("people", card["population"]),
        ("rows", _rows_text(card)),
        ("split", card["split"]),
        *([("weights", f"column '{card['weight']}'")] if card["weight"] else []),
        ("decision", f"{card['label']['column']}: {labels}"),
        *((name, card[name]) for name in ("source", "licence", "citation")),
        *(("note", note) for note in card["notes"]),
    ]
    print_section(f"{card['title']}  ({card['name']})", facts)
    _print_attributes(dataset)


def _rows_text(card: dict[str, Any]) -> str:
    return f"{card['rows']:,} ({card['train_rows']:,} train, {card['held_out_rows']:,} held out)"


def _print_attributes(dataset: "Dataset") -> None:
    rows = [
        (item.name, item.kind, f"{item.domain[0]}…{item.domain[1]}", _values(item), "protected" * item.protected)
        for item in dataset.schema.attributes
    ]
    print_rows(("attribute", "kind", "codes", "values", ""), rows)


def _values(attribute: "Attribute") -> str:
    """The first and last words of a domain."""
    low, high = attribute.domain
    if attribute.kind == "pass":
        return "as they stand in the table; no search changes them"
    if attribute.size <= 3:
        return ", ".join(attribute.texts())
    last, missing = attribute.span[1], ", or missing" if attribute.span[1] < high else ""
    return f"{attribute.text(low)}, {attribute.text(low + 1)}, … {attribute.text(last)}{missing}"


def _corpus_card(name: str) -> dict[str, Any]:
    """What is known of a corpus without downloading it."""
    from evenhand.text.corpus import BUILTIN
    from evenhand.text.download import is_cached, package_named

    corpus, package = BUILTIN[name], package_named(BUILTIN[name].package)
    return {
        "name": name,
        "title": corpus.title,
        "rows": sum(corpus.rows),
        "train_rows": corpus.rows[0],
        "held_out_rows": corpus.rows[1],
        "toxic": {"train": corpus.toxic[0], "held_out": corpus.toxic[1]},
        "source": corpus.card.source,
        "licence": corpus.card.licence,
        "notes": list(corpus.card.notes),
        "package": package.requirement,
        "megabytes": package.megabytes,
        "downloaded": is_cached(package.name),
    }


def _corpus_line(card: dict[str, Any]) -> str:
    return f"{card['title']}, {card['rows']:,} texts\n{_download_text(card)}; {card['licence']}"


def _download_text(card: dict[str, Any]) -> str:
    return f"{card['megabytes']} MB, {'downloaded' if card['downloaded'] else 'not downloaded yet'}"


def _print_corpus_card(card: dict[str, Any]) -> None:
    toxic = card["toxic"]
    facts = [
        ("texts", _rows_text(card)),
        ("decision", f"not toxic / toxic; toxic are {toxic['train']:,} train, {toxic['held_out']:,} held out"),
        ("download", f"{_download_text(card)}, from the package {card['package']}"),
        *((name, card[name]) for name in ("source", "licence")),
        *(("note", note) for note in card["notes"]),
    ]
    print_section(f"{card['title']}  ({card['name']})", facts)


def _lexicon_card(lexicon: "Lexicon") -> dict[str, Any]:
    return {
        "name": lexicon.name,
        "title": lexicon.title,
        "source": lexicon.source.strip(),
        "licence": lexicon.licence,
        "note": lexicon.note.strip(),
        "attributes": [
            {"name": words.name, "title": words.title, "values": list(words.values)}
            for words in lexicon.attributes.values()
        ],
    }


def _lexicon_line(card: dict[str, Any]) -> str:
    first, *others = [f"{item['name']} ({len(item['values'])}" for item in card["attributes"]]
    return f"{card['title']}\n{', '.join([f'{first} values)', *(f'{other})' for other in others)])}"


def _print_lexicon(card: dict[str, Any]) -> None:
    about = [(name, card[name]) for name in ("source", "licence", "note") if card[name]]
    print_section(f"{card['title']}  ({card['name']})", about)
    print_section("\nattributes", [(item["name"], ", ".join(item["values"])) for item in card["attributes"]])


def _words_card(words: "ProtectedWords") -> dict[str, Any]:
    return {
        "name": words.name,
        "title": words.title,
        "note": words.note.strip(),
        "forms": list(words.forms),
        "words": {value: list(words.terms_of(number)) for number, value in enumerate(words.values)},
    }


def _print_words(card: dict[str, Any]) -> None:
    about = [("forms", ", ".join(card["forms"])), *([("note", card["note"])] if card["note"] else [])]
    print_section(f"{card['title']}  ({card['name']})", about)
    print_section("\nvalues", [(value, ", ".join(words)) for value, words in card["words"].items()])
