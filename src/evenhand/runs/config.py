"""What an audit is asked to do: everything that, with the data and the model, decides its findings."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evenhand.choices import DEFAULT_LEXICON, Ambiguous, EncoderName, Moves, OutputForm, Swap
from evenhand.errors import EvenhandError
from evenhand.methods.names import AUTO, TEXT_DEFAULT
from evenhand.mistakes import ended, first_mistake
from evenhand.search.search import Limits

OPTION_NAMES = {"protected": "protected attributes"}


class Checked(BaseModel):
    """Settings whose errors are for people."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def checked(cls, **settings: Any) -> Self:
        """The configuration, or an error that names the setting and what is wrong with it."""
        try:
            return cls(**settings)
        except ValidationError as error:
            location, reason = first_mistake(error, cls)
            name = str(location[0])
            if name not in cls.model_fields:
                raise EvenhandError(ended(f"T{reason.removeprefix('t')}")) from error
            raise EvenhandError(
                f"The setting '{OPTION_NAMES.get(name, name.replace('_', '-'))}' is {settings.get(name)!r}: "
                f"{ended(reason)}"
            ) from error


class SearchConfig(Checked):
    """The settings that audits of tables and of texts share. The defaults are the paper's budget."""

    dataset: str
    protected: list[str] = Field(min_length=1)
    model: str | None = None
    method: str
    settings: dict[str, int | float | str] = {}  # of the method
    seeds: int = Field(default=1000, ge=1)
    iterations: int = Field(default=10, ge=1)
    steps: int = Field(default=1000, ge=0)
    seed: int = Field(default=0, ge=0, le=2**62)
    device: str = "auto"
    max_seconds: float | None = Field(default=None, gt=0)
    max_findings: int | None = Field(default=None, ge=1)
    max_rows: int | None = Field(default=None, ge=1)
    chunk_rows: int | None = Field(default=None, ge=1)

    @property
    def limits(self) -> Limits:
        """What a search may do."""
        return Limits(self.iterations, self.steps, self.max_seconds, self.max_findings, self.max_rows)


class AuditConfig(SearchConfig):
    """An audit of a table's classifier."""

    method: str = AUTO
    output: OutputForm = "auto"
    inputs: str | None = None  # how a model that reads a matrix wants it
    within: dict[str, Annotated[float, Field(gt=0)]] = {}  # by protected number: how far from their own people go
    threshold: float | None = Field(default=None, gt=0, lt=1)  # of the last of label.values; None: the model's own
    accept_poor_model: bool = False  # go on where it gives the labels no more often than always saying the same


class TextAuditConfig(SearchConfig):
    """An audit of a classifier of texts."""

    method: str = TEXT_DEFAULT
    protected: list[str] = Field(min_length=1, max_length=1)
    text: str | None = None  # columns of a user's own file
    label: str | None = None
    split: str | None = None
    favourable: str | None = None
    network: str | None = None  # lstm or gru, of the built-in ones
    lexicon: str = DEFAULT_LEXICON
    vectors: str = "glove"
    k: Annotated[int, Field(ge=1, le=40)] = 10
    moves: Moves = "tokens"
    same_part_of_speech: bool = False
    swap: Swap = "one"
    ambiguous: Ambiguous = "keep"
    max_changes: int | None = Field(default=None, ge=1)
    local_changes: int | None = Field(default=2, ge=1)
    min_similarity: float | None = Field(default=None, ge=-1, le=1)
    encoder: EncoderName = "auto"
