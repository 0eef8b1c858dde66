"""Deleting something: first the question, with what it means; then the deed, or what stood in its way."""

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import Response

from evenhand.errors import EvenhandError
from evenhand.service.pages.view import View, see


@dataclass(frozen=True)
class Deletion:
    """What may be deleted, and what that means."""

    section: str  # of the pages, where one is again when it is done
    page: str  # the thing's own address; the question is asked below it
    name: str
    consequence: str
    back: str | None = None  # where "Keep it" leads; None: to its page

    def ask(self, view: View, error: str | None = None) -> Response:
        """The question, with what stood in the way the last time."""
        return view.page(
            "delete", section=self.section, status=409 if error else 200, name=self.name, error=error,
            consequence=self.consequence, address=f"{self.page}/delete", back=self.back or self.page,
        )  # fmt: skip

    def do(self, view: View, act: Callable[[], object]) -> Response:
        """Delete it; where that cannot be done, the question once more with the reason."""
        try:
            act()
        except EvenhandError as error:
            return self.ask(view, str(error))
        return see(self.section)
