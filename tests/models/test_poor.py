"""Models that are no classifiers, or that know the labels no better than a constant: refused, or warned of first."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from torch import nn
from typer.testing import CliRunner

import evenhand
from evenhand.cli.main import app
from evenhand.errors import EvenhandError
from evenhand.gate.config import GateFile
from evenhand.gate.outputs.junit import junit
from evenhand.gate.outputs.markdown import markdown
from evenhand.gate.run import run_gate
from evenhand.runs.tried_model import TriedModel, try_model
from tests.worlds.verdict import NAMES, files_in, fitted, loans, matrix_of, raw_loans, target_of

FRAME, DATA = raw_loans(), loans()
TARGET, MATRIX = target_of(FRAME), matrix_of(FRAME)
CPU = torch.device("cpu")


def subject(model: Any, **settings: Any) -> TriedModel:
    return try_model(DATA, model, ["sex"], CPU, **settings)


def forest(frame: pd.DataFrame = FRAME, label: NDArray[Any] | None = None) -> RandomForestClassifier:
    return RandomForestClassifier(20, random_state=0).fit(frame[NAMES], FRAME["approved"] if label is None else label)


def by_rule(frame: pd.DataFrame) -> NDArray[np.float64]:
    """Probabilities that know the label badly and depend on the sex."""
    return np.where(frame["sex"] == 1, 0.9, 0.1)


# Regressors


@pytest.mark.parametrize("model", [RandomForestRegressor(5, random_state=0), LinearRegression()])
def test_regressors_of_scikit_learn_are_refused(model: Any) -> None:
    with pytest.raises(EvenhandError, match=r"is a regressor.*function of a data frame"):
        subject(model.fit(FRAME[NAMES], TARGET))


def test_boosters_that_regress_are_refused_and_logistic_ones_are_not() -> None:
    import lightgbm
    import xgboost

    of_lightgbm, of_xgboost = lightgbm.Dataset(MATRIX, TARGET), xgboost.DMatrix(MATRIX, TARGET)
    quiet = {"verbose": -1, "objective": "regression"}
    for model in (
        lightgbm.train(quiet, of_lightgbm, 5),
        xgboost.train({"objective": "reg:squarederror"}, of_xgboost, 5),
        xgboost.XGBRegressor(n_estimators=5).fit(FRAME[NAMES], TARGET),
        lightgbm.LGBMRegressor(n_estimators=5, verbose=-1).fit(FRAME[NAMES], TARGET),
    ):
        with pytest.raises(EvenhandError, match="Only classifiers can be audited"):
            subject(model)
    assert subject(xgboost.train({"objective": "reg:logistic"}, of_xgboost, 20)).agreement["share"] > 0.9


def test_numbers_outside_0_to_1_are_no_probabilities() -> None:
    linear = LinearRegression().fit(MATRIX, TARGET)

    def predicted(frame: pd.DataFrame) -> NDArray[np.float64]:
        return np.asarray(linear.predict(frame[NAMES].to_numpy(dtype=float))) * 10

    with pytest.raises(EvenhandError, match="does not look like a classifier"):
        subject(predicted)
    assert subject(predicted, output="logits", accept_poor_model=True).classifier.output == "logits"


def test_one_column_of_a_network_is_a_logit_only_if_the_labels_bear_it_out() -> None:
    logit = fitted(MATRIX, TARGET, columns=1)
    assert subject(logit, inputs="raw").agreement["share"] > 0.9
    linear = LinearRegression().fit(MATRIX, TARGET)
    regressor = fitted(MATRIX, TARGET, columns=1)
    regressor.linear.weight.data = torch.tensor(linear.coef_[None], dtype=torch.float32)
    regressor.linear.bias.data = torch.tensor([linear.intercept_], dtype=torch.float32)
    with pytest.raises(EvenhandError, match="cut at one half"):
        subject(regressor, inputs="raw")


# Models that know nothing


def test_a_model_no_better_than_a_constant_is_refused_everywhere() -> None:
    for run in (
        lambda: evenhand.audit(DATA, "sex", model=by_rule),
        lambda: evenhand.measure(DATA, "sex", model=by_rule),
        lambda: evenhand.assert_fair(by_rule, DATA, "sex", failures=None),
        lambda: evenhand.repair(DATA, "sex", "average", model=by_rule),
    ):
        with pytest.raises(
            EvenhandError, match=r"accuracy of the model on the data is .* always saying .* accept_poor_model"
        ):
            run()


def test_the_likely_reason_is_said() -> None:
    swapped = np.where(FRAME["approved"] == "yes", 0, 1)
    counted = LogisticRegression(max_iter=5000).fit(FRAME[NAMES], swapped)
    with pytest.raises(EvenhandError, match=r"classes seem to be in another order: as yes, no"):
        subject(counted)
    with pytest.raises(EvenhandError, match="It says ‘yes’ to all of them"):
        subject(lambda frame: np.ones(len(frame)))
    with pytest.raises(EvenhandError, match="columns in the right order"):
        subject(fitted(MATRIX[:, [4, 1, 2, 0, 3]], TARGET), inputs="raw")


def test_classes_in_another_order_are_found_where_a_model_is_still_better_than_a_constant() -> None:
    frame = FRAME.assign(approved=np.select([TARGET == 0, FRAME["noise"] < 3], ["no", "later"], "yes"))
    from evenhand.data.dataset import encode
    from evenhand.data.schema import Schema
    from tests.worlds.verdict import SCHEMA

    content = __import__("tomllib").loads(SCHEMA)
    content["label"]["values"] = ["no", "later", "yes"]
    data = encode(Schema.parse(content, where="the test"), frame)
    counted = RandomForestClassifier(20, random_state=0)
    counted.fit(frame[NAMES], frame["approved"].map({"no": 0, "yes": 1, "later": 2}))
    with pytest.raises(EvenhandError, match="as no, yes, later"):
        try_model(data, counted, ["sex"], CPU)


def test_an_accepted_poor_model_is_warned_of_first_in_every_output(tmp_path: Path) -> None:
    schema = files_in(tmp_path)
    (tmp_path / "poor_rule.py").write_text(
        "import numpy as np\ndef rule(frame):\n    return np.where(frame['sex'] == 1, 0.9, 0.1)\n"
    )
    words = [schema, "-p", "sex", "--model", "poor_rule:rule", "--accept-poor-model"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        patch.syspath_prepend(str(tmp_path))
        done = CliRunner().invoke(app, ["audit", *words, "--seeds", "5", "--steps", "5", "--out", "out"])
        assert done.exit_code == 0, done.output
        assert done.stdout.startswith("warning")
        summary = json.loads((tmp_path / "out" / "summary.json").read_text())
        assert "The accuracy of the model on the data is" in summary["warnings"][0]
        page = (tmp_path / "out" / "report.html").read_text()
        assert page.index("The accuracy of the model on the data is") < page.index("People affected")
        card = CliRunner().invoke(app, ["card", "out"])
        assert card.stdout.index("Warning") < card.stdout.index("Protected, changed"), card.output
        measured = CliRunner().invoke(app, ["measure", *words, "--half-width", "0.1", "--out", "measured"])
        assert measured.stdout.startswith("Warning: The accuracy of the model"), measured.output
        compared = CliRunner().invoke(app, ["compare", *words, "-m", "themis", "--budget", "seeds=5,steps=5"])
        assert compared.stdout.startswith("Warning: The accuracy of the model"), compared.output


def test_a_gate_refuses_a_poor_model_and_warns_where_it_is_accepted(tmp_path: Path) -> None:
    files_in(tmp_path)
    (tmp_path / "constant_rule.py").write_text(
        "import numpy as np\ndef rule(f):\n    return 0.4 + 0.01 * (f['sex'] == 1)\n"
    )
    (tmp_path / "gate.toml").write_text(
        """
        [[check]]
        name = "refused"
        data = "loans.toml"
        model = "constant_rule:rule"
        [[check]]
        name = "accepted"
        data = "loans.toml"
        model = "constant_rule:rule"
        accept_poor_model = true
        """
    )
    run = run_gate(GateFile.load(tmp_path / "gate.toml"))
    assert [check.status for check in run.checks] == ["error", "held"]
    assert run.exit_code == 2
    assert run.checks[1].sentence.startswith("Warning: The accuracy of the model")
    assert "Warning: The accuracy of the model" in markdown(run)
    assert "Warning: The accuracy of the model" in junit(run)


def test_other_networks_are_refused_for_a_wrong_order_of_columns() -> None:
    torch.manual_seed(0)
    turned = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2))
    with pytest.raises(EvenhandError, match=r"what its columns are is not said|accuracy of the model on the data"):
        subject(turned)


@pytest.mark.parametrize("order", [[3, 1, 2, 0, 4], [0, 2, 1, 3, 4], [1, 0, 2, 3, 4]])
def test_columns_in_each_others_place_are_found(order: list[int]) -> None:
    network = fitted(MATRIX[:, order], TARGET)
    forest = RandomForestClassifier(10, random_state=0).fit(MATRIX[:, order], TARGET)
    for model in (network, forest):
        with pytest.raises(EvenhandError, match=r"columns (seem to be )?in (another|the right) order|not said"):
            subject(model, inputs="raw")


def test_columns_in_their_place_are_not_suspected() -> None:
    for model in (fitted(MATRIX, TARGET), RandomForestClassifier(10, random_state=0).fit(MATRIX, TARGET)):
        assert subject(model, inputs="raw").warnings == []
