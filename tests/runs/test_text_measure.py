"""Measuring texts, on files as a user has them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenhand.errors import EvenhandError
from evenhand.runs.measure import Measurement
from evenhand.runs.text_audit import audit_text
from evenhand.runs.text_measure import measure_text
from tests.worlds.text_files import CLASSES, UserFiles, write_user_files

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> UserFiles:
    return write_user_files(tmp_path_factory.mktemp("mine"))


def run(files: UserFiles, protected: str = "religion", **settings: Any) -> Measurement:
    return measure_text(files.data, protected, **(files.options | settings))


def test_rates_are_those_that_an_audit_measures(files: UserFiles, tmp_path: Path) -> None:
    audit = audit_text(files.data, "religion", **files.options, iterations=2, steps=2, out=tmp_path)
    found = run(files, findings=tmp_path)
    [measured] = found.summary["measured"]
    rates = {rate["name"]: rate for rate in measured["populations"]}
    for name, rate in audit.summary["data_rate"].items():
        assert {key: rates[name][key] for key in rate} == rate
    again = found.summary["findings"]
    assert (again["rate"], again["samples"]) == (1.0, len(audit.findings))


def test_the_direction_by_the_plain_way(files: UserFiles) -> None:
    """Counted again from the audit's world, variant by variant."""
    from evenhand.runs.config import TextAuditConfig
    from evenhand.runs.text_audit import load_setting
    from evenhand.runs.text_world import still_world

    config = TextAuditConfig.checked(dataset=files.data, protected=["religion"], **files.options)
    setting = load_setting(config, None, lambda what, done, total: None)
    chosen = setting.mentions.choose(train=True, count=100, seed=0)
    world = still_world(chosen, setting.mentions.words, setting.model, config, setting.device)
    seen: dict[str, list[bool]] = {}
    favourable = setting.corpus.classes.index(CLASSES[0])
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
    with pytest.raises(EvenhandError, match="at least one"):
        run(files, texts=0)
    with pytest.raises(EvenhandError, match="religion"):
        run(files, "religon")
