"""The wrong set-ups: what goes wrong between a table, a schema and a model, one thing at a time."""

from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

from bench.truth import hand_written as hand
from bench.truth import made_tables as made
from bench.truth import models, networks
from bench.truth import odd_models as odd
from bench.truth.brute import one_hot
from bench.truth.cases import RACE_GROUP
from bench.truth.judge import Case
from bench.truth.odd_models import COLUMNS
from bench.truth.wrong import SetUp


def _case(what: str, build: models.Build, columns: str = COLUMNS, **more: Any) -> Case:
    table = more.pop("table", partial(made.table, columns=columns))
    protected = more.pop("protected", "sex")
    return Case("people", what, table, "approved", protected, build, **more)


def _wrong(what: str, build: models.Build, columns: str = COLUMNS, **more: Any) -> SetUp:
    return SetUp(_case(what, build, columns, **more))


def _odd(what: str, build: models.Build, columns: str = COLUMNS, **more: Any) -> SetUp:
    weights = more.pop("weights", None)
    return SetUp(_case(what, build, columns, **more), "answered or refused", weights)


_INCOME = hand.INCOME.replace("step = 50", "step = 10").replace("[5, 300]", "[20, 1500]")
WEIGHTED = hand.NO_FIRST.replace("[label]", 'weight = "weight"\n[label]') + hand.SEX + _INCOME
REVERSED = hand.HEAD.format(values='["yes", "no"]') + hand.SEX + _INCOME

SET_UPS = [
    _odd("values, nothing stated", networks.torch_network("values", stated=False)),
    _wrong("values, codes stated", odd.stated(networks.torch_network("values"), inputs="codes")),
    _wrong("codes, values stated", odd.stated(networks.torch_network("codes"), inputs="values")),
    _odd("codes, nothing stated", networks.torch_network("codes", stated=False)),
    _wrong("columns in another order", odd.unnamed(lambda matrix: matrix[:, ::-1])),
    _wrong("columns shifted by one", odd.unnamed(lambda matrix: np.roll(matrix, 1, axis=1))),
    _wrong("scaled elsewhere", odd.unnamed(odd.scaled_elsewhere)),
    _wrong("scaled elsewhere, named", odd.scaled_frame, "age income region sex", reads=["age", "income", "region"]),
    _wrong("between 0 and 1 elsewhere", odd.squeezed_network),
    _wrong("stopped early", odd.stopped_early, "age sex income"),
    _wrong("two of five classes swapped", odd.two_of_five_swapped, table=odd.five_bands_table),
    _odd("sex read for a few", models.function(odd.by_the_way), "age sex income comment"),
    _wrong("one of two not read", models.function(odd.half_read), "age sex race income", protected="sex,race"),
    _wrong("within less than a step", models.logistic, infer={"steps": {"age": 5}}, protected="age",
           settings={"within": {"age": 2}}),
    _odd("races in another order", odd.races_by_frequency, "age sex race income", protected="race"),
    _wrong("jobs in another order", odd.other_order_of_jobs, table=odd.jobs_table),
    _wrong("classes swapped in a network", odd.swapped_network),
    _wrong("classes swapped in a booster", odd.swapped_booster),
    _wrong("label.values in another order", odd.right_booster, reads=["age", "sex", "income"], schema=REVERSED),
    _wrong("linear regression", odd.regressor(LinearRegression())),
    _wrong("forest regression", odd.regressor(RandomForestRegressor(10, random_state=0))),
    _wrong("LightGBM regression", odd.boosted_regression),
    _wrong("XGBoost regression", odd.xgboost_regression),
    _wrong("ONNX regression", odd.onnx_regression),
    _wrong("sex unread by name", odd.without("sex")),
    _wrong("sex read and dropped", odd.dropping_sex),
    _wrong("sex ignored by a function", models.function(odd.blind)),
    _wrong("one-hot group unread", odd.without(*RACE_GROUP), table=made.one_hot_table, protected="Race"),
    _odd("two races in a row", models.logistic, table=partial(made.one_hot_table, two_races=60), protected="Race",
         domains=[one_hot(RACE_GROUP)]),
    _odd("threshold of its own", models.tuned_threshold(0.3)),
    _odd("threshold tuned", odd.tuned, table=odd.few_yes_table),
    _odd("labels at 0.3", odd.labels_at(0.3)),
    _odd("threshold 0.3 stated", odd.scores_with(0.3)),
    _wrong("threshold 1.5 stated", odd.stated(models.logistic, threshold=1.5)),
    _wrong("threshold nobody reaches", odd.stated(models.logistic, threshold=0.9999)),
    _odd("weights", models.logistic, "age sex income weight", reads=["age", "sex", "income"], schema=WEIGHTED,
         weights="weight"),
    _wrong("NaN answers", models.function(odd.with_nan), "age sex income hours"),
    _wrong("always the same answer", models.function(odd.constant)),
    _wrong("labels by lot, with luck", models.function(odd.by_hash), table=odd.lucky_table),
    _wrong("labels shuffled", odd.of_original_labels, table=odd.shuffled_table),
    _wrong("model of another label", odd.of_other_label),
    _wrong("label among the inputs", odd.leaking),
    _odd("bools read as numbers", odd.bools_as_numbers),
    _wrong("fewer categories known", odd.stale, "age sex race income"),
    _odd("fails on unseen categories", odd.by_job_table, "age sex job income"),
    _odd("typographic minus", models.function(odd.typographic), table=made.typographic_table),
    _wrong("endpoint swaps classes", odd.answering(lambda scores: [row[::-1] for row in scores])),
    _wrong("endpoint turns rows around", odd.answering(lambda scores: scores[::-1])),
    _wrong("dropout left on", odd.noisy),
    _wrong("compares within the batch", models.function(odd.by_batch)),
    _wrong("labels of other names", odd.other_names),
    _wrong("three labels for two", odd.of_three_labels),
]  # fmt: skip
