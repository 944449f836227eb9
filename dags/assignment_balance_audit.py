"""How evenly every group's partitions and lag are spread is audited each day, against the best that could be.

**What.** `tell` runs a Spark job that reads the groups as they stand and writes a row a group to
`assignment_balance_audits` and one a topic to `assignment_balance_topics`: members, those that are idle, partitions and
lag, whether a better assignment exists for these subscriptions, how many partitions moved with the last rebalance and
how many had to, a score from 0 to 100, and how it compares with the audit before. `GET /v1/reports/assignments` shows
the newest.

**Why.** A member with twice the partitions of the others is what the whole group waits for, and no lag graph says so.

**By hand.** Trigger it at any time, or with `dry_run` to count only: it tells of the moment at which it reads.

**When it fails.** Clear the task that failed: the rows of the interval are replaced. Its log ends with Spark's reason,
most often that Postgres could not be reached. An interval that has been over for longer than it lasted is refused: what
stands now would be told under it. Trigger a run by hand instead.

**Catching up.** Missed intervals are not run later: an audit looks at what stands now.

**Settings.** `MUSTER_ASSIGNMENT_AUDIT_SCHEDULE` (cron, in UTC; `17 * * * *` audits every hour), `MUSTER_REPORTS_SINCE`,
and `MUSTER_ASSIGNMENT_BALANCE_AUDIT_REPORT_DAYS`.
"""

import os

from airflow.sdk import DAG, Asset, CronDataIntervalTimetable

from dags.parts import reports
from dags.parts.defaults import OF_NOW, dag_defaults

JOB = "assignment_balance_audit"
EVERY_DAY = "30 2 * * *"
ASSIGNMENTS_AUDITED = Asset("assignments_audited", uri="muster://reports/assignments")

with DAG(
    description="Tell how evenly groups' partitions are spread, and whether a better assignment exists",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable(os.environ.get("MUSTER_ASSIGNMENT_AUDIT_SCHEDULE") or EVERY_DAY, timezone="UTC"),
    catchup=False,
    params={"dry_run": reports.LOOK_ONLY, **reports.option_params(JOB)},
    **(dag_defaults(JOB, "assignments", "report") | {"start_date": reports.REPORTS_SINCE}),
):
    reports.tell(JOB, ASSIGNMENTS_AUDITED, OF_NOW)
