"""What may be asked of the service, and what may not."""

from typing import Any

import pytest

from evenhand.errors import EvenhandError
from evenhand.service.requests import AuditRequest, MeasureRequest, RepairRequest, request_of, title_of
from evenhand.settings import AuditSettings, RepairSettings

ID = "0123456789abcdef" * 2


@pytest.mark.parametrize("dataset", ["census", ID])
def test_data_are_built_in_or_an_id(dataset: str) -> None:
    assert request_of("audit", {"dataset": dataset}).dataset == dataset


@pytest.mark.parametrize(
    ("kind", "config", "words"),
    [
        ("audit", {"dataset": "../etc/passwd"}, "'dataset' is wrong: it must be the id of uploaded data"),
        ("audit", {"dataset": "people.toml"}, "'dataset' is wrong"),
        ("audit", {"dataset": ID.upper()}, "'dataset' is wrong"),
        ("audit", {}, "'dataset' is wrong: it is needed, but missing"),
        ("audit", {"dataset": "census", "model": "http://host/model"}, "'model' is wrong"),
        ("audit", {"dataset": "census", "model": "os:system"}, "'model' is wrong"),
        ("audit", {"dataset": "census", "model": f"{ID}\n"}, "'model' is wrong"),
        ("audit", {"dataset": "census", "method": "magin"}, "Did you mean 'margin'?"),
        ("audit", {"dataset": "census", "seeds": 0}, "'seeds' is wrong"),
        ("audit", {"dataset": "census", "out": "/tmp"}, "'out' is wrong: there is no setting called 'out'"),
        ("audit", {"dataset": "census", "inputs": "file.toml"}, "'inputs' is wrong"),
        ("measure", {"dataset": "census", "half_width": 0.7}, "'half_width' is wrong"),
        ("repair", {"dataset": "census", "by": ["magic"]}, "'by.0' is wrong"),
        (
            "repair",
            {"dataset": "census", "choose": "rate is low"},
            "'choose' is wrong: 'rate is low' is not a condition",
        ),
        ("train", {"dataset": "census"}, "There is no kind of run 'train'"),
    ],
)
def test_anything_else_is_refused_in_words(kind: str, config: dict[str, Any], words: str) -> None:
    with pytest.raises(EvenhandError) as caught:
        request_of(kind, config)
    assert words.lower() in str(caught.value).lower()


def test_a_request_survives_the_database() -> None:
    for kind, request in (
        ("audit", AuditRequest(dataset="census", protected=["sex"], max_seconds=1.5)),
        ("measure", MeasureRequest(dataset=ID, model=ID)),
        ("repair", RepairRequest(dataset="bank", by=["augment", "blind"])),
    ):
        assert request_of(kind, request.model_dump(mode="json")) == request


def test_defaults_are_those_of_the_command_line() -> None:
    """A request that names the data alone asks for what `evenhand audit` and `evenhand repair` do."""
    for request, config in (
        (AuditRequest(dataset="census"), AuditSettings(dataset="census", protected=["sex"])),
        (RepairRequest(dataset="census"), RepairSettings(dataset="census", protected=["sex"])),
    ):
        settings = request.given()
        assert settings == {name: getattr(config, name) for name in settings}


def test_titles_are_short_and_name_what_people_named() -> None:
    request = RepairRequest(dataset=ID, protected=["sex", "age"], by=["blind"])
    assert title_of("repair", request, "people", "my model") == "Repair of my model on people: sex, age by blind"
    audit = AuditRequest(dataset="census")
    assert title_of("audit", audit, "census") == "Audit of the built-in network on census: all protected attributes"
    assert len(title_of("audit", audit, "x" * 500)) == 200


def test_a_repair_that_release_0_1_kept_is_still_a_request() -> None:
    """It has null for the usual number of epochs; what is no setting, or too much, is still refused."""
    assert request_of("repair", {"dataset": "census", "epochs": None}) == RepairRequest(dataset="census")
    with pytest.raises(EvenhandError, match="at most 6"):
        request_of("repair", {"dataset": "census", "by": ["certified"] * 7})
    with pytest.raises(EvenhandError, match="at most 1 entry"):
        request_of("audit", {"dataset": "wiki", "protected": ["race", "religion"]})
    with pytest.raises(EvenhandError, match="at most 100 entries"):
        request_of("measure", {"dataset": "wiki", "protected": [f"a{number}" for number in range(101)]})
