"""How an endpoint is asked: the keys of a description file."""

import os
import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from evenhand.data.attribute import Finite, as_text
from evenhand.errors import EvenhandError

FROM_ENVIRONMENT = "env:"
Positive = Annotated[Finite, Field(gt=0)]


class Cost(BaseModel):
    """What asking costs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    per_row: Annotated[Finite, Field(ge=0)] = 0.0
    per_request: Annotated[Finite, Field(ge=0)] = 0.0
    currency: str = ""


class Endpoint(BaseModel):
    """An address that answers rows with scores.

    `request`: "records" (an object per row), "instances" (a list of values per row, in the schema's order) or "columns"
    (a list of values per column), under `rows_key` ("" for the bare document). `answer_key` is where the answers stand
    ("" for the bare document); without it the usual places are tried. `classes` names the order of the answers' scores
    where it is not the schema's. `budget` is how many rows may be answered.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    method: Literal["POST", "PUT"] = "POST"
    headers: dict[str, str] = {}
    request: Literal["records", "columns", "instances"] = "records"
    rows_key: str = "instances"
    answer_key: str | None = None
    output: Literal["probabilities", "logits"] = "probabilities"
    classes: Annotated[list[str], BeforeValidator(as_text)] = []
    batch: Annotated[int, Field(ge=1, le=100_000)] = 500
    workers: Annotated[int, Field(ge=1, le=64)] = 4
    retries: Annotated[int, Field(ge=0, le=100)] = 4
    wait: Annotated[Finite, Field(ge=0)] = 0.5
    timeout: Positive = 30.0
    rate: Positive | None = None
    cost: Cost = Cost()
    budget: Annotated[int, Field(ge=1)] | None = None

    @field_validator("url")
    @classmethod
    def _checked_url(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable or re.search(r"[^!-~]", url):
            raise ValueError("it must be an address such as https://models.example.org/predict")
        if parts.username is not None or parts.password is not None:
            raise ValueError('a password does not belong in an address; use headers with "env:NAME"')
        return url

    def headers_with_secrets(self, where: str) -> dict[str, str]:
        """The headers, with words such as env:TOKEN replaced by that variable of the environment."""
        return {name: _header(name, value, where) for name, value in self.headers.items()}


def _header(name: str, value: str, where: str) -> str:
    """One header's value. Errors never show it."""
    words = [_secret(name, word, where) if word.startswith(FROM_ENVIRONMENT) else word for word in value.split(" ")]
    full = " ".join(words)
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or not re.fullmatch(r"[\t\x20-\x7e]*", full):
        raise EvenhandError(f"{where}: the header '{name}' has a name or a value that HTTP does not allow.")
    return full


def _secret(header: str, word: str, where: str) -> str:
    variable = word.removeprefix(FROM_ENVIRONMENT)
    if variable not in os.environ:
        raise EvenhandError(
            f"{where}: the header '{header}' is read from the environment variable {variable}, which is not set."
        )
    return os.environ[variable].strip()
