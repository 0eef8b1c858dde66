"""Columns that belong together: one-hot groups, derived columns, the table's own split, columns that pass."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.data.attribute import Attribute
from evenhand.data.dataset import Dataset, load_dataset
from evenhand.data.infer.schema import Inferred, dataset_from, infer_file, infer_schema
from evenhand.data.schema import Schema
from evenhand.errors import EvenhandError
from evenhand.service.pages.data import set_aside

ROWS = 400
RACES = ["Black", "White", "Asian"]


def people(seed: int = 0, **columns: Any) -> pd.DataFrame:
    draws = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": draws.integers(18, 80, ROWS),
            "sex": draws.choice(["f", "m"], ROWS),
            "income": draws.integers(0, 5_000, ROWS) * 10,
        }
    )
    return frame.assign(**columns, y=draws.choice(["no", "yes"], ROWS))


def one_hot(joint: str = "_", values: list[str] = RACES, start: str = "Race", seed: int = 1) -> pd.DataFrame:
    which = np.random.default_rng(seed).integers(0, len(values), ROWS)
    return pd.DataFrame({f"{start}{joint}{value}": (which == code).astype(int) for code, value in enumerate(values)})


def attribute(found: Inferred, name: str) -> Attribute:
    return found.schema.attributes[found.schema.index(name)]


def check_people(data: Dataset, frame: pd.DataFrame) -> None:
    """The rows that a model is given are those of the table, in every column that the schema knows."""
    given_rows = data.decoder.frame(data.exact)
    assert sorted(given_rows.columns) == sorted(set(frame.columns) - {"y"})
    for column in given_rows.columns:
        assert given_rows[column].tolist() == frame[column].tolist(), column


@pytest.mark.parametrize("joint", ["_", "=", " ", ".", "__", ": "])
@pytest.mark.parametrize("kind", [int, bool, float])
def test_columns_of_one_hot_groups_are_one_attribute(joint: str, kind: type) -> None:
    frame = people(**one_hot(joint).astype(kind))
    found = infer_schema(frame, "y")
    race = attribute(found, "Race")
    assert (race.columns, race.categories) == ([f"Race{joint}{value}" for value in RACES], RACES)
    assert race.protected  # by its name
    data = dataset_from(frame, "y")
    check_people(data, frame)


@pytest.mark.parametrize("name", ["Race", "Race_Black", "race"])
def test_a_group_is_protected_by_its_name_or_by_one_of_its_columns(name: str) -> None:
    frame = people(**one_hot())
    if name == "race":
        with pytest.raises(EvenhandError, match="Did you mean 'Race'"):
            infer_schema(frame, "y", [name])
        return
    assert infer_schema(frame, "y", [name, "Race_White"]).schema.protected == ["Race"]


def test_people_of_no_group_are_a_category() -> None:
    flags = one_hot().drop(columns="Race_Asian")  # as with drop="first"
    found = infer_schema(people(**flags), "y")
    race = attribute(found, "Race")
    assert (race.columns, race.categories) == (["Race_Black", "Race_White"], ["Black", "White", "none"])
    check_people(dataset_from(people(**flags), "y"), people(**flags))
    none = int((flags.sum(axis=1) == 0).sum())
    assert any(f"{none:,} of {ROWS} rows have 0 in all" in note for note in found.notes["Race"])


def test_a_few_people_with_two_or_none_are_said_and_looked_at_as_they_are() -> None:
    flags = one_hot()
    flags.iloc[3] = 1
    flags.iloc[4] = 0
    frame = people(**flags)
    found = infer_schema(frame, "y")
    assert attribute(found, "Race").categories == RACES
    assert " ".join(found.notes["Race"]).count("1 row has") == 2
    data = dataset_from(frame, "y")
    check_people(data, frame)
    outside = data.codes[:, data.schema.index("Race")] > 2
    assert np.flatnonzero(outside).tolist() == [3, 4]


def test_flags_that_merely_share_a_word_are_no_group() -> None:
    draws = np.random.default_rng(2)
    flags: dict[str, Any] = {f"has_{thing}": draws.integers(0, 2, ROWS) for thing in ("car", "house", "dog")}
    rare = {"had_cancer": np.arange(ROWS) % 100 == 0, "had_stroke": np.arange(ROWS) % 100 == 1}
    found = infer_schema(people(**flags, **rare), "y")
    assert set(flags) | set(rare) <= set(found.schema.names)


def test_longer_starts_are_told_apart() -> None:
    flags = pd.concat([one_hot(start="job_type", seed=3), one_hot(start="job_level", seed=4)], axis=1)
    found = infer_schema(people(**flags), "y")
    assert {"job_type", "job_level"} <= set(found.schema.names)


def test_flags_go_along_with_the_column_that_says_it_all() -> None:
    flags = one_hot()
    frame = people(race=np.array(RACES)[flags.to_numpy().argmax(axis=1)], **flags)
    race = attribute(infer_schema(frame, "y"), "race")
    assert set(race.along) == set(flags.columns)
    check_people(dataset_from(frame, "y"), frame)


@given(st.integers(0, 2**16), st.integers(2, 5), st.booleans(), st.booleans())
@settings(max_examples=15, deadline=None)
def test_no_sample_ever_has_two_of_a_group(seed: int, values: int, dropped: bool, slips: bool) -> None:
    flags = one_hot(values=[f"v{code}" for code in range(values + 1)], seed=seed)
    flags = flags.iloc[:, int(dropped) :]
    if slips:
        flags.iloc[0] = 1
    frame = people(seed, **flags)
    data = dataset_from(frame, "y")
    check_people(data, frame)
    race = data.schema.index("Race")
    codes = np.repeat(data.clipped[:1], data.schema.attributes[race].size, axis=0)
    codes[:, race] = np.arange(len(codes))
    made = data.decoder.frame(codes)[list(flags.columns)].sum(axis=1)
    assert made.max() == 1
    assert (made == 0).sum() == dropped


def in_bins(ages: Any) -> Any:
    return np.array(["Less than 25", "25 - 45", "Greater than 45"])[np.digitize(ages, [25, 46])]


def test_a_derived_column_goes_along() -> None:
    frame = people()
    frame = frame.assign(age_cat=in_bins(frame["age"]))[frame["age"] != 30].reset_index(drop=True)
    found = infer_schema(frame, "y")
    age = attribute(found, "age")
    assert age.along == {"age_cat": in_bins(np.arange(age.domain[0], age.domain[1] + 1)).tolist()}
    assert "age_cat" not in found.schema.names
    assert "For 1 value that no row has" in " ".join(found.notes["age"])
    assert infer_schema(frame, "y", ["age_cat"]).schema.protected == ["age"]
    check_people(dataset_from(frame, "y"), frame)


@pytest.mark.parametrize(
    ("names", "codes"),
    [(["grade", "points"], [3, 7, 9]), (["job", "job_code"], ["c", "a", "b"])],
    ids=["codes", "word"],
)
def test_a_code_goes_along_with_its_name(names: list[str], codes: list[Any]) -> None:
    which = np.random.default_rng(5).integers(0, 3, ROWS)
    columns: dict[str, Any] = {names[1]: np.array(codes)[which], names[0]: np.array(["x", "y", "z"])[which]}
    frame = people(**columns)
    kept = names[0] if codes == [3, 7, 9] else names[1]  # the text, or the first
    assert list(attribute(infer_schema(frame, "y"), kept).along) == [name for name in names if name != kept]
    check_people(dataset_from(frame, "y"), frame)


def test_what_merely_happens_to_be_decided_stays_apart() -> None:
    draws = np.random.default_rng(6)
    unique = draws.permutation(ROWS * 50)[:ROWS]  # decides everything, and means nothing
    which = draws.integers(0, 3, ROWS)
    frame = people(
        account_size=unique, account_kind=draws.choice(["a", "b"], ROWS), floor=which * 2, rooms=which + 1,
        age_group_of_spouse=draws.choice(["young", "old"], ROWS),
    )  # fmt: skip
    found = infer_schema(frame, "y")
    assert not any(each.along for each in found.schema.attributes)


def test_missing_cells_go_along_too(tmp_path: Path) -> None:
    frame = people()
    frame["age_cat"] = in_bins(frame["age"])
    frame.loc[::7, ["age", "age_cat"]] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = infer_file(tmp_path / "t.csv", "y")
    age = attribute(found, "age")
    assert [value != value for value in age.along["age_cat"]] == [False] * (age.size - 1) + [True]
    (tmp_path / "t.toml").write_text(found.toml)
    data = load_dataset(str(tmp_path / "t.toml"))
    pd.testing.assert_frame_equal(
        data.decoder.frame(data.exact)[["age", "age_cat"]], pd.read_csv(tmp_path / "t.csv")[["age", "age_cat"]]
    )
    assert Schema.load(tmp_path / "t.toml").names == data.schema.names


def test_the_split_of_the_table_is_found_and_used(tmp_path: Path) -> None:
    frame = people(split=np.where(np.arange(ROWS) % 3, "train", "test"))
    found = infer_schema(frame, "y")
    assert (found.schema.split.column, "split" in found.schema.names) == ("split", False)
    data = dataset_from(frame, "y")
    assert data.train.tolist() == (frame["split"] == "train").tolist()
    assert data.schema.split.words.startswith("the table's own split: rows with split = train are for training")
    assert infer_schema(people(split=np.resize(["left", "right"], ROWS)), "y").schema.split.column is None


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({"column": "part"}, "needs both"),
        ({"train": "a"}, "needs both"),
        ({"column": "part", "train": "a", "seed": 1}, "leave out seed"),
        ({"column": "part", "train": "c"}, r"No row's 'part' is 'c'.*has 'a', 'b', '1'"),
        ({"column": "prt", "train": "a"}, "Did you mean 'part' for 'prt'"),
    ],
)
def test_splits_that_do_not_fit_are_refused(split: dict[str, Any], message: str) -> None:
    with pytest.raises(EvenhandError, match=message):
        _with_split(split)


@pytest.mark.parametrize("train", ["a", ["a", "b"], 1, ["b", 1]])
def test_splits_by_a_column(train: Any) -> None:
    wanted = [str(value) for value in (train if isinstance(train, list) else [train])]
    assert _with_split({"column": "part", "train": train}).train.tolist() == [
        value in wanted for value in ["a", "b", "1"] * 2
    ]


def _with_split(split: dict[str, Any]) -> Dataset:
    from evenhand.data.dataset import encode

    frame = pd.DataFrame({"part": ["a", "b", "1"] * 2, "u": range(6), "v": range(6), "y": ["0", "1"] * 3})
    number = {"kind": "number", "domain": [0, 5]}
    content = {
        "name": "t", "file": "t.csv", "label": {"column": "y", "values": ["0", "1"]}, "split": split,
        "attribute": [{"name": "u"} | number, {"name": "v"} | number],
    }  # fmt: skip
    return encode(Schema.parse(content, "the test"), frame)


def test_people_in_words_have_their_own_cells_or_none() -> None:
    frame = people(joined=pd.date_range("2024-01-01", periods=ROWS).astype(str))
    data = dataset_from(frame, "y")
    place = data.schema.index("joined")
    assert data.sentence(place, int(data.exact[7, place]), exact=True) == "joined 2024-01-08"
    assert place in data.shown(exact=True)
    assert place not in data.shown()
    assert "joined" not in data.describe(data.clipped[7])


def test_money_in_steps_of_one_costs_nothing() -> None:
    """Rules by value and by bounds on a domain of 13 million codes, without a text for each."""
    money = {"name": "pay", "kind": "number", "step": 1, "domain": [0, 13_000_000], "missing": {"value": "?"}}
    content: dict[str, Any] = {
        "name": "t", "file": "t.csv", "label": {"column": "y", "values": ["0", "1"]},
        "attribute": [money, {"name": "job", "kind": "category", "categories": ["a", "b"]}],
    }  # fmt: skip
    rules = [
        {"pay": 12_999_999, "job": "a"},
        {"pay": {"at_least": 12_000_000}, "job": "b"},
        {"pay": "unknown", "job": "b"},
    ]
    asked, text = [], Attribute.text

    def counted(self: Attribute, code: int) -> str:
        asked.append(code)
        return text(self, code)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Attribute, "text", counted)
        found = Schema.parse(content | {"impossible": rules}, "the test").rules
    assert [int(rule.codes[0].sum()) for rule in found] == [1, 1_000_001, 1]
    assert found[0].codes[0][12_999_999]
    assert found[2].codes[0][-1]
    assert len(asked) < 100_000


def test_the_form_of_a_schema_says_why_a_column_is_not_searched() -> None:
    frame = people(joined=pd.date_range("2024-01-01", periods=ROWS).astype(str), same=1, **one_hot())
    frame["split"] = np.where(np.arange(ROWS) % 3, "train", "test")
    found = infer_schema(frame, "y")
    shown = dict(set_aside(found.toml, found.schema, list(frame.columns)))
    assert list(shown) == ["joined", "same"]
    assert shown["joined"].startswith("It holds dates")
    assert shown["same"] == "It has the same value in every row, '1'"
