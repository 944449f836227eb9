"""Advise timeouts for each group once a day, from its last four weeks.

**What.** `wait_until_settled` waits some minutes after the interval's end, until evicted members could have rejoined.
`report` runs a Spark job that reads the days before the interval's end and writes a row a group to `timeout_advice`:
the advised session timeout, rebalance timeout and initial rebalance delay, their effect, the confidence, and the result
of the back-test. `GET /v1/groups/{group_id}/tuning` and `GET /v1/reports/timeouts` return the newest. docs/tuning.md
explains it.

**Why.** A session timeout that is too short evicts live members; one that is too long leaves a dead member's partitions
unread. The right value depends on the group's own heartbeat gaps.

**By hand.** Trigger it with another target or window, or with `dry_run` to count only; a run without an interval
analyses the days before now. Airflow's backfill reports past days, as far as history is kept or archived.

**When it fails.** Clear the failed task: the rows of the interval are replaced. Its log ends with Spark's reason,
usually that Postgres is unreachable. Nothing depends on it: without a recent report, nodes compute advice on demand
from a shorter window.

**Catching up.** Missed intervals are not run later: each run covers four weeks.

**Settings.** `MUSTER_TIMEOUT_ADVICE_SCHEDULE` (cron, in UTC), `MUSTER_REPORT_SETTLE_MINUTES`, and
`MUSTER_TIMEOUT_ADVICE_SPURIOUS_PER_WEEK` and the other params in capitals. Defaults of groups come from the variables
that nodes read (`MUSTER_SESSION_TIMEOUT_MS` and so on): set both alike.
"""

from airflow.sdk import DAG

from dags.parts import reports
from dags.parts.defaults import dag_arguments, schedule_of
from spark_jobs import submit

JOB = submit.JOBS["timeout_advice"]

for cluster in submit.clusters():
    with DAG(doc_md=__doc__, schedule=schedule_of(JOB, cluster), **dag_arguments(JOB, cluster)):
        reports.tasks(JOB, cluster)
