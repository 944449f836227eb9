"""Find unused offsets every ten minutes, and have the coordinator expire them.

**What.** `propose` runs a Spark job that finds the offsets that are due by Kafka's rules (KIP-211) and writes a
proposal: a row in `maintenance_runs` and one a candidate in `expiry_candidates`; what will expire within a week goes to
`offset_expiry_forecasts`. `gate` passes a proposal within the limits; otherwise `request_approval` waits for a person,
and `decision` continues with `apply` or `reject`. `apply` asks a node to apply the proposal: each one is evaluated
again, removed offsets move to `archived_offsets`, and offsets committed since, or of active groups, are kept.
`wait_until_applied` waits until that is done; its return value has the counts of candidates by outcome.

**Why.** Offsets of unused groups lengthen every list and distort every lag graph.

**By hand.** Trigger it with `dry_run` to review a proposal: nothing is expired. Limits can be set for one run.

**When it waits for approval.** Review the proposal and answer under "Required actions". Without an answer nothing is
expired, and the next run proposes again. A rejection holds for runs with the same candidates: `gate` continues with
`reject`. `changes` records the actor.

**When it fails.** Clear the failed task: tasks may run twice with the same outcome. `propose`: its log ends with
Spark's reason, usually that Postgres is unreachable; nothing was changed. `apply`, `wait_until_applied`: the last line
is the coordinator's response. A rejected run remains rejected.

**Catching up.** Missed intervals are not run later: a proposal reads the current state.

**Settings.** `MUSTER_RETENTION_SCHEDULE` (cron, in UTC) and `MUSTER_OFFSETS_RETENTION_MINUTES`; the group's and the
cluster's `offsets_retention_minutes` take precedence. Limits: `MUSTER_OFFSET_RETENTION_MAX_CANDIDATES` and the
other params in capitals.
"""

from airflow.sdk import DAG

from dags.parts import proposals
from dags.parts.defaults import dag_arguments, schedule_of
from spark_jobs import submit

JOB = submit.JOBS["offset_retention"]

for cluster in submit.clusters():
    with DAG(doc_md=__doc__, schedule=schedule_of(JOB, cluster), **dag_arguments(JOB, cluster)):
        proposals.tasks(JOB, cluster, retention_ms="{{ submit.retention_ms() }}")
