"""What an audit, a measurement, a repair, a comparison and a check can be told: a class for each task and kind of data.

The fields here are the only place where a setting, its default, its limits and its meaning stand. The options of the
command line, the requests of the service, the defaults in Python, the configuration that a summary keeps and the
command that repeats a run are derived from them.
"""

import shlex
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo

from evenhand.choices import (
    AUTO,
    DEFAULT_LEXICON,
    REPAIRS,
    Ambiguous,
    Domain,
    EncoderName,
    Moves,
    OutputForm,
    Swap,
    Vote,
)
from evenhand.errors import EvenhandError, unknown_name
from evenhand.mistakes import ended, first_mistake

TaskName = Literal["audit", "check", "compare", "measure", "repair", "train"]
PopulationName = Literal["people", "uniform", "neighbourhood"]
Undecided = Literal["fail", "pass"]
KINDS: dict[Domain, str] = {"table": "tables", "text": "texts"}
EVERY_REPAIR = "all"
NO_LIMIT = "none"  # on a command line: none at all, where the usual is a number
MOST = 2**53  # the largest whole number that JSON carries everywhere


@dataclass(frozen=True)
class Option:
    """How a setting is said to people."""

    help: str
    usual: str | None = None  # what None or an empty list stands for
    flags: tuple[str, ...] = ()  # on the command line, where they are not the name
    most: float | None = None  # over HTTP, where it is less than elsewhere
    local: bool = False  # never over HTTP: it names files or machines of whoever asks, or belongs to a method
    hidden: bool = False  # not on the command line: too fine a detail


def _is_confidence(share: float) -> float:
    if 0 < share < 1:
        return share
    meant = share / 100 if 1 < share < 100 else 0.95
    raise ValueError(f"it lies above 0 and below 1: write {meant:g} for {100 * meant:g} %")


def _is_half_width(half: float) -> float:
    if 0 < half < 0.5:
        return half
    raise ValueError(
        "it is half the length of a share's interval: above 0 and below 0.5, such as 0.005 for half a percentage point"
    )


def _is_for_texts(population: Any) -> Any:
    if population in ("uniform", "neighbourhood"):
        raise ValueError(
            f"texts have no population '{population}', from which samples could be drawn: leave it out, and the texts "
            "of the corpus are looked at as they were written"
        )
    return population


def _is_repair(name: str) -> str:
    if name in (*REPAIRS, EVERY_REPAIR):
        return name
    raise ValueError(str(unknown_name("repair called", name, [*REPAIRS, EVERY_REPAIR])).rstrip("."))


def _between(low: float, high: float) -> WithJsonSchema:
    """Limits that a validator of ours checks, as forms and OpenAPI read them."""
    return WithJsonSchema({"type": "number", "exclusiveMinimum": low, "exclusiveMaximum": high})


Confidence = Annotated[
    float, AfterValidator(_is_confidence), _between(0, 1), Option("Confidence level of the intervals.")
]
HalfWidth = Annotated[float, AfterValidator(_is_half_width), _between(0, 0.5)]


class CheckedSettings(BaseModel):
    """Settings whose errors are for people."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    @classmethod
    def checked(cls, **given: Any) -> Self:
        """The settings, or an error that names the one that is wrong and says how."""
        try:
            return cls(**given)
        except ValidationError as error:
            location, reason = first_mistake(error, cls)
            name = str(location[0])
            if name not in cls.model_fields:
                raise EvenhandError(foreign_setting(cls, name) or ended(f"T{reason.removeprefix('t')}")) from error
            words = "protected attributes" if name == "protected" else name.replace("_", "-")
            raise EvenhandError(f"The setting '{words}' is {given.get(name)!r}: {ended(reason)}") from error


class RunSettings(CheckedSettings):
    """What every task is told: the data, what is protected, the model, the seed of all random choices."""

    dataset: str
    protected: Annotated[
        list[str],
        Field(min_length=1),
        Option(
            "Attributes to change, separated by commas.",
            usual="all that the schema marks; none for texts",
            flags=("--protected", "-p"),
        ),
    ]
    model: Annotated[
        str | None,
        Option(
            "NAME.safetensors of `evenhand train`; for tables also .skops, .onnx, .keras, .pt2, .pt, .txt (LightGBM), "
            ".ubj (XGBoost), a description (.toml), an address (http), or module:function of your own; for texts also "
            "a Hugging Face directory.",
            usual="built in",
        ),
    ] = None
    seed: Annotated[int, Field(ge=0, le=2**62), Option("Decides all random choices.", most=MOST)] = 0


class TableOptions(RunSettings):
    """How a model of a table is read, and with whom people are compared."""

    within: Annotated[
        dict[str, Annotated[float, Field(gt=0)]],
        Option(
            "NAME=DISTANCE: compare people with themselves up to so far from their own value of a protected number, "
            "such as age=10; may be repeated.",
            usual="all values",
        ),
    ] = {}
    inputs: Annotated[
        str | None,
        Option(
            "How a model that reads a matrix wants it: codes, values, raw, onehot or standard.",
            usual="as the model's file says, else what the decisions in the data bear out",
        ),
    ] = None
    output: Annotated[OutputForm, Option("What the model returns: auto, logits or probabilities.")] = "auto"
    threshold: Annotated[
        float | None,
        Field(gt=0, lt=1),
        Option(
            "Two classes: the decision is the last of label.values where its score is at least this, as in "
            "predict_proba[:, 1] >= 0.3.",
            usual="what the model's own predict does",
        ),
    ] = None
    accept_poor_model: Annotated[
        bool,
        Strict(),
        Option(
            "Go on with a model that seems to be misread: its accuracy on the data is no better than that of always "
            "saying the commonest decision (beyond chance), or clearly better with its columns swapped or scaled."
        ),
    ] = False


class TextOptions(RunSettings):
    """Where texts, protected words and word vectors come from."""

    protected: Annotated[
        list[str],
        Field(min_length=1, max_length=1),
        Option("Attributes to change, separated by commas.", flags=("--protected", "-p")),
    ]
    text: Annotated[str | None, Option("The column with the texts.", local=True)] = None
    label: Annotated[str | None, Option("The column with the decisions.", local=True)] = None
    split: Annotated[str | None, Option("A column that says train or test.", usual="a fifth is test", local=True)] = (
        None
    )
    favourable: Annotated[str | None, Option("The decision that is good for the author.", local=True)] = None
    network: Annotated[str | None, Option("The recurrent network: lstm or gru.", usual="lstm")] = None
    lexicon: Annotated[str, Option("evenhand, paper, or a TOML file of your own.")] = DEFAULT_LEXICON
    vectors: Annotated[str, Option("glove, or a file of word vectors.", local=True)] = "glove"


class SwapOptions(TextOptions):
    """Which mentions change."""

    swap: Annotated[Swap, Option("Change one mention, or all of a value.")] = "one"
    ambiguous: Annotated[Ambiguous, Option("keep or exclude words such as black and white as colours.")] = "keep"


class WalkOptions(SwapOptions):
    """How texts may change beside their protected words."""

    k: Annotated[int, Field(ge=1, le=40), Option("Nearest words that a word may become.")] = 10
    moves: Annotated[
        Moves,
        Option(
            "What may be replaced: tokens (any but protected ones, as in the paper) or words (no stop words, numbers, "
            "signs)."
        ),
    ] = "tokens"
    same_part_of_speech: Annotated[bool, Option("A word only becomes one of its own part of speech.")] = False
    max_changes: Annotated[
        int | None, Field(ge=1), Option("Maximum number of words of a text that are replaced.", usual="no limit")
    ] = None
    local_changes: Annotated[
        int | None, Field(ge=1), Option("Words that a local walk may replace beyond its start's, or none for no limit.")
    ] = 2


class DeviceOptions(CheckedSettings):
    """Where and in which portions a model is asked."""

    device: Annotated[str, Option("auto, cpu, cuda or cuda:N.", local=True)] = "auto"
    chunk_rows: Annotated[
        int | None, Field(ge=1), Option("Rows per model call, to save memory.", usual="as many as serve", local=True)
    ] = None


class SearchOptions(DeviceOptions):
    """What a search may do. The defaults are the paper's budget."""

    method: Annotated[
        str,
        Option(
            "How to search; `evenhand compare --help` lists all methods.",
            usual="margin; probe where the model gives no gradients; boundary for texts",
        ),
    ] = AUTO
    settings: Annotated[
        dict[str, int | float | str],
        Option("A setting of the method, NAME=VALUE; may be repeated.", flags=("--set",), local=True),
    ] = {}
    seeds: Annotated[int, Field(ge=1), Option("Rows of the data to start from.", most=10**6)] = 1000
    iterations: Annotated[int, Field(ge=1), Option("Global iterations per seed.", most=10**4)] = 10
    steps: Annotated[int, Field(ge=0), Option("Local steps around each first finding.", most=10**6)] = 1000
    max_seconds: Annotated[
        float | None, Field(gt=0), Option("Maximum time in seconds, from the start.", usual="no limit", most=1e7)
    ] = None
    max_findings: Annotated[
        int | None, Field(ge=1), Option("Maximum number of findings.", usual="no limit", most=MOST)
    ] = None
    max_rows: Annotated[
        int | None,
        Field(ge=1),
        Option("Maximum number of rows that the search asks the model about.", usual="no limit", most=MOST),
    ] = None


class AuditSettings(SearchOptions, TableOptions):
    """An audit of a classifier of a table."""


class TextAuditSettings(SearchOptions, WalkOptions):
    """An audit of a classifier of texts."""

    min_similarity: Annotated[
        float | None,
        Field(ge=-1, le=1),
        Option("Drop findings less similar to their original than this.", usual="no limit"),
    ] = None
    encoder: Annotated[
        EncoderName, Option("Measures similarity: use, minilm or none; auto: use with the extra text, else none.")
    ] = "auto"


class IntervalOptions(CheckedSettings):
    """How sure intervals are."""

    confidence: Confidence = 0.95


class MeasureOptions(IntervalOptions, DeviceOptions):
    """What every measurement is told."""

    findings: Annotated[
        str | None,
        Option(
            "Folder of an earlier audit, or the id of a stored run: how many of its findings are findings with this "
            "model.",
            usual="none",
            local=True,
        ),
    ] = None


class NeighbourOptions(CheckedSettings):
    """Who lives near the people of a table."""

    changes: Annotated[
        int, Field(ge=1), Option("Attributes that the neighbourhood of the data changes.", most=1000)
    ] = 2


class MeasureSettings(NeighbourOptions, MeasureOptions, TableOptions):
    """A measurement of a classifier of a table."""

    half_width: Annotated[HalfWidth, Option("Sample until the interval is so narrow: half its length.")] = 0.005
    most_samples: Annotated[
        int, Field(ge=1), Option("Maximum number of samples of a population.", local=True, hidden=True)
    ] = 100_000_000


class TextMeasureSettings(MeasureOptions, SwapOptions):
    """A measurement of a classifier of texts; of several attributes, each by itself."""

    protected: Annotated[
        list[str],
        Field(min_length=1),
        Option("Attributes to change, separated by commas.", flags=("--protected", "-p")),
    ]
    texts: Annotated[int, Field(ge=1), Option("Maximum number of texts of each split.", most=10**6)] = 2000


class RepairOptions(IntervalOptions):
    """What every repair is told."""

    by: Annotated[
        list[Annotated[str, AfterValidator(_is_repair)]],
        Option(
            "augment, certified, pairing, average, blind; several with commas between; or all.",
            usual="blind; average for a model that cannot be trained again; pairing for texts",
        ),
    ] = []
    share: Annotated[float, Field(gt=0, le=1), Option("augment: the share of the findings to learn from.")] = 0.05
    repeats: Annotated[int, Field(ge=1), Option("Networks trained for each repair; the best is kept.", most=100)] = 5
    strength: Annotated[
        float | None,
        Field(gt=0),
        Option("pairing, certified: the weight of the penalty.", usual="by repair", most=1e6),
    ] = None
    choose: Annotated[
        str | None,
        Option(
            "Keep the repair with the lowest rate among those with, say, accuracy_loss<=0.005. rate is that of "
            "`evenhand measure` over the whole domain, impossible samples left out (texts: over training texts set "
            "aside), the upper end of its interval.",
            usual="the lowest rate",
        ),
    ] = None
    method: Annotated[
        str, Option("How findings are searched.", usual="adf; probe without gradients; adf-asc for texts")
    ] = AUTO
    seeds: Annotated[int, Field(ge=1), Option("Rows to start searches from.", most=10**6)] = 1000
    steps: Annotated[int, Field(ge=0), Option("Local steps of searches.", most=10**6)] = 1000


class RepairSettings(RepairOptions, TableOptions):
    """A repair of a classifier of a table."""

    vote: Annotated[
        Vote, Option("augment: who decides about findings; models (retrained ones) or own (the model itself).")
    ] = "models"
    epochs: Annotated[int, Field(ge=1), Option("Passes over the training rows.", most=10**4)] = 20
    half_width: Annotated[HalfWidth, Option("Precision of the rates: half the length of an interval.")] = 0.001


class TextRepairSettings(RepairOptions, TextOptions):
    """A repair of a recurrent classifier of texts."""

    repeats: Annotated[int, Field(ge=1), Option("Networks trained for each repair.", most=100)] = 1
    seeds: Annotated[int, Field(ge=1), Option("Texts to start searches from.", most=10**6)] = 300
    steps: Annotated[int, Field(ge=0), Option("Local steps of searches.", most=10**6)] = 100
    training_steps: Annotated[
        int | None, Field(ge=1), Option("Steps of fine-tuning.", usual="by repair", most=10**6)
    ] = None
    validation_texts: Annotated[
        int, Field(ge=1), Option("Training texts that no network is fitted on.", most=10**6)
    ] = 4000
    texts: Annotated[int, Field(ge=1), Option("Held-out texts that accuracy is measured on.", most=10**6)] = 10_000
    mentioning: Annotated[int, Field(ge=1), Option("Texts of each split that rates are measured on.", most=10**6)] = (
        2000
    )


class CompareOptions(DeviceOptions):
    """What every comparison is told."""

    methods: Annotated[
        list[str], Option("Names with commas between, or all.", flags=("--methods", "-m"), usual="the usual ones")
    ] = []
    budget: Annotated[
        str, Option("paper, or rows=N, seconds=N, seeds=N, steps=N, with commas.", flags=("--budget", "-b"))
    ] = "paper"


class CompareSettings(CompareOptions, TableOptions):
    """A comparison of methods on a classifier of a table."""


class TextCompareSettings(CompareOptions, WalkOptions):
    """A comparison of methods on a classifier of texts."""


class SearchBudget(CheckedSettings):
    """A small search, for witnesses where no rate above zero is allowed, and for pairs to show."""

    method: str = AUTO
    seeds: Annotated[int, Field(ge=1)] = 100
    iterations: Annotated[int, Field(ge=1)] = 10
    steps: Annotated[int, Field(ge=0)] = 50
    max_seconds: Annotated[float | None, Field(gt=0)] = None


def _budget(value: Any) -> Any:
    """`search = true` is the default budget, `false` none."""
    return (SearchBudget() if value else None) if isinstance(value, bool) else value


class CheckOptions(IntervalOptions, DeviceOptions):
    """What every check is told."""

    max_rate: Annotated[float, Field(ge=0, lt=1), Option("Maximum rate of discriminatory samples.")] = 0.01
    confidence: Annotated[Confidence, Field(ge=0.5)] = 0.95
    search: Annotated[
        SearchBudget | None, BeforeValidator(_budget), Option("A search where nothing is allowed, or none.")
    ] = SearchBudget()
    undecided: Annotated[Undecided, Option("Whether a check passes that so few samples do not decide.")] = "fail"


class CheckSettings(CheckOptions, NeighbourOptions, TableOptions):
    """A check of a classifier of a table."""

    protected: Annotated[list[str], Option("Attributes to change.", usual="all that the schema marks")] = []
    population: Annotated[PopulationName, Option("Whom the rate is about.")] = "people"
    most_samples: Annotated[int, Field(ge=1), Option("Maximum number of samples that are drawn.")] = 200_000


class TextCheckSettings(CheckOptions, WalkOptions):
    """A check of a classifier of texts. A text has many variants, and a network reads each of them."""

    population: Annotated[Literal["people"], BeforeValidator(_is_for_texts), Option("Whom the rate is about.")] = (
        "people"
    )
    most_samples: Annotated[int, Field(ge=1), Option("Maximum number of texts that are looked at.")] = 10_000


class TrainOptions(CheckedSettings):
    """What every training is told."""

    dataset: str
    seed: Annotated[int, Field(ge=0, le=2**62), Option("Decides the first weights and the order of rows.")] = 0
    epochs: Annotated[
        int | None, Field(ge=1), Option("Passes over the training rows (tables: at most).", usual="100; 8 for texts")
    ] = None
    device: Annotated[str, Option("auto, cpu, cuda or cuda:N.")] = "auto"


class TrainSettings(TrainOptions):
    """Training the paper's network for a table."""

    patience: Annotated[
        int | None, Field(ge=1), Option("Stop after so many epochs without improvement.", usual="10")
    ] = None


class TextTrainSettings(TrainOptions):
    """Training a recurrent network for texts, which takes all its epochs."""

    text: Annotated[str | None, Option("The column with the texts.")] = None
    label: Annotated[str | None, Option("The column with the decisions.")] = None
    split: Annotated[str | None, Option("A column that says train or test.", usual="a fifth is test")] = None
    network: Annotated[str | None, Option("The recurrent network: lstm or gru.", usual="lstm")] = None
    vectors: Annotated[str | None, Option("glove, or a file of word vectors.", usual="glove")] = None


SETTINGS: dict[TaskName, dict[Domain, type[CheckedSettings]]] = {
    "audit": {"table": AuditSettings, "text": TextAuditSettings},
    "check": {"table": CheckSettings, "text": TextCheckSettings},
    "compare": {"table": CompareSettings, "text": TextCompareSettings},
    "measure": {"table": MeasureSettings, "text": TextMeasureSettings},
    "repair": {"table": RepairSettings, "text": TextRepairSettings},
    "train": {"table": TrainSettings, "text": TextTrainSettings},
}


def option_of(info: FieldInfo) -> Option:
    """How a field is said to people."""
    return next((entry for entry in info.metadata if isinstance(entry, Option)), Option(""))


def flags_of(name: str, option: Option) -> tuple[str, ...]:
    """The flags of a setting on the command line."""
    return option.flags or (f"--{name.replace('_', '-')}",)


def kinds_with(task: TaskName, name: str) -> list[Domain]:
    """The kinds of data for which a task has a setting."""
    return [kind for kind, settings in SETTINGS[task].items() if name in settings.model_fields]


def foreign_setting(settings: type[CheckedSettings], name: str) -> str:
    """What to say of a setting that the same task has for the other kind of data; nothing where it has none."""
    for task, kinds in SETTINGS.items():
        for kind, own in kinds.items():
            others = kinds_with(task, name)
            if own is settings and others and kind not in others:
                return foreign_words(name, kind)
    return ""


def foreign_words(name: str, kind: Domain, flag: str | None = None) -> str:
    """What to say of a setting that is for the other kind of data."""
    what = flag or f"The setting '{name}'"
    if kind == "text":
        return f"{what} is for tables, and these are texts. Leave it out."
    return (
        f"{what} is for texts, and this is a table. For a file of texts name its text column "
        f"{'with --text' if flag else '(text)'}; for a table of people give a schema file (.toml)."
    )


def repeat_command(task: TaskName, settings: Any) -> str:
    """The command that does the same again: every setting that is not its default."""
    words = ["evenhand", task, settings.dataset, "--protected", ",".join(settings.protected)]
    for name, info in type(settings).model_fields.items():
        value, option = getattr(settings, name), option_of(info)
        if name in ("dataset", "protected") or value == info.get_default() or option.hidden:
            continue
        words += _said(flags_of(name, option)[0], value)
    return shlex.join(words)


def repeat_of(summary: dict[str, Any]) -> str:
    """The command that repeats the run of a summary, also of one that an earlier release wrote."""
    if "command" in summary:
        return str(summary["command"])
    settings = SETTINGS[summary["kind"]]["text" if summary.get("domain") == "text" else "table"]
    known = {name: value for name, value in summary["config"].items() if name in settings.model_fields}
    known["protected"] = summary["protected"]
    if known.get("model") is None and not str(summary["model"]["name"]).startswith("built-in"):
        known["model"] = summary["model"]["name"]  # a measurement of release 0.1 says it only there
    return repeat_command(summary["kind"], settings.model_construct(**known))


def _said(flag: str, value: Any) -> list[str]:
    """A setting as words of a command line."""
    if isinstance(value, bool):
        return [flag] if value else []
    if isinstance(value, dict):
        return [word for name, one in value.items() for word in _words(flag, f"{name}={_number(one)}")]
    if isinstance(value, list):
        return _words(flag, ",".join(value))
    return _words(flag, NO_LIMIT if value is None else _number(value))


def _words(flag: str, text: str) -> list[str]:
    """A flag and its value; one that begins with a dash would be taken for another flag."""
    return [f"{flag}={text}"] if text.startswith("-") else [flag, text]


def _number(value: Any) -> str:
    """A number as it is read back, or a text as it is."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


def plain_type(annotation: Any) -> type:
    """What a setting is on a command line: int, float, bool, str, list (with commas) or dict (NAME=VALUE)."""
    if get_origin(annotation) is Annotated:
        return plain_type(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        return str
    if get_origin(annotation) in (list, dict):
        return list if get_origin(annotation) is list else dict
    parts = [part for part in get_args(annotation) if part is not type(None)]
    return plain_type(parts[0]) if parts else annotation
