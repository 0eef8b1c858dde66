"""All methods by name."""

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from torch import Tensor

from evenhand.errors import EvenhandError, unknown_name
from evenhand.methods.adf import ADF
from evenhand.methods.aequitas import Aequitas
from evenhand.methods.boundary import Boundary
from evenhand.methods.eidig import EIDIG
from evenhand.methods.genetic import Genetic
from evenhand.methods.label_only import LabelOnly
from evenhand.methods.maft import MAFT
from evenhand.methods.margin import Margin
from evenhand.methods.names import ABOUT, AUTO, DEFAULT, TEXT_ABOUT, TEXT_DEFAULT
from evenhand.methods.probe import Probe
from evenhand.methods.symbolic import SymbolicGeneration
from evenhand.methods.text_adf import RandomPerturbation, TextADF
from evenhand.methods.themis import Themis
from evenhand.models.classifier import Classifier
from evenhand.models.text.classifier import TextClassifier
from evenhand.models.trial import why_no_gradients
from evenhand.search.method import Method
from evenhand.search.text_space import TextSpace

BLACK_BOX = "probe"  # where a model gives no gradients
WHOLE = (int, int | None, "int", "int | None")  # types of settings that count something


@dataclass(frozen=True)
class Entry:
    """A method's class, the settings that its name stands for, and what it is."""

    method: type[Method[Any, Any]]
    about: str
    preset: tuple[tuple[str, Any], ...] = ()


METHODS: dict[str, Entry] = {
    "margin": Entry(Margin, ABOUT["margin"]),
    "adf": Entry(ADF, ABOUT["adf"]),
    "eidig": Entry(EIDIG, ABOUT["eidig"]),
    "probe": Entry(Probe, ABOUT["probe"]),
    "maft": Entry(MAFT, ABOUT["maft"]),
    "labels": Entry(LabelOnly, ABOUT["labels"]),
    "genetic": Entry(Genetic, ABOUT["genetic"]),
    "sg": Entry(SymbolicGeneration, ABOUT["sg"]),
    "aequitas": Entry(Aequitas, ABOUT["aequitas"]),
    "aequitas-semi": Entry(Aequitas, ABOUT["aequitas-semi"], (("variant", "semi"),)),
    "aequitas-random": Entry(Aequitas, ABOUT["aequitas-random"], (("variant", "random"),)),
    "themis": Entry(Themis, ABOUT["themis"]),
}


TEXT_METHODS: dict[str, Entry] = {
    "boundary": Entry(Boundary, TEXT_ABOUT["boundary"]),
    "adf-asc": Entry(TextADF, TEXT_ABOUT["adf-asc"], (("rule", "asc"),)),
    "adf-hotflip": Entry(TextADF, TEXT_ABOUT["adf-hotflip"]),
    "asc": Entry(TextADF, TEXT_ABOUT["asc"], (("rule", "asc"), ("paired", False))),
    "hotflip": Entry(TextADF, TEXT_ABOUT["hotflip"], (("paired", False),)),
    "random": Entry(RandomPerturbation, TEXT_ABOUT["random"]),
}


def make_method(name: str, settings: dict[str, Any] | None = None) -> Method:
    """A method for tables by name with its own settings; whatever is wrong with them is said."""
    method: Method = _made(METHODS, "method", name, settings)
    return method


def make_text_method(name: str, settings: dict[str, Any] | None = None) -> Method[TextSpace, TextClassifier]:
    """A method for text by name with its own settings."""
    method: Method[TextSpace, TextClassifier] = _made(TEXT_METHODS, "method for text", name, settings)
    return method


def _made(known_methods: dict[str, Entry], what: str, name: str, settings: dict[str, Any] | None) -> Any:
    if name not in known_methods:
        raise unknown_name(what, name, known_methods)
    entry = known_methods[name]
    known: list[str] = [field.name for field in fields(entry.method)] if is_dataclass(entry.method) else []
    given = dict(settings or {})
    for setting in given:
        if setting not in known:
            raise unknown_name(f"setting of method {name} called", setting, known)
    whole: set[str] = set()
    if is_dataclass(entry.method):
        whole = {item.name for item in fields(entry.method) if item.type in WHOLE}
    given |= {setting: _whole(name, setting, value) for setting, value in given.items() if setting in whole}
    try:
        return entry.method(**(dict(entry.preset) | given))
    except TypeError as error:
        raise EvenhandError(f"A setting of method {name} has a wrong type: {error}.") from error


def _whole(method: str, setting: str, value: Any) -> int:
    """A whole number, also when it was written as 1e3; a fraction of a code or of a step would mean nothing."""
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    raise EvenhandError(f"The setting '{setting}' of method {method} is a whole number; {value!r} is not.")


def check_needs(names: list[str], model: Classifier, x: Tensor) -> None:
    """A model without gradients is no use to methods that need them; find out before the first search."""
    hungry = [name for name in names if METHODS[name].method.needs == "gradients"]
    why_not = why_no_gradients(model, x) if hungry else ""
    if why_not:
        others = ", ".join(name for name, entry in METHODS.items() if entry.method.needs != "gradients")
        raise EvenhandError(
            f"{', '.join(hungry)} {'needs' if len(hungry) == 1 else 'need'} gradients, and this model gives none: "
            f"{why_not.rstrip('.')}. Methods that do without: {others}."
        )


def chosen_method(name: str, why_not: str) -> str:
    """The method that `auto` stands for: by gradients where the model gives some, else by scores."""
    if name != AUTO:
        return name
    return BLACK_BOX if why_not else DEFAULT


def chosen_text_method(name: str, task: str = "audit") -> str:
    """The method for texts that `auto` stands for: ours in audits, the paper's for the findings of a repair."""
    if name != AUTO:
        return name
    return "adf-asc" if task == "repair" else TEXT_DEFAULT
