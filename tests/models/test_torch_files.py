"""Programs of torch from disk, and files that only look like them."""

import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from evenhand.errors import EvenhandError
from evenhand.models.adapters.features.matrix import Features
from evenhand.models.adapters.torch.networks import wrap_module
from evenhand.models.adapters.torch.programs import open_exported, open_torchscript
from evenhand.models.loading import load_module
from evenhand.models.trial import conformance
from tests.worlds.adapters import codes_of, people
from tests.worlds.network_audits import audited, credit_width

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
DATA = people()
WIDTH = Features(DATA, "standard").width


def network(width: int = WIDTH) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 2)).eval()


def exported(path: Path, width: int = WIDTH, **settings: Any) -> Path:
    program = torch.export.export(network(width), (torch.zeros(4, width),), **settings)
    torch.export.save(program, path)
    return path


def dynamic(path: Path, width: int = WIDTH) -> Path:
    return exported(path, width, dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))


def test_torchscript_gives_the_scores_and_gradients_of_its_network(tmp_path: Path) -> None:
    torch.jit.script(network()).save(tmp_path / "net.pt")  # type: ignore[no-untyped-call]
    adapter, name = load_module(DATA, tmp_path / "net.pt", "standard")
    assert name == str(tmp_path / "net.pt")
    same_as_the_network(adapter)
    assert conformance(adapter, DATA).gradients


def test_an_exported_program_gives_the_scores_and_gradients_of_its_network(tmp_path: Path) -> None:
    adapter, _ = load_module(DATA, dynamic(tmp_path / "net.pt2"), "standard")
    same_as_the_network(adapter)
    assert conformance(adapter, DATA).gradients


def test_full_audits_through_the_command_line(tmp_path: Path) -> None:
    torch.jit.script(network(credit_width())).save(tmp_path / "net.pt")  # type: ignore[no-untyped-call]
    found = [
        audited(path, tmp_path / path.suffix)
        for path in (tmp_path / "net.pt", dynamic(tmp_path / "net.pt2", credit_width()))
    ]
    for summary in found:
        assert summary["model"]["offers"] == ["scores", "gradients"]
        assert summary["search"]["findings"]["total"] > 0
    assert found[0]["search"]["findings"] == found[1]["search"]["findings"]  # one network in two files


def same_as_the_network(adapter: nn.Module) -> None:
    x = codes_of(DATA).requires_grad_(True)
    expected: Tensor = wrap_module(DATA, network(), "standard")(x)
    scores: Tensor = adapter(x)
    torch.testing.assert_close(scores, expected)
    slopes, expected_slopes = (torch.autograd.grad(s[:, 1].sum(), x)[0] for s in (scores, expected))
    torch.testing.assert_close(slopes, expected_slopes)


def test_an_exported_program_for_a_fixed_number_of_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvenhandError, match="exactly 4 rows at a time"):
        open_exported(DATA, exported(tmp_path / "net.pt2"), "standard")


def test_other_columns_than_the_program_reads(tmp_path: Path) -> None:
    with pytest.raises(EvenhandError, match=r"cannot read the 6 columns .*age \(code\), sex \(code\)"):
        open_exported(DATA, dynamic(tmp_path / "net.pt2"), None)


class Writes:
    """Unpickling it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return open, (str(self.path), "w")


@pytest.mark.parametrize("opener", [open_torchscript, open_exported])
@pytest.mark.parametrize("zipped", [False, True])
def test_a_pickle_is_refused_and_never_read(tmp_path: Path, opener: Any, zipped: bool) -> None:
    path, trap = tmp_path / "net.pt", tmp_path / "trap"
    if zipped:
        torch.save(Writes(trap), path)
    else:
        path.write_bytes(pickle.dumps(Writes(trap)))
    with pytest.raises(EvenhandError, match=r"pickle|no exported program"):
        opener(DATA, path, "standard")
    assert not trap.exists()


def changed(path: Path, name: str, change: Callable[[bytes], bytes], extra: str = "") -> Path:
    """A copy of an archive with one file changed or added."""
    copy = path.with_name(f"changed{path.suffix}")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(copy, "w") as target:
        root = source.namelist()[0].partition("/")[0]
        for entry in source.namelist():
            content = source.read(entry)
            target.writestr(entry, change(content) if entry == f"{root}/{name}" else content)
        if extra:
            target.writestr(extra.replace("ROOT", root), change(b""))
    return copy


def test_a_harmless_copy_of_a_program_is_still_read(tmp_path: Path) -> None:
    path = changed(dynamic(tmp_path / "net.pt2"), "models/model.json", lambda content: content)
    same_as_the_network(open_exported(DATA, path, "standard"))


def test_sample_inputs_that_would_run_code_are_refused(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    torch.save(Writes(trap), tmp_path / "evil.pt")
    evil = (tmp_path / "evil.pt").read_bytes()
    path = changed(dynamic(tmp_path / "net.pt2"), "data/sample_inputs/model.pt", lambda _: evil)
    with pytest.raises(EvenhandError, match="pickle of more than tensors"):
        open_exported(DATA, path, "standard")
    assert not trap.exists()


HARMS: dict[str, tuple[str, str]] = {
    "a shape that is code": ("Symbol('s77', positive=True, integer=True)", "open('TRAP', 'w')"),
    "a shape with an attribute": ("Symbol('s77', positive=True, integer=True)", "Symbol('s77').func"),
    "a call out of the operators": ("torch.ops.aten.relu.default", "torch.ops.load_library"),
    "another call of torch": ("torch.ops.aten.relu.default", "torch.hub.load"),
    "a name that is code": ('"name": "relu"', '"name": "relu; import os"'),
    "a parameter's name that is code": ('"0.weight"', '"w\\", open(\\"TRAP\\", \\"w\\")) #"'),
    "an argument's name that is code": ('names": ["input"]', 'names": ["input=open(\\"TRAP\\", \\"w\\")"]'),
    "a call through an argument": ('{"as_tensor": {"name": "linear"}}, "kind"', '{"as_operator": "torch.hub"}, "kind"'),
    "a file that is written": ("torch.ops.aten.relu.default", "torch.ops.aten.save.default"),
    "an import by way of the arguments": (
        r'"in_spec": "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\"',
        r'"in_spec": "[1, {\"type\": \"builtins.tuple\", \"context\": \"{\\\"fqn\\\": \\\"this\\\"}\"',
    ),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_program_that_calls_or_evaluates_more_than_a_network_needs_is_refused(tmp_path: Path, harm: str) -> None:
    trap = tmp_path / "trap"
    good, bad = HARMS[harm]
    symbol = json.loads(zipfile.ZipFile(dynamic(tmp_path / "net.pt2")).read("net/models/model.json"))
    (dimension,) = symbol["range_constraints"]
    good, bad = (text.replace("s77", dimension).replace("TRAP", str(trap)) for text in (good, bad))

    def replace(content: bytes) -> bytes:
        assert good.encode() in content
        return content.replace(good.encode(), bad.encode())

    with pytest.raises(EvenhandError, match="which no network needs"):
        open_exported(DATA, changed(tmp_path / "net.pt2", "models/model.json", replace), "standard")
    assert not trap.exists()


def two_in_one(checked: bytes, loaded: bytes) -> bytes:
    """An archive in which Python's zipfile sees the first one and torch the second: both lists are equally long."""
    (files, listed, end), (others, other_list, _) = (_parts(each) for each in (checked, loaded))
    assert len(listed) == len(other_list)
    # The end says where torch's list begins. Python takes the list that lies before the end and moves its places.
    moved = bytearray(listed)
    place, shift = 0, len(others) + len(other_list) - (len(other_list) + len(files))
    while place < len(moved):
        sizes = struct.unpack("<HHH", moved[place + 28 : place + 34])
        (start,) = struct.unpack("<I", moved[place + 42 : place + 46])
        moved[place + 42 : place + 46] = struct.pack("<I", start + shift)
        place += 46 + sum(sizes)
    where = struct.pack("<I", len(others))
    return others + other_list + files + bytes(moved) + end[:16] + where + end[20:]


def _parts(archive: bytes) -> tuple[bytes, bytes, bytes]:
    end = archive.rfind(b"PK\5\6")
    size, start = struct.unpack("<II", archive[end + 12 : end + 20])
    return archive[:start], archive[start : start + size], archive[end:]


@pytest.mark.parametrize("kind", ["pt", "pt2"])
def test_what_is_loaded_is_the_archive_that_was_checked(tmp_path: Path, kind: str) -> None:
    path, name = tmp_path / f"net.{kind}", "models/model.json"
    if kind == "pt":
        name = f"code/__torch__/{__name__.replace('.', '/')}.py"
        torch.jit.trace(Plain(), torch.zeros(2, WIDTH)).save(path)  # type: ignore[no-untyped-call]
        good, bad = b"torch.add", b"torch.sub"
    else:
        torch.export.save(
            torch.export.export(
                Plain(), (torch.zeros(4, WIDTH),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},), strict=False
            ),
            path,
        )
        good, bad = b"aten.add.", b"aten.sub."
    other = changed(path, name, lambda content: content.replace(good, bad)).read_bytes()
    same = changed(path, name, lambda content: content).read_bytes()
    assert other != same
    path.write_bytes(two_in_one(same, other))
    opener = open_torchscript if kind == "pt" else open_exported
    x = codes_of(DATA)
    torch.testing.assert_close(opener(DATA, path, "standard")(x), wrap_module(DATA, Plain(), "standard")(x))


class Plain(nn.Module):
    """The first two columns and one more."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :2] + x[:, 2:3]


class Saves(nn.Module):
    """Writes what it reads."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place

    def forward(self, x: Tensor) -> Tensor:
        torch.save(x, self.place)
        return x[:, :2]


def test_a_script_that_writes_files_is_refused(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    torch.jit.script(Saves(str(trap))).save(tmp_path / "net.pt")  # type: ignore[no-untyped-call]
    with pytest.raises(EvenhandError, match="names 'save', which may reach other files"):
        open_torchscript(DATA, tmp_path / "net.pt", "standard")
    assert not trap.exists()


def test_pickled_weights_and_machine_code_are_refused(tmp_path: Path) -> None:
    path = dynamic(tmp_path / "net.pt2")
    config = "data/weights/model_weights_config.json"
    pickled = changed(path, config, lambda c: c.replace(b'"use_pickle": false', b'"use_pickle": true'))
    with pytest.raises(EvenhandError, match="use_pickle"):
        open_exported(DATA, pickled, "standard")
    compiled = changed(path, "", lambda _: b"\x7fELF", extra="ROOT/data/aotinductor/model/net.so")
    with pytest.raises(EvenhandError, match="machine code"):
        open_exported(DATA, compiled, "standard")


def test_an_exported_program_by_the_wrong_name(tmp_path: Path) -> None:
    path = dynamic(tmp_path / "net.pt2").rename(tmp_path / "net.pt")
    with pytest.raises(EvenhandError, match=r"Rename it to net\.pt2"):
        open_torchscript(DATA, path, "standard")


def test_archives_that_lead_out_or_explode_are_refused(tmp_path: Path) -> None:
    outside, bomb, twice = (tmp_path / f"{name}.pt" for name in ("outside", "bomb", "twice"))
    with zipfile.ZipFile(outside, "w") as archive:
        archive.writestr("net/../../code/x.py", "x")
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/data.pkl", bytes(10**7))
    with zipfile.ZipFile(twice, "w") as archive:
        archive.writestr("net/a", "1")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("net/a", "2")
    for path, message in ((outside, "leads out of"), (bomb, "10,000,000"), (twice, "same name")):
        with pytest.raises(EvenhandError, match=message):
            open_torchscript(DATA, path, None)
