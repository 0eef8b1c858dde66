"""A plain function of a data frame as a model."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.models.adapters.base import Adapter, FrameAdapter
from evenhand.models.adapters.features.entries import Inputs
from evenhand.models.adapters.readers import Matrix


def wrap_function(data: Dataset, function: Callable[[pd.DataFrame], Any], inputs: Inputs) -> Adapter:
    """A function of the raw data frame, or of the matrix that `inputs` names (codes, values, onehot, standard).

    It returns the probabilities or logits of all classes in the schema's order (a frame may name them), one score for
    the second class, or a label for each row.
    """
    name = getattr(function, "__name__", type(function).__name__)
    label = data.schema.label

    def ask(rows: Any) -> Any:
        answer = function(rows)
        if isinstance(answer, pd.DataFrame) and set(map(str, answer.columns)) == set(label.values):
            return answer.rename(columns=str)[label.values].to_numpy()
        if answer is None:
            raise EvenhandError(f"The function {name} returned nothing. Let it return scores or labels.")
        return answer

    read = None if inputs is None else Matrix(data, inputs, None, name)
    adapter = FrameAdapter(data, ask, about=name, no_gradients="it is a function of a data frame", read=read)
    if read is not None:
        adapter.told(inputs)
    return adapter
