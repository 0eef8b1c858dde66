"""Step 3 of a new audit: the model, and how hard to look."""

from dataclasses import dataclass, field
from typing import Any

from fastapi import Response
from starlette.datastructures import FormData, QueryParams, UploadFile

from evenhand.data.attribute import Attribute
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from evenhand.report.words import joined
from evenhand.service.api.runs import create_run
from evenhand.service.api.uploads import check_description_size
from evenhand.service.pages.data import ChosenData, chosen_data
from evenhand.service.pages.measuring import PRECISIONS
from evenhand.service.pages.view import CurrentView, Form, View, field_of, fields_of, files_of, link, redirect, router
from evenhand.service.pages.words import INPUTS_WORDS, OUTPUT_WORDS
from evenhand.service.requests import is_id, request_of
from evenhand.service.storage.tables import ModelFile

SECTION = "/new"
WITHIN = "within."  # how fields begin that have a limit of a protected number, whose name follows
FIELDS = ("effort", "precision", "seeds", "steps", "minutes", "inputs", "output", "threshold")
MOST_LISTED = 20
NUMBERS = {
    "seeds": "People to start from",
    "steps": "Steps around each finding",
    "minutes": "Minutes",
    "threshold": "Threshold",
}
EFFORTS: dict[str, dict[str, Any]] = {
    "quick": {
        "name": "A quick look", "about": "100 people to start from, 100 steps around each finding.", "seeds": 100,
        "steps": 100,
    },
    "usual": {
        "name": "The usual search", "about": "1,000 people, 1,000 steps: the budget of the published method.",
        "seeds": 1000, "steps": 1000,
    },
    "thorough": {
        "name": "A thorough search", "about": "5,000 people, 2,000 steps: about ten times the usual work.",
        "seeds": 5000, "steps": 2000,
    },
}  # fmt: skip


@dataclass
class AuditForm:
    """What the form said, as it said it, so that it can come back with nothing lost."""

    data: str
    protected: list[str]
    model: str
    task: str = "audit"
    effort: str = "quick"
    precision: str = "usual"
    seeds: str = "1000"
    steps: str = "1000"
    minutes: str = ""
    inputs: str = ""
    output: str = "auto"
    threshold: str = ""
    accept_poor_model: bool = False
    within: dict[str, str] = field(default_factory=dict)  # by the name of a protected number
    errors: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, form: FormData) -> "AuditForm":
        """The answers of a form."""
        answers = cls(field_of(form, "data"), fields_of(form, "protected"), field_of(form, "model"))
        answers.task = field_of(form, "task") or "audit"
        for name in FIELDS:
            setattr(answers, name, field_of(form, name))
        answers.read_choices(form)
        return answers

    @classmethod
    def of_link(cls, query: QueryParams, first: str) -> "AuditForm":
        """The form as a link fills it in; `first` is the model that is chosen."""
        answers = cls(query.get("data", ""), query.getlist("protected"), first)
        answers.task = "measure" if query.get("task") == "measure" else "audit"
        for name in FIELDS:
            setattr(answers, name, query.get(name, getattr(answers, name)))
        answers.read_choices(query)
        return answers

    def read_choices(self, given: FormData | QueryParams) -> None:
        """What is ticked, and the limits of protected numbers."""
        self.accept_poor_model = given.get("accept_poor_model") == "yes"
        self.within = {
            name.removeprefix(WITHIN): value.strip()
            for name, value in given.items()
            if name.startswith(WITHIN) and isinstance(value, str) and value.strip()
        }

    def number(self, name: str, least: float, most: float, *, whole: bool = True) -> float | None:
        """A number of the form; an error is kept beside its field."""
        text = getattr(self, name).replace(",", "").strip()
        try:
            value = int(text) if whole else float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            kind = "whole number" if whole else "number"
            self.errors[name] = f"{NUMBERS[name]}: write a {kind} from {least:,.10g} to {most:,.10g}."
            return None
        return value

    def limits(self, numbers: list[Attribute]) -> dict[str, float]:
        """How far from their own values people are compared, by protected number."""
        found: dict[str, float] = {}
        for place, attribute in enumerate(numbers):
            if text := self.within.get(attribute.name):
                try:
                    found[attribute.name] = float(text.replace(",", ""))
                except ValueError:
                    found[attribute.name] = float("nan")
                if not 0 < found[attribute.name] < float("inf"):
                    self.errors[f"within-{place}"] = f"{attribute.title}: write a number above 0."
        return found

    def budget(self) -> dict[str, Any]:
        """How much to search, or how precisely to measure."""
        found: dict[str, Any] = {}
        if self.task == "measure":
            return self._precision()
        if self.task != "audit":
            self.errors["task"] = "Choose what to do."
            return found
        if self.effort in EFFORTS:
            found = {name: EFFORTS[self.effort][name] for name in ("seeds", "steps")}
        elif self.effort == "own":
            found = {"seeds": self.number("seeds", 1, 1_000_000), "steps": self.number("steps", 0, 1_000_000)}
        else:
            self.errors["effort"] = "Choose how hard to look."
        if self.minutes:
            minutes = self.number("minutes", 0.1, 10_000, whole=False)
            found["max_seconds"] = None if minutes is None else 60 * minutes
        return found

    def asking(self) -> dict[str, Any]:
        """How the model is asked and taken."""
        threshold = self.number("threshold", 0.001, 0.999, whole=False) if self.threshold else None
        return {
            "inputs": self.inputs or None, "output": self.output or "auto", "threshold": threshold,
            "accept_poor_model": self.accept_poor_model,
        }  # fmt: skip

    def _precision(self) -> dict[str, Any]:
        if self.precision not in PRECISIONS:
            self.errors["precision"] = "Choose how precisely to measure."
            return {}
        return {"half_width": PRECISIONS[self.precision]["half_width"]}


pages = router()


def _model_page(view: View, subject: ChosenData, answers: AuditForm) -> Response:
    """The form with its answers and what is wrong with them."""
    assert subject.schema is not None
    numbers = _protected_numbers(subject.schema, answers.protected)
    titles = {attribute.name: attribute.title for attribute in subject.schema.attributes}
    return view.page(
        "new_model", section=SECTION, status=400 if answers.errors else 200, name=subject.name,
        form=answers, errors=answers.errors, builtin=subject.file is None, efforts=EFFORTS, precisions=PRECISIONS,
        models=_listed(view, answers.model), limit=view.service.settings.model_limit,
        protected_words=joined([titles.get(name, name) for name in answers.protected]),
        inputs_words=INPUTS_WORDS, output_words=OUTPUT_WORDS, numbers=numbers, within_field=WITHIN,
    )  # fmt: skip


@pages.get("/new/model")
def choose_model(view: CurrentView, data: str = "", model: str = "") -> Response:
    """The form of step 3."""
    subject = chosen_data(view.service, data, view.project)
    query = view.request.query_params
    if subject.schema is None or not query.getlist("protected"):
        return redirect(link("/new/columns", data=subject.known_as))
    first = model if is_id(model) else "builtin" if subject.file is None else "upload"
    return _model_page(view, subject, AuditForm.of_link(query, first))


def settings_link(kind: str, config: dict[str, Any]) -> str:
    """The form of step 3 with the settings of a run."""
    chosen: dict[str, Any] = {name: config.get(name) for name in ("inputs", "output", "threshold")}
    if config.get("accept_poor_model"):
        chosen["accept_poor_model"] = "yes"
    chosen |= {f"{WITHIN}{name}": f"{size:g}" for name, size in (config.get("within") or {}).items()}
    if kind == "measure":
        precise = [key for key, one in PRECISIONS.items() if one["half_width"] == config.get("half_width")]
        chosen |= {"task": "measure", "precision": next(iter(precise), None)}
    elif "seeds" in config:
        chosen |= _effort(config)
    return link(
        "/new/model", data=config.get("dataset"), protected=config.get("protected") or [], model=config.get("model"),
        **chosen,
    )  # fmt: skip


def _effort(config: dict[str, Any]) -> dict[str, Any]:
    """How hard a search looked, as the form says it."""
    own = {name: config.get(name) for name in ("seeds", "steps")}
    known = [key for key, effort in EFFORTS.items() if {name: effort[name] for name in own} == own]
    seconds = config.get("max_seconds")
    minutes = None if seconds is None else f"{seconds / 60:g}"
    return {"minutes": minutes, **({"effort": known[0]} if known else {"effort": "own", **own})}


def _protected_numbers(schema: Schema, protected: list[str]) -> list[Attribute]:
    """The protected attributes that have a distance."""
    return [attribute for attribute in schema.attributes if attribute.name in protected and attribute.kind == "number"]


@pages.post("/new/model")
def begin(view: CurrentView, form: Form) -> Response:
    """Start the audit or the measurement, or show the form again."""
    project, answers = view.project, AuditForm.of(form)
    subject = chosen_data(view.service, answers.data, project)
    if subject.schema is None:
        return redirect(link("/new/columns", data=subject.known_as))
    model = _model(view, project, answers, files_of(form, "file"), built_in=subject.file is None)
    limits = answers.limits(_protected_numbers(subject.schema, answers.protected))
    settings = answers.budget() | answers.asking() | {"within": limits}
    if answers.errors:
        return _model_page(view, subject, answers)
    config = {
        "dataset": subject.known_as, "model": None if model is None else model.id, "protected": answers.protected,
        **settings,
    }  # fmt: skip
    try:
        run = create_run(view.caller, answers.task, request_of(answers.task, config))
    except EvenhandError as error:
        answers.errors[""] = str(error)
        return _model_page(view, subject, answers)
    return redirect(f"/runs/{run.id}")


def _listed(view: View, chosen: str) -> list[ModelFile]:
    """The newest models, and the chosen one where it is older."""
    found = view.service.assets.models(view.project, limit=MOST_LISTED)
    if is_id(chosen) and chosen not in [model.id for model in found]:
        found.append(view.service.assets.model(chosen, view.project))
    return found


def _model(
    view: View, project: str, answers: AuditForm, files: list[UploadFile], *, built_in: bool
) -> ModelFile | None:
    """The model that was chosen; one that is uploaded is kept and chosen, even where another answer is wrong."""
    if answers.model == "builtin" and built_in:
        return None
    if answers.model == "upload":
        return _uploaded(view, project, answers, files)
    if not is_id(answers.model):
        answers.errors["model"] = "Choose a model."
        return None
    try:
        return view.service.assets.model(answers.model, project)
    except EvenhandError as error:
        answers.errors["model"] = str(error)
        answers.model = "upload"
        return None


def _uploaded(view: View, project: str, answers: AuditForm, files: list[UploadFile]) -> ModelFile | None:
    descriptions = [file for file in files if (file.filename or "").lower().endswith(".json")]
    models = [file for file in files if file not in descriptions]
    if len(models) != 1 or len(descriptions) > 1:
        answers.errors["file"] = (
            "Choose the .safetensors file together with its .json." if descriptions else "Choose the model’s file."
        )
        return None
    name = models[0].filename or ""
    if name.lower().endswith(".safetensors") and not descriptions:
        answers.errors["file"] = "Choose the .json that evenhand wrote beside this .safetensors file too."
        return None
    try:
        model = view.service.assets.add_model(
            project, name, models[0].file, name, view.service.settings.model_limit,
            _description(descriptions[0], view.service.settings.max_request) if descriptions else None,
        )  # fmt: skip
    except EvenhandError as error:
        answers.errors["file"] = str(error)
        return None
    answers.model = model.id
    return model


def _description(file: UploadFile, most: int) -> bytes:
    content = file.file.read(most + 1)
    check_description_size(content, most)
    return content
