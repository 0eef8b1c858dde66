"""Which attributes a model does not read: by its own declaration, or because changing them never changed a score."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenhand.data.dataset import Dataset
from evenhand.models.adapters.base import Adapter
from evenhand.models.averaged import Averaged
from evenhand.models.classifier import Classifier
from evenhand.models.evidence import domain_samples
from evenhand.models.people import people_codes, reads_raw_values

FIRST_ROWS, FIRST_VALUES = 64, 3  # a first look, which most attributes that are read do not pass
ROWS, VALUES = 500, 8  # other values of an attribute, in so many rows and as many samples of the domain
PROTECTED_VALUES = 16  # at least; a whole test hangs on these, so all rows are looked at
MOST_ROWS = 25_000_000  # model rows for one protected attribute


def unread_attributes(classifier: Classifier, data: Dataset, protected: Sequence[str]) -> dict[str, str]:
    """The attributes that a model does not read, each with how that is known."""
    module = classifier.module
    declared = module.reads if isinstance(module, Adapter) else None
    found: dict[str, str] = {}
    for index, name in enumerate(data.schema.names):
        if isinstance(module, Averaged) and index in module.columns:
            found[name] = "it is a mean over all its values"
        elif declared is not None and name not in declared:
            found[name] = "its file or object names what it reads, and this is not among it"
        elif data.schema.attributes[index].kind == "pass" and not reads_raw_values(module):
            found[name] = "it reads codes, and this column has none"
        elif data.schema.attributes[index].size > 1 or data.schema.attributes[index].kind == "pass":
            changed = _rows_unmoved(classifier, data, index, name in protected)
            if changed:
                found[name] = f"changing it in {changed:,} rows never changed a score"
    return found


def _rows_unmoved(classifier: Classifier, data: Dataset, index: int, thorough: bool) -> int:
    """In how many rows an attribute was changed without any effect; 0 where it has one, or nobody may look."""
    few = classifier.part(100)
    if few is not None and not thorough and few < ROWS:
        return 0  # each row has a price, and an attribute that is not protected does no harm
    if not _unmoved(classifier, data, index, FIRST_ROWS, FIRST_VALUES):
        return 0
    if few is not None and few < len(data.codes):
        return _unmoved(classifier, data, index, max(FIRST_ROWS, few), VALUES)
    if not thorough:
        return _unmoved(classifier, data, index, ROWS, VALUES)
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
