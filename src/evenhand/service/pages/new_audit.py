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
from evenhand.service.api.uploads import check_description_size, keep_model
from evenhand.service.pages.data import ChosenData, chosen_data
from evenhand.service.pages.follow_ups import PRECISIONS
from evenhand.service.pages.forms import (
    Form,
    FormError,
    field_of,
    fields_of,
    files_of,
    number_words,
    request_from,
    typed,
    usual,
)
from evenhand.service.pages.view import CurrentView, View, link, redirect, router
from evenhand.service.pages.words import AMBIGUOUS_WORDS, INPUTS_WORDS, OUTPUT_WORDS, SWAP_WORDS
from evenhand.service.requests import is_id
from evenhand.service.storage.tables import ModelFile

SECTION = "/new"
WITHIN = "within."  # how fields begin that have a limit of a protected number, whose name follows
FIELDS = ("effort", "precision", "seeds", "steps", "minutes", "inputs", "output", "threshold", "swap", "ambiguous")
MOST_LISTED = 20
USUAL = {name: usual("audit", name) for name in ("seeds", "steps")}
EFFORTS: dict[str, dict[str, Any]] = {
    "quick": {
        "name": "A quick look", "about": "100 {} to start from, 100 steps around each finding.", "seeds": 100,
        "steps": 100,
    },
    "usual": {
        "name": "The usual search",
        "about": f"{USUAL['seeds']:,} {{}}, {USUAL['steps']:,} steps: the budget of the published method.", **USUAL,
    },
    "thorough": {
        "name": "A thorough search", "about": "5,000 {}, 2,000 steps: about ten times the usual work.",
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
    seeds: str = str(USUAL["seeds"])
    steps: str = str(USUAL["steps"])
    minutes: str = ""
    inputs: str = ""
    output: str = "auto"
    threshold: str = ""
    swap: str = "one"
    ambiguous: str = "keep"
    accept_poor_model: bool = False
    within: dict[str, str] = field(default_factory=dict)  # by the name of a protected number
    errors: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, form: FormData) -> "AuditForm":
        """What was sent."""
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

    def text_settings(self) -> dict[str, Any]:
        """The answers by the names that a request about texts has for them."""
        return self._effort(texts=True) | {
            "protected": self.protected, "swap": self.swap or "one", "ambiguous": self.ambiguous or "keep",
        }  # fmt: skip

    def settings(self, numbers: list[Attribute]) -> dict[str, Any]:
        """The answers by the names that a request has for them; `numbers` are the protected ones."""
        return self._effort() | {
            "protected": self.protected,
            "inputs": self.inputs or None,
            "output": self.output or "auto",
            "threshold": typed(self.threshold) if self.threshold else None,
            "accept_poor_model": self.accept_poor_model,
            "within": {each.name: typed(self.within[each.name]) for each in numbers if each.name in self.within},
        }

    def _effort(self, texts: bool = False) -> dict[str, Any]:
        """How much to search, or how precisely to measure; of texts a measurement looks at so many as usual."""
        if self.task == "measure":
            if texts:
                return {}
            if self.precision not in PRECISIONS:
                self.errors["precision"] = "Choose how precisely to measure."
                return {}
            return {"half_width": PRECISIONS[self.precision]["half_width"]}
        if self.task != "audit":
            self.errors["task"] = "Choose what to do."
            return {}
        chosen = EFFORTS.get(self.effort) or {name: typed(getattr(self, name)) for name in USUAL}
        if self.effort not in (*EFFORTS, "own"):
            self.errors["effort"] = "Choose how hard to look."
        minutes = typed(self.minutes)
        seconds = 60 * float(minutes) if minutes else self.minutes
        return {name: chosen[name] for name in USUAL} | ({"max_seconds": seconds} if self.minutes else {})

    def add_mistakes(self, mistakes: FormError, numbers: list[Attribute]) -> None:
        """Say beside each field what is wrong with it; what no field is about stands above them all."""
        places = {f"within.{each.name}": f"within-{place}" for place, each in enumerate(numbers)}
        titles = {f"within.{each.name}": each.title for each in numbers}
        for setting, words in mistakes.by_setting.items():
            if setting == "max_seconds":
                self.errors["minutes"] = f"Minutes: write {number_words('audit', setting, unit=60)}."
            elif setting in places:
                self.errors[places[setting]] = f"{titles[setting]}: write {number_words(self.task, 'within')}."
            else:
                self.errors[setting if setting in FIELDS else ""] = words


pages = router()


def _model_page(view: View, chosen: ChosenData, answers: AuditForm) -> Response:
    """The form with its answers and what is wrong with them."""
    schema = chosen.schema
    titles = {} if schema is None else {attribute.name: attribute.title for attribute in schema.attributes}
    return view.page(
        "new_model", section=SECTION, status=400 if answers.errors else 200, name=chosen.name,
        form=answers, errors=answers.errors, builtin=chosen.file is None, efforts=EFFORTS, precisions=PRECISIONS,
        models=_listed(view, answers.model), limit=view.service.settings.model_limit,
        protected_words=joined([titles.get(name, name) for name in answers.protected]), inputs_words=INPUTS_WORDS,
        output_words=OUTPUT_WORDS, numbers=_protected_numbers(schema, answers.protected), within_field=WITHIN,
        texts=chosen.domain == "text", swap_words=SWAP_WORDS, ambiguous_words=AMBIGUOUS_WORDS,
    )  # fmt: skip


@pages.get("/new/model")
def choose_model(view: CurrentView, data: str = "", model: str = "") -> Response:
    """The form of step 3."""
    chosen = chosen_data(view.service, data, view.project)
    query = view.request.query_params
    if not chosen.is_ready or not query.getlist("protected"):
        return redirect(link("/new/columns", data=chosen.known_as))
    first = model if is_id(model) else "builtin" if chosen.file is None else "upload"
    return _model_page(view, chosen, AuditForm.of_link(query, first))


def settings_link(kind: str, config: dict[str, Any]) -> str:
    """The form of step 3 with the settings of a run."""
    chosen: dict[str, Any] = {name: config.get(name) for name in ("inputs", "output", "threshold", "swap", "ambiguous")}
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
    own = {name: config.get(name) for name in USUAL}
    known = [key for key, effort in EFFORTS.items() if {name: effort[name] for name in own} == own]
    seconds = config.get("max_seconds")
    minutes = None if seconds is None else f"{seconds / 60:g}"
    return {"minutes": minutes, **({"effort": known[0]} if known else {"effort": "own", **own})}


def _protected_numbers(schema: Schema | None, protected: list[str]) -> list[Attribute]:
    """The protected attributes that have a distance."""
    if schema is None:
        return []
    return [attribute for attribute in schema.attributes if attribute.name in protected and attribute.kind == "number"]


@pages.post("/new/model")
def begin(view: CurrentView, form: Form) -> Response:
    """Start the audit or the measurement, or show the form again."""
    answers = AuditForm.of(form)
    chosen = chosen_data(view.service, answers.data, view.project)
    if not chosen.is_ready:
        return redirect(link("/new/columns", data=chosen.known_as))
    numbers = _protected_numbers(chosen.schema, answers.protected)
    model = _model(view, answers, files_of(form, "file"), built_in=chosen.file is None)
    settings = answers.text_settings() if chosen.domain == "text" else answers.settings(numbers)
    settings |= {"dataset": chosen.known_as, "model": None if model is None else model.id}
    try:
        request = request_from(answers.task if "task" not in answers.errors else "audit", settings, chosen.domain)
        if not answers.errors:
            return redirect(f"/runs/{create_run(view, answers.task, request).id}")
    except FormError as mistakes:
        answers.add_mistakes(mistakes, numbers)
    except EvenhandError as error:
        answers.errors[""] = str(error)
    return _model_page(view, chosen, answers)


def _listed(view: View, chosen: str) -> list[ModelFile]:
    """The newest models, and the chosen one where it is older."""
    found = view.service.assets.models(view.project, limit=MOST_LISTED)
    if is_id(chosen) and chosen not in [model.id for model in found]:
        found.append(view.service.assets.model(chosen, view.project))
    return found


def _model(view: View, answers: AuditForm, files: list[UploadFile], *, built_in: bool) -> ModelFile | None:
    """The model that was chosen; one that is uploaded is kept and chosen, even where another answer is wrong."""
    if answers.model == "builtin" and built_in:
        return None
    if answers.model == "upload":
        return _uploaded(view, answers, files)
    if not is_id(answers.model):
        answers.errors["model"] = "Choose a model."
        return None
    try:
        return view.service.assets.model(answers.model, view.project)
    except EvenhandError as error:
        answers.errors["model"] = str(error)
        answers.model = "upload"
        return None


def _uploaded(view: View, answers: AuditForm, files: list[UploadFile]) -> ModelFile | None:
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
    limits = view.service.settings
    try:
        description = descriptions[0].file.read(limits.max_request + 1) if descriptions else None
        check_description_size(description or b"", limits.max_request)
        model = keep_model(view, name, models[0].file, name, description)
    except EvenhandError as error:
        answers.errors["file"] = str(error)
        return None
    answers.model = model.id
    return model
