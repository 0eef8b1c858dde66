"""Models of one's own through the whole run: chosen method, failures on the way, what is said about them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import evenhand
from evenhand.cli.main import app
from evenhand.errors import EvenhandError
from evenhand.methods.names import DEFAULT
from evenhand.methods.registry import BLACK_BOX
from evenhand.search.recorder import Findings
from tests.worlds.adapters import people, raw_people

FUNCTIONS = """
calls = 0

def score(frame):
    '''Men above 40 with a degree are favoured.'''
    degree = frame["education"].isin(["Bachelors", "Masters", "Doctorate", "Prof-school"])
    return 0.1 + 0.8 * ((frame["age"] > 40) & (frame["sex"] == "Male") & degree)

def breaks(frame):
    global calls
    calls += 1
    if calls > 400:
        raise RuntimeError("the licence has run out")
    return score(frame)

def wrong(frame):
    return [0.5]
"""


LONG_AUDIT = ["audit", "census", "-p", "sex", "--seeds", "20", "--steps", "500", "--out", "kept"]


def by_age_and_sex(frame: pd.DataFrame) -> Any:
    return 0.1 + 0.8 * ((frame["age"] > 40) & (frame["sex"] == "male"))


@pytest.fixture
def own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A module of the user's, under a name that no other test has imported."""
    name = f"own_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def command(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def test_the_method_follows_from_what_a_model_offers() -> None:
    data = people()
    found = evenhand.audit(data, "sex", model=by_age_and_sex, seeds=30, steps=10)
    assert found.summary["config"]["method"] == BLACK_BOX
    assert found.summary["model"]["offers"] == ["scores"]
    assert "data frame" in found.summary["model"]["no_gradients"]
    assert found.summary["search"]["findings"]["total"] > 30
    assert (found.findings["sample_code.age"] > 40).all()  # only there does the function look at sex
    census = evenhand.audit("census", "sex", seeds=5, steps=2)
    assert census.summary["config"]["method"] == DEFAULT
    with pytest.raises(EvenhandError, match="adf needs gradients, and this model gives none: it is a function"):
        evenhand.audit(data, "sex", model=by_age_and_sex, method="adf")


def test_a_data_frame_needs_nothing_but_its_label() -> None:
    frame = raw_people()
    found = evenhand.audit(frame, "sex", model=by_age_and_sex, label="approved", seeds=20, steps=5)
    assert found.summary["search"]["findings"]["total"] > 20
    with pytest.raises(EvenhandError, match=r"say which column the model predicts \(label="):
        evenhand.audit(frame, "sex", model=by_age_and_sex)


def test_a_model_that_fails_on_the_way_leaves_what_was_found(own_code: str) -> None:
    done = command(*LONG_AUDIT, "--model", f"{own_code}:breaks")
    assert done.exit_code != 0
    assert isinstance(done.exception, EvenhandError)
    assert "RuntimeError: the licence has run out" in str(done.exception)
    assert "What was found until then is kept in kept" in str(done.exception)
    summary = json.loads(Path("kept/summary.json").read_text())
    assert summary["search"]["stopped"] == "model-failed"
    findings = pd.read_parquet("kept/findings.parquet")
    assert len(findings) == summary["search"]["findings"]["total"] > 20
    assert (findings["sample_code.age"] >= 4).all()
    assert "ended by an error of the model" in Path("kept/report.html").read_text()


def test_a_model_that_never_works_leaves_nothing(own_code: str) -> None:
    done = command("audit", "census", "-p", "sex", "--model", f"{own_code}:wrong", "--out", "nothing")
    assert "answered with the shape (1,) to" in str(done.exception)
    assert not Path("nothing").exists()


def test_trying_a_model_says_what_it_offers(own_code: str) -> None:
    done = command("model", "census", "--model", f"{own_code}:score", "--json")
    assert done.exit_code == 0
    content = json.loads(done.stdout)
    assert content["offers"] == ["scores"]
    assert content["method"] == BLACK_BOX
    assert len(content["met"]) == 5
    shown = command("model", "census")
    assert "gradients agree with finite differences" in shown.stdout
    assert "margin" in shown.stdout


def test_the_average_of_any_model_can_be_written_and_asked_again(
    own_code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = command(
        "repair", "census", "-p", "sex", "--model", f"{own_code}:score", "--by", "average", "--seeds", "20", "--steps",
        "10", "--out", "repaired", "--quiet",
    )  # fmt: skip
    assert done.exit_code == 0, done.exception
    before = command(
        "audit", "census", "-p", "sex", "--model", f"{own_code}:score", "--seeds", "20", "--steps", "5", "--json"
    )
    again = ["audit", "census", "-p", "sex", "--model", "repaired/model.safetensors", "--seeds", "20", "--steps", "5"]
    assert f"EVENHAND_TRUST='{own_code}:score'" in str(command(*again).exception)  # a file alone imports nothing
    monkeypatch.setenv("EVENHAND_TRUST", f"{own_code}:score")
    after = command(*again, "--json")
    assert json.loads(before.stdout)["data_rate"]["all"]["discriminatory"] > 0
    assert json.loads(after.stdout)["data_rate"]["all"]["discriminatory"] == 0
    assert json.loads(after.stdout)["search"]["findings"]["total"] == 0


def test_the_average_of_a_file_has_it_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import skops.io
    from sklearn.tree import DecisionTreeClassifier

    from evenhand.data.decoding import Decoder

    monkeypatch.chdir(tmp_path)
    data = evenhand.load_dataset("census")
    raw = Decoder(data.schema).frame(data.clipped)[["age", "hours-per-week"]]
    tree = DecisionTreeClassifier(max_depth=4, random_state=0).fit(raw, data.labels)
    skops.io.dump(tree, "tree.skops")
    repaired = evenhand.repair("census", "age", by="average", model="tree.skops", out="fixed", seeds=20, steps=5)
    assert (tmp_path / "fixed" / "model.inner.skops").is_file()
    Path("tree.skops").unlink()
    Path("fixed").rename("moved")
    after = evenhand.audit("census", "age", model="moved/model.safetensors", accept_poor_model=True)
    assert repaired.summary["chosen"] == "average"
    assert after.summary["status"] == "not tested"
    assert after.summary["data_rate"]["all"]["discriminatory"] == 0


def test_a_decorated_function_is_a_model_and_no_factory(own_code: str, tmp_path: Path) -> None:
    path = tmp_path / f"{own_code}.py"
    path.write_text(
        path.read_text() + "\nimport torch\n\n@torch.no_grad()\ndef quiet(frame):\n    return score(frame)\n"
    )
    assert command("model", "census", "--model", f"{own_code}:quiet").exit_code == 0


@pytest.mark.parametrize("later", ["float('nan') * score(frame)", "[0.5]", "exit()"])
def test_a_model_that_goes_wrong_later_leaves_what_was_found(own_code: str, tmp_path: Path, later: str) -> None:
    path = tmp_path / f"{own_code}.py"
    path.write_text(path.read_text().replace('raise RuntimeError("the licence has run out")', f"return {later}"))
    done = command(*LONG_AUDIT, "--model", f"{own_code}:breaks")
    assert "kept in kept" in str(done.exception)
    assert len(pd.read_parquet("kept/findings.parquet")) > 20


def test_one_thread_asks_a_model_of_ones_own() -> None:
    import threading

    asking = threading.Lock()

    def alone(frame: pd.DataFrame) -> Any:
        assert asking.acquire(blocking=False), "asked by two threads at once"
        try:
            return by_age_and_sex(frame)
        finally:
            asking.release()

    found = evenhand.measure(people(), "sex", model=alone, half_width=0.02)
    assert found.summary["measured"][0]["populations"][0]["rate"] > 0


def test_findings_can_be_seen_on_their_way() -> None:
    seen: list[Findings] = []
    found = evenhand.audit(people(), "sex", model=by_age_and_sex, seeds=20, steps=10, on_findings=seen.append)
    samples = np.concatenate([part.sample for part in seen])
    names = [f"sample_code.{name}" for name in people().schema.names]
    assert samples.tolist() == found.findings[names].to_numpy().tolist()


@pytest.mark.parametrize("wrong", ["./my_model.py:score", "my_model.py"])
def test_a_file_of_code_is_named_as_a_module(wrong: str) -> None:
    done = command("model", "census", "--model", wrong)
    assert "names a file. Write my_model:" in str(done.exception)


def test_what_a_function_was_given_is_said(own_code: str, tmp_path: Path) -> None:
    path = tmp_path / f"{own_code}.py"
    path.write_text("def score(frame):\n    return frame['incom']\n")
    done = command("model", "census", "--model", f"{own_code}:score")
    assert "a data frame with the columns of the table. It said: KeyError: 'incom'" in str(done.exception)
