"""How well a schema fits its table: rows outside the domain, rows that a rule calls impossible, unused categories."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evenhand.data.dataset import Dataset
from evenhand.data.decoding import check_within
from evenhand.data.infer.columns import MOST_WORDS, SHORT_CODE
from evenhand.data.infer.roles import NUMBER
from evenhand.data.schema import Schema

SHOWN = 8


@dataclass(frozen=True)
class SchemaFit:
    """What there is to know before a schema is relied on."""

    rows: int
    labels: dict[str, int]
    protected: list[str]
    rows_outside: int
    outside: dict[str, int]  # by attribute: rows whose code is outside its domain
    rules: dict[str, int]  # by rule of `impossible`, in words: rows that break it
    never: dict[str, list[str]]  # by attribute: categories that no row has
    without_words: list[str]  # attributes and the label, if they have codes that say nothing to a reader

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def facts(self) -> list[tuple[str, str]]:
        """In words: names and values."""
        facts = [
            ("rows", f"{self.rows:,}"),
            ("labels", ", ".join(f"{label} {count:,}" for label, count in self.labels.items())),
            ("protected", ", ".join(self.protected) or "none: write protected = true where one should be"),
            ("outside the domain", self._outside_text()),
        ]
        facts += [("impossible", f"{words}: {count:,} rows") for words, count in self.rules.items()]
        facts += [(f"never: {name}", _some(texts)) for name, texts in self.never.items()]
        if self.without_words:
            names = ", ".join(self.without_words)
            facts.append(("without words", f"{names}: reports will say bare codes; give words = [...] in the schema"))
        return facts

    def summary(self) -> str:
        """What to say of the schema at the end."""
        if not self.outside:
            return "is valid and fits its table."
        each = ", ".join(f"{name} {count:,}" for name, count in self.outside.items())
        return (
            f"is valid, but {self.rows_outside:,} of {self.rows:,} rows lie outside the domain of an attribute "
            f"({each}). Correct the domain in the schema if a search shall look at such people as they are."
        )

    def _outside_text(self) -> str:
        if not self.outside:
            return "no row"
        each = ", ".join(f"{name} {count:,}" for name, count in self.outside.items())
        return f"{self.rows_outside:,} rows ({each}); a search moves them to the nearest code of the domain"


def check_dataset(data: Dataset) -> SchemaFit:
    """Compare the rows of a table with what its schema says."""
    schema = data.schema
    for attribute in schema.attributes:
        check_within(attribute)
    outside = (data.codes < schema.lower) | (data.codes > schema.upper)  # (rows, d)
    by_attribute = {name: int(count) for name, count in zip(schema.names, outside.sum(axis=0), strict=True) if count}
    labels = np.bincount(data.labels, minlength=len(schema.label.values))
    return SchemaFit(
        rows=len(data.codes),
        labels={schema.label.text(code): int(count) for code, count in enumerate(labels)},
        protected=schema.protected,
        rows_outside=int(outside.any(axis=1).sum()),
        outside=by_attribute,
        # As a search sees rows: moved into the domain.
        rules={rule.words: int(rule.applies_to(data.clipped, schema.lower).sum()) for rule in schema.rules},
        never=_never(data),
        without_words=_without_words(schema),
    )


def _without_words(schema: Schema) -> list[str]:
    coded = [
        attribute.name
        for attribute in schema.attributes
        if attribute.kind in ("category", "ordered") and len(attribute.categories) <= MOST_WORDS and not attribute.words
        and _bare(attribute.listed)
    ]  # fmt: skip
    return coded + ([schema.label.column] if not schema.label.words and _bare(schema.label.values) else [])


def _bare(values: list[str]) -> bool:
    numbers = [value.strip() for value in values]
    return all(map(NUMBER.fullmatch, numbers)) and min(abs(int(number)) for number in numbers) < SHORT_CODE


def _never(data: Dataset) -> dict[str, list[str]]:
    found = {}
    for index, attribute in enumerate(data.schema.attributes):
        if attribute.kind == "number":
            continue
        there = set(np.unique(data.codes[:, index]).tolist())
        absent = [code for code in range(attribute.domain[0], attribute.domain[1] + 1) if code not in there]
        if absent:
            found[attribute.name] = [attribute.text(code) for code in absent]
    return found


def _some(texts: list[str]) -> str:
    more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return ", ".join(texts[:SHOWN]) + more
