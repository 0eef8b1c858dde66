"""The people of a table as a model reads them: every cell as it stands in the file."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import nn

from evenhand.data.dataset import Dataset
from evenhand.models.adapters.base import Adapter


def reads_raw_values(module: nn.Module) -> bool:
    """Whether a module turns codes into raw values before it reads them, as all adapters do."""
    return any(isinstance(part, Adapter) for part in module.modules())


def person_reading(module: nn.Module) -> Literal["codes", "exact"]:
    """Which codes of a person a module is given."""
    return "exact" if reads_raw_values(module) else "codes"


def people_codes(data: Dataset, module: nn.Module) -> NDArray[np.int32]:
    """(rows, d) the rows of the table for this module: nothing rounded, filled in or moved into the domain.

    A network that reads codes is given those of the schema, also outside the domain; an adapter is given codes that
    stand for the raw values themselves.
    """
    return data.exact if reads_raw_values(module) else data.codes
