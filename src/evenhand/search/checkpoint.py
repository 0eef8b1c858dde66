"""Where a search is, in a form that another process can go on from.

A walk's random numbers belong to its seed and its step, so a search has no hidden state: what a method knows about its
walks, what was counted, and which samples were seen are all that there is to save. A keeper saves it. Samples and
findings only ever become more, so it gets those as they come and the rest whenever it says that it is time.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from torch import Tensor

from evenhand.search.check import Checked
from evenhand.search.recorder import Counts, Fresh


@dataclass(frozen=True)
class Place:
    """Where a method is: enough for it to go on from there. Its numbers can be written as JSON."""

    numbers: dict[str, Any]
    tensors: dict[str, Tensor]

    def joined(self, other: "Place") -> "Place":
        """Both, under names that differ."""
        return Place(self.numbers | other.numbers, self.tensors | other.tensors)

    def with_checked(self, name: str, checked: Checked) -> "Place":
        """The same with checked samples."""
        fields = {f"{name}/{field}": value for field, value in checked._asdict().items()}
        return Place(self.numbers, self.tensors | fields)

    def checked(self, name: str) -> Checked:
        """Checked samples that were saved under a name."""
        return Checked(*(self.tensors[f"{name}/{field}"] for field in Checked._fields))

    def on(self, device: Any) -> "Place":
        """The same on a device."""
        return Place(self.numbers, {name: tensor.to(device) for name, tensor in self.tensors.items()})


@dataclass(frozen=True)
class State:
    """Where a search is: its method's place, and what was counted until there, as JSON."""

    place: Place
    counters: dict[str, Any]


class Keeper(Protocol):
    """Keeps what another process needs to go on with a search."""

    @property
    def due(self) -> bool:
        """Whether it is time to save."""

    def state(self) -> State | None:
        """Where an earlier process was when it saved last; None: there was none."""

    def fresh(self) -> Iterator[Fresh]:
        """What it had seen until then, in order."""

    def add(self, fresh: Fresh) -> None:
        """Take what was seen for the first time; it counts with the next state that is saved."""

    def save(self, state: State) -> None:
        """Make a state, and all that was added before, what `state` and `fresh` give to a later process."""


def counts_as_json(counts: Counts) -> dict[str, Any]:
    """Counts in the form that a state has them."""
    return asdict(counts) | {"seeds": sorted(counts.seeds)}


def counts_of_json(saved: dict[str, Any]) -> Counts:
    """The counts that were saved."""
    growth = [(tried, generated, findings) for tried, generated, findings in saved["growth"]]
    return Counts(**saved | {"seeds": set(saved["seeds"]), "growth": growth})
