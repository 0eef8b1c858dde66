"""Steps 1 and 2 of a new audit: the data, and what its columns mean."""

import re
from typing import Any

from fastapi import Response

from evenhand.choices import Domain
from evenhand.errors import EvenhandError
from evenhand.service.api.table_tasks import ask
from evenhand.service.api.uploads import SchemaText, set_columns, set_schema
from evenhand.service.pages.data import (
    ChosenData,
    Preview,
    attribute_row,
    chosen_data,
    preview_of,
    set_aside,
    with_choices,
    with_title,
)
from evenhand.service.pages.forms import Form, field_of, fields_of, files_of
from evenhand.service.pages.view import CurrentView, View, link, redirect, router
from evenhand.service.pages.words import builtin_titles
from evenhand.service.requests import TextColumns
from evenhand.service.storage.tables import DataFile

SECTION = "/new"
MOST_LISTED = 20

pages = router()


def _data_page(view: View, errors: dict[str, str] | None = None, name: str = "", domain: Domain = "table") -> Response:
    """The form of step 1."""
    found = view.service.assets.datasets(view.project, limit=MOST_LISTED + 1)
    return view.page(
        "new_data", section=SECTION, status=400 if errors else 200, errors=errors or {}, name=name,
        domain=domain, limit=view.service.settings.upload_limit, builtin=builtin_titles(), datasets=found[:MOST_LISTED],
        more=len(found) > MOST_LISTED,
    )  # fmt: skip


@pages.get("/new")
def choose_data(view: CurrentView) -> Response:
    """Which data."""
    return _data_page(view)


@pages.post("/new/data")
def upload(view: CurrentView, form: Form) -> Response:
    """Keep a table, or texts."""
    files, name = files_of(form, "file"), field_of(form, "name")
    domain: Domain = "text" if field_of(form, "domain") == "text" else "table"
    if not files:
        return _data_page(view, {"file": "Choose a file first."}, name, domain)
    filename = files[0].filename or ""
    try:
        kept = view.service.assets.add_dataset(
            view.project, name or filename, files[0].file, filename, view.service.settings.upload_limit, domain
        )
    except EvenhandError as error:
        return _data_page(view, {"file": str(error)}, name, domain)
    return redirect(link("/new/columns", data=kept.id))


def _label_page(view: View, file: DataFile, errors: dict[str, str], chosen: str = "") -> Response:
    """The form that asks for the decision's column."""
    try:
        preview = preview_of(view.service.settings, view.service.assets.dataset_path(file))
    except EvenhandError as error:
        preview, errors = Preview([], []), errors | {"": str(error)}
    return view.page(
        "new_label", section=SECTION, status=400 if errors else 200, data=file, preview=preview,
        errors=errors, chosen=chosen,
    )  # fmt: skip


def _columns_page(
    view: View, subject: ChosenData, protected: list[str], errors: dict[str, str], **kept: Any
) -> Response:
    """The form of step 2; `kept` is what stood in it before."""
    assert subject.schema is not None
    preview = None if subject.file is None else _preview(view, subject.file)
    text = "" if subject.file is None else subject.file.schema_text or ""
    label = subject.schema.label
    guessed = "GUESSED BY THEIR NAMES" in text and "protected" not in view.request.query_params
    values = {"favourable": label.favourable or "", "text": text, "guessed": guessed}
    return view.page(
        "new_columns", section=SECTION, status=400 if errors else 200, data=subject.known_as,
        name=subject.name, uploaded=subject.file is not None, preview=preview, label=label, errors=errors,
        attributes=[attribute_row(each) for each in subject.schema.attributes if each.kind != "pass"],
        protected=protected,
        set_aside=set_aside(text, subject.schema, preview.all_columns) if preview else [], **(values | kept),
    )  # fmt: skip


@pages.get("/new/columns")
def columns(view: CurrentView, data: str = "", again: bool = False) -> Response:
    """What the columns mean, as far as it is known."""
    subject = chosen_data(view.service, data, view.project)
    if subject.domain == "text":
        return _texts_page(view, subject, {}, again=again, protected=view.request.query_params.get("protected", ""))
    if subject.schema is None or (again and subject.file is not None):
        assert subject.file is not None
        return _label_page(view, subject.file, {}, subject.schema.label.column if subject.schema else "")
    ticked = view.request.query_params.getlist("protected") or subject.schema.protected
    return _columns_page(view, subject, ticked, {})


@pages.post("/new/columns/label")
def choose_label(view: CurrentView, form: Form) -> Response:
    """Infer a schema from the table and its decision."""
    project = view.project
    subject = chosen_data(view.service, field_of(form, "data"), project)
    label = str(form.get("label") or "")  # as it is: a column's name may begin or end with a space
    if (file := subject.file) is None or file.domain == "text":
        return redirect(link("/new/columns", data=subject.known_as))
    if not label:
        return _label_page(view, file, {"label": "Choose the column with the decision."})
    path = view.service.assets.dataset_path(file)
    try:
        inferred = ask(view.service.settings, "infer", path, label=label, name=_short(file.name))
        view.service.assets.set_schema(file.id, with_title(inferred["text"], file.name), project)
    except EvenhandError as error:
        return _label_page(view, file, {"label": str(error)}, label)
    return redirect(link("/new/columns", data=file.id))


@pages.post("/new/columns/text")
def save_text(view: CurrentView, form: Form) -> Response:
    """Save a schema that was corrected as text, if it fits the table."""
    subject = chosen_data(view.service, field_of(form, "data"), view.project)
    # Browsers send line ends as CR LF, whatever was there before.
    text = str(form.get("text") or "").replace("\r\n", "\n")
    try:
        if subject.file is not None and subject.domain == "table":
            set_schema(view, subject.known_as, SchemaText(text=text))
    except EvenhandError as error:
        if subject.schema is None:
            raise
        return _columns_page(view, subject, subject.schema.protected, {"text": str(error)}, text=text)
    return redirect(link("/new/columns", data=subject.known_as))


@pages.post("/new/columns")
def choose_protected(view: CurrentView, form: Form) -> Response:
    """Keep the ticks and go on to the model."""
    project = view.project
    subject = chosen_data(view.service, field_of(form, "data"), project)
    protected, favourable = fields_of(form, "protected"), field_of(form, "favourable")
    if subject.domain == "text" and subject.is_ready:
        return _choose_attribute(view, subject, protected, favourable)
    if subject.schema is None:
        return redirect(link("/new/columns", data=subject.known_as))
    chosen = favourable or subject.schema.label.favourable or ""
    errors = {} if protected else {"protected": "Tick at least one column."}
    if subject.file is not None and not chosen:
        errors["favourable"] = "Say which decision is the good one for the person."
    if errors:
        return _columns_page(view, subject, protected, errors, favourable=chosen, guessed=False)
    try:
        subject.schema.protected_indices(protected)
        if subject.file is not None:
            text = with_choices(subject.file.schema_text or "", protected, favourable or None)
            view.service.assets.set_schema(subject.known_as, text, project)
    except EvenhandError as error:
        return _columns_page(view, subject, protected, {"protected": str(error)}, favourable=chosen)
    return redirect(link("/new/model", data=subject.known_as, protected=protected))


def _texts_page(
    view: View, subject: ChosenData, errors: dict[str, str], *, again: bool = False, **kept: str
) -> Response:
    """Step 2 for texts: which columns are which, or, once that is known, what is protected; `kept` stood there."""
    status = 400 if errors else 200
    if again or not subject.is_ready:
        assert subject.file is not None
        preview = _preview(view, subject.file)
        given = {} if subject.texts is None else subject.texts.model_dump(include=set(TextColumns.model_fields))
        return view.page(
            "new_text_columns", section=SECTION, status=status, data=subject, preview=preview or Preview([], []),
            errors=errors, form=given | kept,
        )  # fmt: skip
    from evenhand.text.lexicon import load_lexicon

    favourable = None if subject.texts is None else subject.texts.favourable
    form = {"protected": kept.get("protected") or "", "favourable": kept.get("favourable") or favourable or ""}
    return view.page(
        "new_texts", section=SECTION, status=status, data=subject, errors=errors, form=form,
        attributes=list(load_lexicon().attributes.values()),
    )  # fmt: skip


@pages.post("/new/columns/texts")
def choose_columns(view: CurrentView, form: Form) -> Response:
    """Keep which columns of texts are which, if they fit the file."""
    subject = chosen_data(view.service, field_of(form, "data"), view.project)
    given = {name: str(form.get(name) or "") for name in ("text", "label", "split")}  # as they are, with their spaces
    if subject.file is not None and subject.domain == "text":
        if missing := [name for name in ("text", "label") if not given[name]]:
            return _texts_page(view, subject, dict.fromkeys(missing, "Choose a column."), again=True, **given)
        try:
            set_columns(view, subject.known_as, TextColumns(**given | {"split": given["split"] or None}))
        except EvenhandError as error:
            return _texts_page(view, subject, {"text": str(error)}, again=True, **given)
    return redirect(link("/new/columns", data=subject.known_as))


def _choose_attribute(view: View, subject: ChosenData, protected: list[str], favourable: str) -> Response:
    """Keep which label is good, and go on to the model."""
    errors = {} if len(protected) == 1 else {"protected": "Choose one attribute."}
    if subject.texts is not None and favourable not in subject.texts.classes:
        errors["favourable"] = "Say which decision is the good one for the author."
    if errors:
        return _texts_page(view, subject, errors, protected=next(iter(protected), ""), favourable=favourable)
    if subject.texts is not None:
        facts = subject.texts.model_copy(update={"favourable": favourable})
        view.service.assets.set_columns(subject.known_as, facts.model_dump_json(), facts.rows, view.project)
    return redirect(link("/new/model", data=subject.known_as, protected=protected))


def _short(name: str) -> str:
    """A data set's name as a plain word, for its schema: that of the file without its ending."""
    return re.sub(r"[^\w-]+", " ", name.partition(".")[0]).strip() or "table"


def _preview(view: View, file: DataFile) -> Preview | None:
    """The first rows, where they can be read: the page is of use without them."""
    try:
        return preview_of(view.service.settings, view.service.assets.dataset_path(file))
    except EvenhandError:
        return None
