"""Errors for the user: one sentence and an exit code, never a traceback."""

import errno

FAILURE_EXIT_CODE = 1
USAGE_EXIT_CODE = 2
UNREACHABLE_EXIT_CODE = 3
"""No response, or a retriable error: the same command may succeed later."""
INTERRUPTED_EXIT_CODE = 130

DATABASE_ADVICE = "start it, or correct MUSTER_DATABASE_URL"
"""The advice for a database that does not answer."""
CONNECTIONS_ADVICE = "raise its max_connections or the limit of the role, or find in pg_stat_activity who has them"
"""The advice for a database whose connections are used up."""
USED_UP = (
    "too many clients already",
    "too many connections for ",
    "connection slots are reserved",
    "no more connections",
)
"""Texts of Postgres and of PgBouncer that say so."""
REFUSALS = (
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "not permitted to log in",
    "permission denied for database",
    "does not exist",
    "no such ",
)
"""Texts of Postgres, of libpq and of PgBouncer that say that user, password, database name or a file is wrong."""


class UserError(Exception):
    """An error as one sentence for the user, with the exit code of the command.

    The sentence says what is wrong and what to do about it; it holds no password.
    """

    def __init__(self, sentence: str, exit_code: int = FAILURE_EXIT_CODE) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.exit_code = exit_code


def database_advice(reason: str) -> str:
    """Return what to do about a connection that failed, from libpq's text."""
    return CONNECTIONS_ADVICE if any(text in reason for text in USED_UP) else DATABASE_ADVICE


def database_error(failure: Exception) -> UserError:
    """Return an error for a connection to the database that failed; the text of the failure is libpq's."""
    reasons = [line.strip().rstrip(".") for line in str(failure).strip().splitlines()] or [type(failure).__name__]
    refusal = next((reason for reason in reasons if any(text in reason for text in REFUSALS)), None)
    if refusal is not None:
        return UserError(f"The database refuses: {refusal}; correct MUSTER_DATABASE_URL.")
    if reasons[0].startswith("invalid "):  # A value of the URL, which libpq does not accept.
        return UserError(f"MUSTER_DATABASE_URL: {reasons[0]}.", USAGE_EXIT_CODE)
    sentence = f"The database does not answer: {reasons[0]}; {database_advice(reasons[0])}."
    return UserError(sentence, UNREACHABLE_EXIT_CODE)


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
