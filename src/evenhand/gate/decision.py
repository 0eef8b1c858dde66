"""Whether a rate is at most what is allowed: held, exceeded, or not shown by so few samples.

Both bounds are one-sided and exact. Where samples can be drawn at will they are looked at after fixed numbers of them,
and each look may err with its own share of the error, so that all looks together err at most as often as allowed.
"""

from typing import Literal, NamedTuple

from evenhand.measures.rates import Rate, clopper_pearson
from evenhand.settings import Undecided

Verdict = Literal["held", "exceeded", "not shown", "not tested"]
FIRST_LOOK = 1000
MOST_NEEDED = 1_000_000_000  # beyond, a number of samples is no advice


class LookAt(NamedTuple):
    """When to look, counted in samples drawn, and how often this look may err in each direction."""

    samples: int
    error: float


def one_sided(population: str, hits: int, samples: int, confidence: float, error: float | None = None) -> Rate:
    """A rate whose interval has two one-sided bounds, each of which may miss as often as `error`, 1 - confidence."""
    return Rate(population, hits, samples, confidence, error=2 * (1 - confidence if error is None else error))


def passes(verdict: Verdict, undecided: Undecided) -> bool:
    """Whether a verdict lets a build go on."""
    return verdict == "held" or (verdict == "not shown" and undecided == "pass")


def decide(rate: Rate, max_rate: float) -> Verdict:
    """The verdict of one look. That a rate is zero cannot be shown; there it holds if nothing was found."""
    if max_rate == 0:
        return "exceeded" if rate.discriminatory else "held"
    low, high = rate.interval
    if high <= max_rate:
        return "held"
    return "exceeded" if low > max_rate else "not shown"


def looks(max_rate: float, confidence: float, most: int) -> list[LookAt]:
    """Looks after 1,000 samples, twice as many, and so on up to `most`.

    Look j of J has the share 1 / (j (j + 1)) of the error, the last one what is left: together all of it.
    """
    error = 1 - confidence
    first = max(FIRST_LOOK, 0 if max_rate == 0 else samples_needed(0.0, max_rate, error / 2) or 0)
    sizes = [min(first, most)]
    while sizes[-1] < most:
        sizes.append(min(2 * sizes[-1], most))
    shares = [1 / ((j + 1) * (j + 2)) for j in range(len(sizes) - 1)]
    return [LookAt(size, error * share) for size, share in zip(sizes, [*shares, 1 - sum(shares)], strict=True)]


def samples_needed(share: float, max_rate: float, error: float) -> int | None:
    """The fewest samples that would decide if this share of them were hits; None where no number is of use."""
    if share == max_rate:
        return None

    def decided(samples: int) -> bool:
        low, high = clopper_pearson(share * samples, samples, 1 - 2 * error)
        return high <= max_rate if share < max_rate else low > max_rate

    enough = 1
    while not decided(enough):
        enough *= 2
        if enough > MOST_NEEDED:
            return None
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        enough, too_few = (middle, too_few) if decided(middle) else (enough, middle)
    return enough


def rounded_up(samples: int) -> int:
    """A number of samples as advice, with two digits."""
    digit: int = 10 ** max(0, len(str(samples)) - 2)
    return -(-samples // digit) * digit
