"""The tasks between a proposal and its end: a gate, a person where the gate stays shut, and the coordinator's work.

    propose ── gate ──┬──────────────────────── apply ── applied
                      └── ask ── verdict ──┬──── ┘
                                           └──── reject

Each may run twice with the same outcome. The coordinator is asked by the run's name, which follows from the DAG run.
"""

import logging
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Context, PokeReturnValue, TriggerRule, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from dags.parts.defaults import APPLY_TIMEOUT, APPROVAL_TIMEOUT, OF_NOW, RUN_ID
from dags.parts.spark import spark_task
from spark_jobs import submit

log = logging.getLogger("airflow.task")

APPROVE, REJECT = "Approve", "Reject"
EXCEEDED, DECIDED, JUDGED = "exceeded", "decided", "judged"
APPLYING_OR_APPLIED = frozenset({"applying", "applied"})
ACTOR_MAX_CHARS = 200
POKE_INTERVAL_S = 5.0


def propose(job: str, **arguments: Any) -> SparkSubmitOperator:  # noqa: ANN401 - whatever the job takes
    """Return the task that runs a job, which writes a proposal."""
    return spark_task("propose", job, OF_NOW, {"share_from": "{{ params.share_from }}", **arguments})


@task.branch
def gate() -> str | list[str]:
    """Let a proposal within the limits through, have a person asked about one beyond, and end a dry run here.

    What was decided before, by whomever, nobody is asked about again.
    """
    context = get_current_context()
    params = context["params"]
    if params["dry_run"]:
        return []
    run = submit.read_run(_run_id(context))
    if run.status in APPLYING_OR_APPLIED:
        context["ti"].xcom_push(DECIDED, f"it is {run.status} already")
        return "apply"
    if run.is_over:
        raise AirflowFailException(f"Run {run.run_id} was {run.status}; nothing of it is applied.")
    limits = submit.Limits(**{name: params[name] for name in submit.LIMIT_NAMES if name in params})
    exceeded = limits.exceeded_by(run.counts)
    # What is applied is what was judged here, and what a person is told of; not what another attempt proposed since.
    context["ti"].xcom_push(JUDGED, run.counts.get("candidates"))
    if not exceeded:
        return "apply"
    context["ti"].xcom_push(EXCEEDED, " ".join(exceeded))
    dag_run = context["dag_run"]
    text = f"{dag_run.dag_id} waits for a person: {' '.join(exceeded)}"
    submit.alert("approval_needed", text, dag_id=dag_run.dag_id, run_id=dag_run.run_id, maintenance_run_id=run.run_id)
    return "ask"


def ask() -> HITLOperator:
    """Return the task that waits for a person; nobody's answer is a no."""
    return HITLOperator(
        task_id="ask",
        subject="Apply this proposal of {{ dag.dag_id }}?",
        body=(
            "{{ ti.xcom_pull(task_ids='gate', key='exceeded') }}\n\n"
            "Maintenance run `" + RUN_ID + "`. Look at it with\n"
            "`GET /v1/maintenance/runs/" + RUN_ID + "` on a node, and at its candidates with SQL.\n\n"
            "Rejected, it takes nothing away, and the next run proposes afresh."
        ),
        options=[APPROVE, REJECT],
        defaults=REJECT,
        response_timeout=APPROVAL_TIMEOUT,
    )


@task.branch
def verdict() -> str:
    """Go where the answer leads."""
    return "apply" if _answer(get_current_context())["chosen_options"] == [APPROVE] else "reject"


@task(trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS)
def apply() -> None:
    """Ask a node to work the proposal off; harmless when it was asked before."""
    context = get_current_context()
    answer = _answer(context)
    if answer is None:
        actor, reason = (
            _dag(context),
            context["ti"].xcom_pull(task_ids="gate", key=DECIDED) or "it is within its limits",
        )
    else:
        actor, reason = _said(context, answer, "approved")
    judged = context["ti"].xcom_pull(task_ids="gate", key=JUDGED)
    run = submit.apply_run(_run_id(context), actor=actor, reason=reason, candidates=judged)
    log.info("Run %s is %s.", run.run_id, run.status)


@task
def reject() -> None:
    """Have a node note that nothing of the proposal is to be applied."""
    context = get_current_context()
    actor, reason = _said(context, _answer(context), "rejected")
    run = submit.reject_run(_run_id(context), actor=actor, reason=reason)
    log.info("Run %s is %s.", run.run_id, run.status)


@task.sensor(poke_interval=POKE_INTERVAL_S, timeout=APPLY_TIMEOUT.total_seconds(), mode="reschedule")
def applied() -> PokeReturnValue:
    """Wait until every candidate has its outcome; between two looks the task takes no slot."""
    try:
        run = submit.read_run(_run_id(get_current_context()))
    except submit.CoordinatorUnreachable as failure:
        log.warning("%s; asking again.", failure)
        return PokeReturnValue(is_done=False)
    if run.is_over and run.status != "applied":
        raise AirflowFailException(f"Run {run.run_id} was {run.status}; its candidates stay.")
    return PokeReturnValue(is_done=run.is_over, xcom_value=run.counts)


def _run_id(context: Context) -> str:
    return submit.maintenance_run_id(context["dag"].dag_id, context["dag_run"].run_id)


def _dag(context: Context) -> str:
    return f"dag:{context['dag'].dag_id}"


def _answer(context: Context) -> Any:  # noqa: ANN401 - a payload of Airflow's
    """Return what `ask` was told, or None where nobody was asked."""
    return context["ti"].xcom_pull(task_ids="ask")


def _said(context: Context, answer: Any, what: str) -> tuple[str, str]:  # noqa: ANN401 - likewise
    """Return who said it and why; where nobody answered in time, it is the DAG that does as it was told."""
    exceeded = context["ti"].xcom_pull(task_ids="gate", key=EXCEEDED)
    user = answer["responded_by_user"]
    if user is None:
        minutes = int(APPROVAL_TIMEOUT.total_seconds() // 60)
        return _dag(context), f"nobody answered within {minutes} minutes: {exceeded}"
    return f"airflow:{user['name'] or user['id']}"[:ACTOR_MAX_CHARS], f"{what} in Airflow: {exceeded}"
