"""How a model reads people is declared, stated, or borne out by the labels; it is never guessed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from torch import nn
from typer.testing import CliRunner

import evenhand
from evenhand.cli.main import app
from evenhand.errors import EvenhandError
from evenhand.runs.tried_model import TriedModel, try_model
from tests.worlds.verdict import NAMES, Logistic, files_in, fitted, loans, matrix_of, raw_loans, target_of

FRAME, DATA = raw_loans(), loans()
TARGET = target_of(FRAME)
CPU = torch.device("cpu")
MATRICES = {
    "raw": matrix_of(FRAME),
    "codes": DATA.codes.astype(np.float64),
    "values": np.column_stack([FRAME["age"], DATA.codes[:, 1:3], FRAME["income"], FRAME["noise"]]).astype(np.float64),
}


def subject(model: Any, **settings: Any) -> TriedModel:
    return try_model(DATA, model, ["sex"], CPU, **settings)


@pytest.mark.parametrize("way", MATRICES)
def test_the_labels_say_what_a_module_reads(way: str) -> None:
    model = fitted(MATRICES[way], TARGET)
    found = subject(model)
    assert (found.inputs["reading"], found.inputs["settled_by"]) == (way, "evidence")
    with torch.no_grad():
        bare = model(torch.tensor(MATRICES[way], dtype=torch.float32)).argmax(1).numpy()
    assert found.agreement["share"] == pytest.approx((bare == TARGET).mean(), abs=1e-9)
    assert found.inputs["agreement"][way] == max(found.inputs["agreement"].values())


@pytest.mark.parametrize("way", MATRICES)
def test_the_labels_say_what_an_unnamed_estimator_reads(way: str) -> None:
    model = HistGradientBoostingClassifier(max_iter=20, random_state=0).fit(MATRICES[way], TARGET)
    found = subject(model)
    assert (found.inputs["reading"], found.inputs["settled_by"]) == (way, "evidence")
    assert found.agreement["share"] == pytest.approx(model.score(MATRICES[way], TARGET))


def test_boosters_without_names_are_settled_too(tmp_path: Path) -> None:
    import lightgbm
    import xgboost

    booster = lightgbm.train({"objective": "binary", "verbose": -1}, lightgbm.Dataset(MATRICES["raw"], TARGET), 20)
    booster.save_model(tmp_path / "model.txt")
    assert subject(str(tmp_path / "model.txt")).inputs["reading"] == "raw"
    trained = xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(MATRICES["codes"], TARGET), 20)
    trained.save_model(tmp_path / "model.ubj")
    assert subject(str(tmp_path / "model.ubj")).inputs["reading"] == "codes"


def test_a_one_hot_network_is_known_by_its_width() -> None:
    hot = np.column_stack(
        [FRAME["age"], *(FRAME["sex"] == v for v in (1, 2)), *(FRAME["region"] == v for v in (11, 25, 70)),
         FRAME["income"], FRAME["noise"]]
    ).astype(np.float64)  # fmt: skip
    found = subject(fitted(hot, TARGET))
    assert found.inputs["reading"] == "onehot"
    assert set(found.inputs["agreement"]) == {"onehot", "standard"}


def test_names_and_statements_need_no_evidence() -> None:
    named = RandomForestClassifier(20, random_state=0).fit(FRAME[NAMES], FRAME["approved"])
    assert subject(named).inputs == {"reading": "columns by name", "settled_by": "file"}
    stated = subject(fitted(MATRICES["values"], TARGET), inputs="values").inputs
    assert stated == {"reading": "values", "settled_by": "user"}


def test_readings_that_are_the_same_are_one() -> None:
    data = loans()
    labels = (data.codes[:, 4] > 2).astype(np.int64)
    same = type(data)(**{**vars_of(data), "labels": labels})
    reads_the_noise = Logistic(np.array([0.0, 0.0, 0.0, 0.0, 1.0]), -2.5)  # its code is its value
    found = try_model(same, reads_the_noise, ["sex"], CPU)
    assert (found.inputs["reading"], found.inputs["settled_by"]) == ("codes", "same")


def vars_of(data: Any) -> dict[str, Any]:
    return {name: getattr(data, name) for name in data.__dataclass_fields__}


def test_a_model_that_no_reading_fits_clearly_is_refused_with_what_to_write() -> None:
    torch.manual_seed(1)
    untrained = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
    with pytest.raises(EvenhandError, match=r"what its columns are is not said.*codes.*values.*raw.*--inputs.*inputs="):
        subject(untrained)
    for run in (
        lambda: evenhand.audit(DATA, "sex", model=untrained),
        lambda: evenhand.measure(DATA, "sex", model=untrained),
        lambda: evenhand.assert_fair(untrained, DATA, "sex", failures=None),
        lambda: evenhand.repair(DATA, "sex", "average", model=untrained),
    ):
        with pytest.raises(EvenhandError, match="what its columns are is not said"):
            run()


def test_model_and_audit_give_one_verdict(tmp_path: Path) -> None:
    schema = files_in(tmp_path)
    torch.manual_seed(1)
    scripted = torch.jit.script(nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2)).eval())
    scripted.save(str(tmp_path / "net.pt"))  # type: ignore[no-untyped-call]
    words = [schema, "--model", str(tmp_path / "net.pt")]
    said = []
    for command in ("model", "audit", "measure", "compare"):
        done = CliRunner().invoke(app, [command, *words])
        assert isinstance(done.exception, EvenhandError), done.output
        said.append(str(done.exception))
    assert len(set(said)) == 1


@pytest.mark.filterwarnings("ignore")
def test_an_onnx_matrix_and_a_keras_model_are_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras")
    pytest.importorskip("onnx")
    torch.onnx.export(
        fitted(MATRICES["values"], TARGET).eval(), (torch.zeros(3, 5),), tmp_path / "net.onnx", dynamo=False,
        input_names=["x"], dynamic_axes={"x": {0: "n"}},
    )  # fmt: skip
    assert subject(str(tmp_path / "net.onnx")).inputs["reading"] == "values"
    normal = keras.layers.Normalization()
    normal.adapt(MATRICES["raw"].astype(np.float32))
    model = keras.Sequential([keras.Input((5,)), normal, keras.layers.Dense(1, activation="sigmoid")])
    model.compile("adam", "binary_crossentropy")
    keras.utils.set_random_seed(0)
    model.optimizer.learning_rate = 0.05
    model.fit(MATRICES["raw"].astype(np.float32), TARGET, epochs=10, verbose=0)
    assert subject(model).inputs["reading"] == "raw"
