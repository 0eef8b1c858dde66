"""New rows for a repaired model: what it does not read may be absent, what it reads raw goes to it as it is."""

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import evenhand
from evenhand.data.dataset import Dataset, encode
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from tests.models.test_repaired import OneHotNetwork, network
from tests.worlds.adapters import people_schema, raw_people

QUICK: dict[str, Any] = {"seeds": 10, "steps": 3, "epochs": 3, "repeats": 1, "half_width": 0.05}
COLUMNS = ["age", "sex", "job", "income"]  # that the pipeline reads
UNREAD = ["note", "member", "region_code"]


def table() -> pd.DataFrame:
    """Every job is a category of the schema, nobody's age is missing; a note is read by no model."""
    frame = raw_people()
    return frame.assign(note=np.where(frame["age"] % 2 == 0, "even", "odd"))


def schema_of(**columns: Any) -> Schema:
    content = people_schema().model_dump(mode="json", by_alias=True, exclude_unset=True)
    content["attribute"].append({"name": "note", "kind": "category", "categories": ["even", "odd"]})
    return Schema.parse(content | columns, where="the test")


@cache
def data() -> Dataset:
    return encode(schema_of(), table())


def rows() -> pd.DataFrame:
    """People who are not in the table, without a label."""
    return raw_people(rows=40, seed=9).drop(columns="approved").assign(note="even")


@cache
def pipeline() -> Any:
    """Ignores categories that it does not know, and fills in numbers that are missing."""
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["sex", "job"]),
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "income"]),
    )
    frame = table()[data().train]
    return make_pipeline(columns, LogisticRegression(C=10)).fit(frame[COLUMNS], frame["approved"])


@cache
def averaged() -> evenhand.Repair:
    return evenhand.repair(data(), "sex", "average", model=pipeline(), **QUICK)


def by_hand(scores: Any, frame: pd.DataFrame) -> NDArray[np.float64]:
    """(n, 2) the mean over both sexes, weighted as they are among the training rows; by pandas alone."""
    male = (table()[data().train]["sex"] == "male").mean()
    kind = table()["sex"].dtype
    women, men = (scores(frame.assign(sex=pd.Series(sex, frame.index, dtype=kind))) for sex in ("female", "male"))
    return np.asarray((1 - male) * women + male * men)


def bare(frame: pd.DataFrame) -> Any:
    return pipeline().predict_proba(frame[COLUMNS])


def test_only_the_columns_that_the_model_reads_must_be_there() -> None:
    said = averaged().predict_proba(rows())
    assert np.allclose(said, by_hand(bare, rows()), atol=1e-5)
    for absent in [*UNREAD, UNREAD]:
        assert np.array_equal(averaged().predict_proba(rows().drop(columns=absent)), said)
    nonsense = rows().assign(note="neither", member="perhaps", region_code=None)
    assert np.array_equal(averaged().predict_proba(nonsense), said)
    for column in ("age", "job", "income"):
        with pytest.raises(EvenhandError, match=f"no column '{column}', which the model reads"):
            averaged().predict(rows().drop(columns=column))


OTHER_SEXES: dict[str, Any] = {"absent": None, "unseen": "unheard of", "empty": "", "missing": pd.NA, "a number": 3}


def with_sex(frame: pd.DataFrame, how: str) -> pd.DataFrame:
    return frame.drop(columns="sex") if how == "absent" else frame.assign(sex=OTHER_SEXES[how])


@pytest.mark.parametrize("how", OTHER_SEXES)
def test_what_stands_in_a_protected_column_does_not_matter_to_an_average(how: str) -> None:
    assert np.array_equal(averaged().predict_proba(with_sex(rows(), how)), averaged().predict_proba(rows()))


@pytest.mark.parametrize("by", ["blind", "average"])
def test_nor_to_networks_of_ours_in_memory_and_from_files(by: str, tmp_path: Path) -> None:
    people = encode(people_schema(), raw_people())
    result = evenhand.repair(people, "sex", by, model=network(), out=tmp_path, **QUICK)
    frame = rows().drop(columns="note")
    for model in (result, evenhand.load_repaired(tmp_path)):
        said = model.predict_proba(frame)
        for how in OTHER_SEXES:
            assert np.array_equal(model.predict_proba(with_sex(frame, how)), said)
        with pytest.raises(EvenhandError, match="no column 'member'"):
            model.predict(frame.drop(columns=["sex", "member"]))


def test_the_pairing_of_a_network_reads_the_protected_column() -> None:
    people = encode(people_schema(), raw_people())
    result = evenhand.repair(people, "sex", "pairing", model=network(), **QUICK)
    with pytest.raises(EvenhandError, match="no column 'sex'"):
        result.predict(rows().drop(columns="sex"))
    with pytest.raises(EvenhandError, match="'unheard of' is not among the categories of 'sex'"):
        result.predict(rows().assign(sex="unheard of"))


def test_cells_that_the_schema_does_not_know_go_to_the_model_as_they_stand() -> None:
    frame = rows()
    odd = {
        "job": frame["job"].mask(frame.index < 9, "astronaut"),
        "age": frame["age"].astype(float).mask(frame.index % 3 == 0, np.nan),
        "income": frame["income"].where(frame.index > 3, 1e9),
    }
    for changed in (*({name: cells} for name, cells in odd.items()), odd):
        new = frame.assign(**changed)
        said = averaged().predict_proba(new)
        assert np.allclose(said, by_hand(bare, new), atol=1e-5)
        assert not np.allclose(said, averaged().predict_proba(frame), atol=1e-3)
    alone = [averaged().predict_proba(new[place : place + 1])[0] for place in range(12)]
    assert np.allclose(alone, said[:12], atol=1e-6)


def test_text_where_the_table_has_numbers_is_read_as_numbers() -> None:
    frame = rows().assign(age=rows()["age"].astype(float).mask(rows().index < 5, np.nan))
    as_text = frame.assign(age=frame["age"].astype(object).map(lambda age: None if pd.isna(age) else f"{age:g}"))
    assert np.allclose(averaged().predict_proba(as_text), averaged().predict_proba(frame), atol=1e-6)
    nobody = frame.assign(age=pd.Series([None] * len(frame), dtype=object))
    assert np.allclose(averaged().predict_proba(nobody), by_hand(bare, frame.assign(age=np.nan)), atol=1e-5)
    with pytest.raises(EvenhandError, match="column 'age': 'old' is no number"):
        averaged().predict(frame.assign(age="old"))


def test_a_file_keeps_what_it_does_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of code nothing is declared: that some columns never change its scores is found once and written down."""
    (tmp_path / "own_score.py").write_text(
        "import numpy as np\n"
        "def score(frame):\n"
        "    merit = frame['age'] / 30 + frame['income'] / 3 + 1.5 * (frame['sex'] == 'male')\n"
        "    return 1 / (1 + np.exp(4.3 - merit.fillna(4)))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("EVENHAND_TRUST", "own_score:score")
    result = evenhand.repair(data(), "sex", "average", model="own_score:score", out="fixed", **QUICK)
    frame = rows().assign(age=rows()["age"].astype(float).mask(rows().index < 5, np.nan))
    said = result.predict_proba(frame)
    import own_score  # type: ignore[import-not-found]

    assert np.allclose(said[:, 1], by_hand(own_score.score, frame), atol=1e-5)
    few = frame[["age", "income"]]
    for model in (result, evenhand.load_repaired("fixed", data=table())):
        assert np.array_equal(model.predict_proba(few), said)


class JobNetwork(OneHotNetwork):
    """Reads a column for each job too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = super().forward(x)
        return torch.stack([logits[:, 0], logits[:, 1] + x[:, 4]], dim=1)  # nurses are favoured


def test_a_category_that_nobody_knows_is_an_error_where_codes_are_read() -> None:
    people = encode(people_schema(), raw_people())
    result = evenhand.repair(people, "sex", "average", model=JobNetwork(), inputs="standard", output="logits", **QUICK)
    assert result.predict(rows().drop(columns="region_code")).tolist() == result.predict(rows()).tolist()
    with pytest.raises(EvenhandError, match="'astronaut' is not among the categories of 'job'"):
        result.predict(rows().assign(job="astronaut"))
    with pytest.raises(EvenhandError, match="'age' is missing in some rows"):
        result.predict(rows().assign(age=np.nan))


def test_categories_of_pandas_stay_such_with_new_ones_among_them() -> None:
    kinds = {name: table()[name].astype("category").dtype for name in ("sex", "job")}
    people = encode(schema_of(), table().astype(kinds))
    train = table().astype(kinds)[people.train]
    model = HistGradientBoostingClassifier(max_iter=20).fit(train[COLUMNS], train["approved"])
    result = evenhand.repair(people, "sex", "average", model=model, **QUICK)
    frame = rows().assign(job=rows()["job"].mask(rows().index < 9, "astronaut"))

    def scores(rows: pd.DataFrame) -> Any:
        return model.predict_proba(rows[COLUMNS].astype(dict.fromkeys(kinds, "category")))

    for new in (rows(), frame, frame.astype({"job": "category"})):
        assert np.allclose(result.predict_proba(new), by_hand(scores, new), atol=1e-5)


def test_frames_of_polars_and_arrow() -> None:
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    frame = rows().assign(age=rows()["age"].astype(float).mask(rows().index < 5, np.nan))
    said = averaged().predict_proba(frame)
    for other in (polars.from_pandas(frame), polars.from_pandas(frame).lazy(), pyarrow.Table.from_pandas(frame)):
        assert np.allclose(averaged().predict_proba(other), said, atol=1e-6)
    with pytest.raises(EvenhandError, match="Give a pandas, polars or Arrow table"):
        averaged().predict(frame.to_numpy())  # type: ignore[arg-type]


def test_a_missing_column_is_said_with_the_columns_that_are_there() -> None:
    with pytest.raises(EvenhandError) as said:
        averaged().predict(rows()[["age", "income"]].assign(jobs="clerk"))
    assert "no column 'job', which the model reads. Did you mean 'jobs' for 'job'?" in str(said.value)
    assert str(said.value).endswith("They have: age, income, jobs.")
    with pytest.raises(EvenhandError, match="several columns called 'job'"):
        averaged().predict(pd.concat([rows(), rows()[["job"]]], axis=1))


def test_a_table_in_memory_is_called_just_that() -> None:
    with pytest.raises(EvenhandError, match=r"^The table has no column 'note'"):
        encode(schema_of(name="table"), table().drop(columns="note"))


def test_arrays_that_may_not_be_written_are_copied_without_a_word() -> None:
    frame = raw_people()
    frame["income"] += 0.07
    people = encode(people_schema(), frame)

    def score(frame: pd.DataFrame) -> Any:
        scores = (1 / (1 + np.exp(4.3 - frame["income"] - (frame["sex"] == "male")))).to_numpy(dtype=np.float32)
        scores.flags.writeable = False
        return scores

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settings: dict[str, Any] = {"inputs": "standard", "output": "logits", "accept_poor_model": True}
        evenhand.repair(people, "sex", "average", model=OneHotNetwork(), **settings, **QUICK)
        evenhand.repair(people, "sex", "average", model=score, accept_poor_model=True, **QUICK)


def test_of_an_attribute_in_several_columns_only_those_that_are_read_are_needed() -> None:
    """Jobs stand in columns of 0 and 1, ages in years and in words; the model reads all jobs, and years only."""
    jobs = ["clerk", "nurse", "driver", "teacher"]
    words = ["young" if age < 40 else "old" for age in range(18, 81)]
    content = people_schema().model_dump(mode="json", by_alias=True, exclude_unset=True)
    content["attribute"][0]["along"] = {"age_cat": words}
    content["attribute"][2] = {
        "name": "job", "kind": "category", "columns": [f"is_{job}" for job in jobs], "categories": [*jobs, "none"],
    }  # fmt: skip

    def spread(frame: pd.DataFrame) -> pd.DataFrame:
        ones = {f"is_{job}": (frame["job"] == job).astype(int) for job in jobs}
        return frame.assign(age_cat=np.where(frame["age"] < 40, "young", "old"), **ones).drop(columns="job")

    people = encode(Schema.parse(content, where="the test"), spread(raw_people()))
    names = ["age", "income", *(f"is_{job}" for job in jobs), "sex"]
    columns = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    train = spread(raw_people())[people.train]
    model = make_pipeline(columns, LogisticRegression(max_iter=5000)).fit(train[names], train["approved"])
    result = evenhand.repair(people, "sex", "average", model=model, **QUICK)

    def scores(frame: pd.DataFrame) -> Any:
        return model.predict_proba(frame[names])

    new = spread(rows()).assign(age=rows()["age"] + 0.5)
    new.loc[:4, "is_nurse"] = new.loc[:4, "is_clerk"] = 1  # two jobs, which no sample of a search has
    expected = by_hand(scores, new)
    assert np.allclose(result.predict_proba(new), expected, atol=1e-5)
    assert np.allclose(result.predict_proba(new.drop(columns=["age_cat", "sex", "member"])), expected, atol=1e-5)
    with pytest.raises(EvenhandError, match="no column 'is_nurse', which the model reads"):
        result.predict(new.drop(columns="is_nurse"))
