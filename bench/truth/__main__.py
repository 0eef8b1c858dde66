"""Is it true? Every rate and finding against pandas and the bare model, and wrong set-ups that must not pass.

    python -m bench.truth               all of it, some minutes; downloads real tables once
    python -m bench.truth --made        only what needs no download
    python -m bench.truth --only TEXT   only what has this text in its name
    python -m bench.truth --part cases  or wrong

Ends with 1 if anything is wrong.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from bench.truth.cases import MADE, REAL
from bench.truth.judge import Judged, judge
from bench.truth.set_ups import SET_UPS
from bench.truth.wrong import judge_wrong


def main() -> int:
    """Judge everything that was asked for and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--made", action="store_true", help="only what needs no download")
    parser.add_argument("--only", default="", help="only what has this text in its name")
    parser.add_argument("--part", choices=["cases", "wrong", "both"], default="both")
    options = parser.parse_args()
    wrong = 0
    if options.part != "wrong":
        wrong += judge_cases(options.made, options.only)
    if options.part != "cases":
        wrong += judge_set_ups(options.only)
    return 1 if wrong else 0


def judge_cases(made_only: bool, only: str) -> int:
    """Print a line for each combination; how many of them are wrong."""
    print(f"{'data':18} {'model':28} {'rows':>5} {'true':>6} {'said':>6} {'equal':5} {'findings true':>14}  s")
    judged = []
    for case in MADE + ([] if made_only else REAL):
        if only in case.name:
            with tempfile.TemporaryDirectory() as folder:
                judged.append(judge(case, Path(folder)))
            print(line(judged[-1]), flush=True)
    wrong = [each for each in judged if not each.right]
    refused = sum(bool(each.refused) for each in judged)
    print(f"{len(judged)} combinations, {refused} refused, {len(wrong)} wrong\n")
    return len(wrong)


def judge_set_ups(only: str) -> int:
    """Print a line for each wrong set-up; how many of them are not stopped."""
    print(f"{'wrong set-up':30} {'audit':60} {'gate':10}  s")
    judged = []
    for set_up in SET_UPS:
        if only in set_up.name:
            with tempfile.TemporaryDirectory() as folder:
                judged.append(judge_wrong(set_up, Path(folder)))
            each = judged[-1]
            end = f"{each.seconds:3.0f}{'' if each.right else '  WRONG'}  {each.reason}"
            print(f"{set_up.name:30} {each.audit:60} {each.gate:10} {end}", flush=True)
    wrong = sum(not each.right for each in judged)
    print(f"{len(judged)} wrong set-ups, {wrong} not stopped")
    return wrong


def line(judged: Judged) -> str:
    """One combination for people."""
    start = f"{judged.case.data:18} {judged.case.model:28} {judged.rows:5} {_shown(judged.true):>6} "
    end = f"{judged.seconds:3.0f}{'' if judged.right else '  WRONG'}"
    if judged.refused or judged.crash:
        return f"{start}{'':27} {end}  {'CRASH ' if judged.crash else 'refused: '}{judged.crash or judged.refused}"
    of = f"{judged.true_findings} of {judged.findings}"
    others = "" if judged.equal else f"  gate {_shown(judged.at_gate)}, measure {_shown(judged.measured)}"
    return f"{start}{_shown(judged.said):>6} {'yes' if judged.equal else 'NO':5} {of:>14} {end}{others}"


def _shown(number: int | None) -> str:
    return "–" if number is None else str(number)


if __name__ == "__main__":
    sys.exit(main())
