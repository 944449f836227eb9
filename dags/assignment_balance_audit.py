"""Audit daily how evenly each group's partitions and lag are spread, compared with the best assignment.

**What.** `report` runs a Spark job that reads the current groups and writes a row a group to
`assignment_balance_audits` and one a topic to `assignment_balance_topics`: members, idle members, partitions and lag,
whether a better assignment exists for these subscriptions, how many partitions moved with the last rebalance and how
many had to, a score from 0 to 100, and the trend since the previous audit. `GET /v1/reports/assignments` returns the
newest.

**Why.** A member with twice the partitions of the others slows the whole group, and no lag graph shows it.

**By hand.** Trigger it at any time, or with `dry_run` to count only: it reports the time of its read.

**When it fails.** Clear the failed task: the rows of the interval are replaced. Its log ends with Spark's reason,
usually that Postgres is unreachable. An interval that ended longer ago than it lasted is refused, because the audit
reads the current state. Trigger a run by hand instead.

**Catching up.** Missed intervals are not run later: an audit reads the current state.

**Settings.** `MUSTER_ASSIGNMENT_AUDIT_SCHEDULE` (cron, in UTC; `17 * * * *` audits every hour), `MUSTER_REPORTS_SINCE`,
and `MUSTER_ASSIGNMENT_BALANCE_AUDIT_REPORT_DAYS`.
"""

from airflow.sdk import DAG

from dags.parts import reports
from dags.parts.defaults import dag_arguments, schedule_of
from spark_jobs import submit

JOB = submit.JOBS["assignment_balance_audit"]

for cluster in submit.clusters():
    with DAG(doc_md=__doc__, schedule=schedule_of(JOB, cluster), **dag_arguments(JOB, cluster)):
        reports.tasks(JOB, cluster)
