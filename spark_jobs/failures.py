"""Whatever a job cannot go on with, Spark's and Postgres' own errors included, is told in one sentence.

The stack that belongs to it is what Spark logs above that sentence.
"""

from typing import Final

import psycopg2
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # comes without types
from pyspark.errors import PySparkException

from spark_jobs.errors import JobError

FAILURES: Final = (JobError, psycopg2.Error, PySparkException, Py4JError)
"""What is no mistake in a job: the place that it runs at is not as it must be."""

TOLD_MAX_CHARS: Final = 1_000
_HEADINGS: Final = ("Traceback (most recent call last)", "Driver stacktrace:", "JVM stacktrace:")


def in_one_line(failure: Exception) -> str:
    """Return a failure in one line: its own words and those of what caused it, without the frames of any stack."""
    lines = [line for line in _words(failure).splitlines() if line[:1].strip() and not line.startswith(_HEADINGS)]
    text = " ".join(" ".join(lines).split()) or type(failure).__name__
    return text if len(text) <= TOLD_MAX_CHARS else f"{text[:TOLD_MAX_CHARS]}…"


def _words(failure: Exception) -> str:
    try:
        return str(failure)
    except Py4JError:
        return "Spark's own process is gone."  # It is asked for the words.
