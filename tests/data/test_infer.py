"""Schemas that are inferred from tables: what is decided, and that it always fits the table it came from."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evenhand.data.dataset import load_dataset
from evenhand.data.decoding import Decoder
from evenhand.data.infer.schema import Inferred, dataset_from, infer_file, infer_schema
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from tests.worlds.inferred_tables import check_round_trip, tables

ROWS = 300
EXAMPLES = 40


def people() -> pd.DataFrame:
    draws = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "person_id": np.arange(ROWS) + 1000,
            "age": draws.integers(18, 80, ROWS),
            "gender": draws.choice(["f", "m"], ROWS),
            "income": draws.lognormal(10, 0.5, ROWS).round(2),
            "share": draws.integers(0, 100, ROWS) / 100,
            "zip": draws.choice([10115, 20095, 50667, 80331], ROWS),
            "branch": draws.choice([3, 17, 4711, 90210], ROWS),
            "risk": draws.choice(["low", "medium", "high"], ROWS),
            "member": draws.choice([True, False], ROWS),
            "joined": pd.date_range("2024-01-01", periods=ROWS).astype(str),
            "note": [f"called about the matter number {i} in the morning" for i in range(ROWS)],
            "country": "DE",
            "approved": draws.choice(["no", "yes"], ROWS),
        }
    )


def inferred(frame: pd.DataFrame, **options: Any) -> Inferred:
    return infer_schema(frame, **({"label": "approved"} | options))


def attributes(found: Inferred) -> dict[str, Any]:
    return {attribute.name: attribute for attribute in found.schema.attributes}


def with_column(values: list[Any], name: str = "it") -> pd.DataFrame:
    return people().head(len(values)).assign(**{name: pd.Series(values)})


@pytest.mark.parametrize("protected", [None, []])
def test_protected_attributes_that_were_guessed_are_said_to_be(protected: list[str] | None) -> None:
    found = inferred(people(), protected=protected)
    assert found.schema.protected == ["age", "gender"]
    assert found.protected_guessed
    assert "Protected attributes (GUESSED BY THEIR NAMES: please check): age, gender." in found.toml
    assert "Protected attributes (as given): risk." in inferred(people(), protected=["risk"]).toml


def test_kinds_and_types() -> None:
    found = attributes(inferred(people()))
    kinds = {name: (attribute.kind, attribute.type) for name, attribute in found.items()}
    assert kinds == {
        "age": ("number", "integer"),
        "gender": ("category", "text"),
        "income": ("number", "float"),
        "share": ("number", "float"),
        "zip": ("category", "integer"),
        "branch": ("category", "integer"),
        "risk": ("ordered", "text"),
        "member": ("category", "boolean"),
        **dict.fromkeys(["person_id", "joined", "note", "country"], ("pass", None)),
    }
    assert found["risk"].categories == ["low", "medium", "high"]
    assert found["zip"].categories == ["10115", "20095", "50667", "80331"]


def test_what_passes_and_why() -> None:
    found = inferred(people())
    reasons = {"person_id": "identifier", "joined": "dates", "note": "free text", "country": "same value in every row"}
    assert set(found.passed) == set(reasons)
    assert not found.set_aside
    for column, reason in reasons.items():
        assert reason in found.passed[column]
        assert reason in found.notes[column][0]
        assert attributes(found)[column].kind == "pass"
    data = dataset_from(people(), "approved")
    assert data.decoder.frame(data.exact)[list(reasons)].equals(people()[list(reasons)])


def test_numbers_keep_their_own_resolution() -> None:
    found = attributes(inferred(people()))
    frame = people()
    assert (found["age"].step, found["age"].domain) == (1, (frame["age"].min(), frame["age"].max()))
    assert (found["share"].step, found["share"].domain) == (0.01, (0, 99))
    assert 100 <= found["income"].size <= 501
    step = found["income"].step
    assert f"{step:e}"[0] in "125"
    assert float(f"{step:e}".split("e")[0]) in (1, 2, 5)


def test_steps_widths_and_bins_as_asked() -> None:
    found = attributes(inferred(people(), steps={"income": 100}, widths={"age": 5}))
    assert (found["income"].step, found["age"].width, found["age"].domain[0]) == (100, 5, 3)
    binned = attributes(inferred(people(), bins=10))
    data = dataset_from(people(), label="approved", bins=10)
    codes = data.codes[:, data.schema.index("income")]
    assert np.bincount(codes).tolist() == [30] * 10
    for code, typical in enumerate(binned["income"].typical):
        inside = people()["income"][codes == code]
        assert (inside <= typical).sum() == 15  # the median, as a value that occurs
    assert binned["gender"].categories == ["f", "m"]


def test_a_value_far_out_is_pointed_out() -> None:
    frame = pd.concat([people()] * 4, ignore_index=True)
    frame.loc[0, "income"] = 900_000
    found = inferred(frame)
    assert any("largest value, 900,000, is far beyond the 99.9th" in note for note in found.notes["income"])
    income = attributes(found)["income"]
    assert income.text(income.domain[1]) == "900,000"
    frame.loc[0, "income"] = 9e12  # so far that steps of the others' size cannot reach it
    income = attributes(inferred(frame))["income"]
    assert income.size < 501
    assert dataset_from(frame, "approved").codes[0].max() == income.domain[1]
    assert not any("far beyond" in note for note in inferred(people()).notes["age"])


def test_missing_values_of_categories_are_a_category() -> None:
    frame = with_column(["x", None, "y", "x"] * 10)
    job = attributes(inferred(frame))["it"]
    assert (job.missing.code, job.domain, job.texts()) == (2, (0, 2), ["x", "y", "unknown"])
    data = dataset_from(frame, "approved")
    assert data.codes[:4, data.schema.index("it")].tolist() == [0, 2, 1, 0]
    assert Decoder(data.schema).frame(data.codes)["it"].isna().sum() == 10


def test_missing_numbers_are_a_value_of_their_own() -> None:
    frame = with_column([10.0, None, 20.0, 30.0] * 10)
    found = inferred(frame)
    number = attributes(found)["it"]
    assert (number.missing.own, number.span, number.text(number.domain[1])) == (True, (10, 30), "unknown")
    assert any("a value of its own" in note for note in found.notes["it"])
    data = dataset_from(frame, "approved")
    assert (data.codes == data.clipped).all()
    assert Decoder(data.schema).frame(data.codes)["it"].equals(frame["it"])


def test_numbers_with_markers_for_what_is_missing(tmp_path: Path) -> None:
    frame = with_column(["7", "?", "12", "NA", "9", "n/a", "1"] * 8)
    frame.to_csv(tmp_path / "t.csv", index=False)
    number = attributes(infer_file(tmp_path / "t.csv", "approved"))["it"]
    assert (number.kind, number.type, number.domain) == ("number", "float", (1, 13))
    assert number.missing.value == ["?", "NA", "n/a"]
    words = with_column(["a", "?", "b", "NA"] * 10)
    words.to_csv(tmp_path / "w.csv", index=False)
    word = attributes(infer_file(tmp_path / "w.csv", "approved"))["it"]
    assert word.categories == ["?", "a", "b"]  # pandas reads NA as missing, and ? as a word
    assert word.missing.value == "NA"


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([0, 1], "Two values"),
        ([1, 2, 7000, 90210], "look like codes: only 4 different ones between 1 and 90,210"),
    ],
)
def test_whole_numbers_that_are_codes(values: list[int], reason: str) -> None:
    found = inferred(with_column(values * 20))
    assert attributes(found)["it"].type == "integer"
    assert attributes(found)["it"].kind == "category"
    assert any(reason in note for note in found.notes["it"])


@pytest.mark.parametrize("values", [[6, 12, 24, 36, 60], [1, 2, 3, 4, 5], [0, 500, 1000, 1500]])
def test_whole_numbers_that_are_amounts(values: list[int]) -> None:
    assert attributes(inferred(with_column(values * 20)))["it"].kind == "number"


def test_codes_may_be_counted_after_all() -> None:
    assert attributes(inferred(people(), steps={"branch": 1}))["branch"].kind == "number"


def test_rare_categories_are_grouped() -> None:
    values = [f"city{number:02}" for number in range(38) for _ in range(6)] + [f"rare{number}" for number in range(20)]
    found = inferred(with_column([*values, "rare7"]))
    city = attributes(found)["it"]
    assert city.size == 40
    assert city.categories[-2:] == ["rare7", ["rare0", "*"]]
    assert city.text(39) == "other"
    check_round_trip(found.schema)
    many = inferred(with_column([f"street {number}" for number in range(100)] * 2))
    assert "100 different values, and the 39 commonest cover 39% of the rows" in many.passed["it"]


@pytest.mark.parametrize(
    ("values", "order"),
    [
        (["High", "low", "Medium"], ["low", "Medium", "High"]),
        (["Bachelors", "HS-grad", "Masters", "9th"], ["9th", "HS-grad", "Bachelors", "Masters"]),
        (["65+", "18-24", "<18", "25-64"], ["<18", "18-24", "25-64", "65+"]),
        (["large", "small"], ["small", "large"]),
    ],
)
def test_known_orders(values: list[str], order: list[str]) -> None:
    found = attributes(inferred(with_column(values * 10)))["it"]
    assert (found.kind, found.categories) == ("ordered", order)


def test_pandas_categoricals_keep_their_order() -> None:
    values = pd.Categorical(["m", "s", "l"] * 10, categories=["s", "m", "l", "xxl"], ordered=True)
    frame = people().head(30).assign(it=values)
    found = attributes(inferred(frame))["it"]
    assert (found.kind, found.type, found.categories) == ("ordered", "category", ["s", "m", "l", "xxl"])
    decoded = Decoder(inferred(frame).schema).frame(dataset_from(frame, "approved").codes)
    assert decoded["it"].tolist() == values.tolist()
    assert decoded["it"].dtype == values.dtype


@pytest.mark.parametrize(
    ("column", "values", "favourable"),
    [
        ("approved", ["no", "yes"], "yes"),
        ("loan_default", ["0", "1"], "0"),
        ("grade", ["good", "poor"], "good"),
    ],
)
def test_the_favourable_label_is_a_guess(column: str, values: list[str], favourable: str) -> None:
    frame = people().drop(columns="approved").assign(**{column: values * (ROWS // 2)})
    found = infer_schema(frame, label=column)
    assert found.schema.label.favourable == favourable
    assert "is a guess" in found.toml
    assert infer_schema(frame, label=column, favourable=values[0]).schema.label.favourable == values[0]


def test_protected_attributes_are_given_or_guessed() -> None:
    guessed = inferred(people())
    assert guessed.schema.protected == ["age", "gender"]
    assert "GUESSED BY THEIR NAMES" in guessed.toml
    given = inferred(people(), protected=["gender", "risk"])
    assert given.schema.protected == ["gender", "risk"]
    assert "GUESSED" not in given.toml


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "aproved"}, "no column 'aproved'. Did you mean 'approved'"),
        ({"protected": ["gendr"]}, "Did you mean 'gender'"),
        ({"protected": ["approved"]}, "is the label"),
        ({"protected": ["country"]}, "'country' cannot be used: it has the same value"),
        (
            {"protected": ["person_id"]},
            r"an identifier: .* rows\. Choose another protected column; or .* give it a kind",
        ),
        ({"steps": {"note": 1}}, r"'note' cannot be used: it is free text: .* ask for no step or width of it\."),
        ({"steps": {"gender": 1}}, "does not hold numbers"),
        ({"steps": {"age": 0}}, "must be a number above 0"),
        ({"steps": {"age": 0.5}}, "holds whole numbers"),
        ({"steps": {"income": 1e-6}}, "too small"),
        ({"steps": {"age": 1}, "widths": {"age": 1}}, "a width and a step"),
        ({"bins": 1}, "at least two bins"),
        ({"label": "country"}, "is 'DE' in every row"),
        ({"label": "income"}, "different values, more than 20"),
        ({"favourable": "maybe"}, "called 'maybe'"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(EvenhandError, match=message):
        inferred(people(), **options)


def test_tables_that_cannot_do(tmp_path: Path) -> None:
    with pytest.raises(EvenhandError, match="no rows"):
        inferred(people().head(0))
    with pytest.raises(EvenhandError, match=r"two are needed\. Set aside: country"):
        inferred(people()[["gender", "country", "approved"]])
    frame = people()
    frame.loc[3, "approved"] = None
    with pytest.raises(EvenhandError, match=r"no value in 1 of 300 rows, first row 4\. Remove"):
        inferred(frame)
    with pytest.raises(EvenhandError, match="several columns called 'age'"):
        inferred(pd.concat([people(), people()[["age"]]], axis=1))
    twice = pa.table([[1, 2], [3, 4], ["a", "b"]], names=["age", "age", "approved"])
    pa.parquet.write_table(twice, tmp_path / "t.parquet")
    with pytest.raises(EvenhandError, match=r"^The table has several columns called 'age'\. Rename"):
        infer_file(tmp_path / "t.parquet", "approved")
    with pytest.raises(EvenhandError, match="The data are a list"):
        infer_schema([1, 2], label="a")


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_csv_files_with_any_separator(tmp_path: Path, separator: str, suffix: str) -> None:
    text = people().assign(note="one, two; three").to_csv(index=False, sep=separator)
    path = tmp_path / f"people{suffix}"
    path.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())
    found = infer_file(path, "approved")
    assert found.schema.separator == separator
    assert found.schema.name == "people"
    (tmp_path / "people.toml").write_text(found.toml)
    assert len(load_dataset(str(tmp_path / "people.toml")).codes) == ROWS


def test_spaces_after_separators_reach_the_model(tmp_path: Path) -> None:
    """A model that was trained on such a file has seen the blanks."""
    path = tmp_path / "p.csv"
    path.write_text("sex,age,y\n" + " m, 30, a\n f, 40, b\n" * 10)
    found = infer_file(path, "y")
    sex = attributes(found)["sex"]
    assert (sex.categories, sex.texts()) == ([" f", " m"], ["f", "m"])
    (tmp_path / "p.toml").write_text(found.toml)
    data = load_dataset(str(tmp_path / "p.toml"))
    decoded = Decoder(data.schema).frame(data.codes)
    pd.testing.assert_frame_equal(decoded, pd.read_csv(path)[["sex", "age"]])


def test_decoded_rows_are_what_pandas_read(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    frame = people()
    frame["flag"] = ["True", "", "False"] * (ROWS // 3)
    frame["level"] = ["1", "", "2"] * (ROWS // 3)
    frame["code_type"] = ["007", "12", "3"] * (ROWS // 3)
    frame.to_csv(path, index=False)
    found = infer_file(path, "approved", steps={"income": 0.01})
    (tmp_path / "people.toml").write_text(found.toml)
    data = load_dataset(str(tmp_path / "people.toml"))
    read = pd.read_csv(path)[data.schema.names]
    pd.testing.assert_frame_equal(data.decoder.frame(data.exact), read)


def test_frames_of_every_library_say_the_same() -> None:
    import datasets
    import polars

    wanted = inferred(people()).toml
    assert inferred(polars.from_pandas(people())).toml == wanted  # type: ignore[arg-type]
    assert infer_schema(polars.from_pandas(people()).lazy(), "approved").toml == wanted
    assert infer_schema(pa.Table.from_pandas(people()), "approved").toml == wanted
    saved = datasets.Dataset.from_pandas(people())
    assert infer_schema(saved, "approved").toml == wanted
    some = dataset_from(saved.select([5, 3, 2, 1]), "approved")
    assert some.codes[:, some.schema.index("age")].tolist() == people()["age"].loc[[5, 3, 2, 1]].tolist()
    with pytest.raises(EvenhandError, match="choose one of its splits"):
        infer_schema(datasets.DatasetDict({"train": saved}), "approved")


def unless_too_few(infer: Callable[[], Inferred]) -> Inferred | None:
    """None where too few columns of a random table are of use, which is the only excuse."""
    try:
        return infer()
    except EvenhandError as error:
        if "two are needed" in str(error):
            return None
        raise


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(tables(), st.sampled_from([None, 2, 10]))
def test_what_is_inferred_fits_its_table(frame: pd.DataFrame, bins: int | None) -> None:
    """From a frame: the text loads, the table is encoded within the domain, and each code leads back to itself."""
    found = unless_too_few(lambda: infer_schema(frame, "label", bins=bins))
    if found is None:
        return
    data = dataset_from(frame, "label", bins=bins)
    assert (data.codes == data.clipped).all()
    check_round_trip(found.schema)


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(frame=tables(), separator=st.sampled_from(",;\t|"))
def test_what_is_inferred_fits_its_file(
    tmp_path_factory: pytest.TempPathFactory, frame: pd.DataFrame, separator: str
) -> None:
    """The same from a CSV file, through the schema file."""
    folder = tmp_path_factory.mktemp("table")
    frame.to_csv(folder / "t.csv", index=False, sep=separator)
    found = unless_too_few(lambda: infer_file(folder / "t.csv", "label", separator=separator))
    if found is None:
        return
    (folder / "t.toml").write_text(found.toml, encoding="utf-8")
    data = load_dataset(str(folder / "t.toml"))
    assert data.schema.names == found.schema.names
    assert found.schema.model_dump_json() == Schema.load(folder / "t.toml").model_dump_json()
    assert (data.codes == data.clipped).all()
    check_round_trip(found.schema)


def test_a_column_without_a_name_is_set_aside_by_its_place() -> None:
    frame = pd.DataFrame({"": range(8), "age": [20, 30] * 4, "sex": list("mmff") * 2, "y": [0, 1] * 4})
    assert infer_schema(frame, "y").set_aside == {"column 1": "it has no name in the table"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"columns": ["gender", "age"]}, ["gender", "age"]),
        ({"columns": ["age", "approved", "gender"]}, ["gender", "age"]),
        ({"columns": ["age", "gender", "income"], "drop": ["income"]}, ["gender", "age"]),
    ],
)
def test_only_the_columns_that_are_asked_for(options: dict[str, Any], expected: list[str]) -> None:
    found = infer_schema(people(), "approved", **options)
    assert sorted(found.schema.names) == sorted(expected)
    assert found.schema.label.column == "approved"
    assert "Left out, as asked: " in found.toml
    data = dataset_from(people(), "approved", **options)
    assert sorted(data.schema.names) == sorted(expected)


def test_dropped_columns_are_left_out_and_nothing_else() -> None:
    every = infer_schema(people(), "approved")
    found = infer_schema(people(), "approved", drop=["age"])
    assert found.schema.names == [name for name in every.schema.names if name != "age"]
    assert "# Left out, as asked: age.\n" in found.toml
    assert "Left out" not in every.toml


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drop": ["approved"]}, "'approved' is left out, but also asked for"),
        ({"protected": ["gender"], "drop": ["gender"]}, "'gender' is left out, but also asked for"),
        ({"protected": ["gender"], "columns": ["age", "income"]}, "'gender' is left out, but also asked for"),
        ({"steps": {"income": 5}, "columns": ["age", "gender"]}, "'income' is left out, but also asked for"),
        ({"columns": ["aeg"]}, "There is no column 'aeg'. Did you mean 'age'"),
        ({"drop": ["aeg"]}, "There is no column 'aeg'. Did you mean 'age'"),
        ({"columns": ["age"]}, "two are needed"),
        ({"columns": []}, "two are needed"),
    ],
)
def test_columns_cannot_be_both_wanted_and_left_out(options: dict[str, Any], message: str) -> None:
    with pytest.raises(EvenhandError) as caught:
        infer_schema(people(), "approved", **options)
    assert message in str(caught.value)
