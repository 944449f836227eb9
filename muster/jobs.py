"""A Spark job once, without Airflow: propose, and unless it is a dry run, ask a node to apply and wait for it."""

import datetime as dt
import os
import subprocess
import time
from pathlib import Path

from muster.database import shared_database
from muster.errors import USAGE_EXIT_CODE, UserError
from muster.java import find_java, spark_environment
from muster.settings import Settings
from spark_jobs import submit
from spark_jobs.errors import JobError

SPARK_MASTER = "local[*]"
APPLY_TIMEOUT_S = 600.0
APPLY_POLL_S = 0.5
ACTOR = "muster job"


def run_job(name: str, as_of: dt.datetime | None, dry_run: bool, settings: Settings) -> None:
    """Run a job and print what came of it.

    Args:
        name: one of `spark_jobs.submit.JOBS`.
        as_of: the instant by which to judge; None: now. Without an offset it counts as UTC.
        dry_run: propose, and apply nothing.
        settings: where the database and the node are.

    Raises:
        UserError: there is no such job, or it failed; nothing was changed then, and running it again is safe.
    """
    if name not in submit.JOBS:
        raise UserError(f"There is no job {name}; there are: {', '.join(submit.JOBS)}.", USAGE_EXIT_CODE)
    moment = _in_utc(as_of or dt.datetime.now(dt.UTC))
    run_id = submit.maintenance_run_id(name, moment.isoformat())
    with shared_database(settings, "job") as database_url:
        _propose(name, run_id, moment, dry_run, database_url, settings)
        if not dry_run:
            _apply(run_id, settings.node_url)


def _in_utc(moment: dt.datetime) -> dt.datetime:
    return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)


def _propose(name: str, run_id: str, moment: dt.datetime, dry_run: bool, database_url: str, settings: Settings) -> None:
    try:
        arguments = submit.job_arguments(
            run_id=run_id, as_of=moment.isoformat(), retention_ms=submit.retention_ms(), is_dry_run=dry_run
        )
        command = submit.command(name, master=SPARK_MASTER, jar=submit.find_jdbc_jar(), arguments=arguments)
    except JobError as failure:
        raise UserError(str(failure)) from failure
    environment = os.environ | spark_environment(find_java(settings.data_dir), os.environ)
    environment |= {"MUSTER_DATABASE_URL": database_url, "PYTHONPATH": _python_path()}
    log = _log_file(settings, name)
    print(f"{name}: Spark is starting; it takes some seconds (its log: {log}).", flush=True)
    with log.open("wb") as output:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=output, text=True, check=False)
    print(done.stdout, end="", flush=True)
    if done.returncode != 0:
        raise UserError(f"The job {name} failed (exit code {done.returncode}); {log} tells why.")


def _log_file(settings: Settings, name: str) -> Path:
    logs = settings.data_dir / "logs"
    logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    return logs / f"job-{name}.log"


def _python_path() -> str:
    """Let Spark's own Python find our packages."""
    root = Path(submit.__file__).parent.parent.parent
    return os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH", "")]))


def _apply(run_id: str, node_url: str) -> None:
    """Ask the node, and wait until the run is worked off; without a node the proposal waits for one."""
    try:
        run = submit.apply_run(run_id, actor=ACTOR, reason="asked for on the command line", url=node_url)
        deadline_s = time.monotonic() + APPLY_TIMEOUT_S
        while not run.is_over and time.monotonic() < deadline_s:
            time.sleep(APPLY_POLL_S)  # another process does the work, and it tells nobody when it is done
            run = submit.read_run(run_id, url=node_url)
    except submit.CoordinatorUnreachable as failure:
        print(f"{failure} The proposal waits: POST /v1/maintenance/runs/{run_id}/apply on a node applies it.")
        return
    except submit.CoordinatorRefused as failure:
        raise UserError(f"The node refused to apply run {run_id}: {failure}") from failure
    counts = ", ".join(f"{outcome} {count}" for outcome, count in sorted(run.counts.items()) if count)
    print(f"Run {run_id} is {run.status}: {counts or 'nothing to do'}.")
