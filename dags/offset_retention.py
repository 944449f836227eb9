"""Offsets that nobody needs any more are found every ten minutes, and taken away by the coordinator.

**What.** `propose` runs a Spark job that finds the offsets whose time is over by Kafka's rules (KIP-211) and writes
them down as a proposal: a row in `maintenance_runs` and one a candidate in `expiry_candidates`; what will expire within
a week goes to `offset_expiry_forecasts`. `gate` lets a proposal within the limits through; beyond them, `ask` waits for
a person, and `verdict` goes on to `apply` or `reject`. `apply` asks a node to work the proposal off: each candidate is
judged again on what stands then, what goes moves to `archived_offsets`, and what was committed or woke up since is
kept. `applied` waits until that is done, and its return value tells how many candidates had which outcome.

**Why.** Offsets of groups that are long gone make every list longer and every lag graph wrong.

**By hand.** Trigger it with `dry_run` to look at a proposal: nothing is taken away. The limits can be set for one run.

**When it waits for a person.** Look at the proposal, and answer under "Required actions". No answer is a no: nothing
is taken away, and the next run proposes, and asks, afresh. `changes` keeps who answered.

**When it fails.** Clear the task that failed: each may run twice with the same outcome. `propose` failed: its log ends
with Spark's reason, most often that Postgres could not be reached; nothing was changed. `apply` or `applied` failed:
the last line is the coordinator's own answer. A rejected run stays rejected, and the next one proposes afresh.

**Catching up.** Missed intervals are not run later: a proposal looks at what stands now, so the next says it all.

**Settings.** `MUSTER_RETENTION_SCHEDULE` (cron, in UTC) and `MUSTER_OFFSETS_RETENTION_MINUTES`; the cluster's and a
group's own `offsets_retention_minutes` are narrower and win. Limits: `MUSTER_OFFSET_RETENTION_MAX_CANDIDATES` and the
other params in capitals.
"""

import os

from airflow.sdk import DAG, Asset, CronDataIntervalTimetable

from dags.parts import proposals
from dags.parts.defaults import DRY_RUN, dag_defaults, limit_params
from spark_jobs import submit

JOB = "offset_retention"
EVERY_TEN_MINUTES = "*/10 * * * *"
OFFSETS_EXPIRED = Asset("offsets_expired", uri="muster://maintenance/offset_retention")

with DAG(
    description="Propose offsets whose time is over, and have the coordinator take them away",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable(
        os.environ.get("MUSTER_RETENTION_SCHEDULE") or EVERY_TEN_MINUTES, timezone="UTC"
    ),
    catchup=False,
    params={"dry_run": DRY_RUN, **limit_params(submit.default_limits(JOB))},
    **dag_defaults(JOB, "offsets"),
):
    propose = proposals.propose(JOB, retention_ms="{{ submit.retention_ms() }}")
    gate, ask, verdict = proposals.gate(), proposals.ask(), proposals.verdict()
    apply, reject = proposals.apply(), proposals.reject()
    applied = proposals.applied.override(outlets=[OFFSETS_EXPIRED])()

    propose >> gate >> [apply, ask]
    ask >> verdict >> [apply, reject]
    apply >> applied
