"""A mistake in a schema file in words: what is wrong with which key, and what was probably meant."""

import re

from pydantic import BaseModel, ValidationError

from evenhand.data.toml_places import Location
from evenhand.mistakes import first_mistake, keys_at, meant

EXPECTED = {
    "missing": "this key is needed",
    "bool_type": "it must be true or false, without quotes",
    "int_type": "it must be a whole number, without quotes",
    "float_type": "it must be a number, without quotes",
    "string_type": "it must be text in quotes",
    "list_type": "it must be a list in [ ]",
    "tuple_type": "it must be a list in [ ]",
}
PAIRS = ("domain", "clip")  # lists of two codes
LENGTHS = ("missing", "too_short", "too_long")  # what is said of a list that has not as many entries as it must
FEWEST_OF = {"values": "labels", "attribute": "attributes: one to protect and one to search over"}


def mistake_in(error: ValidationError, model: type[BaseModel]) -> tuple[Location, str]:
    """Where the first mistake is and what to do. A key that is none comes first: others often follow from it."""
    for entry in error.errors():
        if entry["type"] == "extra_forbidden":
            return entry["loc"], _unknown_key(entry["loc"], model)
    location, reason = first_mistake(error, model)
    first = error.errors()[0]
    if (pair := next((key for key in PAIRS if key in location[-2:]), None)) and first["type"] in LENGTHS:
        return location[: location.index(pair) + 1], f"{pair} needs two numbers: the smallest and the largest code"
    if first["type"] == "too_short":
        key = str(location[-1])
        return location, f"{key} needs at least two {FEWEST_OF.get(key, 'entries')}"
    if first["type"] in ("model_type", "model_attributes_type", "dict_type"):
        if location[-1:] == ("missing",):
            written = str(first["input"]) if isinstance(first["input"], str | int | float) else ""
            return location, f'a missing value also needs a code: {{ value = "{written}", code = … }}'
        return location, "it must be a table of keys and values"
    if first["type"] == "literal_error" and isinstance(first["input"], str):
        known = re.findall(r"'([^']+)'", first["ctx"]["expected"])
        return location, f"there is no {location[-1]} '{first['input']}'; {meant(first['input'], known)}"
    return location, EXPECTED.get(first["type"], reason)


def _unknown_key(location: Location, model: type[BaseModel]) -> str:
    key = str(location[-1])
    return f"unknown key '{key}'; {meant(key, keys_at(location[:-1], model))}"
