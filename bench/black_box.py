"""Searches without gradients on three scikit-learn pipelines: findings in the same budget, and what they cost.

    python -m bench.black_box

200 seeds × 10 global iterations and 100 local steps on the census data; counts do not depend on the machine.
"""

from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from bench.timing import timed_search
from evenhand.data.dataset import Dataset, load_dataset
from evenhand.data.decoding import Decoder
from evenhand.methods.registry import make_method
from evenhand.runs.tried_model import try_model
from evenhand.search.search import Limits
from evenhand.search.seeds import choose_seeds

METHODS = ["probe", "maft", "labels", "genetic", "aequitas", "themis"]
MODELS: dict[str, Any] = {
    "gradient boosting": HistGradientBoostingClassifier(random_state=0),
    "random forest": RandomForestClassifier(30, max_depth=12, random_state=0),
    "logistic regression": LogisticRegression(max_iter=200),
}
LIMITS = Limits(iterations=10, steps=100)


def fitted(data: Dataset, last: Any) -> Any:
    """A pipeline that reads the raw columns."""
    people = Decoder(data.schema).frame(data.clipped)
    texts = [name for name in people if not pd.api.types.is_numeric_dtype(people[name])]
    numbers = [name for name in people if name not in texts]
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), texts), (StandardScaler(), numbers), sparse_threshold=0
    )
    labels = np.array(data.schema.label.values)[data.labels]
    return make_pipeline(columns, last).fit(people[data.train], labels[data.train])


def main() -> None:
    """One line for each model, attribute and method."""
    data, device = load_dataset("census"), torch.device("cpu")
    rows = choose_seeds(data, 200, 0)
    print("| model | protected | method | findings | success rate | seeds | model rows per finding |")
    print("|---|---|---|---|---|---|---|")
    for name, last in MODELS.items():
        pipeline = fitted(data, last)
        for protected in ("sex", "age"):
            for method in METHODS:
                model = try_model(data, pipeline, ["sex"], device).classifier
                counts = timed_search(model, data, [protected], rows, make_method(method), LIMITS)[0].counts
                found = counts.all_findings
                share, per = found / counts.all_generated, f"{model.rows / found:.1f}" if found else ""
                print(
                    f"| {name} | {protected} | {method} | {found:,} | {share:.1%} | {len(counts.seeds)} | {per} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
