"""A description of a model (TOML): which file or address it is, how it reads people, what it returns."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from torch import nn

from evenhand.choices import OutputForm
from evenhand.data.attribute import as_text
from evenhand.data.dataset import Dataset
from evenhand.data.schema import Label
from evenhand.errors import EvenhandError
from evenhand.mistakes import validated
from evenhand.models.adapters.base import Adapter, class_order, in_order
from evenhand.models.adapters.features.entries import WAYS, FeatureEntry, Inputs
from evenhand.models.loading import OPENERS, load_module
from evenhand.toml_files import read_toml


class Description(BaseModel):
    """A model file beside the description.

    `inputs` is one of the usual ways to read people; [[feature]] entries instead say it column by column. `classes` is
    the order of the model's scores, where it is not that of label.values in the schema.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: Annotated[str, Field(min_length=1)]
    inputs: str | None = None
    features: Annotated[list[FeatureEntry], Field(alias="feature")] = []
    output: OutputForm = "auto"
    classes: Annotated[list[str], BeforeValidator(as_text)] = []

    @model_validator(mode="after")
    def _consistent(self) -> "Description":
        if self.inputs is not None and self.features:
            raise ValueError("inputs and [[feature]] both say how the model reads people; keep one of them")
        if self.inputs is not None and self.inputs not in WAYS:
            raise ValueError(f"inputs is '{self.inputs}'; use {', '.join(WAYS)}, or [[feature]] entries")
        suffix = Path(self.file).suffix
        if suffix not in OPENERS or suffix == ".toml":
            known = ", ".join(name for name in OPENERS if name != ".toml")
            raise ValueError(f"file is '{self.file}', which is no model file; use one of {known}")
        return self


def open_described(data: Dataset, path: Path, inputs: Inputs) -> nn.Module:
    """The model that a description names: a file beside it, or an address."""
    content, _ = read_toml(path, "description")
    if "url" in content:
        if "file" in content or inputs is not None:
            raise EvenhandError(f"The description {path} names an address (url), which takes neither file nor inputs.")
        from evenhand.models.adapters.http.endpoint import open_described_endpoint

        return open_described_endpoint(data, content, f"The description {path}")
    described = _validated(content, path)
    if inputs is not None and (described.inputs or described.features):
        raise EvenhandError(f"The description {path} says how the model reads people; leave out inputs = '{inputs}'.")
    way: Any = described.features or described.inputs or inputs
    adapter, _ = load_module(data, path.parent / described.file, way)
    if not isinstance(adapter, Adapter):
        raise EvenhandError(f"The description {path} names {described.file}, which needs none: name the file itself.")
    adapter.output = described.output if described.output != "auto" else adapter.output
    adapter.stated = described.output != "auto"
    return _with_classes(adapter, described.classes, data.schema.label, path)


def _with_classes(adapter: Adapter, classes: list[str], label: Label, path: Path) -> Adapter:
    """The model with its classes in the schema's order. One that names them itself is in that order already."""
    if not classes or classes == adapter.own_classes:
        return adapter
    order = class_order(classes, label)
    if adapter.own_classes is not None:
        raise EvenhandError(
            f"The description {path} says classes = {', '.join(classes)}, but the model itself says that its classes "
            f"are {', '.join(adapter.own_classes)}. Leave classes out."
        )
    return in_order(adapter, order)


def _validated(content: dict[str, Any], path: Path) -> Description:
    if "attribute" in content and "label" in content:
        raise EvenhandError(f"{path} is a schema and not the description of a model. Name it as the data set.")
    return validated(Description, content, f"description {path}")
