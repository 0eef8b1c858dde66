"""A description that says which model it is and how it reads people."""

from pathlib import Path
from typing import Any

import pytest
import skops.io
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.data.schema import Label
from evenhand.errors import EvenhandError
from evenhand.models.adapters.description import open_described
from evenhand.models.adapters.features.entries import FeatureEntry
from evenhand.models.adapters.features.matrix import Features
from evenhand.models.adapters.torch.networks import wrap_module
from evenhand.models.loading import load_module
from evenhand.models.trial import conformance
from tests.worlds.adapters import codes_of, features_and_label, people

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
DATA = people()
FEATURES = """
[[feature]]
attribute = "income"
as = "standard"
mean = 5
scale = 2.5

[[feature]]
attribute = "sex"
as = "onehot"
drop_first = true

[[feature]]
attribute = "job"
as = "table"
table = [0.1, 0.7, -0.2, 0.4, 0]

[[feature]]
attribute = "age"
as = "minmax"
low = 18
high = 80
"""
ENTRIES = [
    FeatureEntry(attribute="income", as_="standard", mean=5, scale=2.5),
    FeatureEntry(attribute="sex", as_="onehot", drop_first=True),
    FeatureEntry(attribute="job", as_="table", table=[0.1, 0.7, -0.2, 0.4, 0]),
    FeatureEntry(attribute="age", as_="minmax", low=18, high=80),
]


def network(width: int, classes: int = 2) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, classes)).eval()


def described(folder: Path, text: str, width: int = 4, classes: int = 2) -> Path:
    torch.jit.script(network(width, classes)).save(folder / "net.pt")  # type: ignore[no-untyped-call]
    path = folder / "model.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_features_column_by_column(tmp_path: Path) -> None:
    path = described(tmp_path, 'file = "net.pt"\n' + FEATURES)
    adapter, name = load_module(DATA, path)
    assert name == str(path)
    torch.testing.assert_close(adapter(codes_of(DATA)), wrap_module(DATA, network(4), ENTRIES)(codes_of(DATA)))
    assert conformance(adapter, DATA).gradients


def test_a_usual_way_of_reading_and_the_callers_own(tmp_path: Path) -> None:
    width = Features(DATA, "onehot").width
    expected: Tensor = wrap_module(DATA, network(width), "onehot")(codes_of(DATA))
    said = open_described(DATA, described(tmp_path, 'file = "net.pt"\ninputs = "onehot"', width), None)
    asked = open_described(DATA, described(tmp_path, 'file = "net.pt"', width), "onehot")
    for adapter in (said, asked):
        torch.testing.assert_close(adapter(codes_of(DATA)), expected)


def test_classes_in_another_order(tmp_path: Path) -> None:
    data = people(3)
    plain, ordered = (
        open_described(data, described(tmp_path, f'file = "net.pt"\n{more}\n{FEATURES}', classes=3), None)
        for more in ("", 'classes = ["yes", "no", "later"]')
    )
    x = codes_of(data)
    assert torch.equal(ordered(x), plain(x)[:, [1, 2, 0]])  # no, later, yes
    assert conformance(ordered, data).gradients


def test_classes_that_the_model_itself_names(tmp_path: Path) -> None:
    features, labels = features_and_label(2)
    skops.io.dump(LogisticRegression().fit(features[["age", "income"]], labels), tmp_path / "net.skops")  # no, yes
    turned = Dataset(
        DATA.schema.model_copy(update={"label": Label(column=DATA.schema.label.column, values=["yes", "no"])}),
        DATA.codes,
        1 - DATA.labels,
        DATA.train,
    )
    plain, _ = load_module(turned, tmp_path / "net.skops")
    same, other = (tmp_path / f"{name}.toml" for name in ("same", "other"))
    same.write_text('file = "net.skops"\nclasses = ["no", "yes"]')
    assert torch.equal(open_described(turned, same, None)(codes_of(turned)), plain(codes_of(turned)))
    other.write_text('file = "net.skops"\nclasses = ["yes", "no"]')
    with pytest.raises(EvenhandError, match=r"classes = yes, no, but the model itself says .* are no, yes"):
        open_described(turned, other, None)


def test_classes_that_the_model_merely_counts_are_named_by_the_description(tmp_path: Path) -> None:
    features, labels = features_and_label(2)
    model = LogisticRegression().fit(features[["age", "income"]], (labels == "no").astype(int))  # 0 is yes
    skops.io.dump(model, tmp_path / "net.skops")
    (tmp_path / "d.toml").write_text('file = "net.skops"\nclasses = ["yes", "no"]')
    scores = open_described(DATA, tmp_path / "d.toml", None)(codes_of(DATA))
    expected = model.predict_proba(features[["age", "income"]])[:, ::-1]
    torch.testing.assert_close(scores, torch.tensor(expected.copy(), dtype=torch.float32))


@pytest.mark.parametrize("form", ["logits", "probabilities"])
def test_what_the_model_returns_can_be_said(tmp_path: Path, form: str) -> None:
    adapter = open_described(DATA, described(tmp_path, f'file = "net.pt"\noutput = "{form}"\n{FEATURES}'), None)
    assert adapter.output == form


def test_one_score_has_no_order_of_classes(tmp_path: Path) -> None:
    path = described(tmp_path, f'file = "net.pt"\nclasses = ["yes", "no"]\n{FEATURES}', classes=1)
    with pytest.raises(EvenhandError, match="one score for each class"):
        open_described(DATA, path, None)(codes_of(DATA))


def test_an_address_is_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(
        "evenhand.models.adapters.http.endpoint.open_described_endpoint", lambda *given: seen.append(given[1:])
    )
    path = described(tmp_path, 'url = "https://models.example/score"\nbatch = 100')
    open_described(DATA, path, None)
    assert seen == [({"url": "https://models.example/score", "batch": 100}, f"The description {path}")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file = ", "not valid TOML"),
        ("", "wrong at file: it is needed, but missing"),
        ('file = "net.pkl"', "no model file; use one of .skops"),
        ('file = "other.toml"', "no model file"),
        ('file = "absent.onnx"', "There is no file .*absent.onnx"),
        (
            'file = "net.pt"\nfeatures = 3',
            "wrong at features: there is no setting called 'features'; did you mean 'feature'?",
        ),
        ('file = "net.pt"\ninputs = "rows"', "inputs is 'rows'; use codes, values"),
        ('file = "net.pt"\ninputs = "codes"\n' + FEATURES, "keep one of them"),
        ('file = "net.pt"\nclasses = ["yes", "maybe"]\n' + FEATURES, "classes are yes, maybe"),
        ('file = "net.pt"\n' + FEATURES.replace("scale = 2.5", "scale = 0"), r"feature 1 \('income'\), scale"),
        ('file = "net.pt"\n' + FEATURES.replace('"table"', '"tabel"'), r"feature 3 \('job'\), as"),
        ('file = "net.pt"\n' + FEATURES.replace("table = [0.1,", "table = ["), "4 entries, but its domain has 5"),
        ('file = "net.pt"\n' + FEATURES.replace('"job"', '"jobs"'), "Did you mean 'job'"),
        ('url = "https://models.example"\nfile = "net.pt"', "neither file nor inputs"),
        ('name = "people"\n[label]\n[[attribute]]', "is a schema"),
    ],
)
def test_descriptions_that_are_wrong(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(EvenhandError, match=message):
        open_described(DATA, described(tmp_path, text), None)


def test_inputs_said_twice(tmp_path: Path) -> None:
    with pytest.raises(EvenhandError, match="leave out inputs = 'codes'"):
        open_described(DATA, described(tmp_path, 'file = "net.pt"\n' + FEATURES), "codes")
