"""A table of people and a model of them, to try evenhand on: people.csv and model.skops.

    python examples/make_people.py people.csv model.skops

The table is the census data that comes with evenhand, with its raw values. The model is a scikit-learn pipeline that
reads these raw columns and predicts the income class.
"""

import sys
from importlib import resources
from pathlib import Path

import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OrdinalEncoder

LABEL = "income"
NOT_ABOUT_PEOPLE = ["fnlwgt", "education-num"]  # the survey's weight, and education a second time
ROUNDS = 40


def read_people() -> pd.DataFrame:
    """48,842 people as the census recorded them, and the label."""
    source = resources.files("evenhand.data") / "builtin" / "census.csv.gz"
    with resources.as_file(source) as path:
        return pd.read_csv(path, keep_default_na=False).drop(columns=NOT_ABOUT_PEOPLE)


def fit_pipeline(people: pd.DataFrame) -> Pipeline:
    """Gradient boosting on raw columns: numbers as they are, categories by their codes."""
    features = people.drop(columns=LABEL)
    texts = [name for name in features if not pd.api.types.is_numeric_dtype(features[name])]
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    columns = ColumnTransformer([("categories", codes, texts)], remainder="passthrough")
    booster = HistGradientBoostingClassifier(max_iter=ROUNDS, random_state=0)
    return Pipeline([("columns", columns), ("booster", booster)]).fit(features, people[LABEL])


def main(table: str = "people.csv", model: str = "model.skops") -> None:
    """Write the table and the model."""
    import skops.io

    people = read_people()
    people.to_csv(table, index=False)
    skops.io.dump(fit_pipeline(people), model)
    print(f"{len(people):,} people in {Path(table)}, a pipeline in {Path(model)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
