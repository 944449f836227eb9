"""Versions of files that a node reads again when they change."""

import os
from pathlib import Path

FileVersion = tuple[int, int, int]
"""The inode, size and modification time of a file, which identify its version."""


def file_version(path: Path) -> FileVersion | None:
    """Return the version of a file, following links; None if there is no file."""
    try:
        found = os.stat(path)  # noqa: PTH116 - follows a link
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
