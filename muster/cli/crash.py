"""Unexpected errors: one sentence on the terminal, the traceback in a file."""

# ruff: noqa: PLC0415 - most commands neither crash nor need settings

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from muster.errors import UserError

if TYPE_CHECKING:
    from muster.settings import Settings

CRASH_LOG = "crash.log"

_folder: ContextVar[Path | None] = ContextVar("folder", default=None)


def command_settings(**overrides: str | int | Path | None) -> Settings:
    """Return the settings of a command; a later crash is written to a file in their data directory."""
    from muster.settings import load_settings

    settings = load_settings(**overrides)
    _folder.set(settings.data_dir)
    return settings


def crash(failure: Exception) -> str:
    """Write the traceback to a file, and return one sentence that names the file."""
    import traceback

    from muster.data_dir import PRIVATE_DIRECTORY, data_dir_of_environment, write_private

    summary = f"{type(failure).__name__}: {failure}".strip().splitlines()[0]
    file = Path(CRASH_LOG)
    try:
        file = (_folder.get() or data_dir_of_environment()) / CRASH_LOG
        file.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        write_private(file, "".join(traceback.format_exception(failure)))
    except (OSError, UserError):
        return f"Unexpected error ({summary}); {file} could not be written."
    return f"Unexpected error ({summary}); the traceback is in {file}."
