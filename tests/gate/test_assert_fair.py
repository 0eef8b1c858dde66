"""assert_fair: verdicts, the smallest difference from a real person, and failures that are replayed."""

import json
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import settings as example_settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.gate import check as gate_check
from evenhand.gate.check import DiscriminationFound
from evenhand.gate.failures import default_name, file_name
from evenhand.gate.reduce import Reducer
from evenhand.gate.tables import ClearestMet, fingerprint
from evenhand.models.adapters.base import Adapter
from evenhand.models.classifier import ModelGone
from evenhand.report.statistics import Example
from evenhand.search.check import check
from evenhand.search.space import TableSpace
from tests.worlds.gate import blind, by_sex, by_sex_and_city, loans
from tests.worlds.schemas import UNTRAINED, classifier_of, has_witness, linear, network_of, schema_of

assert_fair: Any = partial(gate_check.assert_fair, **UNTRAINED)
FUNCTION: dict[str, Any] = {"inputs": None, "output": "auto"}


def failing(*arguments: object, **settings: object) -> DiscriminationFound:
    with pytest.raises(DiscriminationFound) as caught:
        assert_fair(*arguments, **settings)
    return caught.value


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# --- verdicts ---


def test_it_holds_where_the_upper_bound_is_allowed() -> None:
    outcome = assert_fair(by_sex(), loans([14] * 10 + [5] * 990), ["sex"], max_rate=0.02)
    assert outcome.verdict == "held"
    assert outcome.rate is not None
    assert (outcome.rate.discriminatory, outcome.rate.samples) == (10, 1000)
    assert outcome.interval is not None
    assert outcome.interval[0] < 0.01 < outcome.interval[1] <= 0.02
    assert outcome.model_rows >= 2000
    assert "all 1,000 rows of loans" in repr(outcome)
    assert not Path(".evenhand").exists()


def test_it_is_exceeded_where_the_lower_bound_is_above() -> None:
    error = failing(by_sex(), loans([14] * 100 + [5] * 900), ["sex"], max_rate=0.05)
    assert error.outcome.verdict == "exceeded"
    assert str(error).startswith("EXCEEDED, with a warning: All rows have the same decision")
    assert "10.00% of all 1,000 rows of loans get another decision when only sex changes" in str(error)
    assert "more than the 5% that is allowed" in str(error)


def test_too_few_samples_fail_and_say_how_many_it_takes() -> None:
    error = failing(blind(), loans([5] * 100), ["sex"], max_rate=0.01)
    assert error.outcome.verdict == "not shown"
    assert error.outcome.samples_needed == 299
    assert "about 300 samples" in str(error)
    assert assert_fair(blind(), loans([5] * 299), ["sex"], max_rate=0.01).verdict == "held"


def test_too_few_samples_may_pass_if_asked() -> None:
    outcome = assert_fair(blind(), loans([5] * 100), ["sex"], max_rate=0.01, undecided="pass")
    assert (outcome.verdict, outcome.passed) == ("not shown", True)


@pytest.mark.parametrize("population", ["uniform", "neighbourhood"])
def test_populations_that_are_sampled(population: str) -> None:
    data = loans([14, 5, 9, 13] * 20)
    error = failing(by_sex(), data, ["sex"], max_rate=0.01, population=population)
    assert "1,000 samples" in str(error)  # the first look decides
    assert "Population: " in str(error)
    outcome = assert_fair(blind(), data, ["sex"], max_rate=0.01, population=population)
    assert outcome.rate is not None
    assert (outcome.rate.discriminatory, outcome.rate.samples) == (0, 1000)


def test_the_uniform_rate_is_the_share_of_the_domain() -> None:
    error = failing(by_sex(), loans([5] * 50), ["sex"], max_rate=0.051, population="uniform", most_samples=8000)
    rate = error.outcome.rate  # of 100 sums 5 are 14: 5+9, 6+8, 7+7, 8+6, 9+5
    assert rate is not None
    assert (rate.samples, error.outcome.verdict) == (8000, "not shown")
    assert rate.interval[0] < 0.05 < rate.interval[1]
    assert "raise most_samples" in str(error)


def test_nothing_is_allowed_and_nothing_found() -> None:
    outcome = assert_fair(blind(), loans([14, 5, 9]), ["sex"], max_rate=0)
    assert outcome.verdict == "held"
    assert outcome.searched is not None
    assert outcome.searched.generated > 0
    assert "cannot be shown by samples" in repr(outcome)


def test_nothing_is_allowed_and_a_search_finds_what_the_people_do_not_show() -> None:
    data = loans([4, 6, 8] * 5)
    error = failing(by_sex(), data, ["sex"], max_rate=0)
    assert "None of all 15 rows of loans gets another decision" in str(error)
    assert "a search (margin) found" in str(error)
    pair = error.outcome.pairs[0].example
    assert sum(pair.sample[1:3]) == 14
    assert len(error.outcome.pairs) == 3
    assert assert_fair(by_sex(), data, ["sex"], max_rate=0, search=False, failures=None).searched is None


class FailsInTheSearch(Adapter):
    """Knows no women and men apart, and is gone after so many calls."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.calls, self.output = calls, "logits"

    def forward(self, x: Tensor) -> Tensor:
        self.calls -= 1
        if self.calls < 0:
            raise ModelGone("The address does not answer.")
        return torch.nn.functional.linear(x, blind().weight, blind().bias)


def test_a_search_that_broke_off_is_an_error_and_not_a_check_that_held() -> None:
    assert assert_fair(FailsInTheSearch(10_000), loans([5, 9]), ["sex"], max_rate=0).verdict == "held"
    with pytest.raises(EvenhandError, match="The address does not answer"):
        assert_fair(FailsInTheSearch(10), loans([5, 9]), ["sex"], max_rate=0)


def test_several_protected_attributes_are_changed_together() -> None:
    error = failing(by_sex_and_city(), loans([14] * 20), ["sex", "city"], max_rate=0.1)
    assert "when only sex and city change " in str(error)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_rate": 1.5}, "max-rate"),
        ({"confidence": 0.2}, "confidence"),
        ({"population": "everyone"}, "population"),
        ({"protected": ["height"]}, "height"),
        ({"search": {"sedes": 3}}, "sedes"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, object], words: str) -> None:
    with pytest.raises(EvenhandError, match=words):
        assert_fair(blind(), loans([5]), **settings)


def test_a_frame_and_a_function_of_a_frame() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], 400), "income": rng.integers(0, 50, 400)})
    frame["approved"] = np.where(frame["income"] > 25, "yes", "no")

    def model(people: pd.DataFrame) -> NDArray[np.float64]:
        return np.asarray(1 / (1 + np.exp(-(people["income"] + 10.0 * (people["sex"] == "m") - 30))))

    error = failing(model, frame, ["sex"], label="approved", max_rate=0.01, **FUNCTION)
    assert error.outcome.protected == ["sex"]
    assert "A real person of the data, row " in str(error)
    with pytest.raises(EvenhandError, match="label"):
        assert_fair(model, frame, ["sex"])


def test_a_model_without_gradients_is_searched_by_its_scores() -> None:
    incomes = np.r_[0:16, 35:51].repeat(4)  # nobody lives where the function looks at the sex
    frame = pd.DataFrame({"sex": ["f", "m"] * (len(incomes) // 2), "income": incomes})
    frame["approved"] = np.where(frame["income"] > 25, "yes", "no")

    def model(people: pd.DataFrame) -> NDArray[np.float64]:
        return np.asarray(1 / (1 + np.exp(-(people["income"] + 10.0 * (people["sex"] == "m") - 30.5) / 10)))

    error = failing(model, frame, ["sex"], label="approved", max_rate=0, **FUNCTION)
    assert "a search (probe) found" in str(error)
    assert error.outcome.pairs[0].origin.endswith("with 1 change: income 35 → 30.")


def test_pairs_that_the_schema_calls_impossible_do_not_count() -> None:
    rules = [{"sex": "m", "income": {"at_least": 5}}]
    data = loans([14] * 50, impossible=rules)
    assert assert_fair(by_sex(), data, ["sex"], max_rate=0.1, search=False).verdict == "held"
    assert failing(by_sex(), loans([14] * 50), ["sex"], max_rate=0.1).outcome.verdict == "exceeded"


@pytest.mark.parametrize("population", ["people", "uniform", "neighbourhood"])
def test_data_in_which_nobody_is_possible_is_an_error(population: str) -> None:
    data = loans([5] * 50, impossible=[{"sex": ["f", "m"], "income": {"below": 9}}])
    with pytest.raises(EvenhandError, match="No row of loans is possible"):
        assert_fair(by_sex(), data, ["sex"], population=population)


# --- pairs ---


def test_a_person_as_they_are_is_shown_first() -> None:
    error = failing(by_sex(), loans([5] * 7 + [14] + [5] * 4), ["sex"], max_rate=0)
    (pair,) = error.outcome.pairs
    assert pair.origin == "A real person of the data, row 8, as they are."
    assert pair.sides == ["female: no (score for ‘yes’ 37.8%)", "male: yes (score for ‘yes’ 62.2%)"]
    assert pair.shared == "income 7, savings 7"
    assert "pair 1  income 7, savings 7\n        → female: no" in str(error)


def test_a_finding_is_reduced_to_a_small_difference_from_a_person() -> None:
    error = failing(by_sex(), loans([12, 4, 4]), ["sex"], max_rate=0)
    first = error.outcome.pairs[0]
    assert first.origin.startswith("A real person of the data, row 1, with 1 change: ")
    assert first.origin.removesuffix(".").endswith(("income 6 → 8", "savings 6 → 8"))


def nearest_by_brute_force(
    data: Dataset, network: nn.Module, protected: list[int], person: list[int], sample: list[int]
) -> tuple[int, float]:
    """The fewest and least changes among all samples between a person and a finding."""
    ranges = [
        [a] if index in protected else list(range(min(a, b), max(a, b) + 1))
        for index, (a, b) in enumerate(zip(person, sample, strict=True))
    ]
    span = np.maximum(data.schema.upper - data.schema.lower, 1)
    found = []
    for codes in product(*ranges):
        if has_witness(network, data.schema, protected, np.array(codes, dtype=np.int32)):
            change = np.abs(np.array(codes) - person)
            found.append((int((change > 0).sum()), round(float((change / span).sum()), 6)))
    return min(found)


@example_settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_the_reduced_difference_is_the_smallest_there_is(seed: int) -> None:
    rng = np.random.default_rng(seed)
    schema = schema_of([(0, 1), (0, 4), (1, 5), (0, 3)])
    network = network_of(4, 2, seed)
    model, space = classifier_of(network), TableSpace(schema, ["a0"])
    grid = [np.array(codes, dtype=np.int32) for codes in product([0], range(5), range(1, 6), range(4))]
    findings = [codes for codes in grid if has_witness(network, schema, [0], codes)]
    if not findings:
        return
    finding, person = findings[rng.integers(len(findings))], grid[rng.integers(len(grid))]
    data = Dataset(schema, person[None], np.zeros(1, dtype=np.int64), np.ones(1, dtype=bool))
    reducer = Reducer(model, space, data)
    reduced = reducer.reduced(Example(-1, tuple(finding.tolist()), (), 0, 1, 0.0, 0.0))
    assert has_witness(network, schema, [0], np.array(reduced.sample, dtype=np.int32))
    assert reduced.label != reduced.witness_label
    fewest, least, _ = reducer.distance(reduced)
    assert (fewest, round(least, 6)) == nearest_by_brute_force(data, network, [0], person.tolist(), finding.tolist())


def test_many_changed_attributes_are_restored_one_by_one() -> None:
    width = 20
    schema = schema_of([(0, 1)] + [(0, 9)] * width)
    weights = [1.0, *([0.01] * (width - 5)), *([1.0] * 5)]
    model, space = classifier_of(linear(weights, -25.5)), TableSpace(schema, ["a0"])
    person = np.zeros((1, width + 1), dtype=np.int32)
    data = Dataset(schema, person, np.zeros(1, dtype=np.int64), np.ones(1, dtype=bool))
    finding = (0, *([1] * (width - 5)), 5, 5, 5, 5, 5)  # 25.15 + 1 crosses 25.5
    reducer = Reducer(model, space, data)
    reduced = reducer.reduced(Example(-1, finding, (), 0, 1, 0.0, 0.0))
    changed = [index for index, code in enumerate(reduced.sample) if code]
    assert changed == list(range(width - 4, width + 1))  # the heavy five, and none that hardly count


def test_an_attribute_that_may_not_move_is_not_changed() -> None:
    schema = schema_of([(0, 1), (0, 9), (0, 9)])
    fixed = schema.attributes[2].model_copy(update={"moves": "none"})
    schema = schema.model_copy(update={"attributes": [*schema.attributes[:2], fixed]})
    people = np.array([[0, 7, 7], [0, 0, 6]], dtype=np.int32)  # the first is nearer to (7, 6), but may not get there
    data = Dataset(schema, people, np.zeros(2, dtype=np.int64), np.ones(2, dtype=bool))
    reducer = Reducer(classifier_of(linear([1.0, 1.0, 1.0], -13.5)), TableSpace(schema, ["a0"]), data)
    assert reducer.reduced(Example(-1, (0, 7, 6), (), 0, 1, 0.0, 0.0)).seed_row == 1


def test_people_of_one_kind_are_shown_once_however_they_come() -> None:
    data = loans([14, 14, 5, 14])
    space = TableSpace(data.schema, ["sex"])
    checked = check(classifier_of(by_sex()), space, space.samples(data.clipped))
    clearest = ClearestMet(space, 5)
    for _ in range(2):
        clearest.add(checked, np.arange(4))
    assert [example.seed_row for example in clearest.kept] == [0]


# --- stored failures ---


def test_failing_pairs_are_stored_in_words_and_codes() -> None:
    failing(by_sex(), loans([14, 5, 5]), ["sex"], max_rate=0, name="loans")
    content = json.loads(Path(".evenhand/loans.json").read_text())
    assert content["check"] == "loans"
    assert content["protected"] == ["sex"]
    (pair,) = content["pairs"]
    assert pair["row"] == 1
    assert pair["sample"]["income"] == {"code": 7, "words": "7"}
    assert pair["sample"]["sex"] == {"code": 0, "words": "female"}
    assert pair["witness"] == {"sex": {"code": 1, "words": "male"}}
    assert (pair["label"], pair["witness_label"]) == ("no", "yes")


def test_a_stored_pair_fails_at_once_where_nothing_is_allowed() -> None:
    failing(by_sex(), loans([14] + [5] * 500), ["sex"], max_rate=0, name="loans")
    error = failing(by_sex(), loans([5] * 501), ["sex"], max_rate=0, name="loans")  # nobody shows it any more
    assert "1 of 1 stored pair, replayed first, still gets another decision when only sex changes" in str(error)
    assert error.outcome.rate is None
    assert error.outcome.model_rows < 500
    assert "row 1, with 2 changes: income 2 → 7; savings 3 → 7" in str(error)


def test_a_repaired_model_passes_and_the_stored_pairs_go() -> None:
    failing(by_sex(), loans([14, 5, 5]), ["sex"], max_rate=0, name="loans")
    outcome = assert_fair(blind(), loans([14, 5, 5]), ["sex"], max_rate=0, name="loans")
    assert (outcome.replayed.stored, outcome.replayed.still) == (1, 0)
    assert not Path(".evenhand/loans.json").exists()


def test_where_some_are_allowed_the_rate_decides_and_not_the_stored_pairs() -> None:
    failing(by_sex(), loans([14] * 50), ["sex"], max_rate=0.1, name="loans")
    outcome = assert_fair(by_sex(), loans([14] + [5] * 500), ["sex"], max_rate=0.1, name="loans")
    assert (outcome.replayed.stored, outcome.replayed.still) == (1, 1)
    assert Path(".evenhand/loans.json").is_file()
    error = failing(by_sex(), loans([14] * 50), ["sex"], max_rate=0.1, name="loans")
    assert "1 of 1 stored pair still differs." in str(error)


def test_stored_pairs_of_another_schema_are_left_alone_with_a_note() -> None:
    failing(by_sex(), loans([14, 5, 5]), ["sex"], max_rate=0, name="loans")
    path = Path(".evenhand/loans.json")
    path.write_text(path.read_text().replace(fingerprint(loans([5]).schema), "0000"))
    outcome = assert_fair(by_sex(), loans([5] * 40), ["sex"], max_rate=0, name="loans", search=False)
    assert "belong to another schema" in outcome.notes[0]
    assert '"fingerprint": "0000"' in path.read_text()
    failing(by_sex(), loans([14, 5, 5]), ["sex"], max_rate=0, name="loans")
    assert '"0000"' not in path.read_text()


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"kind": "failing pairs"}'])
def test_a_broken_file_of_stored_pairs_is_no_failure(text: str) -> None:
    Path(".evenhand").mkdir()
    Path(".evenhand/loans.json").write_text(text)
    outcome = assert_fair(blind(), loans([5] * 40), ["sex"], max_rate=0, name="loans", search=False)
    assert "cannot be read" in outcome.notes[0]


def test_nothing_is_stored_if_not_wanted() -> None:
    failing(by_sex(), loans([14, 5, 5]), ["sex"], max_rate=0, failures=None)
    assert list(Path().iterdir()) == []


def test_a_folder_that_cannot_be_written_to_does_not_hide_what_was_found() -> None:
    Path("file").touch()
    error = failing(by_sex(), loans([14, 5, 5]), ["sex"], max_rate=0, failures="file")
    assert "The pairs could not be kept. Cannot write to file" in str(error)
    assert error.outcome.stored_in is None


def test_within_pytest_the_test_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "tests/test_x.py::test_y[a b] (call)")
    error = failing(by_sex(), loans([14, 5, 5]), ["sex"], max_rate=0)
    name = "tests/test_x.py::test_y[a b] loans-sex-torch.nn.modules.linear.Linear"
    assert error.outcome.name == name
    assert failing(by_sex(), loans([14, 5, 5]), ["sex"], max_rate=0).outcome.name == f"{name} 2"
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "tests/test_x.py::test_z (call)")
    other = failing(by_sex(), loans([14, 5, 5]), ["sex"], max_rate=0).outcome.name
    assert other == "tests/test_x.py::test_z loans-sex-torch.nn.modules.linear.Linear"


def test_a_check_that_holds_leaves_the_pairs_of_another_model(monkeypatch: pytest.MonkeyPatch) -> None:
    data = loans([14] * 40 + [5] * 360)
    for test in ("", "tests/test_x.py::test_models (call)"):
        monkeypatch.setenv("PYTEST_CURRENT_TEST", test)
        found = failing(lambda people: (people["sex"] == "m").to_numpy(float), data, ["sex"], **FUNCTION)
        stored = found.outcome.stored_in
        assert stored is not None
        assert_fair(lambda people: 0.1 + 0.1 * (people["sex"] == "m").to_numpy(float), data, ["sex"], **FUNCTION)
        assert Path(stored).is_file()


def test_a_model_file_is_named_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    data, here = loans([5]), Path.cwd()
    assert {default_name(data, ["sex"], model) for model in ("a/m.onnx", here / "a/m.onnx")} == {"loans-sex-a/m.onnx"}
    assert default_name(data, ["sex"], None) == "loans-sex"


def test_file_names_are_plain_and_tell_checks_apart() -> None:
    names = ["loans", "a/b", "a b", "a::b[1]", "ä", "../up", "x" * 300]
    files = [file_name(name) for name in names]
    assert files[0] == "loans"
    assert len(set(files)) == len(names)
    assert all(len(file) <= 110 and "/" not in file and not file.startswith(".") for file in files)


def test_a_fingerprint_tells_what_codes_mean_and_not_their_words() -> None:
    schema = loans([5]).schema
    sex, income, *rest = schema.attributes
    renamed = schema.model_copy(update={"attributes": [sex.model_copy(update={"words": ["a", "b"]}), income, *rest]})
    wider = schema.model_copy(update={"attributes": [sex, income.model_copy(update={"domain": (0, 10)}), *rest]})
    assert fingerprint(renamed) == fingerprint(schema) != fingerprint(wider)
