"""What an audit is asked to do: everything that, with the data and the model, decides its findings."""

import math
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evenhand.errors import EvenhandError
from evenhand.models.classifier import OutputForm

OPTION_NAMES = {"protected": "protected attributes", "chunk_rows": "chunk-rows"}


class AuditConfig(BaseModel):
    """An audit's settings. The defaults are the paper's budget."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str
    protected: list[str] = Field(min_length=1)
    model: str | None = None
    output: OutputForm = "auto"
    method: str = "adf"
    seeds: int = Field(default=1000, ge=1)
    iterations: int = Field(default=10, ge=1)
    steps: int = Field(default=1000, ge=0)
    global_step: int = Field(default=1, ge=1)
    local_step: int = Field(default=1, ge=1)
    accept_failed: float = Field(default=math.exp(-1), ge=0, le=1)
    seed: int = 0
    device: str = "auto"
    max_seconds: float | None = Field(default=None, gt=0)
    max_findings: int | None = Field(default=None, ge=1)
    chunk_rows: int | None = Field(default=None, ge=1)

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
