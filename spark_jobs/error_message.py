"""One-line messages for a job's errors, those of Spark and Postgres included.

Spark logs the stack trace above that line.
"""

from typing import Final

import psycopg2
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # comes without types
from pyspark.errors import PySparkException

from spark_jobs.errors import JobError

FAILURES: Final = (JobError, psycopg2.Error, PySparkException, Py4JError)
"""Errors caused by a job's environment or input, reported without a traceback."""

MESSAGE_MAX_CHARS: Final = 1_000
_HEADINGS: Final = ("Traceback (most recent call last)", "Driver stacktrace:", "JVM stacktrace:")


def one_line_message(failure: Exception) -> str:
    """Return an error's message and those of its causes in one line, without stack frames."""
    lines = [line for line in _words(failure).splitlines() if line[:1].strip() and not line.startswith(_HEADINGS)]
    text = " ".join(" ".join(lines).split()) or type(failure).__name__
    return text if len(text) <= MESSAGE_MAX_CHARS else f"{text[:MESSAGE_MAX_CHARS]}…"


def _words(failure: Exception) -> str:
    try:
        return str(failure)
    except Py4JError:
        return "The Spark process has ended."  # Py4J asks it for the message.
