"""Speed with models of one's own: against one sample at a time, what an adapter adds, and the way from CSV to report.

    python -m bench.own_models            all of it, about four minutes
    python -m bench.own_models speed      a scikit-learn pipeline, in batches and one sample at a time
    python -m bench.own_models overhead   adapters against bare calls on 10,000 rows
    python -m bench.own_models way        the three commands from a CSV and a saved model to a report

Ratios are within one run; absolute figures depend on the machine.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from bench.timing import in_turn
from evenhand.data.dataset import Dataset, load_dataset
from evenhand.data.decoding import Decoder
from evenhand.methods.registry import BLACK_BOX, make_method
from evenhand.models.adapters.base import Adapter
from evenhand.models.classifier import Classifier
from evenhand.models.loading import load_module
from evenhand.models.trial import classifier_for
from evenhand.search.search import Limits, Search
from evenhand.search.seeds import choose_seeds
from evenhand.search.space import TableSpace

ROWS = 10_000
REPEATS = 15
SECONDS = 40.0  # for the search that asks about one sample at a time
EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "make_people.py"


class OneAtATime(Adapter):
    """Asks an estimator about one row at a time, as a loop over samples does."""

    no_gradients = "it is asked about one row at a time"

    def __init__(self, data: Dataset, estimator: Any) -> None:
        super().__init__()
        self.decoder, self.estimator = Decoder(data.schema), estimator
        self.order = [list(estimator.classes_).index(value) for value in data.schema.label.values]

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) codes to (n, classes) probabilities."""
        frame = self.decoder.frame(x.numpy().astype(np.int32))[list(self.estimator.feature_names_in_)]
        rows = [self.estimator.predict_proba(frame.iloc[[row]])[0] for row in range(len(frame))]
        return torch.tensor(np.array(rows)[:, self.order], dtype=torch.float32)


def people(folder: Path) -> tuple[Dataset, Any]:
    """The tutorial's table, schema and pipeline."""
    import skops.io

    table, model = folder / "people.csv", folder / "model.skops"
    run([sys.executable, str(EXAMPLE), str(table), str(model)])
    schema = folder / "people.toml"
    run(["evenhand", "schema", "infer", str(table), "--label", "income", "--protected", "sex", "-o", str(schema)])
    return load_dataset(str(schema)), skops.io.load(model, trusted=skops.io.get_untrusted_types(file=model))


def run(words: list[str]) -> float:
    """Run a command; seconds."""
    start = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True)
    return time.perf_counter() - start


def findings_per_second(data: Dataset, module: nn.Module, seconds: float | None) -> tuple[int, float]:
    """Unique findings of our black-box search, and how many of them in a second."""
    sample = torch.tensor(data.clipped[:64], dtype=torch.float32)
    model = classifier_for(module, sample, classes=len(data.schema.label.values))
    rows, space = choose_seeds(data, 500, 0), TableSpace(data.schema, ["sex"])
    limits = Limits(iterations=10, steps=200, max_seconds=seconds)
    search = Search(model, space, make_method(BLACK_BOX), seed=0, limits=limits, sink=lambda findings: None)
    start = time.perf_counter()
    if seconds is not None:  # few seeds, or the time would be up before their first step
        rows = rows[:5]
    result = search.run(data.codes[rows], rows)
    return result.counts.all_findings, result.counts.all_findings / (time.perf_counter() - start)


def speed(folder: Path) -> None:
    """The same search in batches and one sample at a time."""
    data, pipeline = people(folder)
    module, _ = load_module(data, pipeline)
    found, fast = findings_per_second(data, module, None)
    few, slow = findings_per_second(data, OneAtATime(data, pipeline), SECONDS)
    print("scikit-learn gradient boosting on raw columns, sex, method probe")
    print(f"  in batches:             {found:9,} findings, {fast:10,.1f} a second")
    print(f"  one sample at a time:   {few:9,} findings, {slow:10,.1f} a second ({SECONDS:.0f} s)")
    print(f"  ratio:                  {fast / slow:,.0f}x")


def overhead(folder: Path) -> None:
    """What adapters add to the bare call of a model on 10,000 rows."""
    data, pipeline = people(folder)
    codes = torch.tensor(np.resize(data.clipped, (ROWS, data.clipped.shape[1])), dtype=torch.float32)
    frame = Decoder(data.schema).frame(codes.numpy().astype(np.int32))
    cases: dict[str, tuple[Callable[[], Any], Classifier]] = {}
    columns = frame[list(pipeline.feature_names_in_)]
    cases["scikit-learn pipeline"] = (lambda: pipeline.predict_proba(columns), _classifier(data, pipeline))
    cases |= _networks(data, codes)
    print(f"seconds for {ROWS:,} rows, medians of {REPEATS} calls in turn: the bare call, through the adapter")
    for name, (bare, model) in cases.items():
        plain, through = in_turn(bare, partial(model.outputs, codes), REPEATS)
        print(f"  {name:34s} {plain * 1e3:9.2f} ms {through * 1e3:9.2f} ms   {through / plain - 1:+7.1%}")


def _classifier(data: Dataset, model: Any, inputs: str | None = None) -> Classifier:
    module, _ = load_module(data, model, inputs)
    sample = torch.tensor(data.clipped[:256], dtype=torch.float32)
    return classifier_for(module, sample, classes=len(data.schema.label.values))


def _networks(data: Dataset, codes: Tensor) -> dict[str, tuple[Callable[[], Any], Classifier]]:
    """Networks of torch, ONNX and Keras, and a LightGBM booster, each on its own prepared input."""
    import os

    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras
    import lightgbm
    import onnxruntime

    from evenhand.models.adapters.features.matrix import Features

    cases: dict[str, tuple[Callable[[], Any], Classifier]] = {}
    matrix = Features(data, "onehot")(codes).detach()
    width = matrix.shape[1]
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(width, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2)).eval()

    def ask(module: nn.Module, x: Tensor) -> Tensor:
        with torch.no_grad():
            answer: Tensor = module(x)
        return answer

    cases["torch, one-hot"] = (lambda: ask(network, matrix), _classifier(data, network, "onehot"))
    folder = Path(tempfile.mkdtemp())
    torch.onnx.export(
        network, (matrix[:8],), str(folder / "net.onnx"), dynamo=False, dynamic_axes={"x": {0: "n"}}, input_names=["x"]
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # as the adapter and the other models here
    session = onnxruntime.InferenceSession(str(folder / "net.onnx"), options)
    numbers = matrix.numpy()
    cases["ONNX, one-hot"] = (
        lambda: session.run(None, {"x": numbers}),
        _classifier(data, str(folder / "net.onnx"), "onehot"),
    )
    layers = [keras.layers.Dense(256, "relu"), keras.layers.Dense(256, "relu"), keras.layers.Dense(2, "softmax")]
    model = keras.Sequential([keras.Input((width,)), *layers])
    cases["Keras, one-hot"] = (lambda: ask(model, matrix), _classifier(data, model, "onehot"))
    values = Features(data, "values")(codes).detach().numpy()
    trained = lightgbm.LGBMClassifier(n_estimators=100, verbose=-1, n_jobs=1)
    every = Features(data, "values")(torch.tensor(data.clipped, dtype=torch.float32)).numpy()
    names = data.schema.names
    trained.fit(pd.DataFrame(every, columns=names), np.array(data.schema.label.values)[data.labels])
    booster, table = trained.booster_, pd.DataFrame(values, columns=names)
    cases["LightGBM booster"] = (lambda: booster.predict(table), _classifier(data, booster, "values"))
    return cases


def way(folder: Path) -> None:
    """The tutorial's three commands."""
    run([sys.executable, str(EXAMPLE), str(folder / "people.csv"), str(folder / "model.skops")])
    table, schema, model = (str(folder / name) for name in ("people.csv", "people.toml", "model.skops"))
    infer = ["evenhand", "schema", "infer", table, "--label", "income", "--protected", "sex", "-o", schema, "--force"]
    commands = [infer, ["evenhand", "schema", "check", schema]]
    commands.append(["evenhand", "audit", schema, "--model", model, "-p", "sex", "--out", str(folder / "run")])
    seconds = [run(command) for command in commands]
    print("from a CSV of 48,842 rows and a saved pipeline to a report")
    for command, taken in zip(commands, seconds, strict=True):
        print(f"  {' '.join(command[:3]).replace(str(folder), '…'):24s} {taken:6.1f} s")
    print(f"  {'together':24s} {sum(seconds):6.1f} s")


def main() -> None:
    """What was named, or all."""
    torch.set_num_threads(1)
    parts = {"speed": speed, "overhead": overhead, "way": way}
    for name in sys.argv[1:] or parts:
        with tempfile.TemporaryDirectory() as folder:
            parts[name](Path(folder))


if __name__ == "__main__":
    main()
