"""Retire Empty groups without offsets after each expiry of offsets.

**What.** `propose` runs a Spark job that finds the Empty groups without offsets and writes a proposal: a row in
`maintenance_runs` and one a group in `cleanup_candidates`. `gate` passes a proposal within the limits; otherwise
`request_approval` waits for a person, and `decision` continues with `apply` or `reject`. `apply` asks a node to apply
the proposal: each group is evaluated again, and a group that is active, has offsets, or has pending members is kept.
`wait_until_applied` waits until that is done. A consumer that joins a retired group creates it again.

**Why.** Groups that never committed, or whose offsets were deleted, would otherwise remain forever.

**By hand.** Trigger it with `dry_run` to review a proposal: nothing is retired. Limits can be set for one run.

**When it waits for approval.** Review the proposal and answer under "Required actions". Without an answer nothing is
retired, and the next run proposes again. A rejection holds for runs with the same candidates: `gate` continues with
`reject`. `changes` records the actor.

**When it fails.** Clear the failed task: tasks may run twice with the same outcome. `propose`: its log ends with
Spark's reason, usually that Postgres is unreachable; nothing was changed. `apply`, `wait_until_applied`: the last line
is the coordinator's response. A rejected run remains rejected.

**Settings.** It runs after `offset_retention` updates its Asset. Limits: `MUSTER_GROUP_CLEANUP_MAX_CANDIDATES` and the
other params in capitals.
"""

from airflow.sdk import DAG

from dags.parts import proposals
from dags.parts.defaults import dag_arguments, schedule_of
from spark_jobs import submit

JOB = submit.JOBS["group_cleanup"]

for cluster in submit.clusters():
    with DAG(doc_md=__doc__, schedule=schedule_of(JOB, cluster), **dag_arguments(JOB, cluster)):
        proposals.tasks(JOB, cluster)
