"""The built-in data: complete, and encoded as the study did."""

import numpy as np
import pytest

from evenhand.data.dataset import Dataset, load_dataset
from evenhand.errors import EvenhandError


def out_of_domain(data: Dataset) -> dict[str, int]:
    wrong = ((data.codes < data.schema.lower) | (data.codes > data.schema.upper)).sum(axis=0)
    return {name: int(count) for name, count in zip(data.schema.names, wrong, strict=True) if count}


def test_census(census: Dataset) -> None:
    assert census.codes.shape == (32_561 + 16_281, 13)
    assert census.train.sum() == 32_561
    assert census.train[:32_561].all()
    assert census.codes[0].tolist() == [3, 5, 3, 0, 2, 8, 3, 0, 1, 2, 0, 40, 0]
    assert census.labels[0] == 0
    assert census.labels[:32_561].sum() == 7_841
    assert census.schema.protected == ["age", "race", "sex"]
    assert census.codes[:, 2].max() == 74
    assert census.codes[:, 10].max() == 43
    assert (census.codes[:, 12] == 40).sum() == 1  # Holand-Netherlands, beyond the domain as in the study
    assert set(out_of_domain(census)) == {"workclass", "fnlwgt", "occupation", "capital-loss", "native-country"}


def test_census_in_words(census: Dataset) -> None:
    assert census.describe(census.codes[0]).startswith("age 30–39, state government, ")
    assert "male" in census.describe(census.codes[0]).split(", ")


def test_bank() -> None:
    bank = load_dataset("bank")
    assert bank.codes.shape == (45_211, 16)
    assert bank.labels.sum() == 5_289
    assert out_of_domain(bank) == {}
    assert bank.schema.protected == ["age"]
    # 58, management, married, tertiary, no, 2143, yes, no, unknown, 5, may, 261, 1, -1, 0, unknown
    assert bank.codes[0].tolist() == [5, 3, 0, 3, 0, 42, 1, 0, 0, 5, 4, 26, 1, 1, 0, 0]


def test_credit() -> None:
    credit = load_dataset("credit")
    assert credit.codes.shape == (1_000, 20)
    assert credit.labels.sum() == 700
    assert out_of_domain(credit) == {}
    assert sorted(credit.schema.protected) == ["age", "sex"]
    # The first row of german.data: A11 6 A34 A43 1169 A65 A75 4 A93 A101 4 A121 67 A143 A152 2 A173 1 A192 A201 1.
    assert credit.codes[0].tolist() == [0, 6, 4, 3, 11, 4, 4, 4, 1, 0, 4, 0, 6, 2, 1, 2, 2, 1, 1, 0]


def test_clipped_rows_lie_in_the_domain(census: Dataset) -> None:
    assert (census.clipped >= census.schema.lower).all()
    assert (census.clipped <= census.schema.upper).all()
    inside = (census.codes >= census.schema.lower) & (census.codes <= census.schema.upper)
    assert np.array_equal(census.clipped[inside], census.codes[inside])


def test_unknown_data_set_names_the_nearest() -> None:
    with pytest.raises(EvenhandError, match="Did you mean 'census'"):
        load_dataset("cencus")
