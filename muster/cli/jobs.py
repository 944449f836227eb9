"""`muster job`: runs a Spark job once, without Airflow; a proposal is applied by a node unless it is a dry run."""

import datetime as dt
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from sqlalchemy import create_engine, func, select

from coordinator_core.protocol.retention import retention_ms_from_minutes
from coordinator_core.state_store.runs import FINISHED
from coordinator_core.state_store.tables import nodes
from muster import display, process_table
from muster.cli.argument_parsing import instant
from muster.cli.command_tree import command_group
from muster.cli.crash import command_settings
from muster.cli.options import DataDirOption
from muster.cli.runs import RUNS, apply_timeout_s, print_undo, read_run
from muster.data_dir import DataDir
from muster.errors import UNREACHABLE_EXIT_CODE, USAGE_EXIT_CODE, UserError
from muster.local.database import shared_database
from muster.local.java import find_java, spark_environment
from muster.local.processes import Child, ChildSpec, stop_children
from muster.node.schema import require_schema
from muster.node_client import Json, NodeClient, client_token
from muster.run_counts import counts_line
from muster.settings import Settings
from spark_jobs import submit
from spark_jobs.errors import JobError

SPARK_STOP_TIMEOUT_S = 5.0
PROGRESS_INTERVAL_S = 1.0
APPLY_POLL_S = 0.5
ACTOR = "muster job"
URL_VARIABLES = ("MUSTER_DATABASE_URL", "MUSTER_JOBS_DATABASE_URL")
"""A job gets only one: a report or a proposal that of the jobs' role, `history_restore` that of the owner."""


NAMES = ", ".join((*submit.JOBS, submit.HISTORY_RESTORE))

app = command_group("Run Spark jobs.")


@app.command()
def job(
    name: Annotated[str, typer.Argument(help=f"One of {NAMES}.")],
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", help="Evaluate as of this time; UTC if it has no zone (default: now).", metavar="TIME"),
    ] = None,
    interval: Annotated[
        str | None,
        typer.Option("--interval", help="Interval of a report: a day or START/END (default: the last whole day)."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Propose without applying; count rows of a report without writing them.")
    ] = False,
    table: Annotated[
        str | None, typer.Option("--table", help="history_restore: only this table (default: all tables).")
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="history_restore: restore the days. Without it, only list them.")
    ] = False,
    data_dir: DataDirOption = None,
) -> None:
    """Run a Spark job once, without Airflow.

    Works with or without a running node. history_restore restores the days of its interval from the archive.
    """
    if name == submit.HISTORY_RESTORE:
        restore_history(interval, table, command_settings(data_dir=data_dir), execute=execute and not dry_run)
        return
    if table or execute:
        raise UserError(f"{name} knows neither --table nor --execute.", USAGE_EXIT_CODE)
    moment = None if as_of is None else instant(as_of, "--as-of")
    run_job(name, moment, dry_run, command_settings(data_dir=data_dir), interval)


def run_job(
    name: str, as_of: dt.datetime | None, dry_run: bool, settings: Settings, interval: str | None = None
) -> None:
    """Run a job and print its result.

    Args:
        name: one of `coordinator_core.jobs.JOBS`.
        as_of: the instant as of which the job judges; None: now. Without an offset it is UTC.
        dry_run: propose without applying; only count the rows of a report.
        settings: name the database, and the default retention.
        interval: the interval of a report: start and end, or one day; None: the report's default.

    Raises:
        UserError: there is no such job, or it failed; no offset was changed then, and running it again is safe.
    """
    if name not in submit.JOBS:
        raise UserError(f"There is no job {name}; there are: {NAMES}.", USAGE_EXIT_CODE)
    moment = _in_utc(as_of or dt.datetime.now(dt.UTC)).isoformat()
    run_id = submit.maintenance_run_id(name, *(part for part in (moment, interval) if part))
    arguments = _arguments(name, run_id, moment, dry_run, settings, interval)
    timeout_s = apply_timeout_s()
    client_token()  # One that cannot be sent is refused before Spark has worked for nothing.
    DataDir(settings.data_dir).create()
    with shared_database(settings, "job") as urls:
        require_schema(urls.owner, settings.shards)
        _run_spark(name, arguments, {"MUSTER_JOBS_DATABASE_URL": urls.jobs}, settings.data_dir)
        if name in submit.PROPOSALS and not dry_run:
            apply_by_any_node(run_id, urls.owner, timeout_s)


def restore_history(interval: str | None, table: str | None, settings: Settings, *, execute: bool) -> None:
    """Restore days from the archive, or report what would be restored.

    Args:
        interval: the days, as of a report: one day, or START/END.
        table: a history table; None: every one.
        settings: name the database, whose role must own the tables.
        execute: restore them; otherwise only list them.

    Raises:
        UserError: no days are named, or they cannot be restored; another run restores the remaining ones.
    """
    if not interval:
        raise UserError(f"{submit.HISTORY_RESTORE} needs --interval: a day, or START/END.", USAGE_EXIT_CODE)
    start, end = map(dt.datetime.fromisoformat, _read_interval(interval))
    last = (end - dt.timedelta(microseconds=1)).date()
    arguments = [f"--first-day={start.date()}", f"--last-day={last}", f"--table={table or ''}"]
    arguments += [f"--archive={submit.archive_uri(settings.data_dir)}", *(["--execute"] if execute else [])]
    DataDir(settings.data_dir).create()
    with shared_database(settings, "job") as urls:
        require_schema(urls.owner, settings.shards)
        _run_spark(submit.HISTORY_RESTORE, arguments, {"MUSTER_DATABASE_URL": urls.owner}, settings.data_dir)
    if not execute:
        print("Dry run; use --execute to apply.")


def _arguments(
    name: str, run_id: str, moment: str, dry_run: bool, settings: Settings, interval: str | None
) -> list[str]:
    """Return the job's command line; its options come from the environment, as they do in a DAG."""
    is_report = name in submit.REPORTS
    if interval and not is_report:
        raise UserError(f"{name} judges the current state, and has no interval.", USAGE_EXIT_CODE)
    start, end = _read_interval(interval) if interval else ("", "")
    try:
        options = submit.default_options(name)
    except JobError as failure:
        raise UserError(str(failure), USAGE_EXIT_CODE) from failure
    return submit.job_arguments(
        run_id=run_id,
        as_of=moment,
        interval_start=start,
        interval_end=end,
        is_dry_run=dry_run,
        archive=submit.archive_uri(settings.data_dir),
        retention_ms=None if is_report else retention_ms_from_minutes(settings.offsets_retention_minutes),
        **options,
    )


def _read_interval(text: str) -> tuple[str, str]:
    """Read START/END, or one day, in UTC where no offset is given."""
    first, _, last = text.partition("/")
    try:
        start = _in_utc(dt.datetime.fromisoformat(first))
        end = _in_utc(dt.datetime.fromisoformat(last)) if last else start + dt.timedelta(days=1)
    except (ValueError, OverflowError):
        example = "2026-11-20, or 2026-11-20T06:00:00Z/2026-11-20T07:00:00Z"
        raise UserError(
            f"{text} is no interval: give a day or START/END, such as {example}.", USAGE_EXIT_CODE
        ) from None
    if start >= end:
        raise UserError(f"The interval {text} ends before it starts.", USAGE_EXIT_CODE)
    return start.isoformat(), end.isoformat()


def apply_by_any_node(run_id: str, database_url: str, timeout_s: float) -> None:
    """Ask the nodes in turn to apply a run, and wait until it is applied; without a node the proposal waits.

    Raises:
        UserError: a node refuses, or the run is not applied in time.
    """
    node_urls = _find_nodes(database_url)
    if not node_urls:
        print(_waits(run_id, "No node runs on this database."))
        return
    try:
        node, run = _ask_any(node_urls, lambda each: each.post(f"{RUNS}/{run_id}/apply", {"reason": "no reason given"}))
    except UserError as failure:
        if failure.exit_code != UNREACHABLE_EXIT_CODE:
            raise UserError(f"The node refused to apply run {run_id}: {failure}") from failure
        print(_waits(run_id, failure.sentence))
        return
    change_id = node.change_id
    deadline_s = time.monotonic() + timeout_s
    while run["status"] not in FINISHED and time.monotonic() < deadline_s:
        time.sleep(APPLY_POLL_S)  # Nodes send no notification when a run is completed.
        try:
            node, run = _ask_any([node.url, *node_urls], lambda each: read_run(each, run_id))
        except UserError as failure:
            if failure.exit_code != UNREACHABLE_EXIT_CODE:
                raise
    if run["status"] not in FINISHED:
        raise UserError(display.apply_timeout_message(run_id, timeout_s))
    print(f"Run {run_id} is {run['status']}: {counts_line(run)}.")
    print_undo(node, run, change_id)


def _ask_any(node_urls: Sequence[str], ask: Callable[[NodeClient], Json]) -> tuple[NodeClient, Json]:
    """Return the first node that can be reached, and its answer.

    Raises:
        UserError: it refuses, or none can be reached.
    """
    for node_url in node_urls[:-1]:
        node = NodeClient(node_url, ACTOR)
        try:
            return node, ask(node)
        except UserError as failure:
            if failure.exit_code != UNREACHABLE_EXIT_CODE:
                raise
    node = NodeClient(node_urls[-1], ACTOR)
    return node, ask(node)


def _in_utc(moment: dt.datetime) -> dt.datetime:
    return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)


def _run_spark(name: str, arguments: list[str], database: Mapping[str, str], data_dir: Path) -> None:
    """Run the job in a child process, and print its last line; `database` is the only database URL that it gets."""
    try:
        command = submit.command(name, master=submit.spark_master(), jar=submit.find_jdbc_jar(), arguments=arguments)
    except JobError as failure:
        raise UserError(str(failure)) from failure
    base = {key: value for key, value in os.environ.items() if key not in URL_VARIABLES}
    log = new_log_file(name, data_dir)
    with TemporaryDirectory(prefix="spark-", dir=data_dir, ignore_cleanup_errors=True) as files:
        spark = {"SPARK_LOCAL_DIRS": files, **base, **spark_environment(find_java(data_dir), base)}
        child = Child(ChildSpec(name, tuple(command), {**spark, **database}, log))
        try:
            _wait(child, name)
        finally:
            stop_children([child], SPARK_STOP_TIMEOUT_S)
    last_words = [line for line in log.read_text(errors="replace").splitlines() if line.startswith(f"{name}: ")]
    exit_code = child.exit_code()
    if exit_code:
        reason = last_words[-1].removeprefix(f"{name}: ") if last_words else f"exit code {exit_code}"
        raise UserError(f"The job {name} failed ({reason.rstrip('.')}); see {log}.", abs(exit_code))
    print("\n".join(last_words[-1:]), flush=True)


def new_log_file(name: str, data_dir: Path) -> Path:
    """Return the log file of this process' job, and delete those of ended processes that ran the same job."""
    log = DataDir(data_dir).log_file(f"job-{name}-{os.getpid()}")
    for left in log.parent.glob(f"job-{name}*.log"):
        pid = left.stem.rpartition("-")[2]
        if left == log or not pid.isdigit() or process_table.find_process(int(pid)) is None:
            left.unlink(missing_ok=True)
    return log


def _wait(child: Child, name: str) -> None:
    """Wait for the end of the job, and show the elapsed time on a terminal."""
    started_at_s = time.monotonic()
    print(f"{name}: Spark is starting (its log is {child.spec.log_file}).", flush=True)
    while child.is_alive():
        process_table.wait_until_one_ends([child.key], PROGRESS_INTERVAL_S)
        if sys.stdout.isatty():
            print(f"\r{name}: {time.monotonic() - started_at_s:.0f} s", end="", flush=True)
    if sys.stdout.isatty():
        print("\r", end="")


def _find_nodes(database_url: str) -> list[str]:
    """Return the URLs of the live nodes of this database."""
    url_of = nodes.c.listeners["http"].astext
    alive = select(url_of).where(nodes.c.expires_at > func.clock_timestamp()).order_by(nodes.c.node_id)
    engine = create_engine(database_url)
    try:
        with engine.connect() as connection:
            return list(connection.scalars(alive))
    finally:
        engine.dispose()


def _waits(run_id: str, reason: str) -> str:
    return f"{reason} The proposal waits: muster runs apply {run_id} --execute applies it."
