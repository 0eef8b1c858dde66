"""A gate's run as SARIF 2.1.0: a result for each check that did not pass or was warned of, at its place in the file."""

import hashlib
import json
from typing import Any
from urllib.parse import quote

import evenhand
from evenhand.gate.run import CheckRun, GateRun
from evenhand.gate.words import message

WARNED = "warned"
RULES = {  # one for each way in which a check does not pass, and for one that passes with a warning
    "exceeded": (
        "rate-exceeded",
        "RateExceeded",
        "error",
        "The rate of discriminatory samples is above the rate that is allowed.",
        "More samples than allowed get another decision when only their protected attributes change. The pairs in the "
        "message show some; look there for what the model reads them by, repair or retrain it, or allow a higher rate.",
    ),
    "not shown": (
        "rate-not-shown",
        "RateNotShown",
        "warning",
        "Too few samples to show that the rate of discriminatory samples is at most the rate that is allowed.",
        "The bounds of the rate lie on both sides of what is allowed. Give more samples, or allow a higher rate.",
    ),
    "not tested": (
        "not-tested",
        "NotTested",
        "error",
        "The model does not read all of the protected attributes, so the check cannot find anything about the others; "
        "or no text mentions the attribute.",
        "Changing attributes that a model does not read never changes its decision, whatever it does to the groups. "
        "The message has the differences between groups. Name only attributes that the model reads, or look at groups. "
        "Where no text mentions the attribute, nothing can be changed: choose another attribute or lexicon.",
    ),
    "error": (
        "check-error",
        "CheckError",
        "error",
        "The check could not be made.",
        "The data or the model could not be read or asked. The message says why.",
    ),
    WARNED: (
        "model-warned",
        "ModelWarned",
        "warning",
        "The check passed, and something about the model has to be known before its figure is relied on.",
        "The model was accepted although its accuracy on the data is no better than that of a constant, or seems to be "
        "given its columns otherwise than it learned from them. The message says what was seen.",
    ),
}
FINGERPRINT = "evenhandCheck/v1"


def sarif(run: GateRun) -> str:
    """The log as JSON text."""
    kinds = list(RULES)
    told = [check for check in run.checks if not check.passed or check.warned]
    driver = {
        "name": "evenhand",
        "semanticVersion": evenhand.__version__,
        "rules": [_rule(*RULES[kind]) for kind in kinds],
    }
    log = {
        "version": "2.1.0",
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "invocations": [
                    {
                        "executionSuccessful": all(check.status != "error" for check in run.checks),
                        "exitCode": run.exit_code,
                        "startTimeUtc": run.started.strftime("%Y-%m-%dT%H:%M:%SZ"),
                    }
                ],
                "results": [_result(check, run.shown_path, kinds) for check in told],
            }
        ],
    }
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _rule(identity: str, name: str, level: str, short: str, full: str) -> dict[str, Any]:
    return {
        "id": identity,
        "name": name,
        "shortDescription": {"text": short},
        "fullDescription": {"text": full},
        "help": {"text": full},
        "defaultConfiguration": {"level": level},
    }


def _result(check: CheckRun, path: str, kinds: list[str]) -> dict[str, Any]:
    kind = WARNED if check.passed and check.warned else check.status
    identity, _, level, *_ = RULES[kind]
    place = {
        "artifactLocation": {"uri": quote(path)},
        "region": {"startLine": check.entry.line},
    }
    return {
        "ruleId": identity,
        "ruleIndex": kinds.index(kind),
        "level": level,
        "message": {"text": f"{check.entry.name}: {_message(check)}"},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {FINGERPRINT: _fingerprint(check, path)},
        "properties": _figures(check),
    }


def _message(check: CheckRun) -> str:
    return check.sentence if check.outcome is None else message(check.outcome)


def _fingerprint(check: CheckRun, path: str) -> str:
    """The same for the same check of the same file, wherever it stands there and whatever its figures are."""
    return hashlib.sha256("\n".join([path, check.entry.name, check.status]).encode()).hexdigest()[:32]


def _figures(check: CheckRun) -> dict[str, Any]:
    figures: dict[str, Any] = {"maxRate": check.entry.settings.max_rate, "confidence": check.entry.settings.confidence}
    if check.outcome is not None and check.outcome.rate is not None:
        low, high = check.outcome.rate.interval
        figures |= {"rate": check.outcome.rate.share, "atLeast": low, "atMost": high}
    return figures
