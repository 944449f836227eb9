"""Groups that are empty and have no offset left are retired whenever offsets have been expired.

**What.** `propose` runs a Spark job that finds the Empty groups without offsets and writes them down as a proposal: a
row in `maintenance_runs` and one a group in `cleanup_candidates`. `gate` lets a proposal within the limits through;
beyond them, `ask` waits for a person, and `verdict` goes on to `apply` or `reject`. `apply` asks a node to work the
proposal off: each group is judged again on what stands then, and one that woke, has offsets, or is about to be joined
is kept. `applied` waits until that is done. A consumer that joins a retired group starts it afresh.

**Why.** A group that never committed, or whose offsets somebody deleted, would stand in every list for ever.

**By hand.** Trigger it with `dry_run` to look at a proposal: nothing is retired. The limits can be set for one run.

**When it waits for a person.** Look at the proposal, and answer under "Required actions". No answer is a no: nothing
is retired, and the next run proposes, and asks, afresh. `changes` keeps who answered.

**When it fails.** Clear the task that failed: each may run twice with the same outcome. `propose` failed: its log ends
with Spark's reason, most often that Postgres could not be reached; nothing was changed. `apply` or `applied` failed:
the last line is the coordinator's own answer. A rejected run stays rejected, and the next one proposes afresh.

**Settings.** It runs when `offset_retention` has updated its Asset. Limits: `MUSTER_GROUP_CLEANUP_MAX_CANDIDATES` and
the other params in capitals.
"""

from airflow.sdk import DAG, Asset

from dags.parts import proposals
from dags.parts.defaults import DRY_RUN, dag_defaults, limit_params
from spark_jobs import submit

JOB = "group_cleanup"
OFFSETS_EXPIRED = Asset("offsets_expired", uri="muster://maintenance/offset_retention")
GROUPS_RETIRED = Asset("groups_retired", uri="muster://maintenance/group_cleanup")

with DAG(
    description="Propose groups that have nothing left, and have the coordinator retire them",
    doc_md=__doc__,
    schedule=[OFFSETS_EXPIRED],
    catchup=False,
    params={
        "dry_run": DRY_RUN,
        **limit_params(submit.default_limits(JOB), "max_candidates", "max_share", "share_from"),
    },
    **dag_defaults(JOB, "groups"),
):
    propose = proposals.propose(JOB)
    gate, ask, verdict = proposals.gate(), proposals.ask(), proposals.verdict()
    apply, reject = proposals.apply(), proposals.reject()
    applied = proposals.applied.override(outlets=[GROUPS_RETIRED])()

    propose >> gate >> [apply, ask]
    ask >> verdict >> [apply, reject]
    apply >> applied
