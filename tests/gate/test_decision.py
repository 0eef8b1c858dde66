"""The verdict's arithmetic: exact bounds, honest about looking several times."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evenhand.gate.decision import decide, looks, one_sided, rounded_up, samples_needed

RATES = st.floats(0.0005, 0.5)


@given(st.integers(1, 3000), st.data(), RATES, st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_the_verdict_is_that_of_the_exact_binomial_tests(samples: int, data: Any, allowed: float, sure: float) -> None:
    hits = data.draw(st.integers(0, min(samples, int(3 * allowed * samples) + 3)))
    so_few = stats.binom.cdf(hits, samples, allowed)  # how often there are so few hits where the rate is just allowed
    so_many = stats.binom.sf(hits - 1, samples, allowed)
    verdict = decide(one_sided("people", hits, samples, sure), allowed)
    if min(abs(so_few - (1 - sure)), abs(so_many - (1 - sure))) > 1e-9:
        assert verdict == ("held" if so_few < 1 - sure else "exceeded" if so_many < 1 - sure else "not shown")


def test_a_rate_of_zero_holds_where_nothing_was_found() -> None:
    assert decide(one_sided("people", 0, 1, 0.95), 0) == "held"
    assert decide(one_sided("people", 1, 1_000_000, 0.95), 0) == "exceeded"


@given(st.sampled_from([0.0, 0.001, 0.01, 0.2]), st.sampled_from([0.8, 0.95]), st.integers(1, 300_000))
def test_all_looks_together_spend_the_error_and_no_more(allowed: float, sure: float, most: int) -> None:
    plan = looks(allowed, sure, most)
    sizes = [look.samples for look in plan]
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == most
    assert math.isclose(sum(look.error for look in plan), 1 - sure)
    assert all(look.error > 0 for look in plan)


@pytest.mark.parametrize(("truth", "wrong"), [(0.0500001, "held"), (0.05, "exceeded")])
def test_looking_again_and_again_errs_no_more_often_than_allowed(truth: float, wrong: str) -> None:
    rng, runs, sure = np.random.default_rng(1), 2000, 0.9
    plan = looks(0.05, sure, 16_000)
    mistakes = 0
    for _ in range(runs):
        hits = before = 0
        for until, error in plan:
            hits, before = hits + int(rng.binomial(until - before, truth)), until
            verdict = decide(one_sided("samples", hits, until, sure, error), 0.05)
            if verdict != "not shown":
                mistakes += verdict == wrong
                break
    assert 0 < mistakes <= runs * (1 - sure)


def test_the_samples_needed_without_a_hit_are_those_of_the_formula() -> None:
    for allowed in (0.1, 0.01, 0.001):
        assert samples_needed(0.0, allowed, 0.05) == math.ceil(math.log(0.05) / math.log(1 - allowed))


@given(RATES, RATES)
def test_so_many_samples_decide_and_one_less_does_not(share: float, allowed: float) -> None:
    needed = samples_needed(share, allowed, 0.05)
    if needed is None:
        assert abs(share - allowed) < 1e-3
        return

    def tail(samples: int) -> float:  # the binomial tail at a fractional number of hits, by the beta distribution
        hits = share * samples
        if share < allowed:
            return float(stats.beta.sf(allowed, hits + 1, samples - hits))
        return float(stats.beta.cdf(allowed, hits, samples - hits + 1))

    assert tail(needed) <= 0.05 + 1e-9
    assert needed == 1 or tail(needed - 1) >= 0.05 - 1e-9


def test_advice_is_rounded_up_to_two_digits() -> None:
    assert [rounded_up(number) for number in (7, 299, 2_012_345, 100)] == [7, 300, 2_100_000, 100]
