"""Choosing among repairs: conditions are read as written, the front holds all that is not beaten, and no more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import EvenhandError
from evenhand.measures.choice import Condition, Trade, choose, front, parse_conditions

shares = st.sampled_from([0.0, 0.1, 0.2, 0.5, 0.9])  # few values, so that equal figures are common
some_trades = st.lists(st.builds(Trade, shares, shares), max_size=8)


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("accuracy_loss<=0.005", [Condition("accuracy_loss", False, 0.005)]),
        (" rate  <  1e-3 ", [Condition("rate", True, 0.001)]),
        ("accuracy_loss<=-0.01", [Condition("accuracy_loss", False, -0.01)]),
        ("rate<=0 and accuracy_loss<0.5", [Condition("rate", False, 0.0), Condition("accuracy_loss", True, 0.5)]),
        ("rate<=0.1,accuracy_loss<=.2", [Condition("rate", False, 0.1), Condition("accuracy_loss", False, 0.2)]),
    ],
)
def test_conditions_that_are_read(text: str, conditions: list[Condition]) -> None:
    assert parse_conditions(text) == conditions


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rate",
        "rate<=",
        "rate>=0.1",
        "rate==0.1",
        "0.1>rate",
        "accuracy<=0.1",
        "rate<=0.1 and",
        "rate<=0.1 or accuracy_loss<=0.1",
        "rate<=0.1 accuracy_loss<=0.1",
        "rate<=1e",
        "rate<=0.1.2",
        "rate<=5%",
        "rate<=nan",
        "rate<=__import__('os')",
    ],
)
def test_conditions_that_are_not(text: str) -> None:
    with pytest.raises(EvenhandError, match="is not a condition") as error:
        parse_conditions(text)
    assert f"'{text}'" in str(error.value)
    assert "accuracy_loss<=0.005" in str(error.value)


def test_a_limit_holds_up_to_itself_and_a_strict_one_below() -> None:
    before, after = Trade(0.75, 0.5), Trade(0.5, 0.25)
    for text, kept in {
        "accuracy_loss<=0.25": True,
        "accuracy_loss<0.25": False,
        "accuracy_loss<0.26": True,
        "accuracy_loss<=0.24": False,
        "rate<=0.25": True,
        "rate<0.25": False,
    }.items():
        assert parse_conditions(text)[0].holds(after, before) is kept, text


@given(some_trades)
def test_the_front_against_its_definition(trades: list[Trade]) -> None:
    """A trade is on the front if, and only if, giving up nothing in one figure means gaining nothing in the other."""
    for trade, on_it in zip(trades, front(trades), strict=True):
        as_accurate = [other.rate for other in trades if other.accuracy >= trade.accuracy]
        as_low = [other.accuracy for other in trades if other.rate <= trade.rate]
        assert on_it == (min(as_accurate) == trade.rate and max(as_low) == trade.accuracy)


@given(some_trades)
def test_some_trade_is_not_beaten_and_equal_ones_share_their_fate(trades: list[Trade]) -> None:
    marks = front(trades)
    assert any(marks) == bool(trades)
    assert len({(trade, mark) for trade, mark in zip(trades, marks, strict=True)}) == len(set(trades))


@given(some_trades, st.builds(Trade, shares, shares), shares, shares)
def test_the_choice_against_brute_force(trades: list[Trade], before: Trade, loss: float, rate: float) -> None:
    conditions = [Condition("accuracy_loss", False, loss), Condition("rate", True, rate)]
    allowed = [trade for trade in trades if before.accuracy - trade.accuracy <= loss and trade.rate < rate]
    number = choose(trades, before, conditions)
    assert (number is None) == (not allowed)
    if number is not None:
        chosen = trades[number]
        assert chosen in allowed
        assert chosen.rate == min(trade.rate for trade in allowed)
        assert chosen.accuracy == max(trade.accuracy for trade in allowed if trade.rate == chosen.rate)


def test_what_comes_first_depends_on_what_is_limited() -> None:
    before = Trade(0.9, 0.3)
    trades = [Trade(0.80, 0.0), Trade(0.88, 0.01), Trade(0.88, 0.005), Trade(0.895, 0.2)]
    assert choose(trades, before, []) == 0
    assert choose(trades, before, parse_conditions("accuracy_loss<=0.05")) == 2
    assert choose(trades, before, parse_conditions("rate<=0.25")) == 3
    assert choose(trades, before, parse_conditions("rate<=0.1")) == 2
    assert choose(trades, before, parse_conditions("accuracy_loss<=0.001")) is None
