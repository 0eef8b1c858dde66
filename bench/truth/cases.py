"""The combinations of data and model: real tables, and messy ones made on purpose (those need no download)."""

from functools import partial

from bench.truth import hand_written, models, networks
from bench.truth import made_tables as made
from bench.truth import real_tables as real
from bench.truth.brute import one_hot
from bench.truth.judge import Case

RACE_GROUP = [f"Race_{name}" for name in made.RACES]
LAW_RACES = ["Amerindian", "Asian", "Black", "Hispanic", "Mexican", "Other", "Puertorican", "White"]
CLEAN = "age sex race region member"  # nothing missing, nothing between steps


def _made(data: str, model: str, columns: str, build: models.Build, protected: str = "sex", **more: object) -> Case:
    """A case on the made table with these columns."""
    label = str(more.pop("label", "approved"))
    settings = {"label": label, "protected": protected, "build": build} | more
    table = settings.pop("table", partial(made.table, columns=columns, label=label))
    return Case(data, model, table, **settings)  # type: ignore[arg-type]


MADE = [
    _made("rare jobs", "logistic pipeline", "age sex job income", models.logistic),
    _made("rare jobs", "LightGBM file, categories", "age sex job hours", models.lightgbm_file),
    _made("gaps", "hist boosting", "age sex hours sector region", models.hist_boosting),
    _made("gaps", "forest, skops, imputers", "age sex race hours sector income", models.forest, "sex,race"),
    _made("gaps", "XGBoost file, categories", "age sex hours sector income", models.xgboost_file),
    _made("odd steps", "perceptron pipeline", "age sex income member", models.perceptron),
    _made("odd steps", "ONNX of a pipeline, columns", "age sex race income", networks.sklearn_onnx, "race"),
    _made("odd steps", "torch, values stated", "age sex race income", networks.torch_network("values")),
    _made("clean", "torch, codes stated", CLEAN, networks.torch_network("codes"), "race"),
    _made("clean", "torch, values not stated", CLEAN, networks.torch_network("values", stated=False)),
    _made("odd steps", "torch file, description", "age sex race income member", networks.torch_described, "sex,race"),
    _made("clean", "Keras, one-hot", CLEAN, networks.keras_network, "race"),
    _made("odd steps", "ONNX of torch, matrix", "age sex race income", networks.torch_onnx),
    _made("dates, text, ids", "function of a frame", "id age sex joined comment income",
          models.function(models.by_date_and_text)),
    _made("free text", "pipeline with words", "age sex income comment", models.logistic),
    _made("gaps", "HTTP endpoint", "age sex hours sector income", models.endpoint),
    _made("three labels", "logistic pipeline", "age sex race income job", models.logistic, "race", label="grade"),
    _made("odd steps", "own threshold 0.3", "age sex income job", models.tuned_threshold(0.3)),
    _made("protected age", "hist boosting", "age sex income hours", models.hist_boosting, "age"),
    Case("one-hot groups", "logistic pipeline", made.one_hot_table, "approved", "Race", models.logistic,
         domains=[one_hot(RACE_GROUP)]),
    Case("cp1252", "logistic pipeline", made.western_table, "approved", "sex", models.logistic,
         csv={"encoding": "cp1252"}),
    Case("headers twice", "forest, skops", made.twice_named_table, "approved", "sex", models.forest),
    Case("decimal commas", "logistic pipeline", made.comma_table, "approved", "sex", models.logistic,
         csv={"sep": ";", "decimal": ","}),
    _made("odd steps", "torch, codes stated", "age sex income member", networks.torch_network("codes")),
    _made("odd steps", "torch, one logit", "age sex income member", networks.torch_one_score),
    _made("columns in another order", "logistic pipeline", "age sex race income", models.logistic,
          reads=["income", "race", "age", "sex"]),
    _made("gaps", "support vectors", "age sex income hours", models.support_vectors),
    _made("gaps", "two neighbours, ties", "age sex income hours", models.with_ties),
    _made("ties", "two neighbours, yes first", "age sex income", models.with_ties, schema=hand_written.YES_FIRST),
    _made("rare jobs", "ridge, no probabilities", "age sex income job", models.ridge),
    _made("rare jobs", "LightGBM, half seen", "age sex job income", models.trained_on_half),
    _made("three labels", "LightGBM, multiclass", "age sex race income hours region", models.booster_of_three, "age",
          label="grade"),
    _made("in memory, categories", "hist boosting", "age sex job hours", models.typed_boosting,
          typed=made.pandas_types),
    _made("in memory, gaps", "forest, skops", "age sex income hours", models.forest, typed=made.pandas_types),
    _made("in memory, odd text", "function of a frame", "age sex income", models.function(models.by_marks),
          typed=made.in_memory),
    Case("one-hot, columns apart", "function by position", made.one_hot_apart_table, "approved", "sex",
         models.function(models.by_position)),
    _made("sector protected, gaps", "logistic pipeline", "age sex sector income", models.logistic, "sector"),
    _made("bins", "logistic pipeline", "age sex income hours", models.logistic, schema=hand_written.BINS),
    _made("derived pair", "logistic pipeline", "age sex race income", models.logistic, "sex",
          table=hand_written.derived_table, schema=hand_written.DERIVED),
    Case("labels 1 and 2", "hist boosting", made.counted_labels_table, "approved", "sex", models.hist_boosting),
    Case("odd cells", "fingerprint, inferred", made.odd_cells_table, "approved", "sex",
         models.function(made.fingerprint)),
    Case("odd cells", "fingerprint, passed", made.odd_cells_table, "approved", "sex",
         models.function(made.fingerprint), schema=hand_written.PASSED),
    Case("one-hot, by hand", "forest, skops", made.one_hot_table, "approved", "Race,Sex", models.forest,
         schema=hand_written.ONE_HOT, domains=[one_hot(RACE_GROUP), one_hot(["Sex_female", "Sex_male"])]),
    Case("dates, by hand", "function of a frame",
         partial(made.table, columns="id age sex joined comment income"), "approved", "sex",
         models.function(models.by_date_and_text), schema=hand_written.DATES),
    Case("blanks", "logistic pipeline", made.blank_table, "approved", "sex,race", models.logistic),
]  # fmt: skip

COMPAS = [
    "sex",
    "age",
    "race",
    "juv_fel_count",
    "priors_count",
    "c_charge_degree",
    "c_charge_desc",
    "days_b_screening_arrest",
]
REAL = [
    Case("law school", "logistic pipeline", real.law, "PF_1", "Race", models.logistic,
         domains=[one_hot([f"Race_{name}" for name in LAW_RACES])]),
    Case("law school", "LightGBM", real.law, "PF_1", "Sex", models.lightgbm_estimator,
         domains=[one_hot(["Sex_1", "Sex_2"])]),
    Case("Taiwan credit", "hist boosting", real.taiwan, "default-payment-next-month", "SEX", models.hist_boosting,
         without=["ID"]),
    Case("Taiwan credit", "perceptron pipeline", partial(real.taiwan, rows=1500), "default-payment-next-month", "AGE",
         models.perceptron, without=["ID"]),
    Case("Taiwan credit", "XGBoost", real.taiwan, "default-payment-next-month", "SEX", models.xgboost_estimator,
         without=["ID"]),
    Case("admissions", "logistic pipeline", real.admissions, "gpa", "gender", models.logistic),
    Case("admissions", "torch, values not stated", partial(real.admissions, rows=2000), "gpa", "gender",
         networks.torch_network("values", stated=False)),
    Case("COMPAS one-hot", "forest, skops", real.compas_one_hot, "two-year-recid", "sex,race", models.forest),
    Case("COMPAS", "logistic pipeline", real.compas, "two_year_recid", "race", models.logistic, reads=COMPAS),
    Case("COMPAS", "LightGBM file, categories", real.compas, "two_year_recid", "sex", models.lightgbm_file,
         reads=COMPAS),
    Case("diabetes", "LightGBM", real.diabetes, "readmitted", "age", models.lightgbm_estimator),
    Case("diabetes", "forest, skops", partial(real.diabetes, rows=2000), "readmitted", "gender_race,age",
         models.forest),
    Case("stroke", "perceptron pipeline", real.stroke, "stroke", "gender", models.perceptron),
    Case("Titanic", "hist boosting", real.titanic, "survived", "gender", models.hist_boosting),
    Case("Titanic", "Keras, one-hot", real.titanic, "survived", "gender,class", networks.keras_network),
    Case("Titanic", "ONNX of a pipeline, columns", real.titanic, "survived", "gender", networks.sklearn_onnx),
]  # fmt: skip
