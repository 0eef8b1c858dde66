"""Columns whose names have commas, which separate names on the command line."""

from evenhand.errors import EvenhandError, unknown_name


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
