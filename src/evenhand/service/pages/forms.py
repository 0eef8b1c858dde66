"""Forms: the fields that a browser sends, made into the same requests that the HTTP interface takes.

What a number may be is said by the request alone: the limits of fields and the words of mistakes are read off it.
"""

from functools import cache
from math import isfinite
from typing import Annotated, Any

from fastapi import Depends, Request
from markupsafe import Markup
from pydantic import ValidationError
from starlette.datastructures import FormData, UploadFile

from evenhand.choices import Domain
from evenhand.errors import EvenhandError
from evenhand.mistakes import ended, mistake_text
from evenhand.service.pages.words import SETTINGS, TEXT_SETTINGS
from evenhand.service.requests import REQUESTS, RunRequest


async def _form(request: Request) -> FormData:
    """The form, which was read and whose token was checked before any route was reached."""
    return await request.form()


Form = Annotated[FormData, Depends(_form)]


def field_of(form: FormData, name: str) -> str:
    """A field of a form; empty where it is not there."""
    value = form.get(name)
    return value.strip() if isinstance(value, str) else ""


def fields_of(form: FormData, name: str) -> list[str]:
    """All values of a field that may come several times."""
    return [value for value in form.getlist(name) if isinstance(value, str)]


def files_of(form: FormData, name: str) -> list[UploadFile]:
    """The files that were chosen; a browser sends one without a name where none was."""
    return [value for value in form.getlist(name) if isinstance(value, UploadFile) and value.filename]


class FormError(EvenhandError):
    """What is wrong with the answers of a form, by the setting that each is about."""

    def __init__(self, by_setting: dict[str, str]) -> None:
        super().__init__(" ".join(by_setting.values()))
        self.by_setting = by_setting


def request_from(kind: str, answers: dict[str, Any], domain: Domain = "table") -> RunRequest:
    """The request that the answers of a form make. Numbers may be as they were typed (see `typed`)."""
    try:
        return REQUESTS[kind][domain].model_validate(answers)
    except ValidationError as error:
        mistakes: dict[str, str] = {}
        for entry in error.errors(include_url=False):
            mistakes.setdefault(".".join(map(str, entry["loc"])), _words(kind, entry, domain))
        raise FormError(mistakes) from error


def typed(number: str) -> str:
    """A number as somebody typed it, without its thousands separators; what is no number at all is empty."""
    plain = number.replace(",", "").strip()
    try:
        return plain if isfinite(float(plain)) else ""
    except (ValueError, OverflowError):
        return ""


def usual(kind: str, setting: str, domain: Domain = "table") -> Any:
    """What a setting is where nobody says anything else."""
    return REQUESTS[kind][domain].model_fields[setting].get_default(call_default_factory=True)


@cache
def _facts(kind: str, setting: str, domain: Domain = "table") -> dict[str, Any]:
    """What a request says about a setting, as JSON Schema: of one that may be null, what it is otherwise."""
    found: dict[str, Any] = REQUESTS[kind][domain].model_json_schema()["properties"][setting]
    found = found.get("anyOf", [found])[0]
    return found.get("additionalProperties", found)  # type: ignore[no-any-return]


def number_words(kind: str, setting: str, unit: float = 1, domain: Domain = "table") -> str:
    """What a setting must be: a whole number from 1 to 1,000; limits in so many `unit`s of the request's."""
    found = _facts(kind, setting, domain)
    facts = {name: value / unit for name, value in found.items() if isinstance(value, int | float)}
    start = f"from {facts['minimum']:,.10g}" if "minimum" in facts else f"above {facts['exclusiveMinimum']:,.10g}"
    end = f" to {facts['maximum']:,.10g}" if "minimum" in facts and "maximum" in facts else ""
    if not end and "maximum" in facts:
        end = f", at most {facts['maximum']:,.0f}"
    if "exclusiveMaximum" in facts:
        end = f" and below {facts['exclusiveMaximum']:,.10g}"
    return f"a {'whole ' if found['type'] == 'integer' else ''}number {start}{end}"


def number_limits(kind: str, setting: str, domain: Domain = "table") -> Markup:
    """The attributes of a field that lets a browser refuse what the request would refuse."""
    facts = _facts(kind, setting, domain)
    least, most = (facts.get(f"{end}imum", facts.get(f"exclusive{end.capitalize()}imum")) for end in ("min", "max"))
    step = "" if facts["type"] == "integer" else ' step="any"'
    limits = "".join(f' {name}="{value:.10g}"' for name, value in (("min", least), ("max", most)) if value is not None)
    return Markup(limits + step)  # nothing in it comes from outside


def _words(kind: str, entry: Any, domain: Domain) -> str:
    """One mistake in a sentence that names the field: it also stands in a list above the form."""
    setting = str(entry["loc"][0])
    name = (TEXT_SETTINGS if domain == "text" else {}).get(setting) or SETTINGS.get(setting, setting)
    if _facts(kind, setting, domain).get("type") in ("integer", "number"):
        return f"{name}: write {number_words(kind, setting, domain=domain)}."
    return f"{name}: {ended(mistake_text(entry, []))}"
