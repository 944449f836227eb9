"""`muster job` leaves no files of Spark behind."""

from pathlib import Path

import pytest

from muster.cli import jobs
from muster.errors import UserError

KILLED = """#!/bin/sh
mkdir -p "$SPARK_LOCAL_DIRS/blockmgr-1"
echo "$SPARK_LOCAL_DIRS" > "${0%/*}/local-dirs"
kill -9 $$
"""
"""A spark-submit that is killed while it has files."""


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let jobs run in a process that is killed; return the file with the directory of its files."""
    program = tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(KILLED)
    program.chmod(0o700)
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setenv("MUSTER_JDBC_JAR", str(program))
    monkeypatch.setattr(jobs, "find_java", lambda _: tmp_path)
    monkeypatch.setattr(jobs, "spark_environment", lambda *_: {"PATH": f"{program.parent}:/usr/bin:/bin"})
    return program.with_name("local-dirs")


def test_killed_job_leaves_no_files(submitted: Path, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with pytest.raises(UserError, match="exit code"):
        jobs._run_spark("offset_retention", [], {}, tmp_path)
    assert submitted.read_text().strip(), "Spark's files are in the system's directory for temporary files"
    assert not Path(submitted.read_text().strip()).exists()
