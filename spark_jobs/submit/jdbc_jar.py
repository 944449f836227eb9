"""Find the PostgreSQL JDBC driver's jar: configured, the system's, or the environment's."""

import hashlib
import importlib.util
import os
from pathlib import Path

from spark_jobs.errors import JobError

SYSTEM_JAR = Path("/usr/share/java/postgresql.jar")

WHEEL = "wbjdbc"
WHEEL_JAR = Path("resources/maven/postgresql/postgresql-42.7.4.jar")
WHEEL_JAR_SHA256 = "188976721ead8e8627eb6d8389d500dccc0c9bebd885268a3047180274a6031e"
"""The published hash of this driver version; the jar comes in a third party's wheel, so it is verified."""


def find_jdbc_jar() -> Path:
    """Return the PostgreSQL JDBC driver's jar: `MUSTER_JDBC_JAR`, Debian's, or the wheel's after a hash check.

    Raises:
        JobError: There is none, the configured one cannot be read, or the wheel's has another hash.
    """
    named = os.environ.get("MUSTER_JDBC_JAR")
    if named:
        return _readable(Path(named))
    if SYSTEM_JAR.is_file():
        return SYSTEM_JAR
    return _wheel_jar()


def _readable(jar: Path) -> Path:
    if not jar.is_file() or not os.access(jar, os.R_OK):
        raise JobError(f"MUSTER_JDBC_JAR is {jar}, which is not a readable file.")
    return jar


def _wheel_jar() -> Path:
    wheel = importlib.util.find_spec(WHEEL)
    jar = Path(wheel.origin).parent / WHEEL_JAR if wheel is not None and wheel.origin else None
    if jar is None or not jar.is_file():
        raise JobError("There is no PostgreSQL JDBC driver; set MUSTER_JDBC_JAR to the path of its jar.")
    if hashlib.sha256(jar.read_bytes()).hexdigest() != WHEEL_JAR_SHA256:
        raise JobError(f"{jar} is not the published PostgreSQL JDBC driver; set MUSTER_JDBC_JAR to one that you trust.")
    return jar
