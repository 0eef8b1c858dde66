"""A check's outcome in sentences."""

import json

from evenhand.gate.decision import rounded_up
from evenhand.gate.outcome import Outcome
from evenhand.report.words import counted, interval_text, joined, percent

WARNING = "Warning: "
SHORT = {"uniform": "whole domain", "neighbourhood": "neighbourhood"}


def headline(outcome: Outcome) -> str:
    """What was seen and what was allowed, in a sentence or two; first what has to be known of the model."""
    if outcome.verdict == "not tested":
        return " ".join([*outcome.warnings, *_of_the_others(outcome)])
    return " ".join([*(f"{WARNING}{warning}" for warning in outcome.warnings), _seen_and_allowed(outcome)])


def _of_the_others(outcome: Outcome) -> list[str]:
    """Where only some attributes are not read: what was seen of the others, and what to do."""
    if outcome.of_tested is None:
        return []
    return [
        _seen_and_allowed(outcome),
        f"A check holds only if all that it names is tested, and {joined(outcome.untested)} "
        f"{'was' if len(outcome.untested) == 1 else 'were'} not: to check "
        f"{joined(outcome.protected)} alone, name only {'that' if len(outcome.protected) == 1 else 'those'} "
        f"(protected = {json.dumps(outcome.protected, ensure_ascii=False)}).",
    ]


def _seen_and_allowed(outcome: Outcome) -> str:
    if outcome.rate is None:
        return f"{_replayed(outcome)}, and none is allowed."
    if outcome.settings.max_rate == 0:
        return _of_none(outcome)
    low, high = interval_text(outcome.rate.interval).split(" to ")
    allowed = share(outcome.settings.max_rate)
    bound, verdict = {
        "held": (f"at most {high}", f"At most {allowed} is allowed."),
        "exceeded": (f"at least {low}", f"That is more than the {allowed} that is allowed."),
        "not shown": (
            f"at least {low} and at most {high}, each",
            f"So few samples do not show whether it is at most the {allowed} that is allowed.",
        ),
    }[outcome.seen]
    return f"{_seen(outcome)} ({_hits(outcome)}; {bound} at {confidence(outcome)}). {verdict}{_advice(outcome)}"


def share(value: float) -> str:
    """A share as a person would write it."""
    return f"{100 * value:.6g}%"


def confidence(outcome: Outcome) -> str:
    """How sure a bound is."""
    return f"{share(outcome.settings.confidence)} confidence"


def _seen(outcome: Outcome) -> str:
    assert outcome.rate is not None
    return f"{percent(outcome.rate.share, 2)} of {_whom(outcome)} {_treated(outcome)}"


def _whom(outcome: Outcome) -> str:
    """The rows, or so many samples of a population that `details` names."""
    assert outcome.rate is not None
    if outcome.settings.population == "people":
        words = outcome.rate.population
        return f"{words}," if ", " in words else words  # as in: rows of people, weighted by w,
    return f"{outcome.rate.samples:,} samples of the {SHORT[outcome.settings.population]} of {outcome.data}"


def _treated(outcome: Outcome, one: bool = False) -> str:
    several = len(outcome.protected) > 1
    names = joined(outcome.protected)
    return f"get{'s' if one else ''} another decision when only {names} change{'' if several else 's'}"


def _hits(outcome: Outcome) -> str:
    assert outcome.rate is not None
    return f"{outcome.rate.discriminatory:,} of {outcome.rate.samples:,}"


def _replayed(outcome: Outcome) -> str:
    stored, still = outcome.replayed
    return f"{still:,} of {counted(stored, 'stored pair')}, replayed first, still {_treated(outcome, one=still == 1)}"


def _of_none(outcome: Outcome) -> str:
    """Where no rate above zero is allowed."""
    assert outcome.rate is not None
    rate, searched = outcome.rate, outcome.searched
    if rate.discriminatory:
        return f"{_seen(outcome)} ({_hits(outcome)}), and none is allowed."
    none = f"None of {_whom(outcome)} {_treated(outcome, one=True)}"
    if searched is not None and searched.findings:
        return (
            f"{none}, but a search ({searched.method}) found {counted(searched.findings, 'discriminatory sample')} "
            f"among {searched.generated:,}, and none is allowed."
        )
    nor = f", nor any of {searched.generated:,} samples of a search ({searched.method})" if searched else ""
    return (
        f"{none}{nor}. That the rate is zero cannot be shown by samples: it is at most {percent(rate.interval[1], 3)} "
        f"at {confidence(outcome)}."
    )


def _advice(outcome: Outcome) -> str:
    """What to do where so few samples do not decide."""
    if outcome.seen != "not shown":
        return ""
    needed = outcome.samples_needed
    if needed is None:
        return " The rate is so near to it that more samples are no remedy; allow a little more or less."
    return f" At this rate it takes about {rounded_up(needed):,} samples{outcome.remedy}"


def message(outcome: Outcome) -> str:
    """The outcome with its pairs, for a terminal or a log."""
    verdict, words = outcome.verdict.upper(), headline(outcome)
    if words.startswith(WARNING):
        verdict, words = f"{verdict}, with a warning", words.removeprefix(WARNING)
    lines = [f"{verdict}: {words}", *details(outcome)]
    for number, pair in enumerate(outcome.pairs, 1):
        first, *rest = pair.lines
        lines += ["", f"pair {number}  {first}", *(f"        {line}" for line in rest)]
    return "\n".join(lines)


def details(outcome: Outcome) -> list[str]:
    """Remarks below the headline."""
    lines = []
    if outcome.rate is not None and outcome.settings.population != "people":
        lines.append(f"Population: {outcome.rate.population}.")
    lines += outcome.notes
    if outcome.replayed.stored and outcome.rate is not None:
        stored, still = outcome.replayed
        lines.append(f"{still:,} of {counted(stored, 'stored pair')} still {'differs' if still == 1 else 'differ'}.")
    if outcome.stored_in is not None and not outcome.passed:
        lines.append(f"The pairs are kept in {outcome.stored_in} and looked at first next time.")
    return lines
