"""Values that cannot go together, such as relationship = Husband with sex = Female."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.data.attribute import Attribute, as_list, as_text, multiples

BOUNDS = ("below", "at_least")


@dataclass(frozen=True)
class Impossible:
    """One rule: a sample whose codes are all among these is nobody."""

    codes: dict[int, NDArray[np.bool_]]  # by the attribute's position: which codes of its domain the rule names
    words: str

    @classmethod
    def of(cls, rule: dict[str, Any], attributes: list[Attribute]) -> "Impossible":
        """A rule of a schema file, checked: { relationship = "Husband", sex = "Female" }."""
        if len(rule) < 2:
            raise ValueError("a rule in impossible names at least two attributes whose values cannot go together")
        names = [attribute.name for attribute in attributes]
        codes: dict[int, NDArray[np.bool_]] = {}
        for name, wanted in rule.items():
            if name not in names:
                raise ValueError(
                    f"a rule in impossible names '{name}', which is no attribute; known: {', '.join(names)}"
                )
            attribute = attributes[names.index(name)]
            codes[names.index(name)] = _named_codes(attribute, wanted)
        words = " with ".join(
            f"{attributes[index].title} {_words(attributes[index], named)}" for index, named in codes.items()
        )
        return cls(codes, words)

    def applies_to(self, codes: NDArray[np.int32], lower: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(n,) which of (n, d) samples of the domain, whose smallest codes are `lower` (d,), are nobody."""
        named = [of_domain[codes[:, index] - lower[index]] for index, of_domain in self.codes.items()]
        return np.asarray(np.logical_and.reduce(named))


def _named_codes(attribute: Attribute, wanted: Any) -> NDArray[np.bool_]:
    """(codes of the domain,) which ones a rule names: by raw values, by words, or by bounds of a number."""
    if isinstance(wanted, dict):
        named = _within(attribute, wanted)
    else:
        named = _listed(attribute, as_text(wanted if isinstance(wanted, list) else [wanted]))
    if not named.any():
        raise ValueError(
            f"a rule in impossible gives {wanted} for '{attribute.name}', but no code of its domain lies in it"
        )
    return named


def _listed(attribute: Attribute, values: list[Any]) -> NDArray[np.bool_]:
    low, high = attribute.domain
    named = np.zeros(attribute.size, dtype=bool)
    for text in values:
        code = _code_of(attribute, text)
        if not low <= code <= high:
            raise ValueError(f"a rule in impossible names '{text}' of '{attribute.name}', which is outside its domain")
        named[code - low] = True
    return named


def _code_of(attribute: Attribute, value: Any) -> int:
    if attribute.kind == "number" and (number := _as_number(value)) is not None:
        import pandas as pd

        return int(attribute.encode(pd.Series([repr(number)]))[0])
    known = dict(zip(attribute.texts(), range(attribute.domain[0], attribute.domain[1] + 1), strict=True))
    if attribute.kind != "number":
        known |= {text.strip(): code for code, group in enumerate(attribute.categories) for text in as_list(group)}
    text = str(value).strip()
    if text not in known:
        hint = "bounds such as { below = 18 }, or " if attribute.kind == "number" else ""
        shown = ", ".join(list(known)[:12])
        raise ValueError(
            f"a rule in impossible names '{text}', which is no value of '{attribute.name}'; use {hint}{shown}"
        )
    return known[text]


def _as_number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if np.isfinite(number) else None


def _within(attribute: Attribute, bounds: dict[str, Any]) -> NDArray[np.bool_]:
    numbers = all(isinstance(bound, int | float) and not isinstance(bound, bool) for bound in bounds.values())
    if attribute.kind != "number" or not bounds or not set(bounds) <= set(BOUNDS) or not numbers:
        raise ValueError(
            f"a rule in impossible gives {bounds} for '{attribute.name}'; bounds are for numbers: "
            "{ below = 18 }, { at_least = 65 } or both"
        )
    lowest, first_above = bounds.get("at_least", -np.inf), bounds.get("below", np.inf)
    codes = np.arange(attribute.domain[0], attribute.domain[1] + 1)
    if attribute.step is not None:
        values = multiples(codes, attribute.step)
        return np.asarray((values >= lowest) & (values < first_above))
    ends = [_bin_ends(attribute, int(code)) for code in codes]
    return np.array([lowest <= low and (high < first_above or first_above == np.inf) for low, high in ends])


def _bin_ends(attribute: Attribute, code: int) -> tuple[float, float]:
    """The smallest value of a bin, and one just below the smallest value above it; a bin counts as inside if all is."""
    if attribute.is_missing(code):
        return np.nan, np.nan  # within no bounds
    low, high = attribute.bin(code)
    return (-np.inf if low is None else low), (np.inf if high is None else float(np.nextafter(high, -np.inf)))


def _words(attribute: Attribute, named: NDArray[np.bool_]) -> str:
    codes = attribute.domain[0] + np.flatnonzero(named)
    if attribute.kind == "number" and len(codes) > 2 and codes[-1] - codes[0] == len(codes) - 1:
        return f"{attribute.text(int(codes[0]))} to {attribute.text(int(codes[-1]))}"
    return " or ".join(attribute.text(int(code)) for code in codes)
