"""A network's own input pipeline as a module: codes to a matrix of features, differentiable by the codes.

At whole codes the matrix is exact. Between two codes it is interpolated, so the gradient at a code is the mean of the
slopes to both sides; at an end of the domain it is the slope to the one side there is.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.models.adapters.features.entries import (
    Affine,
    CodeTable,
    FeatureColumns,
    FeatureEntry,
    Inputs,
    OneHot,
    columns_of,
    describe,
    entries_of,
    read_beyond,
)

MOST_RUNS = 16  # slices that are written one by one


class Features(nn.Module):
    """(n, d) codes to (n, k) features, in the order of the entries."""

    def __init__(self, data: Dataset, inputs: Inputs, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        entries = entries_of(data, inputs)
        columns = columns_of(data, entries)
        starts = np.cumsum([0, *(column.width for column in columns)])
        self.words = describe(entries, columns)
        self.width = int(starts[-1])
        self.dtype = dtype
        names = [entry.attribute for entry in entries if entry.as_ == "code"]
        self.as_they_are = names == data.schema.names == [entry.attribute for entry in entries]
        placed = list(zip(columns, starts[:-1].tolist(), strict=True))
        self.names = _column_names(data, entries, columns)
        self._order = _order_of_table(data, self.names) if inputs in ("values", "raw") else None
        self.names = self.names if self._order is None else [self.names[place] for place in self._order]
        self.beyond = _Beyond(data, [(entry, start) for entry, (_, start) in zip(entries, placed, strict=True)])
        self.affine = _AffinePart(placed)
        self.one_hot = _OneHotPart(placed)
        self.tables = _TablePart(placed)

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) codes to (n, k) features."""
        if self.beyond.holds(x):
            features = self.beyond.read(x, self._of_domain(self.beyond.schema_codes(x)))
        else:
            features = self._of_domain(x)
        return features if self._order is None else features[:, self._order]

    def _of_domain(self, x: Tensor) -> Tensor:
        if self.as_they_are:
            return x.to(self.dtype)
        features: Tensor = _Featured.apply(x, self)  # type: ignore[no-untyped-call]
        return features


def _column_names(data: Dataset, entries: Sequence[FeatureEntry], columns: Sequence[FeatureColumns]) -> list[str]:
    """What the columns of the matrix are called: as in the table where it has them one by one."""
    names: list[str] = []
    for entry, column in zip(entries, columns, strict=True):
        attribute = data.schema.attributes[data.schema.index(entry.attribute)]
        own = attribute.columns if entry.as_ == "value" and attribute.columns else [attribute.name]
        names += own if len(own) == column.width else [f"{attribute.name} {i}" for i in range(column.width)]
    return names


def _order_of_table(data: Dataset, names: list[str]) -> list[int] | None:
    """The columns in the order of the table; None where no attribute stands in several, so that the schema's holds."""
    if data.frame is None or not any(attribute.columns for attribute in data.schema.attributes):
        return None
    in_table = {str(name): place for place, name in enumerate(data.frame.columns)}
    raw = {attribute.name: attribute.raw_columns[0] for attribute in data.schema.attributes}
    return sorted(range(len(names)), key=lambda place: in_table[raw.get(names[place], names[place])])


class _Beyond(nn.Module):
    """Codes that stand for raw values beyond the domain: what is read there instead of the value of a code."""

    first: Tensor  # (d,) the first such code of each attribute
    start: Tensor  # (d,) where its values begin in `codes`
    codes: Tensor  # (values,) what the schema reads them as

    def __init__(self, data: Dataset, placed: list[tuple[FeatureEntry, int]]) -> None:
        super().__init__()
        beyond = data.beyond
        sizes = [0 if each is None else len(each.codes) for each in beyond]
        self.any = any(sizes)
        firsts = [np.inf if each is None else each.first for each in beyond]
        codes = [np.zeros(1, dtype=np.int32), *(each.codes for each in beyond if each is not None)]
        self.register_buffer("first", torch.tensor(firsts, dtype=torch.float32))
        self.register_buffer("start", torch.tensor(np.cumsum([1, *sizes])[:-1]))
        self.register_buffer("codes", torch.from_numpy(np.concatenate(codes).astype(np.float32)))
        self._read: list[tuple[int, int, Tensor]] = []
        for entry, place in placed if self.any else []:
            values = read_beyond(data, entry)
            if values is not None:
                self._read.append((data.schema.index(entry.attribute), place, torch.tensor(values)))

    def holds(self, x: Tensor) -> bool:
        """Whether there are such codes among samples (n, d)."""
        return self.any and bool((x >= self.first).any())

    def schema_codes(self, x: Tensor) -> Tensor:
        """(n, d) samples as the schema reads them."""
        places = torch.where(x >= self.first, x - self.first + self.start, 0).long()
        return torch.where(x >= self.first, self.codes[places], x)

    def read(self, x: Tensor, features: Tensor) -> Tensor:
        """(n, k) features of samples with the raw values in their places."""
        for attribute, place, values in self._read:
            outside = (x[:, attribute] >= self.first[attribute]).nonzero().squeeze(1)
            numbers = (x[outside, attribute] - self.first[attribute]).long()
            read = values.to(features.device)[numbers].to(features.dtype)
            features[outside, place : place + values.shape[1]] = read
        return features


class _Featured(torch.autograd.Function):
    """One pass over all features, and its derivative by the codes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, features: Features) -> Tensor:
        ctx.features = features
        ctx.save_for_backward(x)
        whole = float(x.frac().abs().sum()) == 0
        out = torch.zeros(len(x), features.width, dtype=features.dtype, device=x.device)
        for part in (features.affine, features.one_hot, features.tables):
            if part.columns:
                part.fill(out, x, whole)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        slopes = torch.zeros_like(x)
        for part in (ctx.features.affine, ctx.features.one_hot, ctx.features.tables):
            if part.columns:
                part.add_slopes(slopes, x, gradients[0])
        return slopes, None


class _Part(nn.Module):
    """The features of one kind."""

    attributes: Tensor  # (columns,) which attribute each reads
    places: Tensor  # (columns,) where each stands in the matrix
    columns: int

    def _keep(self, own: Sequence[Any], dtype: type[np.generic], fields: str, **places: Sequence[int]) -> None:
        """Remember fields of the columns, and where they stand, as tensors that follow the module to its device."""
        self.columns = len(own)
        self.register_buffer("attributes", torch.tensor([column.attribute for column in own], dtype=torch.int64))
        for name in fields.split():
            numbers = np.array([getattr(column, name) for column in own], dtype=dtype)
            self.register_buffer(name, torch.from_numpy(numbers))
        for name, positions in places.items():
            self.register_buffer(name, torch.tensor(positions, dtype=torch.int64))
        self._runs = _runs(list(places.get("places", [])))

    def _codes(self, x: Tensor) -> Tensor:
        """(n, columns) the code that each column reads."""
        return x.index_select(1, self.attributes)

    def _write(self, out: Tensor, values: Tensor) -> None:
        """Values to their columns; slices are several times faster where many stand side by side."""
        if len(self._runs) > MOST_RUNS:
            out.index_copy_(1, self.places, values.to(out.dtype))
            return
        for source, target in self._runs:
            out[:, target] = values[:, source]


def _runs(places: list[int]) -> list[tuple[slice, slice]]:
    """Places that rise, as slices of neighbours: of the values and of the matrix."""
    ends = [i for i in range(1, len(places) + 1) if i == len(places) or places[i] != places[i - 1] + 1]
    starts = [0, *ends][: len(ends)]
    return [(slice(i, j), slice(places[i], places[j - 1] + 1)) for i, j in zip(starts, ends, strict=True)]


class _AffinePart(_Part):
    """Columns that are a multiple of the code: no table, however large the domain is."""

    slope: Tensor
    offset: Tensor
    low: Tensor
    high: Tensor

    def __init__(self, placed: list[tuple[FeatureColumns, int]]) -> None:
        super().__init__()
        own = [(column, start) for column, start in placed if isinstance(column, Affine)]
        columns, starts = [column for column, _ in own], [start for _, start in own]
        self._keep(columns, np.float64, "slope offset low high", places=starts)

    def fill(self, out: Tensor, x: Tensor, whole: bool) -> None:  # noqa: ARG002 - the same between codes
        codes = self._codes(x).double().clamp_(self.low, self.high)  # in float64: then rounded only once
        self._write(out, torch.addcmul(self.offset, codes, self.slope))

    def add_slopes(self, slopes: Tensor, x: Tensor, gradient: Tensor) -> None:
        by_column = gradient.index_select(1, self.places) * self.slope.to(gradient.dtype)
        slopes.index_add_(1, self.attributes, by_column.to(x.dtype))


class _LookedUp(_Part):
    """Features of the code's position in a list of codes; positions between two whole ones are interpolated."""

    first: Tensor  # (columns,) the code at position 0
    low: Tensor  # (columns,) the smallest and the largest code that is looked up
    high: Tensor

    def _positions(self, x: Tensor) -> Tensor:
        """(n, columns) positions in the lists."""
        return self._codes(x).clamp_(self.low, self.high).sub_(self.first)


class _OneHotPart(_LookedUp):
    """One column for each code: 1 is written where the code stands, so the cost does not grow with the columns."""

    start: Tensor  # (columns,) where the column of position 0 stands, or would stand if it is dropped
    dropped: Tensor

    def __init__(self, placed: list[tuple[FeatureColumns, int]]) -> None:
        super().__init__()
        own = [(column, start) for column, start in placed if isinstance(column, OneHot)]
        dropped = [int(column.dropped) for column, _ in own]
        self.any_dropped = any(dropped)
        starts = [start - column.dropped for column, start in own]
        self._keep([column for column, _ in own], np.float32, "first low high", start=starts, dropped=dropped)

    def fill(self, out: Tensor, x: Tensor, whole: bool) -> None:
        positions = self._positions(x)
        if whole:
            self._mark(out, positions, None)
            return
        below = positions.floor()
        share = (positions - below).to(out.dtype)
        self._mark(out, below, 1 - share)
        self._mark(out, torch.minimum(below + 1, self.high - self.first), share)

    def _mark(self, out: Tensor, positions: Tensor, weight: Tensor | None) -> None:
        places, kept = self._places(positions)
        if weight is None and not self.any_dropped:
            places += torch.arange(0, out.numel(), out.shape[1], device=out.device)[:, None]
            out.view(-1).index_fill_(0, places.view(-1), 1.0)  # twice as fast as a scatter along the rows
        else:
            out.scatter_add_(1, places, kept.to(out.dtype) if weight is None else weight * kept)

    def _places(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Where positions stand among the columns, and whether they have one: the first may be dropped."""
        positions = positions.long()
        if not self.any_dropped:
            return positions + self.start, torch.ones((), dtype=torch.bool, device=positions.device)
        return torch.maximum(positions, self.dropped) + self.start, positions >= self.dropped

    def add_slopes(self, slopes: Tensor, x: Tensor, gradient: Tensor) -> None:
        positions = self._positions(x)
        below, above = _neighbours(positions, self.low - self.first, self.high - self.first)
        rise = self._gradient_at(gradient, above) - self._gradient_at(gradient, below)
        run = (above - below).clamp_min(1)  # 2 codes apart in the middle of the domain, 1 at its ends
        slopes.index_add_(1, self.attributes, (rise / run.to(rise.dtype)).to(x.dtype))

    def _gradient_at(self, gradient: Tensor, positions: Tensor) -> Tensor:
        places, kept = self._places(positions)
        return gradient.gather(1, places) * kept


class _TablePart(_LookedUp):
    """Columns that are looked up in one concatenated table."""

    start: Tensor  # (columns,) where its own values begin in the table
    entries: Tensor

    def __init__(self, placed: list[tuple[FeatureColumns, int]]) -> None:
        super().__init__()
        own = [
            (table, start + i, i) for table, start in placed if isinstance(table, CodeTable) for i in range(table.width)
        ]
        lists = [np.zeros(0), *(table.entries[:, i] for table, _, i in own)]
        starts = np.cumsum([len(values) for values in lists])[:-1].tolist()
        places = [place for _, place, _ in own]
        self._keep([table for table, _, _ in own], np.float32, "first low high", places=places, start=starts)
        self.register_buffer("entries", torch.from_numpy(np.concatenate(lists)))

    def fill(self, out: Tensor, x: Tensor, whole: bool) -> None:
        positions = self._positions(x)
        below = positions.floor()
        values = self._at(below)
        if not whole:
            above = torch.minimum(below + 1, self.high - self.first)
            values = values + (positions - below) * (self._at(above) - values)
        self._write(out, values)

    def _at(self, positions: Tensor) -> Tensor:
        return self.entries[positions.long() + self.start]

    def add_slopes(self, slopes: Tensor, x: Tensor, gradient: Tensor) -> None:
        below, above = _neighbours(self._positions(x), torch.zeros_like(self.low), self.high - self.first)
        slope = (self._at(above) - self._at(below)) / (above - below).clamp_min(1)
        slopes.index_add_(1, self.attributes, (gradient.index_select(1, self.places) * slope).to(x.dtype))


def _neighbours(positions: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest codes below and above a position, inside the domain."""
    return torch.maximum((positions - 1).ceil(), low), torch.minimum((positions + 1).floor(), high)
