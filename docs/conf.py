"""The documentation site: `sphinx-build -W --keep-going -b html docs OUT`."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tools.docs_api import api_reference  # noqa: E402
from tools.docs_cli import command_reference  # noqa: E402

import evenhand  # noqa: E402

project = "evenhand"
author = "the evenhand authors"
version = release = evenhand.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]

myst_heading_anchors = 3
default_role = "code"  # docstrings write names between single backticks
highlight_language = "text"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
add_module_names = False

html_theme = "furo"
html_title = f"evenhand {version}"
html_static_path = ["_static"]
html_css_files = ["evenhand.css"]
html_copy_source = False
html_show_copyright = False

# Pages of which only the opening is written by hand; the rest is what the package says about itself.
GENERATED = {"reference/api": api_reference, "reference/cli": command_reference}


def add_generated(_app: object, docname: str, content: list[str]) -> None:
    """Let a reference page end with what is generated, so that no generated file is ever written or committed."""
    if docname in GENERATED:
        content[0] += "\n" + GENERATED[docname]()


def setup(app: object) -> dict[str, bool]:
    """Sphinx's entry."""
    app.connect("source-read", add_generated)  # type: ignore[attr-defined]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
