"""Tasks of the proposing DAGs: propose, check limits, request approval, apply or reject.

    propose ── gate ──┬───────────────────────────────────────── apply ── wait_until_applied
                      ├── request_approval ── decision ──┬──── ┘
                      │                                  └──── reject
                      └─────────────────────────────────────── ┘

Each may run twice with the same outcome. The maintenance run's id is derived from the DAG run.
"""

from typing import Any

import structlog
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Context, PokeReturnValue, TriggerRule, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from dags.parts.cluster import console_url, nodes
from dags.parts.defaults import APPLY_TIMEOUT, APPROVAL_TIMEOUT, asset
from dags.parts.spark import spark_task
from muster_airflow.client import NodesUnavailable
from muster_airflow.hooks.muster import MusterHook
from spark_jobs import submit

log = structlog.get_logger("airflow.task")
"""Of structlog, as Airflow's own: where its `logging_level` is WARNING, Python's loggers would log no counts."""

APPROVE, REJECT = "Approve", "Reject"
EXCEEDED, DECIDED, HELD, JUDGED, QUESTION = "exceeded", "decided", "held", "judged", "question"
APPLYING_OR_APPLIED = frozenset({"applying", "applied"})
ACTOR_MAX_CHARS = 200
POKE_INTERVAL_S = 5.0
POKE_INTERVAL_MAX_S = 60.0
"""The longest pause between two looks, each of which is a process of its own."""


def tasks(job: submit.JobSpec, cluster: str, **arguments: str) -> None:
    """Add the tasks of a proposal, in their order.

    Args:
        job: the job's entry.
        cluster: the cluster that the DAG is for.
        arguments: further arguments of the job by flag; values may be templates.
    """
    propose = spark_task("propose", job, {"share_from": "{{ params.share_from }}", **arguments})
    passed, approval, decided = gate(), request_approval(), decision()
    applying, rejected = apply(), reject()

    propose >> passed >> [applying, approval, rejected]
    approval >> decided >> [applying, rejected]
    applying >> wait_until_applied.override(outlets=[asset(job, cluster)])()


@task.branch
def gate() -> str | list[str]:
    """Pass a proposal within the limits, request approval for others, and end dry runs.

    A run that was decided already needs no approval. One with the candidates of a run that an operator has rejected is
    rejected, whatever the limits.
    """
    context = get_current_context()
    params = context["params"]
    if params["dry_run"]:
        return []
    run = _read_run(context, nodes(context))
    if run.status in APPLYING_OR_APPLIED:
        context["ti"].xcom_push(DECIDED, f"it is {run.status} already")
        return "apply"
    if run.is_over:
        raise AirflowFailException(f"Run {run.run_id} was {run.status} and is not applied.")
    if run.held_by:
        held = submit.rejection_text(run.held_by)
        context["ti"].xcom_push(HELD, held)
        _log_result(run, f"It is to be rejected: {held}")
        return "reject"
    job = submit.job_of(context["dag"].dag_id)
    limits = submit.Limits(**{name: params[name] for name in job.limits})
    exceeded = limits.exceeded_by(run.counts, job.name)
    # Apply only the proposal that was checked here and reviewed, not one that another attempt wrote since.
    context["ti"].xcom_push(JUDGED, run.counts.get("candidates"))
    if not exceeded:
        _log_result(run, "It is within its limits.")
        return "apply"
    context["ti"].xcom_push(EXCEEDED, " ".join(exceeded))
    largest_groups = (context["ti"].xcom_pull(task_ids="propose") or {}).get("largest_groups", [])
    url = console_url(context, run.run_id)
    context["ti"].xcom_push(QUESTION, submit.approval_text(job, run, exceeded, largest_groups, url))
    dag_run = context["dag_run"]
    text = f"{dag_run.dag_id} waits for approval: {' '.join(exceeded)}"
    submit.alert(
        "approval_needed",
        text,
        dag_id=dag_run.dag_id,
        run_id=dag_run.run_id,
        maintenance_run_id=run.run_id,
        console_url=url,
    )
    _log_result(run, "It waits for approval.")
    return "request_approval"


def request_approval() -> HITLOperator:
    """Return the task that waits for an operator's answer; no answer rejects the proposal."""
    return HITLOperator(
        task_id="request_approval",
        subject="Apply this proposal of {{ dag.dag_id }}?",
        body=(
            "{{ ti.xcom_pull(task_ids='gate', key='" + QUESTION + "') }}\n\n"
            "If rejected, nothing is removed, and later runs with the same candidates are rejected too. Without an "
            "answer only this run is rejected."
        ),
        options=[APPROVE, REJECT],
        defaults=REJECT,
        response_timeout=APPROVAL_TIMEOUT,
    )


@task.branch
def decision() -> str:
    """Continue with `apply` or `reject`, by the answer."""
    return "apply" if _approval_response(get_current_context())["chosen_options"] == [APPROVE] else "reject"


@task(trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS)
def apply() -> dict[str, Any]:
    """Ask a node to apply the proposal; idempotent."""
    context = get_current_context()
    answer = _approval_response(context)
    if answer is None:
        actor, reason = (
            _dag(context),
            context["ti"].xcom_pull(task_ids="gate", key=DECIDED) or "it is within its limits",
        )
    else:
        actor, reason = _actor_and_reason(context, answer, "approved")
    judged = context["ti"].xcom_pull(task_ids="gate", key=JUDGED)
    # Without a number, whatever the proposal has is applied.
    expected = {} if judged is None else {"candidates": judged}
    return _log_result(_decide(context, "apply", actor, {"reason": reason, **expected}))


@task(trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS)
def reject() -> dict[str, Any]:
    """Ask a node to reject the proposal."""
    context = get_current_context()
    held = context["ti"].xcom_pull(task_ids="gate", key=HELD)
    actor, reason = (
        (_dag(context), held) if held else _actor_and_reason(context, _approval_response(context), "rejected")
    )
    return _log_result(_decide(context, "reject", actor, {"reason": reason}))


@task.sensor(
    poke_interval=POKE_INTERVAL_S,
    exponential_backoff=True,
    max_wait=POKE_INTERVAL_MAX_S,
    timeout=APPLY_TIMEOUT.total_seconds(),
    mode="reschedule",
)
def wait_until_applied() -> PokeReturnValue:
    """Wait until every candidate has its outcome; between two polls the task takes no slot."""
    context = get_current_context()
    try:
        run = _read_run(context, nodes(context, retry_timeout_s=0))
    except NodesUnavailable as failure:
        log.warning("%s; retrying.", failure)
        return PokeReturnValue(is_done=False)
    if run.is_over and run.status != "applied":
        raise AirflowFailException(f"Run {run.run_id} was {run.status}; its candidates are kept.")
    return PokeReturnValue(is_done=run.is_over, xcom_value=_log_result(run))


def _read_run(context: Context, hook: MusterHook) -> submit.MaintenanceRun:
    return submit.MaintenanceRun.from_json(hook.get(_path(context)))


def _decide(context: Context, action: str, actor: str, body: dict[str, Any]) -> submit.MaintenanceRun:
    """Ask a node to apply or reject the run; idempotent."""
    return submit.MaintenanceRun.from_json(nodes(context).post(f"{_path(context)}/{action}", body, actor=actor))


def _path(context: Context) -> str:
    run_id = submit.maintenance_run_id(context["dag"].dag_id, context["dag_run"].run_id)
    return f"/v1/maintenance/runs/{run_id}"


def _log_result(run: submit.MaintenanceRun, comment: str = "") -> dict[str, Any]:
    """Log a run's status, counts and link as the task's last line, and return them for its XCom."""
    result = submit.result_of_run(run, console_url(get_current_context(), run.run_id))
    log.info(" ".join(filter(None, (f"Run {run.run_id} is {run.status}.", comment, submit.describe_result(result)))))
    return result


def _dag(context: Context) -> str:
    return f"dag:{context['dag'].dag_id}"


def _approval_response(context: Context) -> Any:  # noqa: ANN401 - a payload of Airflow's
    """Return the answer of `request_approval`, or None if no approval was requested.

    Where `gate` was cleared and has requested none, the answer to an earlier request is still there.
    """
    if context["ti"].xcom_pull(task_ids="gate", key=EXCEEDED) is None:
        return None
    return context["ti"].xcom_pull(task_ids="request_approval")


def _actor_and_reason(context: Context, answer: Any, what: str) -> tuple[str, str]:  # noqa: ANN401 - likewise
    """Return actor and reason of a decision; if no operator answered in time, the actor is the DAG."""
    exceeded = context["ti"].xcom_pull(task_ids="gate", key=EXCEEDED)
    user = answer["responded_by_user"]
    if user is None:
        minutes = int(APPROVAL_TIMEOUT.total_seconds() // 60)
        return _dag(context), f"no answer within {minutes} minutes: {exceeded}"
    return f"airflow:{user['name'] or user['id']}"[:ACTOR_MAX_CHARS], f"{what} in Airflow: {exceeded}"
