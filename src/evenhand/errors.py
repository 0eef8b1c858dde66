"""Errors meant for people: what was wrong, where, and what to do about it."""

import difflib
from collections.abc import Iterable


class EvenhandError(Exception):
    """Something the user can mend. The command line prints it without a traceback and exits with 2."""


class TableWarning(UserWarning):
    """Something odd about a table that was dealt with, and that its owner should know."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> EvenhandError:
    """The error for a name that does not exist, with the nearest one that does."""
    names = list(known)
    close = nearest(name, names)
    hint = f" Did you mean '{close}'?" if close else ""
    return EvenhandError(f"There is no {kind} '{name}'.{hint} Known: {', '.join(names)}.")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, whatever its case; None where none is near."""
    lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.6)
    return lower[close[0]] if close else None


class UnfitMatrixError(EvenhandError):
    """A model that reads a matrix without column names cannot read it as it was made; another way may fit."""
