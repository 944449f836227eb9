"""Tests of run ids, command lines and the JDBC driver's jar."""

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

import pytest

from spark_jobs import submit
from spark_jobs.errors import JobError
from spark_jobs.submit import jdbc_jar


def test_equal_names_have_the_same_run_id() -> None:
    first = submit.maintenance_run_id("offset_retention", "scheduled__2026-11-21T12:00:00+00:00")
    assert first == submit.maintenance_run_id("offset_retention", "scheduled__2026-11-21T12:00:00+00:00")
    assert first != submit.maintenance_run_id("offset_retention", "scheduled__2026-11-21T12:10:00+00:00")
    assert UUID(first).version == 5


def test_run_ids_never_change_between_releases() -> None:
    assert submit.maintenance_run_id("offset_retention", "manual__1") == "957fc729-eb02-5abd-8f98-2837f562b9d3"


@pytest.mark.parametrize("job", submit.JOBS)
def test_every_job_has_a_file_that_can_be_run(job: str) -> None:
    assert Path(submit.application(job)).is_file()


def test_importing_it_loads_neither_spark_nor_a_database() -> None:
    script = "import json, sys; from spark_jobs import submit; print(json.dumps(sorted(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = json.loads(answer.stdout)
    assert {name.partition(".")[0] for name in loaded} & {"pyspark", "psycopg2", "sqlalchemy"} == set()
    assert {name for name in loaded if name.startswith("coordinator_core.")} == {"coordinator_core.jobs"}


@pytest.mark.parametrize(
    ("minutes", "expected_ms"), [("", 604_800_000), ("1", 60_000), ("-1", -1), ("0", 0), (" 60 ", 3_600_000)]
)
def test_the_retention_of_the_environment_is_in_minutes(
    monkeypatch: pytest.MonkeyPatch, minutes: str, expected_ms: int
) -> None:
    monkeypatch.setenv("MUSTER_OFFSETS_RETENTION_MINUTES", minutes)
    assert submit.retention_ms() == expected_ms


@pytest.mark.parametrize("minutes", ["a week", "1.5", "2147483648"])
def test_a_retention_that_is_no_number_of_minutes_is_refused(monkeypatch: pytest.MonkeyPatch, minutes: str) -> None:
    monkeypatch.setenv("MUSTER_OFFSETS_RETENTION_MINUTES", minutes)
    with pytest.raises(JobError, match="must be a number of minutes"):
        submit.retention_ms()


def test_the_command_names_master_jar_and_job_and_no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", "postgresql+psycopg2://me:secret@localhost/muster")
    arguments = submit.job_arguments(run_id="r", as_of="t", retention_ms=5, is_dry_run=True)
    command = submit.command("offset_retention", master="local[2]", jar=Path("driver.jar"), arguments=arguments)
    assert command[:3] == ["spark-submit", "--master", "local[2]"]
    assert command[-6:] == [
        "--run-id=r",
        "--as-of=t",
        "--interval-start=",
        "--interval-end=",
        "--dry-run=True",
        "--retention-ms=5",
    ]
    assert "secret" not in " ".join(command)


@pytest.mark.parametrize(("text", "expected"), [("", 7), ("1", 1), (" 90 ", 90)])
def test_a_length_of_time_is_read_in_minutes(monkeypatch: pytest.MonkeyPatch, text: str, expected: int) -> None:
    monkeypatch.setenv("MUSTER_SOME_TIMEOUT_MINUTES", text)
    assert submit.minutes("MUSTER_SOME_TIMEOUT_MINUTES", 7) == timedelta(minutes=expected)


@pytest.mark.parametrize("text", ["0", "-1", "an hour", "1.5", "10081"])
def test_invalid_duration_is_rejected(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("MUSTER_SOME_TIMEOUT_MINUTES", text)
    with pytest.raises(JobError, match=r"MUSTER_SOME_TIMEOUT_MINUTES is '.*'; it must be a whole number of minutes"):
        submit.minutes("MUSTER_SOME_TIMEOUT_MINUTES", 7)


def test_configured_jar_takes_precedence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jar = tmp_path / "driver.jar"
    jar.touch()
    monkeypatch.setenv("MUSTER_JDBC_JAR", str(jar))
    assert submit.find_jdbc_jar() == jar


def test_a_named_jar_that_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MUSTER_JDBC_JAR", str(tmp_path / "none.jar"))
    with pytest.raises(JobError, match="MUSTER_JDBC_JAR is"):
        submit.find_jdbc_jar()


@pytest.fixture
def without_system_jar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have no driver of the system, none that was fetched, and no Java that fetches one."""
    monkeypatch.delenv("MUSTER_JDBC_JAR", raising=False)
    monkeypatch.setattr(jdbc_jar, "SYSTEM_JAR", tmp_path / "none.jar")
    monkeypatch.setattr(jdbc_jar, "FETCHED_JAR", tmp_path / "share" / "driver.jar")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))


def driver(path: Path, version: str) -> Path:
    """Write a jar with a version, and return it."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\r\nBundle-Version: {version}\r\n")
    return path


@pytest.mark.parametrize(
    ("version", "vulnerable"),
    [("42.7.3", False), ("42.7.4", True), ("42.7.6", True), ("42.7.7", False), ("42.7.13", False), ("42.5.5", False)],
)
def test_versions_of_the_vulnerability_are_known(tmp_path: Path, version: str, *, vulnerable: bool) -> None:
    assert jdbc_jar.is_vulnerable(driver(tmp_path / "driver.jar", version)) == vulnerable


def test_fetched_driver_is_not_vulnerable(tmp_path: Path) -> None:
    assert not jdbc_jar.is_vulnerable(driver(tmp_path / "driver.jar", jdbc_jar.VERSION))


@pytest.mark.usefixtures("without_system_jar")
def test_driver_of_the_system_is_used_unless_it_is_vulnerable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    system = driver(tmp_path / "system.jar", "42.7.7")
    monkeypatch.setattr(jdbc_jar, "SYSTEM_JAR", system)
    assert submit.find_jdbc_jar() == system
    driver(system, "42.7.6")
    assert submit.find_jdbc_jar() != system


JAVA_THAT_FETCHES = """\
#!/bin/sh
for argument do target=$argument; done
printf 'a driver' > "$(dirname "$target")/postgresql.jar"
"""


@pytest.mark.usefixtures("without_system_jar")
def test_driver_is_fetched_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(JAVA_THAT_FETCHES)
    java.chmod(0o755)
    monkeypatch.setattr(jdbc_jar, "FETCHED_JAR_SHA256", hashlib.sha256(b"a driver").hexdigest())
    assert submit.find_jdbc_jar() == jdbc_jar.FETCHED_JAR
    java.unlink()
    assert submit.find_jdbc_jar().read_bytes() == b"a driver"
    assert list(jdbc_jar.FETCHED_JAR.parent.iterdir()) == [jdbc_jar.FETCHED_JAR]


@pytest.mark.usefixtures("without_system_jar")
def test_fetched_file_with_another_hash_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(JAVA_THAT_FETCHES)
    java.chmod(0o755)
    assert submit.find_jdbc_jar().name == "postgresql-42.7.4.jar"
    assert not jdbc_jar.FETCHED_JAR.exists()
    assert "another file than the published driver" in caplog.text


@pytest.mark.usefixtures("without_system_jar")
def test_driver_of_the_wheel_is_used_where_none_can_be_fetched(caplog: pytest.LogCaptureFixture) -> None:
    assert submit.find_jdbc_jar().name == "postgresql-42.7.4.jar"
    assert "cannot be fetched" in caplog.text


@pytest.mark.usefixtures("without_system_jar")
def test_failed_fetch_is_not_repeated_for_an_hour(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every task of Airflow is a process of its own; each would wait for a host that is filtered."""
    monkeypatch.setattr(jdbc_jar, "FETCH_TIMEOUT_S", 0.1)
    java, calls = tmp_path / "bin" / "java", tmp_path / "calls"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho called >> {calls}\nexec sleep 60\n")
    java.chmod(0o755)
    for _ in range(2):
        assert submit.find_jdbc_jar().name == "postgresql-42.7.4.jar"
    assert calls.read_text() == "called\n"
    warnings = {record.getMessage() for record in caplog.records}
    why = "Maven Central has not sent it within 0.1 s; it is tried again an hour later"
    assert warnings == {f"the PostgreSQL JDBC driver 42.7.13 cannot be fetched ({why}); set MUSTER_JDBC_JAR to its jar"}
    (failure,) = (file for file in jdbc_jar.FETCHED_JAR.parent.iterdir() if file.is_file())
    hour_ago = failure.stat().st_mtime - 3_601
    os.utime(failure, (hour_ago, hour_ago))
    java.write_text(JAVA_THAT_FETCHES)
    monkeypatch.setattr(jdbc_jar, "FETCHED_JAR_SHA256", hashlib.sha256(b"a driver").hexdigest())
    assert submit.find_jdbc_jar() == jdbc_jar.FETCHED_JAR


@pytest.mark.usefixtures("without_system_jar")
def test_another_jar_in_its_place_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jdbc_jar, "WHEEL_JAR_SHA256", "0" * 64)
    with pytest.raises(JobError, match="is not the published"):
        submit.find_jdbc_jar()


@pytest.mark.usefixtures("without_system_jar")
def test_missing_jar_is_reported_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jdbc_jar, "WHEEL", "a_package_that_is_not_there")
    with pytest.raises(JobError, match="set MUSTER_JDBC_JAR"):
        submit.find_jdbc_jar()


@pytest.mark.parametrize(
    ("params", "minutes"), [({}, 5), ({"grace_ms": 60_000}, 5), ({"grace_ms": 3_600_000, "report_days": 1}, 60)]
)
def test_interval_is_reported_when_evicted_members_could_have_rejoined(params: dict[str, int], minutes: int) -> None:
    end = datetime(2026, 11, 21, tzinfo=UTC)
    assert submit.reportable_from(end, timedelta(minutes=5), params) == end + timedelta(minutes=minutes)


# -- the interval of a DAG run --------------------------------------------------------------------------------

REQUESTED = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
MIDNIGHT = datetime(2026, 11, 21, tzinfo=UTC)
Q3, Q4 = (datetime(2026, month, 1, tzinfo=UTC) for month in (7, 10))
OF_THE_FORM = (datetime(2026, 11, 19, tzinfo=UTC), datetime(2026, 11, 20, tzinfo=UTC))


def dag_run(run_type: str, interval: tuple[datetime, datetime] | None = None) -> SimpleNamespace:
    start, end = interval or (None, None)
    return SimpleNamespace(run_type=run_type, run_after=REQUESTED, data_interval_start=start, data_interval_end=end)


@pytest.mark.airflow
def test_report_by_hand_is_about_the_last_complete_interval_of_its_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    job = "rebalance_frequency_report"
    assert submit.interval_of(job, dag_run("manual")) == (MIDNIGHT - timedelta(days=1), MIDNIGHT)
    monkeypatch.setenv("MUSTER_REBALANCE_REPORT_SCHEDULE", "0 */6 * * *")
    noon = REQUESTED.replace(minute=0)
    assert submit.interval_of(job, dag_run("manual")) == (noon - timedelta(hours=6), noon)
    at_noon = SimpleNamespace(**{**vars(dag_run("manual")), "run_after": noon})
    assert submit.interval_of(job, at_noon) == (noon - timedelta(hours=6), noon), "it is complete at its end"


@pytest.mark.airflow
@pytest.mark.parametrize(
    ("preset", "start", "end"),
    [("@daily", MIDNIGHT - timedelta(days=1), MIDNIGHT), ("@quarterly", Q3, Q4)],
)
def test_report_by_hand_is_about_the_interval_of_a_preset_of_airflow(
    monkeypatch: pytest.MonkeyPatch, preset: str, start: datetime, end: datetime
) -> None:
    monkeypatch.setenv("MUSTER_REBALANCE_REPORT_SCHEDULE", preset)
    assert submit.interval_of("rebalance_frequency_report", dag_run("manual")) == (start, end)


@pytest.mark.parametrize("run_type", ["manual", "operator_triggered", "scheduled", "backfill"])
def test_report_takes_the_interval_that_its_run_has(run_type: str) -> None:
    for job in ("rebalance_frequency_report", "timeout_advice"):
        assert submit.interval_of(job, dag_run(run_type, OF_THE_FORM)) == OF_THE_FORM


@pytest.mark.parametrize("job", [*submit.PROPOSALS, "assignment_balance_audit"])
def test_job_about_the_current_state_by_hand_has_no_interval(job: str) -> None:
    assert submit.interval_of(job, dag_run("manual", OF_THE_FORM)) is None
    assert submit.interval_of(job, dag_run("operator_triggered", OF_THE_FORM)) is None
    assert submit.interval_of(job, dag_run("scheduled", OF_THE_FORM)) == OF_THE_FORM
    assert submit.interval_of(job, dag_run("asset_triggered")) is None
