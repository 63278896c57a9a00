"""How the documentation is built: `make docs`. Nothing is fetched, and warnings are errors."""

import re
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import freegp
from freegp.cli import app as command_line

project = "freegp"
author = "the freegp authors"
project_copyright = f"2026, {author}"
release = freegp.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
default_role = "code"
smartquotes = False

html_theme = "furo"
html_title = f"freegp {release}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["tables.css"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_inherit_docstrings = False
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_attr_annotations = False


def part_trailing_text(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Give what follows the last section of a docstring, a remark or an example, a heading of its own.

    Our docstrings end with them after a blank line, and napoleon would take them for one more parameter. An absolute value,
    ``|mean|``, is no substitution.
    """
    lines[:] = [re.sub(r"\|(\w+)\|", r"\\|\1\\|", line) for line in lines]
    rules = [i for i, line in enumerate(lines) if line and not line.strip("-")]
    if not rules:
        return
    for i in range(rules[-1] + 2, len(lines)):
        begins = not lines[i - 1].strip() and lines[i].strip() and not lines[i].startswith(" ")
        if begins and not (i + 1 < len(lines) and lines[i + 1].startswith("    ")):
            heading = "Examples" if lines[i].startswith(">>>") else "Notes"
            lines[i:i] = [heading, "-" * len(heading)]
            return


def write_help(app: Any) -> None:
    """Write what each command says of itself where its page includes it from."""
    folder = Path(app.confdir) / "_build" / "help"
    folder.mkdir(parents=True, exist_ok=True)
    plain = {"TERMINAL_WIDTH": "100", "NO_COLOR": "1", "TERM": "dumb"}
    for command in command_line.registered_commands:
        name = command.callback.__name__  # type: ignore[union-attr]
        said = CliRunner().invoke(command_line, [name, "--help"], prog_name="freegp", env=plain)
        (folder / f"{name}.txt").write_text(said.output.strip("\n") + "\n", encoding="utf-8")


def setup(app: Any) -> None:
    """Docstrings are parted before napoleon sees them, whose priority is 500."""
    app.connect("builder-inited", write_help)
    app.connect("autodoc-process-docstring", part_trailing_text, priority=400)
