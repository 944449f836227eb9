"""Which timeouts each group should have is worked out once a day, from its own history of four weeks.

**What.** `settled` waits a few minutes after the interval's end, until whoever was put out in it could have come back.
`tell` runs a Spark job that looks at the days before the interval's end and writes a row a group to `timeout_advice`:
the session timeout, the rebalance timeout and the initial delay that the history asks for, what each would have done,
how sure that is, and how such advice did on days that it had not seen. `GET /v1/groups/{group_id}/tuning` and
`GET /v1/reports/timeouts` show the newest. docs/tuning.md says how to read it.

**Why.** A session timeout that is too short puts living members out; one that is too long leaves a dead member's
partitions unread. Which is which, only the group's own silences tell.

**By hand.** Trigger it with another target or window, or with `dry_run` to count only; a run without an interval looks
at the days before now. Airflow's backfill tells of days of the past, as far as history is kept or archived.

**When it fails.** Clear the task that failed: the rows of the interval are replaced. Its log ends with Spark's reason,
most often that Postgres could not be reached. Nothing waits for it: without a young report, nodes work advice out on
demand, from a shorter window.

**Catching up.** Missed intervals are not run later: each looks at four weeks, so the next says it all.

**Settings.** `MUSTER_TIMEOUT_ADVICE_SCHEDULE` (cron, in UTC), `MUSTER_REPORT_SETTLE_MINUTES`, and
`MUSTER_TIMEOUT_ADVICE_SPURIOUS_PER_WEEK` and the other params in capitals. What holds where neither the cluster nor a
group sets anything is read as nodes read it (`MUSTER_SESSION_TIMEOUT_MS` and so on): give both the same.
"""

import os

from airflow.sdk import DAG, Asset, CronDataIntervalTimetable

from dags.parts import reports
from dags.parts.defaults import dag_defaults

JOB = "timeout_advice"
EVERY_DAY = "0 0 * * *"
TIMEOUTS_ADVISED = Asset("timeouts_advised", uri="muster://reports/timeouts")

with DAG(
    description="Advise each group on its timeouts, from its own history",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable(os.environ.get("MUSTER_TIMEOUT_ADVICE_SCHEDULE") or EVERY_DAY, timezone="UTC"),
    catchup=False,
    params={"dry_run": reports.LOOK_ONLY, **reports.option_params(JOB)},
    **(dag_defaults(JOB, "timeouts", "report") | {"start_date": reports.REPORTS_SINCE}),
):
    reports.settled() >> reports.tell(JOB, TIMEOUTS_ADVISED)
