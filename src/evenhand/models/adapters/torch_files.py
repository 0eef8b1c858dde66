"""TorchScript files and exported programs from the user's own disk.

Both are programs. What can be told without running them is checked first, and nothing is ever unpickled freely; but a
TorchScript file or an exported program from a stranger is still a stranger's program, and ONNX is the better format.
"""

import io
import re
import warnings
import zipfile
from pathlib import Path

import torch
from torch import Tensor, nn

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.models.adapters.archives import open_archive, repacked
from evenhand.models.adapters.exported_files import checked_program
from evenhand.models.adapters.feature_entries import Inputs
from evenhand.models.adapters.features import NetworkAdapter, read_through
from evenhand.models.classifier import first_line

HOW_TO_SAVE = (
    "Save the network as a program: torch.jit.script(model.eval()).save('net.pt'), or torch.export.save(…, 'net.pt2'); "
    "or load it in your own code and name it as module:function."
)
# What a TorchScript program may not name: calls that write or read files or talk to others, and classes of those.
FOREIGN = re.compile(
    r"\b(save|from_file|rpc_\w+|ops[\s\\]*\.[\s\\]*(?!aten\b|prim\b|quantized\b)\w+|"
    r"classes[\s\\]*\.[\s\\]*(?!quantized\b|rnn\b)\w+)"
)


class ScriptAdapter(NetworkAdapter):
    """A TorchScript program. Its own optimiser is off: it would change the scores after the first calls."""

    thread_safe = False  # switching the optimiser off is not

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) codes to scores."""
        features = self.features(x)
        with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
            scores: Tensor = self.network(features)
        return scores


def open_torchscript(data: Dataset, path: Path, inputs: Inputs) -> nn.Module:
    """A program that torch.jit saved. A pickle of the same name is told apart by its contents and never loaded."""
    with open_archive(path, "a TorchScript file", HOW_TO_SAVE) as archive:
        content = _checked_script(archive, path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            network = torch.jit.load(content, map_location="cpu")  # type: ignore[no-untyped-call]
    except Exception as error:  # a damaged file
        raise EvenhandError(f"Cannot read the TorchScript file {path}: {first_line(error)}. {HOW_TO_SAVE}") from error
    adapter = read_through(data, network.eval(), inputs, str(path))
    script = ScriptAdapter(adapter.features, adapter.network, adapter.about)
    script.told(inputs)
    return script


def _checked_script(archive: zipfile.ZipFile, path: Path) -> io.BytesIO:
    names = {name.partition("/")[2]: name for name in archive.namelist()}
    if "archive_format" in names:
        raise EvenhandError(f"{path} is an exported program. Rename it to {path.with_suffix('.pt2').name}.")
    if "constants.pkl" not in names or not any(name.startswith("code/") for name in names):
        what = "a pickle that torch.save made" if "data.pkl" in names else "no TorchScript file"
        raise EvenhandError(f"{path} is {what}, so it was not opened. {HOW_TO_SAVE}")
    for name in archive.namelist():
        if name.endswith(".py") and (found := FOREIGN.search(archive.read(name).decode("utf-8", "replace"))):
            raise EvenhandError(
                f"{path} names '{found[0]}', which may reach other files or machines and which no network needs, so it "
                "was not opened."
            )
    return repacked(archive, {})


def open_exported(data: Dataset, path: Path, inputs: Inputs) -> nn.Module:
    """A program that torch.export saved, for any number of rows."""
    with open_archive(path, "an exported program (.pt2)", HOW_TO_SAVE) as archive:
        content = checked_program(archive, path, HOW_TO_SAVE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.load(content)
            network = program.module(check_guards=False)  # guards are Python source: never run those of a file
    except Exception as error:  # a damaged file, or one of another version of torch
        raise EvenhandError(f"Cannot read the exported program {path}: {first_line(error)}. {HOW_TO_SAVE}") from error
    _check_batch(program, path)
    return read_through(data, network, inputs, str(path))


def _check_batch(program: torch.export.ExportedProgram, path: Path) -> None:
    """It must read one matrix of any number of rows."""
    names = program.graph_signature.user_inputs
    shapes = [node.meta["val"].shape for node in program.graph.nodes if node.op == "placeholder" and node.name in names]
    if len(shapes) != 1 or len(shapes[0]) != 2:
        raise EvenhandError(f"{path} must read one matrix of people, but it reads {len(names)} inputs.")
    if isinstance(shapes[0][0], int):
        raise EvenhandError(
            f"{path} was exported for exactly {shapes[0][0]} rows at a time. Export it for any number: "
            "torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))."
        )
