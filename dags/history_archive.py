"""Move old history from Postgres to Parquet files once a day.

**What.** `propose` runs a Spark job that copies every day of a history table that is older than `keep_days` into the
archive, reads the files back, and compares count and checksum with the rows in Postgres. Each equal day becomes a row
of `archive_candidates`. `gate` passes a proposal within the limits; otherwise `request_approval` waits for a person,
and `decision` continues with `apply` or `reject`. `apply` asks a node to apply the proposal: each day
is counted again under a lock, and dropped if the count is unchanged; `archived_partitions` has its path.
`wait_until_applied` waits until that is done.

**Why.** History grows forever, and most queries concern the last weeks. Reports read both places as one.

**By hand.** Trigger it with `dry_run` to copy and compare days: nothing is dropped. `keep_days` and the limits can be
set for one run.

**When it waits for approval.** Review the proposal and answer under "Required actions". Without an answer nothing is
dropped, and the next run proposes again, without copying anything twice.

**When it fails.** Clear the failed task: tasks may run twice with the same outcome, and verified copies are reused.
`propose`: its log ends with the reason, usually that a Spark worker cannot write to the archive's directory; nothing
was dropped. `apply`, `wait_until_applied`: the last line is the node's response. A day with the outcome
`changed_since` received rows meanwhile; the next run copies it again.

**Catching up.** Missed intervals are not run later: a run copies every day that is old enough. The first run is in the
first night from `MUSTER_REPORTS_SINCE` on.

**Settings.** `MUSTER_ARCHIVE_URI`, without which it has no schedule; `MUSTER_HISTORY_KEEP_DAYS`;
`MUSTER_ARCHIVE_SCHEDULE` (cron, in UTC). Limits: `MUSTER_HISTORY_ARCHIVE_MAX_CANDIDATES` and the other params in
capitals.
"""

import os

from airflow.sdk import DAG, Asset, CronDataIntervalTimetable, Param

from dags.parts import proposals, reports
from dags.parts.defaults import DRY_RUN, dag_defaults, limit_params
from spark_jobs import submit

JOB = "history_archive"
NIGHTLY = "30 3 * * *"
HISTORY_ARCHIVED = Asset("history_archived", uri="muster://maintenance/history_archive")

nightly = CronDataIntervalTimetable(os.environ.get("MUSTER_ARCHIVE_SCHEDULE") or NIGHTLY, timezone="UTC")

with DAG(
    description="Copy old history to the archive, and have the coordinator drop it",
    doc_md=__doc__,
    schedule=nightly if submit.archive_uri() else None,
    catchup=False,
    params={
        "dry_run": DRY_RUN,
        "keep_days": Param(
            default=submit.keep_days(),
            type="integer",
            minimum=1,
            maximum=submit.KEEP_MAX_DAYS,
            title="Keep days",
            description="Days of history kept in Postgres",
        ),
        **limit_params(submit.default_limits(JOB), "max_candidates", "max_share", "share_from"),
    },
    **(dag_defaults(JOB, "history") | {"start_date": reports.REPORTS_SINCE}),
):
    propose = proposals.propose(JOB, keep_days="{{ params.keep_days }}", archive="{{ submit.archive_uri() }}")
    gate, approval, decision = proposals.gate(), proposals.request_approval(), proposals.decision()
    apply, reject = proposals.apply(), proposals.reject()
    applied = proposals.wait_until_applied.override(outlets=[HISTORY_ARCHIVED])()

    propose >> gate >> [apply, approval]
    approval >> decision >> [apply, reject]
    apply >> applied
