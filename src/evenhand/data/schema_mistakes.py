"""A mistake in a schema file in words: what is wrong with which key, and what was probably meant."""

import re
from typing import Any

from pydantic import BaseModel, ValidationError

from evenhand.data.toml_files import first_mistake
from evenhand.data.toml_places import Location
from evenhand.errors import nearest

EXPECTED = {
    "missing": "this key is needed",
    "bool_type": "it must be true or false, without quotes",
    "int_type": "it must be a whole number, without quotes",
    "float_type": "it must be a number, without quotes",
    "string_type": "it must be text in quotes",
    "list_type": "it must be a list in [ ]",
    "tuple_type": "it must be a list in [ ]",
}


def mistake_in(error: ValidationError, model: type[BaseModel]) -> tuple[Location, str]:
    """Where the first mistake is and what to do. A key that is none comes first: others often follow from it."""
    for entry in error.errors():
        if entry["type"] == "extra_forbidden":
            return entry["loc"], _unknown_key(entry["loc"], model)
    location, reason = first_mistake(error)
    first = error.errors()[0]
    if first["type"] in ("model_type", "model_attributes_type", "dict_type"):
        if location[-1:] == ("missing",):
            written = str(first["input"]) if isinstance(first["input"], str | int | float) else ""
            return location, f'a missing value also needs a code: {{ value = "{written}", code = … }}'
        return location, "it must be a table of keys and values"
    if first["type"] == "literal_error" and isinstance(first["input"], str):
        known = re.findall(r"'([^']+)'", first["ctx"]["expected"])
        return location, f"there is no {location[-1]} '{first['input']}'; {_meant(first['input'], known)}"
    return location, EXPECTED.get(first["type"], reason)


def _unknown_key(location: Location, model: type[BaseModel]) -> str:
    key, known = str(location[-1]), _keys(location[:-1], model)
    return f"unknown key '{key}'; {_meant(key, known)}"


def _meant(name: str, known: list[str]) -> str:
    close = nearest(name, known)
    return f"did you mean '{close}'?" if close else f"known: {', '.join(known)}"


def _keys(location: Location, model: type[BaseModel]) -> list[str]:
    """The keys that the table at a location may have."""
    fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    names = [part for part in location if isinstance(part, str)]
    if not names:
        return list(fields)
    inner = _model_within(fields.get(names[0]))
    return _keys(tuple(names[1:]), inner) if inner is not None else []


def _model_within(annotation: Any) -> type[BaseModel] | None:
    """The model in an annotation such as list[Attribute] or Missing | None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_within(part) for part in getattr(annotation, "__args__", ()))
    return next((model for model in found if model is not None), None)
