"""The shape of the package: imports point one way, a class name stands for one thing, and starting up is light."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import evenhand

PACKAGE = Path(evenhand.__file__).parent
LAYERS = [
    {"choices", "errors"},
    {"files", "mistakes", "toml_files"},
    {"settings"},
    {"data", "text"},
    {"models"},
    {"search"},
    {"methods"},
    {"measures", "repairs"},
    {"report"},
    {"runs", "engine"},
    {"paper", "gate"},
    {"service", "pytest_plugin"},
    {"local_runs"},
    {"cli"},
]
# Class names that stand for two things. One that is renamed goes from this list; none is ever added.
SEVERAL_CLASSES: set[str] = set()
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def imported_parts(path: Path) -> set[str]:
    """The first-level parts of evenhand that a file imports, at the top or inside functions."""
    parts = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [node.module or ""]
        parts |= {name.split(".")[1] for name in names if name.startswith("evenhand.")}
    return parts


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downward(path: Path) -> None:
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if part == "__init__":
        return  # the front door: it names things of all layers and imports them on first use
    upward = {name for name in imported_parts(path) if name != part and RANK[name] >= RANK[part]}
    assert not upward, f"{path} imports from {upward}, which is not below {part}"


def test_the_map_of_the_house_is_complete_and_in_order() -> None:
    text = (PACKAGE.parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = re.findall(r"^\| `src/evenhand/(\w+)` \|", text, re.MULTILINE)
    assert set(rooms) == {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert [RANK[room] for room in rooms] == sorted(RANK[room] for room in rooms)


def test_a_class_name_stands_for_one_thing() -> None:
    homes: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(f"{path.relative_to(PACKAGE)}, line {node.lineno}")
    several = {name: places for name, places in homes.items() if len(places) > 1}
    new = {name: places for name, places in several.items() if name not in SEVERAL_CLASSES}
    assert not new, f"name one of each otherwise: {new}"
    assert several.keys() == SEVERAL_CLASSES, "take from SEVERAL_CLASSES what stands for one thing now"


@pytest.mark.parametrize("statement", ["import evenhand", "import evenhand.cli.main"])
def test_starting_up_does_not_import_what_is_heavy(statement: str) -> None:
    code = f"{statement}; import sys; print([m for m in ('torch', 'pandas', 'sklearn', 'pyarrow') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_way_of_an_audit_is_short_and_as_it_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the command line to the search: the functions that CONTRIBUTING names; and the table is read once."""
    from evenhand.cli.main import main
    from evenhand.data import dataset
    from evenhand.search.search import Search

    run, read, ways, reads = Search.run, dataset.read_dataset, [], []

    def noted(self: Any, *given: Any) -> Any:
        frames = [(frame.frame.f_globals["__name__"], frame.function) for frame in reversed(inspect.stack())]
        ways.append([f"{module.removeprefix('evenhand.')}.{name}" for module, name in frames if "evenhand." in module])
        return run(self, *given)

    def counted(*given: Any) -> Any:
        reads.append(given)
        return read(*given)

    monkeypatch.setattr(Search, "run", noted)
    monkeypatch.setattr(dataset, "read_dataset", counted)
    words = ["audit", "credit", "-p", "sex", "--seeds", "3", "--steps", "1", "--quiet", "--out", str(tmp_path / "a")]
    monkeypatch.setattr(sys, "argv", ["evenhand", *words])
    with pytest.raises(SystemExit):
        main()
    text = (PACKAGE.parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawn = [
        line.split()[0] for line in text.partition("```text\ncli.main.main")[2].partition("```")[0].splitlines()[1:]
    ]
    assert ways == [["cli.main.main", *drawn[:-1]]]
    assert drawn[-1] == "search.search.Search.run"
    assert len(drawn) + 1 <= 15
    assert len(reads) == 1
