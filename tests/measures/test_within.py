"""Protected numbers that are compared within a distance: people and samples, against loops over pandas."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import evenhand
from evenhand.data.dataset import Dataset
from evenhand.data.infer.schema import dataset_from
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from evenhand.gate.check import run_check
from evenhand.measures.direction import label_variants
from evenhand.measures.people import audit_rates, discriminatory_rows, people_rates
from evenhand.models.classifier import Classifier
from evenhand.runs.compare import compare
from evenhand.runs.measure import measure
from evenhand.runs.measure_tables import tables_of
from evenhand.runs.repair import repair
from evenhand.search.check import check, check_near
from evenhand.search.space import TableSpace

ROWS = 300
SEXES = ["f", "m"]


def label_of(age: Any, sex: Any, pay: Any) -> Any:
    """Yes above a line in age that depends on the pay; a missing age counts as 40."""
    age = np.where(np.isnan(age), 40, age)
    return (age + 3 * sex + pay / 7 > 55.05) ^ (pay % 5 == 0)


def predict(frame: pd.DataFrame) -> NDArray[np.str_]:
    says_yes = label_of(frame["age"].to_numpy(float), (frame["sex"] == "m").to_numpy(), frame["pay"].to_numpy())
    return np.where(says_yes, "yes", "no")


class OfCodes(nn.Module):
    """The same from codes, for a domain in steps of `step`; the code after the last is a missing age."""

    def __init__(self, step: float, missing: float) -> None:
        super().__init__()
        self.step, self.missing = step, missing

    def forward(self, x: Tensor) -> Tensor:
        age = torch.where(x[:, 0] == self.missing, 40.0, x[:, 0] * self.step)
        above = age + 3 * x[:, 1] + x[:, 2] / 7 - 55.05
        yes = torch.sigmoid(torch.where(x[:, 2] % 5 == 0, -above, above).double())
        return torch.stack([1 - yes, yes], dim=1)


def people(seed: int, missing: bool = True) -> pd.DataFrame:
    draws = np.random.default_rng(seed)
    ages = draws.integers(180, 800, ROWS) / 10
    if missing:
        ages[draws.random(ROWS) < 0.1] = np.nan
    frame = pd.DataFrame({"age": ages, "sex": draws.choice(SEXES, ROWS), "pay": draws.integers(0, 90, ROWS)})
    return frame.assign(label=predict(frame))


def dataset(frame: pd.DataFrame, step: float = 2.0) -> Dataset:
    return dataset_from(frame, "label", ["age", "sex"], steps={"age": step}, name="t")


def hits_by_hand(
    data: Dataset, frame: pd.DataFrame, within: float, protected: list[str]
) -> tuple[list[bool], list[bool]]:
    """For each person: whether some value near their own, or any value, of the domain changes the label."""
    low, high = data.schema.attributes[0].span
    step = data.schema.attributes[0].step
    assert step is not None
    domain = (
        [*(np.arange(low, high + 1) * step), np.nan] if frame["age"].isna().any() else np.arange(low, high + 1) * step
    )
    near, anywhere = [], []
    for age_of, sex_of, pay, label in frame.itertuples(index=False):
        own: Any = age_of
        ages = list(domain) if "age" in protected else [own]
        sexes = SEXES if "sex" in protected else [sex_of]
        variants = pd.DataFrame([(age, sex, pay) for age in ages for sex in sexes], columns=["age", "sex", "pay"])
        other = predict(variants) != label
        values = variants["age"].to_numpy(float)
        close = (np.abs(values - own) <= within) | (np.isnan(values) & np.isnan(own))
        near.append(bool((other & close).any()))
        anywhere.append(bool(other.any()))
    return near, anywhere


@pytest.mark.parametrize("protected", [["age"], ["age", "sex"]])
@pytest.mark.parametrize(("within", "seed"), [(2.0, 0), (7.5, 1), (30.0, 2)])
def test_people_are_compared_near_their_own_numbers(within: float, seed: int, protected: list[str]) -> None:
    frame = people(seed)
    result = evenhand.audit(
        dataset(frame), protected, model=predict, within={"age": within}, seeds=5, steps=2, iterations=1
    )
    near, anywhere = hits_by_hand(result.data, frame, within, protected)
    rates = result.summary["data_rate"]
    assert rates["all"]["discriminatory"] == sum(near)
    assert rates["all_values"]["discriminatory"] == sum(anywhere)
    assert rates["all"]["population"] == f"all rows of t, compared within {within:g} of their own age"
    assert rates["all_values"]["population"] == "all rows of t, compared with all values of age"
    assert f"--within age={within:g}" in result.folder.joinpath("report.html").read_text()


def findings_are_near(result: Any, within: float) -> bool:
    found = result.findings
    _, high = result.data.schema.attributes[0].span
    ages = [
        np.where(found[f"{who}_code.age"] > high, np.nan, found[f"{who}_code.age"] * 2.0)
        for who in ("sample", "witness")
    ]
    near = np.abs(ages[0] - ages[1]) <= within
    return bool((near | (np.isnan(ages[0]) & np.isnan(ages[1]))).all())


@pytest.mark.parametrize("method", ["margin", "adf", "probe", "aequitas-random"])
def test_findings_of_searches_are_near(method: str) -> None:
    data = dataset(people(3))
    model = OfCodes(2.0, data.schema.attributes[0].domain[1])
    settings: dict[str, Any] = {"seeds": 40, "steps": 30, "iterations": 3, "method": method, "inputs": "codes"}
    limited = evenhand.audit(data, ["age"], model=model, within={"age": 6}, **settings)
    assert len(limited.findings)
    assert findings_are_near(limited, 6)
    assert not findings_are_near(evenhand.audit(data, ["age"], model=model, **settings), 6)


@pytest.mark.parametrize("protected", [["age"], ["age", "sex"]])
def test_samples_are_compared_near_their_own_values(protected: list[str]) -> None:
    data = dataset(people(4)).compared_within({"age": 8}, protected)
    space = TableSpace(data.schema, protected)
    missing = float(data.schema.attributes[0].domain[1])
    model = Classifier(OfCodes(2.0, missing), output="probabilities")
    x = space.uniform(torch.rand((400, 3), generator=torch.Generator().manual_seed(0)))
    variants = space.variants(x)
    labels = model.outputs(variants.view(-1, 3)).labels.view(400, -1)
    ages = torch.where(variants[..., 0] == missing, torch.nan, variants[..., 0] * 2)
    own = torch.where(x[:, 0] == missing, torch.nan, x[:, 0] * 2)[:, None]
    near = ((ages - own).abs() <= 8) | (ages.isnan() & own.isnan())
    wanted = ((labels != model.outputs(x).labels[:, None]) & near).any(dim=1)
    checked = check(model, space, x)
    assert checked.hit.tolist() == wanted.tolist()
    assert 0 < wanted.sum() < 400
    assert not checked.ruled_out.any()
    assert near[torch.arange(400), checked.pair][checked.hit].all()
    assert label_variants(model, space, x).hit.tolist() == wanted.tolist()
    for guess in (torch.zeros(400, dtype=torch.long), torch.full((400,), space.variant_count - 2)):
        guessed = check_near(model, space, x, space.combination(x), guess)
        assert guessed.hit.tolist() == wanted.tolist()
        assert near[torch.arange(400), guessed.pair][guessed.hit].all()


def test_both_figures_are_measured_and_a_gate_holds_the_near_one() -> None:
    frame = people(5)
    data = dataset(frame)
    near, anywhere = (np.array(each) for each in hits_by_hand(data, frame, 4, ["age"]))
    limited = data.compared_within({"age": 4}, ["age"])
    space = TableSpace(limited.schema, ["age"])
    module = evenhand.audit(data, ["age"], model=predict, seeds=2, steps=1, iterations=1)
    assert module.summary["data_rate"].keys() == {"all", "held_out"}
    outcome = run_check(predict, data, ["age"], within={"age": 4}, max_rate=0.5, search=False, failures=None)
    assert outcome.rate is not None
    assert outcome.rate.discriminatory == near.sum() < anywhere.sum()
    assert "within 4 of their own age" in outcome.rate.population
    measured = measure(data, ["age"], model=predict, within={"age": 4}, half_width=0.05)
    by_name = {rate["name"]: rate for rate in measured.summary["measured"][0]["populations"]}
    for part, mask in (("train", data.train), ("held_out", ~data.train)):
        assert by_name[part]["discriminatory"] == near[mask].sum()
        assert by_name[f"{part}_all_values"]["discriminatory"] == anywhere[mask].sum()
    assert "within 4 of their own age" in by_name["uniform"]["population"]
    assert "held_out_all_values" in str(measured)
    assert "held-out rows, all values" in str(tables_of(measured.summary))
    codes = Classifier(OfCodes(2.0, float(data.schema.attributes[0].domain[1])), output="probabilities")
    assert people_rates(codes, space, limited).keys() == by_name.keys() - {"uniform", "neighbourhood"}
    assert audit_rates(space, limited, discriminatory_rows(codes, space, limited)).keys() >= {"all", "all_values"}


@pytest.mark.parametrize(
    ("within", "message"),
    [
        ({"sex": 2}, "needs a protected attribute that is a number"),
        ({"pay": 2}, r"within is 2 for 'pay'.*Protected: age, sex"),
        ({"agee": 2}, "Did you mean 'age'"),
        ({"age": 0}, "within"),
        ({"age": float("inf")}, "above 0"),
    ],
)
def test_limits_that_mean_nothing_are_refused(within: dict[str, float], message: str) -> None:
    with pytest.raises(EvenhandError, match=message):
        evenhand.audit(dataset(people(0)), ["age", "sex"], model=predict, within=within)


def test_a_schema_says_it_too() -> None:
    number = {"kind": "number", "domain": [0, 9]}
    content: dict[str, Any] = {
        "name": "t", "file": "t.csv", "label": {"column": "y", "values": ["0", "1"]},
        "attribute": [{"name": "a", "within": 3} | number, {"name": "b"} | number],
    }  # fmt: skip
    space = TableSpace(Schema.parse(content, "x"), ["a"])
    near = space.near(torch.tensor([5])[:, None], torch.arange(10))
    assert near is not None
    assert near[0].tolist() == [2 <= value <= 8 for value in range(10)]
    content["attribute"][1] |= {"kind": "category", "categories": ["u", "v"], "domain": [0, 1], "within": 1}
    with pytest.raises(EvenhandError, match="within is a distance between numbers"):
        Schema.parse(content, "x")


def test_a_repair_says_the_near_figure() -> None:
    frame = people(6)
    data = dataset(frame)
    near = np.array(hits_by_hand(data, frame, 4, ["age"])[0])[~data.train]
    result = repair(data, ["age"], "average", model=predict, within={"age": 4}, seeds=3, steps=2, half_width=0.05)
    original = next(row for row in result.summary["rows"] if row["name"] == "original")
    rate = original["people"]
    assert (rate["discriminatory"], rate["samples"]) == (near.sum(), len(near))
    assert "--within age=4" in result.summary["command"]


def test_a_comparison_keeps_to_the_limit_and_says_so() -> None:
    data = dataset(people(3)).compared_within({"age": 6}, ["age"])
    model = OfCodes(2.0, data.schema.attributes[0].domain[1])
    found = compare(data, ["age"], ["margin"], model=model, budget="seeds=20,steps=20", device="cpu", inputs="codes")
    assert found.outcomes[0].findings > 0
    assert found.title.endswith("changing age, compared within 6 of their own age")
