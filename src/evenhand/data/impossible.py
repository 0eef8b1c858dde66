"""Values that cannot go together, such as relationship = Husband with sex = Female."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.data.attribute import Attribute, as_list, as_text
from evenhand.data.notation import multiples

BOUNDS = ("below", "at_least")
SHOWN = 12  # values in a message


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
        return _code_of_number(attribute, number)
    text = str(value).strip()
    if attribute.kind != "number":
        low, high = attribute.domain
        known = dict(zip(attribute.texts(), range(low, high + 1), strict=True))
        known |= {text.strip(): code for code, group in enumerate(attribute.categories) for text in as_list(group)}
        found, hint, shown = known.get(text), "", list(known)[:SHOWN]
    else:
        found, hint = _code_called(attribute, text), "bounds such as { below = 18 }, or "
        shown = [attribute.text(code) for code in _domain(attribute)[:SHOWN]]
    if found is None:
        raise ValueError(
            f"a rule in impossible names '{text}', which is no value of '{attribute.name}'; use {hint}"
            f"{', '.join(shown)}"
        )
    return found


def _domain(attribute: Attribute) -> range:
    return range(attribute.domain[0], attribute.domain[1] + 1)


def _code_of_number(attribute: Attribute, number: float) -> int:
    import pandas as pd

    return int(attribute.encode(pd.Series([repr(number)]))[0])


def _code_called(attribute: Attribute, text: str) -> int | None:
    """The code of a number that has these words: 1,000 EUR. Steps are not looked through: there may be millions."""
    codes: Sequence[int] = _domain(attribute)
    if attribute.missing is not None and text == attribute.text(attribute.missing.code):
        return attribute.missing.code
    if attribute.step is not None:
        number = _as_number(text.removesuffix(attribute.unit).replace(",", "").replace("−", "-"))
        codes = [] if number is None else [_code_of_number(attribute, number)]
    return next((code for code in codes if attribute.text(code) == text), None)


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
    lows, highs = _ends(attribute, codes)
    named = (lows >= lowest) & ((highs < first_above) | (first_above == np.inf))
    missing = None if attribute.missing is None else attribute.missing.code
    if missing is not None and attribute.is_missing(missing):
        named &= codes != missing  # within no bounds
    return np.asarray(named)


def _ends(attribute: Attribute, codes: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(n,) the smallest and the largest value of each code; a bin counts as within bounds if all of it is."""
    if attribute.step is not None:
        values = multiples(codes, attribute.step)
        return values, values
    if attribute.edges:
        edges = np.array([-np.inf, *attribute.edges, np.inf, np.inf])  # a missing value may be the last of all codes
        lows, above = edges[codes], edges[codes + 1]
    else:
        lows, above = codes * attribute.width, (codes + 1) * attribute.width
        if attribute.clip is not None:
            lows = np.where(codes == attribute.clip[0], -np.inf, lows)
            above = np.where(codes == attribute.clip[1], np.inf, above)
    return lows, np.where(np.isinf(above), np.inf, np.nextafter(above, -np.inf))


def _words(attribute: Attribute, named: NDArray[np.bool_]) -> str:
    codes = attribute.domain[0] + np.flatnonzero(named)
    if attribute.kind == "number" and len(codes) > 2 and codes[-1] - codes[0] == len(codes) - 1:
        return f"{attribute.text(int(codes[0]))} to {attribute.text(int(codes[-1]))}"
    return " or ".join(attribute.text(int(code)) for code in codes)
