"""Options from a file: TOML with the names that the command line has, which wins where both speak."""

import tomllib
from pathlib import Path
from typing import Any

import typer

LONGEST = 80
"""Characters of a file that are repeated in a complaint."""


def use_config(context: typer.Context, path: Path | None) -> Path | None:
    """Make the entries of a file the defaults of a command; called before its other options are read."""
    if path is None:
        return None
    known = {parameter.name for parameter in context.command.params} - {"config", "help"}
    entries = _read(path)
    unknown = sorted(set(entries) - known)
    if unknown:
        raise typer.BadParameter(
            f"{path} sets {', '.join(map(_short, unknown[:5]))}, but the options are {', '.join(sorted(map(str, known)))}."
        )
    context.default_map = {name: _as_typed(name, value, path) for name, value in entries.items()}
    return path


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read ({error.strerror}); check the path.") from None
    except ValueError as error:
        raise typer.BadParameter(f"{path} is not TOML ({_short(str(error))}); write lines such as samples = 1000.") from None


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _as_typed(name: str, value: Any, path: Path) -> str:
    """What one would type on the command line; it is checked as if one had."""
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return ",".join(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise typer.BadParameter(f"{name} in {path} is {_short(repr(value))}; give text, a whole number or a list of names.")
    return str(value)
