"""A gate's run as JUnit XML, in the dialect that Jenkins, GitLab and GitHub's reporters read."""

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from evenhand.gate.run import CheckRun, GateRun
from evenhand.gate.words import message

NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(run: GateRun) -> str:
    """One suite for each check, since a suite is where properties may stand, with one test case in it."""
    total = {
        "tests": str(len(run.checks)),
        "failures": str(sum(_failed(check) for check in run.checks)),
        "errors": str(sum(check.status == "error" for check in run.checks)),
        "time": f"{sum(check.seconds for check in run.checks):.3f}",
    }
    root = Element("testsuites", {"name": "evenhand gate", **total})
    for number, check in enumerate(run.checks):
        root.append(_suite(check, number, run))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _failed(check: CheckRun) -> bool:
    return check.status != "error" and not check.passed


def _suite(check: CheckRun, number: int, run: GateRun) -> Element:
    name, seconds = clean(check.entry.name), f"{check.seconds:.3f}"
    suite = Element(
        "testsuite",
        {
            "name": name,
            "id": str(number),
            "tests": "1",
            "failures": str(int(_failed(check))),
            "errors": str(int(check.status == "error")),
            "skipped": "0",
            "time": seconds,
            "timestamp": run.started.strftime("%Y-%m-%dT%H:%M:%S"),
        },
    )
    properties = SubElement(suite, "properties")
    for key, value in _facts(check).items():
        SubElement(properties, "property", {"name": key, "value": clean(value)})
    case = SubElement(suite, "testcase", {"name": name, "classname": "evenhand.gate", "time": seconds})
    if check.status == "error":
        what = SubElement(case, "error", {"type": "error", "message": clean(check.sentence)})
        what.text = clean(check.trace or check.sentence)
    elif check.outcome is not None and not check.passed:
        what = SubElement(case, "failure", {"type": check.status, "message": clean(check.sentence)})
        what.text = clean(message(check.outcome))
    else:
        SubElement(case, "system-out").text = clean(check.sentence)
    return suite


def _facts(check: CheckRun) -> dict[str, str]:
    """What the check was about, and its figures."""
    told = check.entry.settings
    facts = {"verdict": check.status, "gate_line": str(check.entry.line), "max_rate": f"{told.max_rate:g}",
             "confidence": f"{told.confidence:g}"}  # fmt: skip
    if check.outcome is None:
        return facts
    facts |= {"data": check.outcome.data, "model": check.outcome.model, "protected": ",".join(check.outcome.protected)}
    facts |= {"untested": ",".join(check.outcome.untested)} if check.outcome.untested else {}
    facts |= {"warnings": " ".join(check.outcome.warnings)} if check.outcome.warnings else {}
    rate = check.outcome.rate
    if rate is not None:
        low, high = rate.interval
        facts |= {"population": rate.population, "samples": str(rate.samples), "rate": f"{rate.share:.6g}",
                  "at_least": f"{low:.6g}", "at_most": f"{high:.6g}"}  # fmt: skip
    return facts


def clean(text: str) -> str:
    """Text without characters that XML cannot hold."""
    return NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)
