"""What an audit is asked to do: everything that, with the data and the model, decides its findings."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evenhand.errors import EvenhandError
from evenhand.methods.registry import DEFAULT
from evenhand.models.classifier import OutputForm
from evenhand.search.search import Limits

OPTION_NAMES = {"protected": "protected attributes"}


class AuditConfig(BaseModel):
    """An audit's settings. The defaults are the paper's budget."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str
    protected: list[str] = Field(min_length=1)
    model: str | None = None
    output: OutputForm = "auto"
    method: str = DEFAULT
    settings: dict[str, int | float | str] = {}  # of the method
    seeds: int = Field(default=1000, ge=1)
    iterations: int = Field(default=10, ge=1)
    steps: int = Field(default=1000, ge=0)
    seed: int = 0
    device: str = "auto"
    max_seconds: float | None = Field(default=None, gt=0)
    max_findings: int | None = Field(default=None, ge=1)
    max_rows: int | None = Field(default=None, ge=1)
    chunk_rows: int | None = Field(default=None, ge=1)

    @property
    def limits(self) -> Limits:
        """What a search may do."""
        return Limits(self.iterations, self.steps, self.max_seconds, self.max_findings, self.max_rows)

    @classmethod
    def checked(cls, **settings: Any) -> "AuditConfig":
        """The configuration, or an error that names the setting and what is wrong with it."""
        try:
            return cls(**settings)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0])
            raise EvenhandError(
                f"The setting '{OPTION_NAMES.get(name, name.replace('_', '-'))}' is {first['input']!r}: "
                f"{first['msg'][0].lower()}{first['msg'][1:]}."
            ) from error
