"""Run one Spark job several times in this process, alternating with a bare read of its rows.

The bare read repeats the job's queries and discards the rows. Since Postgres preselects the offsets for
`offset_retention`, all offsets are read as well. The JVM has 1 GiB of heap for the driver and, on one machine, its
executors. With MUSTER_SPARK_MASTER, each executor of that cluster has 1 GiB of its own.

Run: python -m bench.job_rounds DATABASE_URL ARCHIVE ROUNDS JOB
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, Final
from uuid import uuid4

import psycopg2.extensions as pg
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from bench.cpu_time import CpuMeter, postmaster_pid
from spark_jobs.archive.archive_copy import archive_closed_days
from spark_jobs.arguments import JobArguments, read_arguments
from spark_jobs.database import Database, parse_url
from spark_jobs.jdbc import read_by_shard, shard_predicates
from spark_jobs.proposal_job import propose
from spark_jobs.publish import count_shards
from spark_jobs.report_job import read_report_arguments, report
from spark_jobs.session import open_session
from spark_jobs.submit import JOBS, PROPOSALS, REPORTS, SPARK_CONF, find_jdbc_jar, job_arguments, spark_master

MEMORY: Final = "1g"
WEEK_MS: Final = 604_800_000
ARCHIVE: Final = "history_archive"
ARCHIVE_KEEP_DAYS: Final = 28
KIB: Final = 1024
DRIVER: Final = "driver"
READ_PARTITIONS: Final = 4
STORED_COLUMNS: Final = ("group_id", "shard_id", "topic", "partition", "commit_version", "committed_at", "expires_at")


@dataclass(frozen=True, slots=True)
class JobRounds:
    """The measurements, in seconds and mebibytes; times are medians."""

    job_s: float
    read_s: float
    rows: int
    """Rows of the bare read."""
    table_s: float
    """Time to read all offsets with the columns of `offset_retention`; 0 for other jobs."""
    heap_mb: float
    """The driver's."""
    resident_mb: float
    """The driver's."""
    executor_heap_mb: float
    """The largest of the executors; 0 if there is only the driver."""
    spark_cpu_us: float
    """Processor time of this process and its JVM, a row."""
    postgres_cpu_us: float
    """Processor time of Postgres, a row."""


def measure(database_url: str, archive: str, rounds: int, job: str) -> JobRounds:
    """Run the job and the bare read alternately."""
    database = parse_url(database_url)
    conf = {
        **SPARK_CONF,
        "spark.driver.memory": MEMORY,
        "spark.executor.memory": MEMORY,
        "spark.jars": str(find_jdbc_jar()),
    }
    with closing(database.connect()) as connection, open_session(job, spark_master(), conf) as spark:
        arguments = read_arguments(job, _command_line(job, archive)) if job in PROPOSALS else None
        run = _prepared(job, spark, database, connection, arguments)
        with _watched() as reads:
            run()
        rows = sum(frame.count() for frame in reads)
        table = [_all_offsets(spark, database, connection)] if job == "offset_retention" else []
        pids = {"spark": [os.getpid()], "postgres": [postmaster_pid(connection)]}
        taken: list[tuple[float, float, float]] = []
        used_us: list[tuple[float, float]] = []
        for _ in range(rounds):
            meter = CpuMeter(pids)
            job_s = _timed(run)
            used = meter.us_per_request(max(1, rows))
            used_us.append((used["spark"], used["postgres"]))
            taken.append((job_s, _timed(lambda: _read_bare(reads)), _timed(lambda: _read_bare(table))))
        used_mb = _heap_mb(spark), _resident_mb(spark), _executor_heap_mb(spark)
    job_s, read_s, table_s = (median(each) for each in zip(*taken, strict=True))
    spark_us, postgres_us = (median(each) for each in zip(*used_us, strict=True))
    return JobRounds(job_s, read_s, rows, table_s if table else 0.0, *used_mb, spark_us, postgres_us)


def _all_offsets(spark: SparkSession, database: Database, connection: pg.connection) -> DataFrame:
    predicates = shard_predicates(count_shards(connection), READ_PARTITIONS)
    return read_by_shard(spark, database, "offsets", STORED_COLUMNS, predicates)


def _prepared(
    job: str, spark: SparkSession, database: Database, connection: pg.connection, arguments: JobArguments | None
) -> Callable[[], object]:
    """Return a function that runs the job, with a new run id each time."""
    module: Any = import_module(f"spark_jobs.jobs.{job}")
    if arguments is None:
        report_arguments = read_report_arguments(module.JOB, _common(job))
        return lambda: report(module.JOB, spark, database, connection, report_arguments)
    if job == ARCHIVE:
        # A copied day would not be copied again.
        return lambda: archive_closed_days(
            spark,
            database,
            connection,
            replace(_with_new_run_id(arguments), archive=f"{arguments.archive}/{uuid4().hex}"),
        )
    return lambda: propose(module.JOB, spark, database, connection, _with_new_run_id(arguments))


def _with_new_run_id(arguments: JobArguments) -> JobArguments:
    return replace(arguments, run_id=str(uuid4()))


def _command_line(job: str, archive: str) -> list[str]:
    return [*_common(job), f"--retention-ms={WEEK_MS}", f"--keep-days={ARCHIVE_KEEP_DAYS}", f"--archive={archive}"]


def _common(job: str) -> list[str]:
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    as_of = midnight if job in REPORTS and not JOBS[job].is_of_now else datetime.now(UTC)
    return job_arguments(run_id=str(uuid4()), as_of=as_of.isoformat(), is_dry_run=False)


@contextmanager
def _watched() -> Iterator[list[DataFrame]]:
    """Record every frame that is read from Postgres within the block."""
    frames: list[DataFrame] = []
    read = DataFrameReader.jdbc

    def watched(reader: DataFrameReader, *given: Any, **named: Any) -> DataFrame:  # noqa: ANN401 - as the original
        frame = read(reader, *given, **named)
        frames.append(frame)
        return frame

    DataFrameReader.jdbc = watched  # type: ignore[assignment, method-assign]  # for the time of the block
    try:
        yield frames
    finally:
        DataFrameReader.jdbc = read  # type: ignore[method-assign]  # as it was


def _read_bare(frames: list[DataFrame]) -> None:
    """Read the recorded frames again and discard the rows."""
    for frame in frames:
        frame.write.format("noop").mode("overwrite").save()


def _timed(call: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    call()
    return time.perf_counter() - began_s


def _heap_mb(spark: SparkSession) -> float:
    """Return the peak of the JVM's heap."""
    java: Any = spark.sparkContext._jvm  # noqa: SLF001 - there is no other way to Java
    pools = java.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    heap = [pool for pool in pools if str(pool.getType()) == "Heap memory"]
    return float(sum(pool.getPeakUsage().getUsed() for pool in heap)) / KIB / KIB


def _executor_heap_mb(spark: SparkSession) -> float:
    """Return the peak heap of an executor, as reported by Spark."""
    java: Any = spark.sparkContext._jsc  # noqa: SLF001 - likewise
    found = java.sc().statusStore().executorList(False)
    executors = [found.apply(place) for place in range(found.size())]
    peaks = [one.peakMemoryMetrics() for one in executors if one.id() != DRIVER]
    return max(
        (peak.get().getMetricValue("JVMHeapMemory") / KIB / KIB for peak in peaks if peak.isDefined()), default=0.0
    )


def _resident_mb(spark: SparkSession) -> float:
    """Return the JVM process's peak resident memory. Source: proc(5), VmHWM."""
    java: Any = spark.sparkContext._jvm  # noqa: SLF001 - likewise
    status = Path(f"/proc/{java.java.lang.ProcessHandle.current().pid()}/status").read_text(encoding="ascii")
    lines = dict(line.split(":", 1) for line in status.splitlines())
    return int(lines["VmHWM"].split()[0]) / KIB


if __name__ == "__main__":
    url, archive_uri, how_often, name = sys.argv[1:]
    print(json.dumps(asdict(measure(url, archive_uri, int(how_often), name))))
