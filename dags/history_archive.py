"""History that is older than is kept goes to Parquet files once a day, and then leaves Postgres.

**What.** `propose` runs a Spark job that copies every day of a history table that is older than `keep_days` into the
archive, reads the files back, and compares count and checksum with what Postgres says of the same rows. Each day that
is the same becomes a row of `archive_candidates`. `gate` lets a proposal within the limits through; beyond them, `ask`
waits for a person, and `verdict` goes on to `apply` or `reject`. `apply` asks a node to work the proposal off: each day
is counted again while nobody writes to it, and dropped if it still has as many rows; `archived_partitions` says where
it lies now. `applied` waits until that is done.

**Why.** History grows for ever, and nearly all questions are about the last weeks. Reports read both places as one.

**By hand.** Trigger it with `dry_run` to have days copied and compared: nothing is dropped. `keep_days` and the limits
can be set for one run.

**When it waits for a person.** Look at the proposal, and answer under "Required actions". No answer is a no: nothing
is dropped, and the next run proposes, and asks, afresh, without copying anything twice.

**When it fails.** Clear the task that failed: each may run twice with the same outcome, and what was copied and checked
is not copied again. `propose` failed: its log ends with the reason, most often that the archive's directory cannot be
written by every Spark worker; nothing was dropped. `apply` or `applied` failed: the last line is the coordinator's own
answer. A day that stays as `changed_since` got rows meanwhile; the next run copies it again.

**Catching up.** Missed intervals are not run later: a run takes every day that is old enough. The first is that of the
first night from `MUSTER_REPORTS_SINCE` on.

**Settings.** `MUSTER_ARCHIVE_URI`, without which it never starts by itself; `MUSTER_HISTORY_KEEP_DAYS`;
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
    description="Copy old history into the archive, and have the coordinator drop it",
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
            description="How many days of history stay in Postgres",
        ),
        **limit_params(submit.default_limits(JOB), "max_candidates", "max_share", "share_from"),
    },
    **(dag_defaults(JOB, "history") | {"start_date": reports.REPORTS_SINCE}),
):
    propose = proposals.propose(JOB, keep_days="{{ params.keep_days }}", archive="{{ submit.archive_uri() }}")
    gate, ask, verdict = proposals.gate(), proposals.ask(), proposals.verdict()
    apply, reject = proposals.apply(), proposals.reject()
    applied = proposals.applied.override(outlets=[HISTORY_ARCHIVED])()

    propose >> gate >> [apply, ask]
    ask >> verdict >> [apply, reject]
    apply >> applied
