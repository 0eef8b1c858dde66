"""Which attributes a model does not read: by its own declaration, or because changing them never changed a score."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.models.adapters.base import Adapter, people_codes, reads_raw_values
from evenhand.models.averaged import AveragedModel
from evenhand.models.classifier import Classifier
from evenhand.models.evidence import domain_samples

FIRST_ROWS, FIRST_VALUES = 64, 3  # a first look, which most attributes that are read do not pass
ROWS, VALUES = 500, 8  # other values of an attribute, in so many rows and as many samples of the domain
PROTECTED_VALUES = 16  # at least; a whole test hangs on these, so all rows are looked at
MOST_ROWS = 25_000_000  # model rows for one protected attribute


def unread_attributes(classifier: Classifier, data: Dataset, protected: Sequence[str]) -> dict[str, str]:
    """The attributes that a model does not read, each with how that is known."""
    names, found = data.schema.names, _declared(classifier.module, data)
    open_ones = [
        index
        for index, attribute in enumerate(data.schema.attributes)
        if attribute.name not in found and (attribute.size > 1 or attribute.kind == "pass")
    ]
    unmoved = {index: _rows_unmoved(classifier, data, index) for index in open_ones if names[index] in protected}
    unmoved |= _unmoved_together(classifier, data, [index for index in open_ones if names[index] not in protected])
    found |= {
        names[index]: f"changing it in {rows:,} rows never changed a score" for index, rows in unmoved.items() if rows
    }
    return {name: found[name] for name in names if name in found}


def _declared(module: nn.Module, data: Dataset) -> dict[str, str]:
    """The attributes that a model cannot read by how it is made, or by its own declaration."""
    declared = module.reads if isinstance(module, Adapter) else None
    found: dict[str, str] = {}
    for index, attribute in enumerate(data.schema.attributes):
        if isinstance(module, AveragedModel) and index in module.columns:
            found[attribute.name] = "it is a mean over all its values"
        elif declared is not None and attribute.name not in declared:
            found[attribute.name] = "its file or object names what it reads, and this is not among it"
        elif attribute.kind == "pass" and not reads_raw_values(module):
            found[attribute.name] = "it reads codes, and this column has none"
    return found


def _rows_unmoved(classifier: Classifier, data: Dataset, index: int) -> int:
    """In how many rows a protected attribute was changed without any effect; 0 where it has one."""
    if not _unmoved(classifier, data, index, FIRST_ROWS, FIRST_VALUES):
        return 0
    few = classifier.part(100)
    if few is not None and few < len(data.codes):
        return _unmoved(classifier, data, index, max(FIRST_ROWS, few), VALUES)
    rows = min(len(data.codes), MOST_ROWS // PROTECTED_VALUES)
    return _unmoved(classifier, data, index, rows, max(PROTECTED_VALUES, MOST_ROWS // rows))


def _unmoved(classifier: Classifier, data: Dataset, index: int, rows: int, values: int) -> int:
    """How many rows kept their scores, bit by bit, under other values of an attribute; 0 where one did not."""
    x = _people(classifier, data, rows)
    before = classifier.outputs(x).scores
    for code in _codes(data, index, values):
        other = x.clone()
        other[:, index] = float(code)
        if not torch.equal(classifier.outputs(other).scores, before):
            return 0
    return len(x)


def _unmoved_together(classifier: Classifier, data: Dataset, indices: list[int]) -> dict[int, int]:
    """By attribute that is not protected: in how many rows it was changed without any effect.

    Many are changed at once, since a table may have hundreds that a model does not read: where nothing moves, none of
    them is read. A first look on a few rows leaves those that are tried on more.
    """
    few = classifier.part(100)
    if few is not None and few < ROWS:
        return {}  # each row has a price, and what such an attribute may hide does no harm
    for rows, draws in ((FIRST_ROWS, FIRST_VALUES), (ROWS, VALUES)):
        x = _people(classifier, data, rows)
        indices = _without_effect(classifier, data, x, classifier.outputs(x).scores, indices, draws)
    return dict.fromkeys(indices, len(x))


def _without_effect(
    classifier: Classifier, data: Dataset, x: Tensor, before: Tensor, indices: list[int], draws: int
) -> list[int]:
    """Those of the attributes whose random values leave the scores (n, classes) as they were, bit by bit."""
    if not indices:
        return []
    drawn = (_redrawn(data, x, indices, draw) for draw in range(draws))
    if all(torch.equal(classifier.outputs(other).scores, before) for other in drawn):
        return indices
    if len(indices) == 1:
        return []
    half = len(indices) // 2
    return [
        index
        for part in (indices[:half], indices[half:])
        for index in _without_effect(classifier, data, x, before, part, draws)
    ]


def _redrawn(data: Dataset, x: Tensor, indices: list[int], draw: int) -> Tensor:
    """Samples with random values in some attributes."""
    other = x.clone()
    for index in indices:
        codes = _codes(data, index, VALUES)
        places = np.random.default_rng([draw, index]).integers(0, len(codes), len(x))
        other[:, index] = torch.tensor(codes[places], dtype=x.dtype, device=x.device)
    return other


def _people(classifier: Classifier, data: Dataset, rows: int) -> Tensor:
    """Rows of the table and samples of the whole domain."""
    chosen = np.random.default_rng(0).permutation(len(data.codes))[:rows]
    people = torch.tensor(people_codes(data, classifier.module)[chosen], dtype=torch.float32)
    x = people if classifier.affordable is not None else torch.cat([people, domain_samples(data, min(rows, 2000))])
    return x.to(classifier.device)


def _codes(data: Dataset, index: int, values: int) -> NDArray[np.int64]:
    """All codes of an attribute, or both ends and some random ones; of a column that passes, those of its values."""
    low, high = data.schema.attributes[index].domain
    if data.schema.attributes[index].kind == "pass":
        return np.random.default_rng(index).permutation(np.unique(data.exact[:, index]))[:values]
    if high - low < values:
        return np.arange(low, high + 1)
    drawn = np.random.default_rng(index).choice(np.arange(low + 1, high), values - 2, replace=False)
    return np.concatenate([[low, high], drawn])
