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
dropped, and the next run proposes again, without copying anything twice. A rejection holds for runs with the same days:
`gate` continues with `reject`.

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

from airflow.sdk import DAG

from dags.parts import proposals
from dags.parts.defaults import ARCHIVE, dag_arguments, schedule_of
from spark_jobs import submit

JOB = submit.JOBS["history_archive"]

for cluster in submit.clusters():
    with DAG(doc_md=__doc__, schedule=schedule_of(JOB, cluster), **dag_arguments(JOB, cluster)):
        proposals.tasks(JOB, cluster, archive=ARCHIVE)
