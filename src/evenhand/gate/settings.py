"""What a check is asked to do, the same for a test and for a gate file."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Strict

from evenhand.choices import OutputForm
from evenhand.gate.decision import Verdict
from evenhand.methods.names import AUTO
from evenhand.settings import CheckedSettings

PopulationName = Literal["people", "uniform", "neighbourhood"]
Undecided = Literal["fail", "pass"]


class SearchBudget(CheckedSettings):
    """A small search, for witnesses where no rate above zero is allowed, and for pairs to show."""

    method: str = AUTO
    seeds: int = Field(default=100, ge=1)
    iterations: int = Field(default=10, ge=1)
    steps: int = Field(default=50, ge=0)
    max_seconds: float | None = Field(default=None, gt=0)


def _budget(value: Any) -> Any:
    """`search = true` is the default budget, `false` none."""
    return (SearchBudget() if value else None) if isinstance(value, bool) else value


class CheckSettings(CheckedSettings):
    """Everything that, with the data and the model, decides a check."""

    protected: list[str] | None = None  # None: those that the schema marks
    within: dict[str, Annotated[float, Field(gt=0)]] = Field(default={})  # by protected number: how far people go
    max_rate: float = Field(default=0.01, ge=0, lt=1)
    confidence: float = Field(default=0.95, ge=0.5, lt=1)
    population: PopulationName = "people"
    changes: int = Field(default=2, ge=1)  # of the neighbourhood
    most_samples: int = Field(default=200_000, ge=1)
    search: Annotated[SearchBudget | None, BeforeValidator(_budget)] = SearchBudget()
    undecided: Undecided = "fail"
    seed: int = Field(default=0, ge=0, le=2**62)
    label: str | None = None  # the column that the model predicts, where the data is a frame
    inputs: str | None = None
    output: OutputForm = "auto"
    device: str = "auto"
    chunk_rows: int | None = Field(default=None, ge=1)
    threshold: float | None = Field(default=None, gt=0, lt=1)  # of the last of label.values; None: the model's own
    accept_poor_model: Annotated[bool, Strict()] = False  # as for an audit

    def passes(self, verdict: Verdict) -> bool:
        """Whether a verdict lets a build go on."""
        return verdict == "held" or (verdict == "not shown" and self.undecided == "pass")
