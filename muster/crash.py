"""Unexpected errors: one sentence on the terminal, the traceback in a file."""

import traceback
from contextvars import ContextVar
from pathlib import Path

from muster.data_dir import DEFAULT_DATA_DIR, write_private

CRASH_LOG = "crash.log"

_folder: ContextVar[Path] = ContextVar("folder", default=DEFAULT_DATA_DIR)


def set_crash_folder(folder: Path) -> None:
    """Let the story of this command's crash go into a file of that folder."""
    _folder.set(folder)


def crash(failure: Exception) -> str:
    """Write the whole story to a file, and return one sentence about it."""
    file = _folder.get() / CRASH_LOG
    summary = f"{type(failure).__name__}: {failure}".strip().splitlines()[0]
    try:
        write_private(file, "".join(traceback.format_exception(failure)))
    except OSError:
        return f"Something went wrong that should not have ({summary}); {file} could not be written."
    return f"Something went wrong that should not have ({summary}); the details are in {file}."
