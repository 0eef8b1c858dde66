"""What is wrong with settings that were refused, in words for people: which one, and what was probably meant."""

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from evenhand.errors import EvenhandError, nearest

Location = tuple[int | str, ...]
Model = TypeVar("Model", bound=BaseModel)
EXAMPLES = {"within": "within = { age = 10 }"}  # of settings that are tables


def validated(model: type[Model], content: dict[str, Any], what: str) -> Model:
    """The content of a file as its model; an error says what is wrong where. `what` names it: lexicon mine.toml."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        location, reason = first_mistake(error, model)
        raise EvenhandError(f"The {what} is wrong at {place_in_words(content, location)}: {ended(reason)}") from error


def place_in_words(content: dict[str, Any], location: Location) -> str:
    """A location in a file: attribute 2 ('religion'), form 1 ('adjective'), words, entry 3."""
    parts: list[str] = []
    entry: Any = content
    for part in location:
        try:
            entry = entry[part]
        except (KeyError, IndexError, TypeError):
            entry = None
        if isinstance(part, int) and isinstance(entry, dict) and parts:  # a list of tables
            name = entry.get("name") or entry.get("attribute")
            parts[-1] += f" {part + 1}" + (f" ('{name}')" if isinstance(name, str) else "")
        else:
            parts.append(f"entry {part + 1}" if isinstance(part, int) else part)
    return ", ".join(parts) or "the top level"


def first_mistake(error: ValidationError, model: type[BaseModel]) -> tuple[Location, str]:
    """Where the first mistake is, and what is wrong there. A name that is none comes first: others follow from it."""
    entries: list[Any] = error.errors(include_url=False)
    first = next((entry for entry in entries if entry["type"] == "extra_forbidden"), entries[0])
    location: Location = first["loc"] + getattr(first.get("ctx", {}).get("error"), "location", ())
    return location, mistake_text(first, keys_at(location[:-1], model))


def mistake_text(entry: Any, known: list[str]) -> str:
    """An entry of a validation error in words, without a full stop; `known` are the names that there could be."""
    if entry["type"] == "extra_forbidden":
        name = str(entry["loc"][-1])
        return f"there is no setting called '{name[:200]}'" + (f"; {meant(name, known)}" if known else "")
    if entry["type"] == "missing":
        return "it is needed, but missing"
    if entry["type"] == "value_error":  # our own words
        return str(entry["msg"]).removeprefix("Value error, ").rstrip(".")
    if entry["type"] in ("dict_type", "model_type", "model_attributes_type"):
        name = str(entry["loc"][-1]) if entry["loc"] else ""
        return f"write {EXAMPLES[name]}" if name in EXAMPLES else "it must be a table of keys and values"
    if entry["type"] == "too_short":
        least = entry["ctx"]["min_length"]
        return f"it needs at least {least} {'entry' if least == 1 else 'entries'}, not {entry['ctx']['actual_length']}"
    if entry["type"] == "too_long":
        most = entry["ctx"]["max_length"]
        return f"it takes at most {most} {'entry' if most == 1 else 'entries'}, not {entry['ctx']['actual_length']}"
    words = str(entry["msg"]).replace("Input should", "it must", 1)
    return f"{words[:1].lower()}{words[1:]}"


def ended(reason: str) -> str:
    """A reason with the stop that it lacks: one may end with a question."""
    return reason if reason.endswith("?") else f"{reason}."


def meant(name: str, known: list[str]) -> str:
    """Which known name was probably meant, or all of them."""
    close = nearest(name, known)
    return f"did you mean '{close}'?" if close else f"known: {', '.join(known)}"


def keys_at(location: Location, model: type[BaseModel]) -> list[str]:
    """The names that the settings at a location may have."""
    fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    names = [part for part in location if isinstance(part, str)]
    if not names:
        return list(fields)
    inner = _model_within(fields.get(names[0]))
    return keys_at(tuple(names[1:]), inner) if inner is not None else []


def _model_within(annotation: Any) -> type[BaseModel] | None:
    """The model in an annotation such as list[Attribute] or Missing | None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_within(part) for part in getattr(annotation, "__args__", ()))
    return next((model for model in found if model is not None), None)
