"""A full audit of a model of every kind through the command line; its findings are put to the bare model once more."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import nn
from typer.testing import CliRunner

from evenhand.cli.main import app
from evenhand.data.dataset import Dataset, load_dataset
from evenhand.data.decoding import Decoder
from tests.models.test_http_endpoint import Server, score, serving
from tests.worlds.adapters import raw_people
from tests.worlds.doc_blocks import evenhand

Asked = Callable[[pd.DataFrame], NDArray[np.int64]]  # raw rows to classes, by the framework alone
SEX = {"female": 0.0, "male": 1.0}
COLUMNS = ["age", "sex", "region_code", "income"]  # what the networks read


class Case(NamedTuple):
    """A saved model, how to name it, and the bare model."""

    options: list[str]
    bare: Asked


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CSV file of people and the schema that the command infers from it."""
    folder = tmp_path_factory.mktemp("people")
    raw_people().to_csv(folder / "people.csv", index=False)
    words = ["schema", "infer", str(folder / "people.csv"), "--label", "approved", "--protected", "sex"]
    done = CliRunner().invoke(app, [*words, "-o", str(folder / "people.toml")])
    assert done.exit_code == 0, done.output
    return folder


def data_of(folder: Path) -> Dataset:
    return load_dataset(str(folder / "people.toml"))


def training(folder: Path) -> tuple[pd.DataFrame, pd.Series]:
    frame = pd.read_csv(folder / "people.csv")
    return frame.drop(columns="approved"), frame["approved"]


def pipeline(folder: Path, last: Any) -> Any:
    features, label = training(folder)
    texts = ["sex", "job", "region_code", "member"]
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), texts), (StandardScaler(), ["age", "income"])
    )
    return make_pipeline(columns, last).fit(features, label)


def matrix(frame: pd.DataFrame) -> NDArray[np.float32]:
    """What the networks read, made by hand."""
    sex = frame["sex"].map(SEX)
    region = frame["region_code"].map({11: 0.0, 12: 1.0, 20: 2.0, 35: 3.0})
    return np.stack([(frame["age"] - 50) / 20, sex, region, frame["income"]], axis=1).astype(np.float32)


def described(folder: Path, file: str) -> str:
    """A description of a network's file, column by column."""
    text = f"""
        file = "{file}"
        [[feature]]
        attribute = "age"
        as = "standard"
        mean = 50
        scale = 20
        [[feature]]
        attribute = "sex"
        as = "code"
        [[feature]]
        attribute = "region_code"
        as = "code"
        [[feature]]
        attribute = "income"
        as = "value"
    """
    path = folder / f"{file}.toml"
    path.write_text(text)
    return str(path)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    first = nn.Linear(4, 16)
    first.weight.data *= 2
    return nn.Sequential(first, nn.Tanh(), nn.Linear(16, 2)).eval()


def classes_of(module: nn.Module) -> Asked:
    def ask(frame: pd.DataFrame) -> NDArray[np.int64]:
        with torch.no_grad():
            return np.asarray(module(torch.from_numpy(matrix(frame))).argmax(1).numpy())

    return ask


def skops_file(folder: Path) -> Case:
    import skops.io

    model = pipeline(folder, HistGradientBoostingClassifier(max_iter=20, random_state=0))
    skops.io.dump(model, folder / "model.skops")
    return Case([str(folder / "model.skops")], lambda frame: model.predict_proba(frame).argmax(1))


def for_boosters(frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers, and a category as boosters learn it from a data frame."""
    return frame[["age", "income", "region_code"]].assign(sex=pd.Categorical(frame["sex"], categories=list(SEX)))


def lightgbm_file(folder: Path) -> Case:
    import lightgbm

    features, label = training(folder)
    model = lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1, random_state=0)
    model.fit(for_boosters(features), label == "yes")
    model.booster_.save_model(folder / "model.txt")
    return Case(
        [str(folder / "model.txt")],
        lambda frame: np.array(model.booster_.predict(for_boosters(frame)) > 0.5, dtype=np.int64),
    )


def xgboost_file(folder: Path) -> Case:
    import xgboost

    features, label = training(folder)
    rows = xgboost.DMatrix(for_boosters(features), label == "yes", enable_categorical=True)
    model = xgboost.train({"objective": "binary:logistic", "nthread": 1, "seed": 0}, rows, 20)
    model.save_model(folder / "model.ubj")

    def ask(frame: pd.DataFrame) -> NDArray[np.int64]:
        scores = model.predict(xgboost.DMatrix(for_boosters(frame), enable_categorical=True))
        return np.array(scores > 0.5, dtype=np.int64)

    return Case([str(folder / "model.ubj")], ask)


def torchscript_file(folder: Path) -> Case:
    module = network()
    torch.jit.trace(module, torch.zeros(3, 4)).save(str(folder / "net.pt"))  # type: ignore[no-untyped-call]
    return Case([described(folder, "net.pt")], classes_of(module))


def exported_file(folder: Path) -> Case:
    module = network()
    program = torch.export.export(module, (torch.zeros(3, 4),), dynamic_shapes=({0: torch.export.Dim("n")},))
    torch.export.save(program, folder / "net.pt2")
    return Case([described(folder, "net.pt2")], classes_of(module))


def onnx_file(folder: Path) -> Case:
    module = network()
    program = torch.export.export(module, (torch.zeros(3, 4),), dynamic_shapes=({0: torch.export.Dim("n")},))
    torch.onnx.export(program, f=str(folder / "net.onnx"), verbose=False)
    return Case([described(folder, "net.onnx")], classes_of(module))


def sklearn_onnx_file(folder: Path) -> Case:
    import onnxruntime
    import skl2onnx
    from skl2onnx.common.data_types import FloatTensorType

    features, label = training(folder)
    rows = features[["age", "income", "region_code"]].assign(sex=features["sex"].map(SEX))
    # 21 trees whose leaves are pure: with an even number, rounding would decide about ties of their votes.
    model = RandomForestClassifier(21, random_state=0).fit(rows.to_numpy(np.float32), label)
    content = skl2onnx.convert_sklearn(model, initial_types=[("x", FloatTensorType([None, 4]))])
    (folder / "forest.onnx").write_bytes(content.SerializeToString())
    session = onnxruntime.InferenceSession(str(folder / "forest.onnx"))
    path = folder / "forest.toml"
    entries = [("age", "value"), ("income", "value"), ("region_code", "table"), ("sex", "code")]
    text = 'file = "forest.onnx"\n'
    for name, way in entries:
        text += f'[[feature]]\nattribute = "{name}"\nas = "{way}"\n'
        text += "table = [11, 12, 20, 35]\n" if way == "table" else ""
    path.write_text(text)

    def ask(frame: pd.DataFrame) -> NDArray[np.int64]:
        raw = frame[["age", "income", "region_code"]].assign(sex=frame["sex"].map(SEX))
        _, scores = session.run(None, {"x": raw.to_numpy(np.float32)})
        return np.asarray(np.array([[row["no"], row["yes"]] for row in scores]).argmax(1))

    return Case([str(path)], ask)


def keras_file(folder: Path) -> Case:
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras

    keras.utils.set_random_seed(0)
    layers = [keras.Input((4,)), keras.layers.Dense(16, "tanh"), keras.layers.Dense(2, "softmax")]
    model = keras.Sequential(layers)
    model.layers[0].set_weights([2 * weight for weight in model.layers[0].get_weights()])
    model.save(folder / "net.keras")
    return Case([described(folder, "net.keras"), "--accept-poor-model"], classes_of(model))  # nobody has trained it


def own_function(folder: Path) -> Case:
    (folder / "my_model.py").write_text(
        "def yes(frame):\n    return 0.2 + 0.5 * (frame['sex'] == 'male') * (frame['income'] > 5)\n"
    )
    return Case(
        ["my_model:yes"], lambda frame: np.array((frame["sex"] == "male") & (frame["income"] > 5), dtype=np.int64)
    )


MAKERS = [
    skops_file, lightgbm_file, xgboost_file, torchscript_file, exported_file, onnx_file, sklearn_onnx_file, keras_file,
    own_function,
]  # fmt: skip
LOGITS = {torchscript_file, exported_file, onnx_file, xgboost_file}
WHITE_BOX = {torchscript_file, exported_file, onnx_file, keras_file}


def audited(folder: Path, options: list[str]) -> tuple[dict[str, Any], pd.DataFrame]:
    out = folder / f"run-{len(list(folder.iterdir()))}"
    words = ["audit", str(folder / "people.toml"), "--model", *options, "-p", "sex", "--seeds", "40", "--steps", "15"]
    done = CliRunner().invoke(app, [*words, "--out", str(out), "--quiet"])
    assert done.exit_code == 0, done.exception or done.output
    assert (out / "report.html").stat().st_size > 10_000
    return json.loads((out / "summary.json").read_text()), pd.read_parquet(out / "findings.parquet")


def check_again(data: Dataset, findings: pd.DataFrame, bare: Asked) -> None:
    """Both members of every finding, decoded and put to the bare model; and the label that it gives to each."""
    names = data.schema.names
    sample = findings[[f"sample_code.{name}" for name in names]].to_numpy(np.int32)
    witness = sample.copy()
    witness[:, names.index("sex")] = findings["witness_code.sex"]
    decoder, values = Decoder(data.schema), np.array(data.schema.label.values)
    assert (values[bare(decoder.frame(sample))] == findings["label"].astype(str)).all()
    assert (values[bare(decoder.frame(witness))] == findings["witness_label"].astype(str)).all()
    assert (findings["label"].astype(str) != findings["witness_label"].astype(str)).all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_a_full_audit(make: Callable[[Path], Case], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    case = make(folder)
    summary, findings = audited(folder, case.options)
    assert ("gradients" in summary["model"]["offers"]) == (make in WHITE_BOX)
    assert summary["config"]["method"] == ("margin" if make in WHITE_BOX else "probe")
    assert len(findings) > 20
    assert summary["model"]["output"] == ("logits" if make in LOGITS else "probabilities")
    check_again(data_of(folder), findings, case.bare)


def test_a_full_audit_of_an_endpoint(folder: Path) -> None:
    with serving() as server:
        assert isinstance(server, Server)
        summary, findings = audited(folder, [server.url])
        assert summary["model"]["asked"]["requests"] == len(server.requests)
        assert summary["model"]["name"] == server.url
    assert len(findings) > 20
    check_again(data_of(folder), findings, bare_endpoint)


@pytest.mark.parametrize("answer", ["random", "by batch"])
def test_an_endpoint_that_is_no_function_of_a_row_is_refused(answer: str, folder: Path) -> None:
    """What the adapter remembers must not hide it."""
    rng = np.random.default_rng(0)

    def fault(handler: Any, rows: list[dict[str, Any]]) -> bool:
        mean = np.mean([person["age"] for person in rows])
        scores = rng.random(len(rows)) if answer == "random" else [float(row["age"] > mean) for row in rows]
        handler.answer({"predictions": list(map(float, scores))})
        return True

    with serving(fault) as server:
        done = CliRunner().invoke(app, ["model", str(folder / "people.toml"), "--model", server.url])
    assert "in another batch" in str(done.exception)


def test_a_model_that_is_worse_than_one_label_is_remarked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "turned.py").write_text("def no(frame):\n    return 1.0 * (frame['income'] < 5)\n")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    words = ["model", "people.toml", "--model", "turned:no"]
    assert "classes seem to be in another order: as yes, no" in str(CliRunner().invoke(app, words).exception)
    shown = CliRunner().invoke(app, [*words, "--accept-poor-model"]).stdout
    assert shown.startswith("warning")
    assert "that is no more: are the classes" in " ".join(shown.split())


@pytest.mark.parametrize("trouble", ["gone", "nonsense", "fewer rows"])
def test_an_endpoint_that_fails_in_the_middle_leaves_what_was_found(trouble: str, folder: Path) -> None:
    asked = []

    def fault(handler: Any, rows: list[dict[str, Any]]) -> bool:
        asked.append(len(rows))
        if len(asked) <= 30:
            return False
        if trouble == "gone":
            handler.answer({"error": "maintenance"}, status=503, Retry_After="0")
        else:
            handler.answer("<html>" if trouble == "nonsense" else {"predictions": [score(row) for row in rows[1:]]})
        return True

    out = folder / f"gone-{trouble.replace(' ', '-')}"
    with serving(fault) as server:
        (folder / "endpoint.toml").write_text(f'url = "{server.url}"\nretries = 1\nwait = 0.01\nbatch = 100\n')
        words = ["audit", str(folder / "people.toml"), "--model", str(folder / "endpoint.toml"), "-p", "sex"]
        done = CliRunner().invoke(app, [*words, "--seeds", "60", "--steps", "400", "--out", str(out), "--quiet"])
    assert f"What was found until then is kept in {out}" in str(done.exception)
    assert json.loads((out / "summary.json").read_text())["search"]["stopped"] == "model-failed"
    findings = pd.read_parquet(out / "findings.parquet")
    assert len(findings) > 20
    check_again(data_of(folder), findings, bare_endpoint)


def bare_endpoint(frame: pd.DataFrame) -> NDArray[np.int64]:
    """What the server answers, without the server."""
    people = json.loads(frame.to_json(orient="records"))
    return np.array([score(person) > 0.5 for person in people], dtype=np.int64)


def test_a_spent_budget_is_no_error_of_the_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder / "spent"
    with serving() as server:
        (folder / "spent.toml").write_text(f'url = "{server.url}"\nbudget = 1000\nbatch = 100\n')
        words = ["audit", str(folder / "people.toml"), "--model", str(folder / "spent.toml"), "-p", "sex"]
        assert evenhand([*words, "--seeds", "60", "--steps", "400", "--out", str(out)]) == 2
    said = capsys.readouterr()
    assert "ended when the budget of rows for the model was spent" in " ".join(said.out.split())
    assert "error of the model" not in said.out
    assert f"The budget of 1,000 rows for {server.url} is spent" in said.err
    assert f"What was found until then is kept in {out}" in said.err
    assert json.loads((out / "summary.json").read_text())["search"]["stopped"] == "budget-spent"
