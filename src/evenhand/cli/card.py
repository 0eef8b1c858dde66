"""`evenhand card`: the section of a model card, from finished runs."""

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.stored_runs import results_of
from evenhand.errors import EvenhandError

Folders = Annotated[
    list[Path],
    typer.Argument(help="Folders of audits, measurements or repairs, or the ids of stored runs.", metavar="RUN"),
]
Output = Annotated[
    Path | None, typer.Option("--out", "-o", help="The card's file, such as README.md.", show_default="standard output")
]


def card(
    folders: Folders,
    out: Output = None,
    model_name: Annotated[
        str | None, typer.Option(help="The model's name in the card.", show_default="the card's own, or the data's")
    ] = None,
    licence: Annotated[
        str | None, typer.Option("--licence", "--license", help="The model's licence, such as apache-2.0.")
    ] = None,
    with_people: Annotated[
        bool, typer.Option("--with-people", help="Show the clearest pairs too: rows of the data, or made from them.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that has no section of evenhand's.")] = False,
) -> None:
    """Write the section of a model card: what was tested, on whom, results with intervals, limits.

    No row of the data is in it unless --with-people asks for pairs. Markdown with Hugging Face front
    matter. In a card that has the section already, only that section is replaced.

    Examples:
      evenhand card results/sex

      evenhand card 3f2a91bc

      evenhand card results/sex -o README.md --model-name income --licence apache-2.0
    """
    import evenhand
    from evenhand.files import read_json, write_text
    from evenhand.report.card import card_run, render_section
    from evenhand.report.card_file import has_section, new_card, updated_card, written_card

    runs = [card_run(read_json(results_of(folder) / "summary.json"), with_people=with_people) for folder in folders]
    section = render_section(runs, evenhand.__version__)
    there = None if out is None else written_card(out)
    if there is not None and has_section(there):
        text = updated_card(there, section, runs, model_name, licence)
    elif there is None or force:
        text = new_card(section, runs, model_name or runs[0].dataset["name"], licence)
    else:
        raise EvenhandError(
            f"{out} exists and has no section of evenhand's. Put the lines <!-- evenhand:begin --> and "
            "<!-- evenhand:end --> where the section should stand, or overwrite the file with --force."
        )
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_text(out, text)
        typer.echo(out)
