"""Measuring texts, on files as a user has them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenhand.errors import EvenhandError
from evenhand.runs.audit import audit
from evenhand.runs.measure import Measurement, measure
from tests.worlds.text_files import CLASSES, UserFiles, write_user_files

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> UserFiles:
    return write_user_files(tmp_path_factory.mktemp("mine"))


def run(files: UserFiles, protected: str = "religion", **settings: Any) -> Measurement:
    options = {name: value for name, value in files.options.items() if name != "encoder"}
    return measure(files.data, protected, **(options | settings))


def test_rates_are_those_that_an_audit_measures(files: UserFiles, tmp_path: Path) -> None:
    audited = audit(files.data, "religion", **files.options, iterations=2, steps=2, out=tmp_path)
    found = run(files, findings=tmp_path)
    [measured] = found.summary["measured"]
    rates = {rate["name"]: rate for rate in measured["populations"]}
    for name, rate in audited.summary["data_rate"].items():
        assert {key: rates[name][key] for key in rate} == rate
    again = found.summary["findings"]
    assert (again["rate"], again["samples"]) == (1.0, len(audited.findings))


def test_the_direction_by_the_plain_way(files: UserFiles) -> None:
    """Counted again from the audit's world, variant by variant."""
    from evenhand.runs.subject import open_subject
    from evenhand.runs.text_subject import TextSubject
    from evenhand.runs.text_world import still_world

    setting = open_subject("audit", files.data, "religion", **files.options)
    assert isinstance(setting, TextSubject)
    chosen = setting.mentions.choose(train=True, count=100, seed=0)
    world = still_world(chosen, setting.mentions.words, setting.model, setting.settings, setting.device)
    seen: dict[str, list[bool]] = {}
    favourable = setting.data.classes.index(CLASSES[0])
    for number in range(len(chosen)):
        x = world.space.samples(np.array([[number]], dtype="int32"))
        begin, end = world.space.first_swap[number : number + 2].tolist()
        swaps = world.space.swaps[begin:end]
        own = int(world.model.outputs(world.space.inputs(x)).labels)
        labels = [
            int(world.model.outputs(world.space.inputs(world.space.with_combination(x, s[None]))).labels) for s in swaps
        ]
        if all(label == own for label in labels):
            continue
        mentions = set()
        for swap, label in zip(swaps, labels, strict=True):
            before, after = world.space.swapped_values(x, swap[None])
            seen.setdefault(setting.mentions.words.values[after[0]], []).append(label == favourable)
            mentions.add(((int(swap) - 1) // world.space.values, int(before[0])))
        for _, value in mentions:
            seen.setdefault(setting.mentions.words.values[value], []).append(own == favourable)
    assert seen
    [direction] = run(files).summary["measured"][0]["populations"][0]["direction"]
    expected = {value: sum(wins) / len(wins) for value, wins in seen.items()}
    assert {entry["value"]: entry["favourable"] for entry in direction["values"]} == pytest.approx(expected)


def test_several_attributes_and_fewer_texts(files: UserFiles) -> None:
    found = run(files, "religion,gender", texts=3)
    assert [measured["protected"] for measured in found.summary["measured"]] == [["religion"], ["gender"]]
    assert all(rate["samples"] <= 3 for measured in found.summary["measured"] for rate in measured["populations"])
    with pytest.raises(EvenhandError, match="greater than or equal to 1"):
        run(files, texts=0)
    with pytest.raises(EvenhandError, match="religion"):
        run(files, "religon")
