"""A model card's file: our section between two markers and our keys in the front matter; all else is the user's."""

import re
from pathlib import Path
from typing import Any

import yaml

from evenhand.errors import EvenhandError
from evenhand.report.card import ACCURACY, RATE, CardRun, metrics_of
from evenhand.report.words import counted

BEGIN, END = "<!-- evenhand:begin -->", "<!-- evenhand:end -->"
TAGS = ["evenhand", "individual-discrimination"]
FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


def new_card(section: str, runs: list[CardRun], name: str, licence: str | None) -> str:
    """A card that holds nothing else yet."""
    front = _spliced("", {"license": licence} if licence else {})
    return f"---\n{_merged(front, runs, name)}---\n\n# {name}\n\n{_marked(section)}"


def has_section(text: str) -> bool:
    """Whether a card holds a section of ours."""
    return _section(_parts(text)[1]) is not None


def _parts(text: str) -> tuple[str | None, str]:
    """The front matter, if there is any, and what follows."""
    match = FRONT_MATTER.match(text)
    return (match.group(1), text[match.end() :]) if match else (None, text)


def _section(body: str) -> tuple[int, int] | None:
    """Where our section begins and ends; None without one. Markers are whole lines: in a sentence they are a quote."""
    begins, ends = (
        list(re.finditer(rf"^[ \t]*{re.escape(marker)}[ \t]*\r?$", body, re.MULTILINE)) for marker in (BEGIN, END)
    )
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or ends[0].start() < begins[0].start():
        raise EvenhandError(
            f"The card holds {counted(len(begins), 'line')} {BEGIN} and {counted(len(ends), 'line')} {END}, so it is "
            "not clear what to replace. Leave one of each, the first before the second."
        )
    return begins[0].start(), ends[0].end()


def updated_card(text: str, section: str, runs: list[CardRun], name: str | None, licence: str | None) -> str:
    """The card with our section replaced and our keys brought up to date; everything else stays as it is."""
    there, body = _parts(text)
    place = _section(body)
    assert place is not None  # the caller has looked
    body = body[: place[0]] + _marked(section).rstrip("\n") + body[place[1] :]
    front = there or ""
    if licence:
        front = _spliced(front, {"license": licence})
    return f"---\n{_merged(front, runs, name)}---\n{chr(10) if there is None else ''}{body}"


def _marked(section: str) -> str:
    return f"{BEGIN}\n{section}{END}\n"


def _merged(front: str, runs: list[CardRun], name: str | None) -> str:
    """Front matter with our tags and results beside what is there."""
    there = _read(front)
    tags = there.get("tags") or []
    tags = [tags] if isinstance(tags, str) else list(tags)
    index = _index(there.get("model-index") or [], runs, name)
    return _spliced(front, {"tags": [*tags, *(tag for tag in TAGS if tag not in tags)], "model-index": index})


def _index(index: Any, runs: list[CardRun], name: str | None) -> list[dict[str, Any]]:
    """The card's model index with our results in the place of our earlier ones."""
    if not isinstance(index, list) or not all(isinstance(entry, dict) and "name" in entry for entry in index):
        raise EvenhandError("The card's model-index is not a list of models with names. Correct it, or remove it.")
    name = name or (index[0]["name"] if index else runs[0].dataset["name"])
    entry: dict[str, Any] = next((entry for entry in index if entry["name"] == name), {"name": name, "results": []})
    kept = [result for result in entry.get("results") or [] if not _is_ours(result)]  # a user's own stay
    ours = entry | {"results": kept + [_result(run) for run in runs]}
    return [ours if old is entry else old for old in index] if entry in index else [*index, ours]


def _is_ours(result: Any) -> bool:
    """Whether a result is of an earlier card of ours: it has a rate of discriminatory samples, and nothing unknown.

    That of a run that was not tested has no figures at all.
    """
    metrics = result.get("metrics") if isinstance(result, dict) else None
    if metrics == [] and set(result) == {"task", "dataset", "metrics"}:
        return True
    types = {metric.get("type") for metric in metrics or [] if isinstance(metric, dict)}
    return RATE in types and types <= {RATE, ACCURACY}


def _result(run: CardRun) -> dict[str, Any]:
    slug = re.sub(r"[^a-z0-9._/-]+", "-", run.dataset["name"].lower()).strip("-") or "data"
    return {
        "task": {"type": run.task, "name": run.task.replace("-", " ").capitalize()},
        "dataset": {"type": slug, "name": run.dataset["title"]},
        "metrics": metrics_of(run),
    }


def _read(front: str) -> dict[str, Any]:
    try:
        there = yaml.safe_load(front) or {}
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f" in line {where.line + 2}" if where else ""  # the first line is ---
        raise EvenhandError(f"The card's front matter is not valid YAML{line}. Correct it first.") from error
    if not isinstance(there, dict):
        raise EvenhandError("The card's front matter is not a list of keys and values. Correct it first.")
    return there


def _spliced(front: str, changes: dict[str, Any]) -> str:
    """The YAML text with some keys set: lines of other keys stay, with their order and comments."""
    wanted = _read(front) | changes
    text = front if not front or front.endswith("\n") else f"{front}\n"
    for key, value in changes.items():
        lines = yaml.safe_dump({key: value}, sort_keys=False, allow_unicode=True, width=1000)
        block = re.compile(rf"^{re.escape(key)}[ \t]*:.*\n(?:(?:[ \t-].*)?\n)*", re.MULTILINE)
        found = block.search(text)
        text = text[: found.start()] + lines + text[found.end() :] if found else text + lines
    try:
        right = yaml.safe_load(text) == wanted
    except yaml.YAMLError:
        right = False
    # Keys that are quoted or written as one flow mapping cannot be cut out by lines.
    return text if right else yaml.safe_dump(wanted, sort_keys=False, allow_unicode=True, width=1000)


def written_card(path: Path) -> str | None:
    """The text of a card that is there already."""
    try:
        return path.read_text(encoding="utf-8") if path.exists() else None
    except (OSError, UnicodeDecodeError) as error:
        raise EvenhandError(f"Cannot read {path}: {error}. Choose another file for the card.") from error
