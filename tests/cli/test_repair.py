"""`evenhand repair` as a user meets it: exit codes, messages, and what is left behind."""

import json
import shlex
import sys
from pathlib import Path

import pytest
import torch

from evenhand.models.network import first_layer, save_network
from evenhand.repairs.table_training import blind_network
from tests.worlds.commands import Done, Shell
from tests.worlds.repair import DOMAINS, network, table

QUICK = ["--seeds", "20", "--steps", "5", "--epochs", "2", "--repeats", "1", "--half-width", "0.03"]
MODEL_FILES = {"model.json", "model.safetensors"}
BLACK_BOX = """
import torch
from torch import nn

class Sum(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x[:, 1] + x[:, 2] + 1.5 * x[:, 0] - 6.5)

def make():
    return Sum()

def exact():
    network = nn.Linear(4, 2).double()
    network.weight.data = torch.tensor([[0.0, 0, 0, 0], [1.5, 1, 1, 0]]).double()
    network.bias.data = torch.tensor([0, -6.5]).double()
    return network
"""


pytest_plugins = ["tests.worlds.commands"]


@pytest.fixture
def run(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """The command line in this process, in a folder with a table, its schema, a network and a black box."""
    data = table()
    rows = [",".join(map(str, [*row, f"class {label}"])) for row, label in zip(data.codes, data.labels, strict=True)]
    Path("people.csv").write_text("\n".join(["a0,a1,a2,a3,y", *rows]))
    attributes = [f"[[attribute]]\nname = 'a{i}'\nkind = 'number'\ndomain = {list(d)}" for i, d in enumerate(DOMAINS)]
    Path("people.toml").write_text(
        "name = 'world'\nfile = 'people.csv'\nlabel = { column = 'y', values = ['class 0', 'class 1'] }\n"
        + "\n".join(attributes)
    )
    description = {"attributes": data.schema.names, "classes": data.schema.label.values}
    save_network(network(), description, Path("net"))
    Path("box_to_repair.py").write_text(BLACK_BOX)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "box_to_repair", raising=False)

    return shell


def repair(run: Shell, *arguments: str, model: str = "net.safetensors", out: str = "out") -> Done:
    return run("repair", "people.toml", "-p", "a0", "--model", model, "--out", out, *QUICK, *arguments)


def files(folder: str) -> set[str]:
    return {path.name for path in Path(folder).iterdir()}


@pytest.mark.parametrize("model", ["net.safetensors", "box_to_repair:make", "box_to_repair:exact"])
def test_an_averaged_model_is_a_file_to_audit(run: Shell, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENHAND_TRUST", model)
    done = repair(run, "--by", "average", model=model)
    assert done.code == 0
    assert files("out") == MODEL_FILES | {"report.html", "summary.json"}
    summary = json.loads(Path("out/summary.json").read_text())
    for row in summary["rows"]:
        assert row["name"] in done.out
    assert "out/model.safetensors" in done.out
    audit = ["audit", "people.toml", "-p", "a0", "--seeds", "50", "--steps", "20", "--json", "--quiet"]
    before = json.loads(run(*audit, "--model", model, "--out", "before").out)
    after = json.loads(run(*audit, "--model", "out/model.safetensors", "--out", "after").out)
    assert before["search"]["findings"]["total"] > 0
    assert after["search"]["findings"]["total"] == 0
    assert after["data_rate"]["all"]["discriminatory"] == 0


def test_a_retrained_model_is_a_file_to_audit_and_its_command_makes_it_again(run: Shell) -> None:
    done = repair(run, "--by", "pairing,augment", "--share", "0.5", "--vote", "own", "--seed", "3", "--json", "--quiet")
    assert (done.code, done.error) == (0, "")
    summary = json.loads(done.out)
    assert summary["folder"] == "out"
    weights = Path("out/model.safetensors").read_bytes()
    again = run(*shlex.split(summary["command"])[1:], "--out", "again", "--quiet")
    assert (again.code, again.out) == (0, "")
    assert Path("again/model.safetensors").read_bytes() == weights
    audit = run("audit", "people.toml", "-p", "a0", "--model", "out/model.json", "--seeds", "5", "--out", "audit")
    assert audit.code == 0


def test_without_a_folder_each_repair_is_a_run_that_is_kept(run: Shell) -> None:
    command = ["repair", "people.toml", "-p", "a0", "--model", "net.safetensors", "--by", "average", *QUICK]
    one, other = (json.loads(run(*command, "--json", "--quiet").out) for _ in range(2))
    assert one["run"] != other["run"]
    for repair_run in (one, other):
        assert files(repair_run["folder"]) >= MODEL_FILES
    assert not Path("evenhand-out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--share", "0"], "'share'"),
        (["--share", "1.5"], "'share'"),
        (["--share", "nan"], "'share'"),
        (["--by", "magic"], "magic"),
        (["--by", "blind,"], "repair called"),
        (["--choose", "accuracy>=0.9"], "accuracy>=0.9"),
        (["--choose", ""], "'' is not a condition"),
        (["--by", "augment", "--vote", "everyone"], "'vote'"),
        (["--strength", "0"], "'strength'"),
        (["--confidence", "1"], "'confidence' is 1"),
        (["--half-width", "0"], "'half-width'"),
        (["--epochs", "0"], "'epochs'"),
        (["--repeats", "0"], "'repeats'"),
        (["--seed", "-1"], "'seed'"),
        (["--method", "luck"], "luck"),
        (["-p", "a9"], "a9"),
        (["--lexicon", "words"], "is for texts"),
        (["--model", "none.safetensors"], "none.safetensors"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_done_is_said_and_nothing_is_left(run: Shell, arguments: list[str], message: str) -> None:
    done = repair(run, *arguments)
    assert done.code == 2
    assert message in " ".join(done.error.split())
    assert done.error.startswith("error: ")
    assert done.out == ""
    assert not Path("out").exists()


@pytest.mark.parametrize("by", ["augment", "certified", "pairing", "blind", "average,blind"])
def test_a_black_box_is_offered_the_average_only(run: Shell, by: str) -> None:
    done = repair(run, "--by", by, model="box_to_repair:make")
    assert done.code == 2
    assert 'Only --by average (in Python by="average") is offered' in done.error
    assert not Path("out").exists()


def test_where_no_way_is_named_a_black_box_is_averaged(run: Shell) -> None:
    done = repair(run, model="box_to_repair:make")
    assert done.code == 0
    summary = json.loads(Path("out/summary.json").read_text())
    assert summary["chosen"] == "average"
    assert "Repaired by average: box_to_repair:make is not a network" in " ".join(done.out.split())
    assert "--by average" in summary["command"]
    own = repair(run, out="own")
    assert json.loads(Path("own/summary.json").read_text())["chosen"] == "blind"
    assert "Repaired by average" not in own.out


def test_a_repair_without_a_named_way_is_kept_and_listed(run: Shell) -> None:
    command = ["repair", "people.toml", "-p", "a0", "--model", "box_to_repair:make", *QUICK]
    kept = json.loads(run(*command, "--json", "--quiet").out)
    assert files(kept["folder"]) >= {"summary.json"}
    shown = " ".join(run("runs", "show", kept["run"]).out.split())
    assert "people.toml: a0 " in shown
    assert "a0 by" not in shown


def test_all_of_a_black_box_is_what_can_be_done_to_it(run: Shell) -> None:
    done = repair(run, "--by", "all", model="box_to_repair:make")
    assert done.code == 0
    summary = json.loads(Path("out/summary.json").read_text())
    assert [row["name"] for row in summary["rows"]] == ["original", "average"]
    assert "augment, certified, pairing, blind were left out" in " ".join(done.out.split())
    assert "--by all" in summary["command"]


def test_an_averaged_model_needs_no_repair(run: Shell) -> None:
    repair(run, "--by", "average", "--quiet")
    done = repair(run, "--by", "pairing", "-p", "a1", model="out/model.safetensors", out="again")
    assert done.code == 2
    assert "Only --by average" in done.error
    done = repair(run, "--by", "pairing", model="out/model.safetensors", out="again")
    assert done.code == 2
    assert "does not read a0" in done.error  # so there is nothing to repair


def test_without_findings_there_is_nothing_to_learn_from(run: Shell) -> None:
    """The network reads a0, but so little of it that no label depends on it."""
    nearly_blind = blind_network(network(), [0], torch.tensor([1.0]))
    with torch.no_grad():
        first_layer(nearly_blind).weight[:, 0] = 1e-4
    save_network(nearly_blind, json.loads(Path("net.json").read_text()), Path("nearly"))
    repair(run, "--by", "blind", "--quiet")
    earlier = {name: Path("out", name).read_bytes() for name in files("out")}
    for out in ("out", "new"):
        done = repair(run, "--by", "augment", model="nearly.safetensors", out=out)
        assert done.code == 2
        assert "nothing to learn from" in done.error
    assert not Path("new").exists()
    assert {name: Path("out", name).read_bytes() for name in files("out")} == earlier


def test_a_condition_that_nothing_meets(run: Shell) -> None:
    done = repair(run, "--by", "blind,average", "--choose", "accuracy_loss<=-0.5 and rate<=0.1")
    assert done.code == 1
    assert "no repair keeps to accuracy_loss<=-0.5 and rate<=0.1" in " ".join(done.error.split())
    assert "model.safetensors" not in done.out
    assert files("out") == {"report.html", "summary.json"}
    assert json.loads(Path("out/summary.json").read_text())["chosen"] is None


def test_a_broken_model_leaves_nothing(run: Shell) -> None:
    """It fails only when it is asked about more rows than the trial at the start."""
    broken = "import torch\nfrom torch import nn\n\nclass Broken(nn.Module):\n    def forward(self, x):\n"
    broken += "        if len(x) > 500: raise ValueError('no more')\n        return x[:, :2]\n"
    Path("box_to_repair.py").write_text(broken)
    done = repair(run, "--by", "average", model="box_to_repair:Broken")
    assert done.code == 2
    assert "no more" in done.error
    assert not Path("out").exists()
