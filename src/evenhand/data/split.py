"""Which rows of a table train and which are held out, and whose choice that is."""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, model_validator

from evenhand.data.attribute import as_list, as_text
from evenhand.errors import EvenhandError

DEFAULT_SHARE = 0.2  # of the rows, held out


class Split(BaseModel):
    """Which rows train: those that a column names, the first `train_rows`, or a random share."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: Annotated[str, Strict()] | None = None
    train: Annotated[str | list[str], BeforeValidator(as_text)] = []  # one value of the column, or several
    train_rows: Annotated[int, Strict(), Field(ge=1)] | None = None
    held_out: Annotated[float, Strict(), Field(gt=0, lt=1)] = DEFAULT_SHARE
    seed: Annotated[int, Strict(), Field(ge=0)] = 0

    @model_validator(mode="after")
    def _consistent(self) -> "Split":
        if (self.column is None) != (not self.train):
            raise ValueError(
                'a split by a column needs both: column = "split" and train = "train", the value of rows that train'
            )
        if self.column is not None and (also := self.model_fields_set & {"train_rows", "held_out", "seed"}):
            raise ValueError(f"column says which rows train, so leave out {' and '.join(sorted(also))}")
        return self

    @property
    def words(self) -> str:
        """Whose split it is."""
        if self.column is not None:
            values = " or ".join(as_list(self.train))
            rows = f"rows with {self.column} = {values}"
            return f"the table's own split: {rows} are for training, the others are held out"
        if self.train_rows is not None:
            return f"the first {self.train_rows:,} rows train and the others are held out, as the schema says"
        share = "fifth" if self.held_out == DEFAULT_SHARE else f"{self.held_out:.3g} of the rows"
        return f"split made by evenhand: a random {share} held out, seed {self.seed}"

    def train_mask(self, rows: int, values: NDArray[np.object_] | None = None) -> NDArray[np.bool_]:
        """(rows,) true for the rows that train; `values` (rows,) are the texts of the split's column."""
        if self.column is not None:
            assert values is not None
            return self._named(values)
        mask = np.zeros(rows, dtype=bool)
        if self.train_rows is not None:
            mask[: self.train_rows] = True
        else:
            held_out = max(1, round(rows * self.held_out))
            mask[np.random.default_rng(self.seed).permutation(rows)[held_out:]] = True
        return mask

    def _named(self, values: NDArray[np.object_]) -> NDArray[np.bool_]:
        wanted = [value.strip() for value in as_list(self.train)]
        known = dict.fromkeys(values.tolist())
        if absent := [value for value in wanted if value not in known]:
            shown = ", ".join(f"'{value}'" for value in list(known)[:8])
            raise EvenhandError(
                f"No row's '{self.column}' is '{absent[0]}', which [split] in the schema names for rows that train. "
                f"The column has {shown}{' and others' if len(known) > 8 else ''}."
            )
        return np.isin(values.astype(str), wanted)
