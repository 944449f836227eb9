"""Report daily how often, how long and why each group rebalanced, and its slowest members.

**What.** `wait_until_settled` waits some minutes after the interval's end, until evicted members could have rejoined.
`report` runs a Spark job that reads what happened within the interval and writes a row a group to
`rebalance_frequency_reports`: rebalances by trigger, outcome and duration, evictions (and spurious
evictions), slowest members, rebalance churn, and stuck groups. `GET /v1/reports/rebalances` returns the newest.

**Why.** A group pauses during a rebalance. To reduce rebalances, you need to know how many there are, and why.

**By hand.** Trigger it with other thresholds, or with `dry_run` to count only; a run without an interval reports the
last complete one of the schedule (yesterday in UTC, by default). If there was nothing to report, its log ends with the
reason. Airflow's backfill reports past days: rows depend on the interval only.

**When it fails.** Clear the failed task: the rows of the interval are replaced. Its log ends with Spark's reason,
usually that Postgres is unreachable.

**Catching up.** Missed intervals are run later, one after the other, from `MUSTER_REPORTS_SINCE` on.

**Settings.** `MUSTER_REBALANCE_REPORT_SCHEDULE` (cron, in UTC), `MUSTER_REPORTS_SINCE`, `MUSTER_REPORT_SETTLE_MINUTES`,
and `MUSTER_REBALANCE_FREQUENCY_REPORT_GRACE_MS` and the other params in capitals.
"""

from airflow.sdk import DAG

from dags.parts import reports
from dags.parts.defaults import dag_arguments, schedule_of
from spark_jobs import submit

JOB = submit.JOBS["rebalance_frequency_report"]

for cluster in submit.clusters():
    with DAG(doc_md=__doc__, schedule=schedule_of(JOB, cluster), **dag_arguments(JOB, cluster)):
        reports.tasks(JOB, cluster)
