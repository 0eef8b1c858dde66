"""The names of columns: each once; and those with commas, which separate names on the command line."""

import re
from collections import Counter

from evenhand.data.attribute import repeated
from evenhand.errors import EvenhandError, unknown_name


def check_unique(columns: list[str]) -> None:
    """Columns that share a name cannot be told apart."""
    twice = repeated(columns)
    if named := [name for name in twice if name.strip()]:
        raise EvenhandError(f"The table has several columns called {', '.join(map(repr, named))}. Rename all but one.")
    if twice:
        raise EvenhandError(
            "The table has several columns without a name. Name them in its first line, or remove all but one."
        )


def is_nameless(column: str) -> bool:
    """Whether a column has no name; `numbered` gives it one of these."""
    return not column.strip() or re.fullmatch(r"Unnamed: \d+(\.\d+)*", column) is not None


def numbered(header: list[str]) -> list[str]:
    """The columns' names, each once, as pandas makes them: age and age.1, and Unnamed: 2 for one without a name.

    So a model that was trained on what pandas read finds its columns by these names.
    """
    names = [name or f"Unnamed: {place}" for place, name in enumerate(header)]
    seen: Counter[str] = Counter()
    for place in sorted(range(len(header)), key=lambda place: not header[place]):  # those with a name keep it
        name = wanted = names[place]
        number = seen[wanted]
        while number:
            seen[wanted] = number + 1
            name = f"{wanted}.{number}"
            number = number + 1 if name in names else seen[name]
        names[place] = name
        seen[name] += 1
    return names


def numbering_note(header: list[str]) -> str | None:
    """What to say of columns that share a name in a header; None where none do."""
    names = numbered(header)
    notes = []
    for name in repeated([name for name in header if name]):
        places = [place for place, column in enumerate(header) if column == name]
        read = ", ".join(f"'{names[place]}'" for place in places)
        notes.append(f"{len(places)} columns are called '{name}'; they are read as {read}, in their order")
    return "; ".join(notes) or None


def unique_names(columns: list[str]) -> dict[str, str]:
    """The names of attributes by column: without commas."""
    names: dict[str, str] = {}
    for column in columns:
        name = wanted = " ".join(column.replace(",", " ").split()) or "column"
        number = 2
        while name in names.values():
            name, number = f"{wanted} {number}", number + 1
        names[column] = name
    return names


def column_called(wanted: str, columns: list[str]) -> str:
    """The column that is meant: its own name, or that of its attribute, which has no commas."""
    if wanted in columns:
        return wanted
    names = unique_names(columns)
    if meant := [column for column, name in names.items() if name == wanted]:
        return meant[0]
    for column, name in names.items():
        if wanted in [part.strip() for part in column.split(",")]:
            raise EvenhandError(
                f"There is no column '{wanted}'. Since commas separate names, write '{name}' for the column '{column}'."
            )
    raise unknown_name("column", wanted, columns)
