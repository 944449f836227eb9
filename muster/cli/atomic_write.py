"""Atomic writes to files named by the user: through symbolic links, with owner and mode preserved.

Pipes and devices are written to in place. Only its owner may read a new file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from muster.errors import UserError

DRAFT_PREFIX: Final = ".muster-"


def replace_file(path: Path, text: str) -> None:
    """Write a file named by the user; a regular file is replaced in one step.

    Args:
        path: the file; it need not exist, and its folder must.
        text: its content, written as UTF-8.

    Raises:
        UserError: it cannot be written; a regular file is unchanged.
    """
    try:
        before = _status(path)
        if before is None or stat.S_ISREG(before.st_mode):
            _replace(Path(os.path.realpath(path)), text, before)
        else:
            path.write_text(text, encoding="utf-8")
    except OSError as failure:
        raise UserError(f"{path} cannot be written ({failure.strerror or failure}).") from failure


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Keep other commands from changing a file named by the user during the block; wait until they have.

    Raises:
        UserError: its folder cannot be read.
    """
    try:
        folder = os.open(Path(os.path.realpath(path)).parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as failure:
        raise UserError(f"{path} cannot be written ({failure.strerror or failure}).") from failure
    try:
        with suppress(OSError):  # Not every file system has locks.
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _status(path: Path) -> os.stat_result | None:
    """Return the status of the file, following links; None if there is none."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _replace(target: Path, text: str, before: os.stat_result | None) -> None:
    number, name = tempfile.mkstemp(prefix=DRAFT_PREFIX, dir=target.parent)
    draft = Path(name)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            if before is not None:
                _copy_owner_and_mode(file.fileno(), before)
            file.write(text)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _copy_owner_and_mode(number: int, before: os.stat_result) -> None:
    made = os.fstat(number)
    if (made.st_uid, made.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.fchown(number, before.st_uid, before.st_gid)
        except PermissionError:
            raise PermissionError(errno.EPERM, "this user may not keep its owner and group") from None
    os.fchmod(number, stat.S_IMODE(before.st_mode))
