"""Errors for the user: one sentence and an exit code, never a traceback."""

import errno

FAILURE_EXIT_CODE = 1
USAGE_EXIT_CODE = 2
UNREACHABLE_EXIT_CODE = 3
"""No response, or a retriable error: the same command may succeed later."""
INTERRUPTED_EXIT_CODE = 130

DATABASE_ADVICE = "start it, or correct MUSTER_DATABASE_URL"
"""The advice for a database that does not answer."""


class UserError(Exception):
    """An error as one sentence for the user, with the exit code of the command.

    The sentence says what is wrong and what to do about it; it holds no password.
    """

    def __init__(self, sentence: str, exit_code: int = FAILURE_EXIT_CODE) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.exit_code = exit_code


def disk_error(failure: OSError) -> UserError | None:
    """Return an error of the disk as a sentence for the user; None for other errors."""
    place = failure.filename or "the data directory"
    match failure.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return UserError(f"The disk is full ({place}); make room and start again.")
        case errno.EACCES | errno.EPERM:
            return UserError(f"This user may not use {place}; choose another directory with --data-dir.")
        case errno.EROFS:
            return UserError(f"{place} is on a disk that is read-only; choose another directory with --data-dir.")
        case errno.ENOTDIR | errno.EEXIST:
            return UserError(f"{place} is not a directory; choose another one with --data-dir.")
        case _:
            return None
