"""What a check found: the verdict, what it rests on, and the clearest pairs in words."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from evenhand.gate.decision import Verdict, passes, samples_needed
from evenhand.measures.rates import Rate
from evenhand.settings import CheckSettings, TextCheckSettings


class ShownPair(NamedTuple):
    """A pair in words, reduced to the smallest difference from a real person or text."""

    example: Any  # an `Example` of a table, a `TextFinding` of texts
    shared: str  # what both have in common
    sides: list[str]  # each with its protected values and what the model says
    origin: str  # the person or text, and what was changed
    members: dict[str, Any]  # the pair for programs: codes, or whole texts

    @property
    def lines(self) -> list[str]:
        """The pair for a terminal."""
        return [self.shared, *(f"→ {side}" for side in self.sides), self.origin]

    def as_dict(self) -> dict[str, Any]:
        """The pair for a summary file."""
        row = self.example.seed_row
        words = {"shared": self.shared, "sides": self.sides, "origin": self.origin}
        return {"row": row + 1 if row >= 0 else None, **words, **self.members}


class Replayed(NamedTuple):
    """What became of the pairs of earlier failures."""

    stored: int = 0
    still: int = 0  # that get other decisions with this model too


class SearchedFor(NamedTuple):
    """What a search looked at and found."""

    method: str
    generated: int
    findings: int


@dataclass(frozen=True)
class Outcome:
    """A finished check."""

    name: str
    data: str
    model: str
    protected: list[str]
    settings: CheckSettings | TextCheckSettings
    verdict: Verdict
    rate: Rate | None  # None where a stored pair decided
    pairs: list[ShownPair] = field(default_factory=list)
    replayed: Replayed = field(default_factory=Replayed)
    searched: SearchedFor | None = None
    notes: list[str] = field(default_factory=list)
    stored_in: str | None = None
    seconds: float = 0.0
    model_rows: int = 0
    warnings: list[str] = field(default_factory=list)  # what has to be known of the model before the verdict
    untested: list[str] = field(default_factory=list)  # protected attributes that the model does not read
    of_tested: Verdict | None = None  # what the others alone would be given, where not all are tested
    remedy: str = ""  # what gives more samples, where these do not decide

    @property
    def seen(self) -> Verdict:
        """The verdict on what was tested."""
        return self.of_tested or self.verdict

    @property
    def passed(self) -> bool:
        """Whether the check lets a build go on."""
        return passes(self.verdict, self.settings.undecided)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The lower and the upper bound of the rate, each by itself at the stated confidence."""
        return None if self.rate is None else self.rate.interval

    @property
    def samples_needed(self) -> int | None:
        """About how many samples would decide, if the rate is what was seen; None where no number is of use."""
        if self.rate is None or self.seen != "not shown" or self.rate.error is None:
            return None
        return samples_needed(self.rate.share, self.settings.max_rate, self.rate.error / 2)

    def as_dict(self) -> dict[str, Any]:
        """The check for a summary file."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "passed": self.passed,
            "warnings": self.warnings,
            "data": self.data,
            "model": self.model,
            "protected": self.protected,
            "untested": self.untested,
            "of_tested": self.of_tested,
            "max_rate": self.settings.max_rate,
            "confidence": self.settings.confidence,
            "rate": None if self.rate is None else self.rate.as_dict(),
            "samples_needed": self.samples_needed,
            "replayed": self.replayed._asdict(),
            "search": None if self.searched is None else self.searched._asdict(),
            "pairs": [pair.as_dict() for pair in self.pairs],
            "notes": self.notes,
            "stored_in": self.stored_in,
            "settings": self.settings.model_dump(),
            "seconds": round(self.seconds, 3),
            "model_rows": self.model_rows,
        }

    def __repr__(self) -> str:
        from evenhand.gate.words import headline

        return f"<evenhand check {self.name}: {self.verdict}. {headline(self)}>"
