"""Rules of what cannot go together: which codes they name, how they read, and which mistakes are refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.cli.data import _values
from evenhand.data.attribute import Attribute
from evenhand.data.impossible import Impossible

ATTRIBUTES = [
    Attribute(name="relationship", kind="category", categories=[" Husband", "Wife", ["Child", "*"]]),
    Attribute(name="sex", kind="category", categories=["F", "M"], words=["female", "male"]),
    Attribute(name="age", kind="number", step=1, domain=(10, 90), unit="years"),
    Attribute(name="income", kind="number", width=1000, domain=(0, 5)),
    Attribute(name="share", kind="number", step=0.1, domain=(0, 10)),
    Attribute(name="score", kind="number", edges=[10, 20], unit="points"),
]


def named(rule: dict[str, Any]) -> dict[str, list[int]]:
    """By attribute: the codes that a rule names."""
    found = Impossible.of(rule, ATTRIBUTES).codes
    return {
        ATTRIBUTES[index].name: [code + ATTRIBUTES[index].domain[0] for code in codes.nonzero()[0].tolist()]
        for index, codes in found.items()
    }


@pytest.mark.parametrize(
    ("rule", "codes"),
    [
        ({"relationship": "Husband", "sex": "F"}, {"relationship": [0], "sex": [0]}),
        ({"relationship": ["Husband", "Wife"], "sex": "male"}, {"relationship": [0, 1], "sex": [1]}),
        ({"relationship": "other", "sex": "M"}, {"relationship": [2], "sex": [1]}),
        ({"relationship": "Child", "age": {"at_least": 88}}, {"relationship": [2], "age": [88, 89, 90]}),
        ({"age": {"at_least": 12, "below": 14}, "sex": "F"}, {"age": [12, 13], "sex": [0]}),
        ({"age": 18, "sex": "F"}, {"age": [18], "sex": [0]}),
        ({"age": "18 years", "sex": "F"}, {"age": [18], "sex": [0]}),
        ({"income": 2500, "sex": "F"}, {"income": [2], "sex": [0]}),
        ({"income": {"at_least": 1500}, "sex": "F"}, {"income": [2, 3, 4, 5], "sex": [0]}),  # only whole bins
        ({"income": {"below": 2000}, "sex": "F"}, {"income": [0, 1], "sex": [0]}),
        ({"share": 0.3, "sex": "F"}, {"share": [3], "sex": [0]}),
        ({"share": {"below": 0.3}, "sex": "F"}, {"share": [0, 1, 2], "sex": [0]}),
        ({"share": {"at_least": 0.7}, "sex": "F"}, {"share": [7, 8, 9, 10], "sex": [0]}),
        ({"score": {"at_least": 10}, "sex": "F"}, {"score": [1, 2], "sex": [0]}),
        ({"score": {"below": 20}, "sex": "F"}, {"score": [0, 1], "sex": [0]}),
    ],
)
def test_the_codes_that_rules_name(rule: dict[str, Any], codes: dict[str, list[int]]) -> None:
    assert named(rule) == codes


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"relationship": "Husband", "sex": "F"}, "relationship Husband with sex female"),
        ({"age": {"below": 18}, "sex": ["F", "M"]}, "age 10 years to 17 years with sex female or male"),
        ({"age": [20, 30, 40], "sex": "F"}, "age 20 years or 30 years or 40 years with sex female"),
    ],
)
def test_rules_in_words(rule: dict[str, Any], words: str) -> None:
    assert Impossible.of(rule, ATTRIBUTES).words == words


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"sex": "F"}, "at least two attributes"),
        ({"sex": "F", "colour": "red"}, "names 'colour', which is no attribute; known: relationship, sex"),
        ({"sex": "X", "age": 20}, "'X', which is no value of 'sex'; use female, male, F, M"),
        ({"sex": {"below": 1}, "age": 20}, "bounds are for numbers"),
        ({"sex": "F", "age": {"under": 1}}, "bounds are for numbers"),
        ({"sex": "F", "age": {"below": "18"}}, "bounds are for numbers"),
        ({"sex": "F", "age": {}}, "bounds are for numbers"),
        ({"sex": "F", "age": 5}, "'5' of 'age', which is outside its domain"),
        ({"sex": "F", "age": "old"}, "use bounds such as"),
        ({"sex": "F", "age": {"below": 5}}, "no code of its domain"),
        ({"sex": [], "age": 20}, "no code of its domain"),
        ({"sex": "F", "income": {"at_least": 100, "below": 900}}, "no code of its domain"),
    ],
)
def test_mistakes_in_rules(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Impossible.of(rule, ATTRIBUTES)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(10, 90)), min_size=1))
def test_a_rule_applies_where_all_its_values_meet(people: list[tuple[int, int, int]]) -> None:
    rule = Impossible.of({"relationship": ["Husband", "Child"], "age": {"below": 18}}, ATTRIBUTES[:3])
    lower = np.array([attribute.domain[0] for attribute in ATTRIBUTES[:3]])
    wanted = [relationship in (0, 2) and age < 18 for relationship, _, age in people]
    assert rule.applies_to(np.array(people, dtype=np.int32), lower).tolist() == wanted


@given(st.integers(1, 40), st.integers(-20, 20), st.integers(0, 60), st.integers(-500, 500))
def test_bounds_name_the_bins_all_of_whose_numbers_they_hold(width: int, low: int, size: int, bound: int) -> None:
    """Against all whole numbers of each bin, one by one."""
    number = Attribute(name="n", kind="number", width=width, domain=(low, low + size))
    codes = range(low, low + size + 1)
    wanted = [all(value < bound for value in range(code * width, (code + 1) * width)) for code in codes]
    other = ATTRIBUTES[1]
    if not any(wanted):
        with pytest.raises(ValueError, match="no code of its domain"):
            Impossible.of({"n": {"below": bound}, "sex": "F"}, [number, other])
        return
    assert Impossible.of({"n": {"below": bound}, "sex": "F"}, [number, other]).codes[0].tolist() == wanted


def test_words_of_a_wide_domain_are_made_only_where_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    text = Attribute.text

    def counted(self: Attribute, code: int) -> str:
        made.append(code)
        return text(self, code)

    monkeypatch.setattr(Attribute, "text", counted)
    money = Attribute.model_validate(
        {"name": "amount", "kind": "number", "type": "integer", "step": 1, "unit": "EUR", "domain": [-100, 9_000_000]}
    )
    rule = Impossible.of({"amount": ["1,234,567 EUR", "−50 EUR", 20], "sex": "F"}, [money, *ATTRIBUTES])
    assert (np.flatnonzero(rule.codes[0]) - 100).tolist() == [-50, 20, 1_234_567]
    with pytest.raises(ValueError, match=r"'much', which is no value of 'amount'; use bounds such as .* −100 EUR, −99"):
        Impossible.of({"amount": "much", "sex": "F"}, [money, *ATTRIBUTES])
    assert _values(money) == "−100 EUR, −99 EUR, … 9,000,000 EUR"
    assert len(made) < 50
