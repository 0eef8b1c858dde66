"""How fast people are checked as they stand in the table, beside a check of the same rows moved into the domain.

Both look at every row with every protected value, in one run, taking turns; the ratio is that of the middle times.

    python -m bench.people_check
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from bench.timing import in_turn
from evenhand.data.dataset import BUILTIN, Dataset, load_dataset
from evenhand.data.infer.schema import infer_file
from evenhand.measures.people import check_people
from evenhand.models.classifier import Classifier
from evenhand.models.devices import one_thread
from evenhand.runs.tried_model import try_model
from evenhand.search.check import check
from evenhand.search.space import TableSpace

TURNS = 5
ROWS = 20_000


def census_as_a_user_has_it(folder: Path) -> tuple[Dataset, pd.DataFrame]:
    """The census table with the schema that `schema infer` writes, and the frame that pandas reads."""
    frame = pd.read_csv(BUILTIN / "census.csv.gz").head(ROWS)
    frame.to_csv(folder / "census.csv", index=False)
    label = load_dataset("census").schema.label.column
    (folder / "census.toml").write_text(infer_file(folder / "census.csv", label, ["sex"]).toml)
    return load_dataset(str(folder / "census.toml")), frame


def models(data: Dataset, frame: pd.DataFrame) -> dict[str, object]:
    """A pipeline and trees on the raw columns."""
    label = data.schema.label.column
    people = frame[[attribute.column for attribute in data.schema.attributes if attribute.kind != "pass"]]
    texts = [name for name in people if not pd.api.types.is_numeric_dtype(people[name])]
    pipeline = make_pipeline(
        make_column_transformer((OneHotEncoder(handle_unknown="ignore"), texts), remainder="passthrough"),
        LogisticRegression(max_iter=50),
    )
    numbers = [name for name in people if name not in texts]
    trees = make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts), ("passthrough", numbers)
        ),
        HistGradientBoostingClassifier(max_iter=20),
    )
    return {"logistic regression": pipeline.fit(people, frame[label]), "boosted trees": trees.fit(people, frame[label])}


def compare(name: str, data: Dataset, model: Classifier) -> None:
    """One line of the table."""
    space, rows = TableSpace(data.schema, ["sex"]), np.arange(len(data.codes))
    x = space.samples(data.clipped)
    data.exact.sum()  # made once, when the model is opened
    domain, people = in_turn(
        lambda: check(model, space, x), lambda: check_people(model, space, data, rows), turns=TURNS
    )
    print(f"{name:24} {len(rows):7,} rows  in the domain {domain:6.3f} s  as they are {people:6.3f} s  "
          f"speed {domain / people:.0%} of before")  # fmt: skip


def main() -> None:
    """Print the table."""
    import torch

    census = load_dataset("census")
    with tempfile.TemporaryDirectory() as folder, one_thread(torch.device("cpu")):
        compare("built-in network", census, try_model(census, None, ["sex"], torch.device("cpu")).classifier)
        data, frame = census_as_a_user_has_it(Path(folder))
        for name, model in models(data, frame).items():
            compare(name, data, try_model(data, model, ["sex"], torch.device("cpu")).classifier)


if __name__ == "__main__":
    main()
