"""Columns whose kind is easily mistaken: codes, telephone numbers, and numbers in other notations."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evenhand.data.dataset import load_dataset
from evenhand.data.decoding import Decoder
from evenhand.data.infer.schema import Inferred, infer_file, infer_schema
from evenhand.data.infer.words import words_of
from evenhand.data.notation import Notation, number_text
from evenhand.errors import EvenhandError
from tests.worlds.inferred_tables import check_round_trip

ROWS = 120


def table(**columns: Any) -> pd.DataFrame:
    draws = np.random.default_rng(0)
    frame = pd.DataFrame({"hours": draws.integers(10, 60, ROWS), "y": draws.choice(["no", "yes"], ROWS)})
    return frame.assign(**{name: np.resize(np.array(values, dtype=object), ROWS) for name, values in columns.items()})


def infer_csv(folder: Path, frame: pd.DataFrame, **options: Any) -> Inferred:
    """From a CSV file, with the schema saved beside it."""
    frame.to_csv(folder / "t.csv", index=False, **options)
    found = infer_file(folder / "t.csv", "y")
    (folder / "t.toml").write_text(found.toml, encoding="utf-8")
    return found


def attribute(found: Inferred, name: str) -> Any:
    return found.schema.attributes[found.schema.index(name)]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("gender", [0, 1, 2, 9]),
        ("marital_status", [1, 2, 3, 4, 5]),
        ("Religion", [1, 2, 3]),
        ("Familienstand", [1, 2, 3, 4]),
        ("answer", [0, 1, 2, 9]),
        ("reply", [-9, 1, 2, 3]),
        ("choice", [1, 2, 3, 4, 99]),
    ],
)
def test_codes_of_a_category_are_no_numbers(tmp_path: Path, name: str, values: list[int]) -> None:
    """An audit would change people to a gender of 5 that does not exist."""
    found = infer_csv(tmp_path, table(**{name: values}))
    it = attribute(found, name)
    assert (it.kind, it.type, it.categories) == ("category", "integer", [str(value) for value in sorted(values)])
    assert "codes" in " ".join(found.notes[name])


@pytest.mark.parametrize(
    ("name", "values"),
    [("age", [30, 40, 50]), ("children", [0, 1, 2, 3, 4, 5, 6, 7, 9]), ("rating", [1, 2, 3, 4, 5]), ("gap", [0, 1, 3])],
)
def test_small_numbers_stay_numbers(name: str, values: list[int]) -> None:
    assert attribute(infer_schema(table(**{name: values}), "y"), name).kind == "number"


def test_words_are_suggested_for_codes(tmp_path: Path) -> None:
    frame = table(sex=[0, 1], grade=["a", "b", "a"]).assign(y=np.arange(ROWS) % 2)
    found = infer_csv(tmp_path, frame)
    assert found.toml.count('# words = ["…", "…"]\n') == 2  # of sex and of the label
    filled = found.toml.replace('# words = ["…", "…"]', 'words = ["this", "that"]')
    (tmp_path / "t.toml").write_text(filled)
    schema = load_dataset(str(tmp_path / "t.toml")).schema
    assert schema.attributes[schema.index("sex")].texts() == schema.label.words == ["this", "that"]
    assert schema.attributes[schema.index("grade")].words == []


def test_telephone_numbers_are_identifiers() -> None:
    draws = np.random.default_rng(1)
    frame = table().assign(
        contact=draws.integers(10**9, 10**10, ROWS),
        phone=draws.integers(1000, 10**7, ROWS),
        wealth=draws.integers(10**6, 10**8, ROWS),
    )
    found = infer_schema(frame, "y")
    assert {"contact", "phone"} <= set(found.passed)
    assert "identifier" in found.passed["phone"]
    assert attribute(found, "wealth").kind == "number"


def test_codes_keep_the_spelling_of_the_table(tmp_path: Path) -> None:
    found = infer_csv(tmp_path, table(plz=["01067", "10115", "01067", "80331"]))
    assert attribute(found, "plz").texts() == ["01067", "10115", "80331"]
    data = load_dataset(str(tmp_path / "t.toml"))
    decoded = Decoder(data.schema).frame(data.codes)["plz"]
    assert decoded.tolist() == pd.read_csv(tmp_path / "t.csv")["plz"].tolist()


@pytest.mark.parametrize(
    ("salary", "separator", "notation", "number"),
    [
        (["40676,54", "1200,5", "900"], ";", Notation(","), 40676.54),
        (["40.676,54", "1.200,50", "900"], ";", Notation(",", "."), 40676.54),
        (["40,676.54", "1,200.50", "900"], ",", Notation(".", ","), 40676.54),
        (["3,000", "2,000", "500"], ",", Notation(".", ","), 3000),
        (["40,676", "0,2", "?"], ",", Notation(","), 40.676),
        (["40676.54", "1200.5", "900"], ",", Notation(), 40676.54),
    ],
)
def test_notations_are_found_out(
    tmp_path: Path, salary: list[str], separator: str, notation: Notation, number: float
) -> None:
    found = infer_csv(tmp_path, table(salary=salary), sep=separator)
    assert found.schema.notation == notation
    assert ("decimal sign" in found.toml) == (notation != Notation())
    data = load_dataset(str(tmp_path / "t.toml"))
    it = attribute(found, "salary")
    assert it.kind == "number"
    assert abs(data.codes[0, data.schema.index("salary")] * it.step - number) <= it.step / 2
    with_points = table(salary=[number, 1.0]).astype({"salary": float}).assign(y=["no", "yes"] * (ROWS // 2))
    with_points.to_parquet(tmp_path / "t.parquet")  # its numbers have no notation
    (tmp_path / "p.toml").write_text(found.toml.replace('file = "t.csv"', 'file = "t.parquet"'))
    typed = load_dataset(str(tmp_path / "p.toml"))
    assert typed.codes[0, typed.schema.index("salary")] == data.codes[0, data.schema.index("salary")]


def test_a_notation_that_does_not_fit_all_columns_is_not_taken(tmp_path: Path) -> None:
    prices = [f"{number},5" for number in range(20)]
    found = infer_csv(tmp_path, table(price=prices, share=["0.25", "1.5"]))
    assert found.schema.notation == Notation()
    assert attribute(found, "share").kind == "number"
    assert "written in several ways, such as '0,5'" in found.passed["price"]


WRITTEN = [
    st.integers(0, 10**6).map(lambda number: f"{number / 100:.2f}".replace(".", ",")),
    st.integers(0, 10**7).map(lambda number: f"{number:,}"),
    st.integers(0, 10**7).map(lambda number: f"{number:,}".replace(",", ".") + ",5"),
    st.sampled_from(["0.5", "1.5", "2"]),
    st.sampled_from(["+1,5", "1e3", "inf", "1,", "-3,75"]),
    st.sampled_from(["$5", "$7", "9"]),
    st.sampled_from(["01", "1", "001", "7"]),
    st.sampled_from(["1", "2", "9", "-9", "NA"]),
]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    columns=st.lists(
        st.one_of(*(st.lists(values, min_size=20, max_size=20) for values in WRITTEN)), min_size=3, max_size=3
    ),
    separator=st.sampled_from(",;"),
)
def test_any_mixture_fits_its_file(
    tmp_path_factory: pytest.TempPathFactory, columns: list[list[str]], separator: str
) -> None:
    folder = tmp_path_factory.mktemp("table")
    frame = table(**dict(zip(("gender", "plz", "a, b"), columns, strict=True)), kind=["u", "v"])
    found = infer_csv(folder, frame, sep=separator)
    data = load_dataset(str(folder / "t.toml"))
    assert (data.codes == data.clipped).all()
    check_round_trip(found.schema)


@pytest.mark.parametrize(
    ("values", "sign"),
    [(["$41000", "$900"], "currency"), (["41.000 €", "?", "900 €"], "currency"), (["45%", "7.5 %"], "percent")],
)
@pytest.mark.parametrize("different", [2, ROWS])
def test_signs_in_numbers_are_a_reason_to_set_aside(
    tmp_path: Path, values: list[str], sign: str, different: int
) -> None:
    more = [
        value.replace("9", str(number)).replace("7", str(number)) for number in range(different) for value in values
    ]
    found = infer_csv(tmp_path, table(size=["s", "m"], salary=more[:ROWS]))
    assert f"its numbers have a {sign} sign" in found.passed["salary"]
    assert "take the sign out of the table" in found.passed["salary"]


def test_values_that_no_notation_reads_are_named(tmp_path: Path) -> None:
    infer_csv(tmp_path, table(salary=["40676,54", "1200,5"]), sep=";")
    text = (tmp_path / "t.csv").read_text()
    (tmp_path / "t.csv").write_text(text.replace("1200,5", "1200.5", 1))
    with pytest.raises(EvenhandError, match=r"Row 2, column 'salary': '1200\.5' is not a number"):
        load_dataset(str(tmp_path / "t.toml"))


@pytest.mark.parametrize(
    ("marker", "remark"), [("inf", "reads an infinite number as such"), ("unknown", "as text unless"), ("NA", "")]
)
def test_what_pandas_makes_of_missing_numbers(tmp_path: Path, marker: str, remark: str) -> None:
    found = infer_csv(tmp_path, table(score=["1.5", marker, "2.5"]))
    said = [note.partition("pandas")[2] for note in found.notes["score"] if "Missing" in note]
    read = pd.read_csv(tmp_path / "t.csv")["score"]
    assert (read.dtype == np.float64) == ("as text" not in remark)
    assert remark in said[0]
    assert bool(said[0]) == bool(remark)


@pytest.mark.parametrize(
    ("options", "remark"),
    [
        ({}, "; the domain counts steps: 12 x 500 to 278 x 500."),
        (
            {"widths": {"pay": 1000}},
            "; the domain counts bins: the first starts at 5 x 1,000, the last at 138 x 1,000.",
        ),
        ({"steps": {"pay": 1}}, ", median 62,900."),
        ({"bins": 4}, ", median 62,900."),
    ],
    ids=["own step", "width", "single steps", "bins"],
)
def test_what_the_domain_counts_is_said(options: dict[str, Any], remark: str) -> None:
    found = infer_schema(table(pay=range(5_900, 138_901, 19_000)), "y", **options)
    assert found.notes["pay"][0].endswith(remark)
    assert remark in " ".join(found.toml.split("\n# "))


def test_numbers_in_remarks_have_one_notation() -> None:
    found = infer_schema(table(balance=[-1234567, *range(50), 98765432109]), "y")
    assert "From −1,234,567 to 98,765,432,109" in found.notes["balance"][0]
    assert [number_text(number) for number in (-0.0, -1.5, 1e15, 1234.5)] == ["0", "−1.5", "1e+15", "1,234.5"]


@pytest.mark.parametrize(
    ("values", "favourable"),
    [
        (["ja", "nein"], "ja"), (["non", "oui"], "oui"), (["no", "sí"], "sí"), (["alpha", "beta"], None),
        (["Bewilligt", "zz"], "Bewilligt"),
    ],
)  # fmt: skip
def test_no_favourable_value_rather_than_any(values: list[str], favourable: str | None) -> None:
    found = infer_schema(table(grade=["a", "b"]).assign(y=np.resize(values, ROWS)), "y")
    assert found.schema.label.favourable == favourable
    assert ("is not known: please write it" in found.label_notes[-1]) == (favourable is None)
    assert ('# favourable = "beta"\n' in found.toml) == (favourable is None)


def test_protected_names_in_other_languages() -> None:
    names = ["Geschlecht", "alter", "sexe", "âge", "edad", "sexo", "Konfession", "Staatsangehörigkeit", "Wohnort"]
    found = infer_schema(table(**{name: ["1", "2"] for name in names}), "y")
    assert found.schema.protected == names[:-1]
    assert words_of("birthCountry_2") == {"birth", "country"}


def test_columns_with_commas_are_renamed_and_that_is_said() -> None:
    frame = table(**{"race, ethnicity": ["a", "b"], "sex": ["f", "m"]})
    found = infer_schema(frame, "y", ["race ethnicity"])
    assert found.schema.protected == ["race ethnicity"]
    assert "The column is called 'race, ethnicity'" in " ".join(found.notes["race ethnicity"])
    assert "# The column is called 'race, ethnicity'" in found.toml
    with pytest.raises(
        EvenhandError, match=r"no column 'race'.*write 'race ethnicity' for the column 'race, ethnicity'"
    ):
        infer_schema(frame, "y", ["race", "ethnicity"])


def test_a_column_that_is_quite_another_is_not_suggested() -> None:
    frame = table(opened=["a", "b"], Race=["a", "b"])
    with pytest.raises(EvenhandError, match=r"no column 'gender'\. Known"):
        infer_schema(frame, "y", ["gender"])
    with pytest.raises(EvenhandError, match="Did you mean 'Race'"):
        infer_schema(frame, "y", ["RACE"])


def test_days_in_digits_are_dates() -> None:
    days = pd.date_range("1995-03-01", periods=ROWS, freq="37D").strftime("%Y%m%d").astype(int)
    found = infer_schema(table(seen=days, paid=days + 81), "y")  # the days of a month go up to 31
    assert "it holds dates, written as 19950301" in found.passed["seen"]
    assert attribute(found, "paid").kind == "number"
    assert attribute(infer_schema(table(seen=days), "y", steps={"seen": 10_000}), "seen").kind == "number"


@pytest.mark.parametrize(
    ("name", "values", "passes"),
    [
        ("pid", np.arange(ROWS) * 7 + 31, True),
        ("nummer", np.arange(200) + 5_000, True),
        ("wages", np.arange(200) * 13 + 900, False),  # each once, but with gaps
        ("age", np.arange(200) + 1, True),  # from 1 on, it counts
        ("age", np.arange(200) + 18, False),
        ("score", np.arange(60) + 20, False),  # too few to be sure
    ],
)
def test_numbers_that_only_count_pass(name: str, values: Any, passes: bool) -> None:
    draws = np.random.default_rng(3)
    values = draws.permutation(values)
    frame = pd.DataFrame({"a": draws.integers(0, 9, len(values)), "b": draws.integers(0, 9, len(values)), name: values})
    found = infer_schema(frame.assign(y=np.resize(["no", "yes"], len(values))), "y")
    assert (name in found.passed) == passes


@pytest.mark.parametrize(
    ("name", "values", "favourable"),
    [
        ("stroke", ["0", "1"], None),
        ("heart_disease", ["no", "yes"], None),
        ("default", ["1", "2"], None),  # which of them is bad?
        ("two_year_recid", ["0", "1"], "0"),
        ("credit_risk", ["bad", "good"], "good"),
        ("hired", ["0", "1"], "1"),
    ],
)
def test_that_something_bad_happens_is_never_favourable(name: str, values: list[str], favourable: str | None) -> None:
    frame = table(job=["a", "b", "c"]).rename(columns={"y": name})
    frame[name] = np.resize(values, ROWS)
    assert infer_schema(frame, name).schema.label.favourable == favourable


def test_a_step_that_is_too_small_is_told_one_that_is_not() -> None:
    frame = table(money=np.linspace(-9e6, 9e6, ROWS).round(2), job=["a", "b", "c"])
    with pytest.raises(EvenhandError, match=r"too many codes. Use 1 or more"):
        infer_schema(frame, "y", steps={"money": 0.01})
    assert attribute(infer_schema(frame, "y", steps={"money": 1}), "money").step == 1
