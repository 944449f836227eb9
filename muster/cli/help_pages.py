"""The help of every command as `make docs` stored it: Typer takes as long to load as nine starts of Python."""

# ruff: noqa: PTH118, PTH120, PTH123 - pathlib takes longer than all the rest

from __future__ import annotations

import os

WIDTH = 80
"""The width of the pages in columns, the maximum that Typer uses."""
HEADING = "\n$ "
FILE = os.path.join(os.path.dirname(__file__), "help_pages.txt")


def stored_page(arguments: list[str]) -> str | None:
    """Return the page of a command line that asks for help; None: it does not, or the terminal is too narrow."""
    if arguments[-1:] not in (["--help"], ["-h"]) or _columns() < WIDTH:
        return None
    with open(FILE, encoding="utf-8") as file:
        _, _, found = file.read().partition(heading(" ".join(arguments[:-1])))
    return found.partition(HEADING)[0].rstrip("\n") or None


def heading(command: str) -> str:
    """Return the line before the page of a command in the file."""
    return f"{HEADING}{' '.join(['muster', *command.split(), '--help'])}\n"


def _columns() -> int:
    """Return the width of the terminal, as shutil does; WIDTH without a terminal."""
    try:
        return int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size().columns or WIDTH
    except (OSError, ValueError):
        return WIDTH
