"""The names of columns: each once; and those with commas, which separate names on the command line."""

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
