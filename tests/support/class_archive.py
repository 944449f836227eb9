"""Archive of the classes that Spark loads (JEP 350), with which the many Javas of the tests start quickly.

`make test` and `make test-all` make it in `.tools`, once for an environment and a Java.

Run: python -m tests.support.class_archive
"""

import os
import subprocess
import sys
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from muster.errors import UserError
from muster.local.embedded_postgres import EmbeddedPostgres
from muster.local.java import QUICK_START, find_java
from tests.support.databases import FORGETFUL, Databases
from tests.support.fetched import TOOLS

ARCHIVE: Final = TOOLS / "spark-classes.jsa"
MADE_WITH: Final = TOOLS / "spark-classes.txt"
JOB: Final = "timeout_advice"
"""The job that loads most classes."""
TIMEOUT_S: Final = 600.0


def java_options() -> str:
    """Return the options of a Java for Spark: those of jobs, with the archive if there is one.

    A Java that cannot use the archive runs without it.
    """
    return f"{QUICK_START} -Xlog:disable -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else QUICK_START


def make(java_home: Path) -> None:
    """Run a job that writes the archive at its end, unless there is one of this Java and this environment.

    Raises:
        subprocess.CalledProcessError: the job has failed.
    """
    shown = subprocess.run([java_home / "bin" / "java", "-version"], capture_output=True, text=True, check=True).stderr
    made_with = f"pyspark {version('pyspark')} of {sys.prefix}\n{shown}"
    if ARCHIVE.exists() and MADE_WITH.exists() and MADE_WITH.read_text() == made_with:
        return
    sys.stderr.write("tests: archiving the classes of Spark, once\n")
    TOOLS.mkdir(exist_ok=True)
    draft = ARCHIVE.with_suffix(f".{os.getpid()}")
    with (
        TemporaryDirectory() as directory,
        EmbeddedPostgres(Path(directory) / "cluster", options=FORGETFUL) as postgres,
        closing(Databases(postgres)) as databases,
    ):
        environment = {
            **os.environ,
            "MUSTER_DATABASE_URL": databases.create(),
            "MUSTER_DATA_DIR": directory,
            "SPARK_SUBMIT_OPTS": f"{QUICK_START} -Xlog:disable -XX:ArchiveClassesAtExit={draft}",
        }
        command = [sys.executable, "-m", "muster", "job", JOB]
        try:
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S, check=True)
            draft.replace(ARCHIVE)
        finally:
            draft.unlink(missing_ok=True)
    MADE_WITH.write_text(made_with)


if __name__ == "__main__":
    try:
        make(find_java(TOOLS))
    except (UserError, OSError, subprocess.SubprocessError) as failure:
        sys.stderr.write(f"tests: there is no archive of Spark's classes, so Spark starts slowly: {failure}\n")
