"""How often, how long and why every group rebalanced is told for each day, and who held it up.

**What.** `settled` waits a few minutes after the interval's end, until whoever was put out in it could have come back.
`tell` runs a Spark job that reads what happened within the interval and writes a row a group to
`rebalance_frequency_reports`: rebalances by trigger and outcome, how long they took, members put out (and put out for
nothing), who was waited for longest, storms, and groups that never settle. `GET /v1/reports/rebalances` shows the
newest.

**Why.** A rebalance is a pause of everything that a group reads. Who wants fewer of them asks first how many there are,
and why.

**By hand.** Trigger it with other thresholds, or with `dry_run` to count only; a run without an interval tells of the
last whole day. Airflow's backfill tells of days of the past: rows depend on the interval only, so they are the same
whenever it is told.

**When it fails.** Clear the task that failed: the rows of the interval are replaced. Its log ends with Spark's reason,
most often that Postgres could not be reached.

**Catching up.** Missed intervals are run later, one after the other, from `MUSTER_REPORTS_SINCE` on.

**Settings.** `MUSTER_REBALANCE_REPORT_SCHEDULE` (cron, in UTC), `MUSTER_REPORTS_SINCE`, `MUSTER_REPORT_SETTLE_MINUTES`,
and `MUSTER_REBALANCE_FREQUENCY_REPORT_GRACE_MS` and the other params in capitals.
"""

import os

from airflow.sdk import DAG, Asset, CronDataIntervalTimetable

from dags.parts import reports
from dags.parts.defaults import dag_defaults

JOB = "rebalance_frequency_report"
EVERY_DAY = "0 0 * * *"
REBALANCES_REPORTED = Asset("rebalances_reported", uri="muster://reports/rebalances")

with DAG(
    description="Tell how often, how long and why groups rebalanced, and who held them up",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable(os.environ.get("MUSTER_REBALANCE_REPORT_SCHEDULE") or EVERY_DAY, timezone="UTC"),
    catchup=True,
    params={"dry_run": reports.LOOK_ONLY, **reports.option_params(JOB)},
    **(dag_defaults(JOB, "rebalances", "report") | {"start_date": reports.REPORTS_SINCE}),
):
    reports.settled() >> reports.tell(JOB, REBALANCES_REPORTED)
