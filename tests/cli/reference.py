"""Every command with its flags, as docs/command-line.md lists them.

python -m tests.cli.reference        writes that part of the page anew
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from muster.commands.tree import COMMANDS

PAGE: Final = Path(__file__).parents[2] / "docs" / "command-line.md"
MARK: Final = "## Every command\n\n"


def reference() -> str:
    """Return the whole reference, in Markdown."""
    return "\n".join(_lines())


def commands() -> Iterator[tuple[str, TyperCommand]]:
    """Return every command by its full name, in the order of the help."""
    for listed in COMMANDS:
        loaded = listed.load()
        if isinstance(loaded, TyperGroup):
            for name, command in loaded.commands.items():
                assert isinstance(command, TyperCommand), "groups are one level deep"
                yield f"{listed.name} {name}", command
        else:
            yield listed.name, loaded


def _lines() -> Iterator[str]:
    for name, command in commands():
        yield f"### muster {name}"
        yield ""
        yield inspect.cleandoc(command.help or "")
        yield ""
        yield from _table(command)


def _table(command: TyperCommand) -> Iterator[str]:
    rows = [_row(each) for each in command.params if isinstance(each, TyperArgument | TyperOption)]
    if not rows:
        return
    yield "| flag or argument | what it is | without it |"
    yield "|---|---|---|"
    yield from rows
    yield ""


def _row(parameter: TyperArgument | TyperOption) -> str:
    return f"| {_name(parameter)} | {parameter.help or ''} | {_default(parameter)} |"


def _name(parameter: TyperArgument | TyperOption) -> str:
    if isinstance(parameter, TyperArgument):
        return f"`{parameter.metavar or (parameter.name or '').upper()}`"
    flags = "`, `".join([*parameter.opts, *parameter.secondary_opts])
    variable = f", or the variable `{parameter.envvar}`" if parameter.envvar else ""
    return f"`{flags}`{variable}"


def _default(parameter: TyperArgument | TyperOption) -> str:
    if parameter.required:
        return "needed"
    told: Any = parameter.show_default
    if isinstance(told, str):
        return told
    value = parameter.default
    return "" if value in (None, False, "") or callable(value) else ("yes" if value is True else str(value))


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text().partition(MARK)[0] + MARK + reference())
