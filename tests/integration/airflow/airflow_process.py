"""Run Airflow in a separate process, because importing it changes logging and warnings.

Run as a program it reads one JSON command per line and writes one JSON line for each: `describe` lists what the DAG
files hold, `run` tests a DAG for real and returns the state of every task, `queue` has the scheduler queue tasks,
`read` calls a node through the hook, `console` returns the address of the console that DAGs link to, `database`
that of a cluster's database, `approval` the answer that counts, `defer` and `time_out` begin and end the wait of a
sensor, and `render` returns fields of native templates.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.integration.airflow.answering import PASSWORD, USER, Answering
from tests.support.repository import ROOT

DAGS = ROOT / "dags"
PROPOSAL_POOL, REPORT_POOL = "proposals_under_test", "reports_under_test"
EXAMPLE_DAGS = ROOT / "airflow_provider" / "muster_airflow" / "example_dags"
PROVIDER_DAGS = Path(__file__).parent / "provider_dags"
BUNDLES = {f"{folder.parent.name}-{folder.name}": folder for folder in (DAGS, EXAMPLE_DAGS, PROVIDER_DAGS)}
"""Folders of DAGs by the name that Airflow knows them by, ours first."""


class AirflowProcess:
    """The test's end of the pipes."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process = process
        self._log = log

    def describe(self, env: Mapping[str, str] = MappingProxyType({}), folder: Path = DAGS) -> dict[str, Any]:
        """Return {"import_errors", "warnings", "dags": [{"dag_id", "tasks", …}]}, with these variables added."""
        return self._ask({"do": "describe", "env": dict(env), "folder": str(folder)})

    def run(
        self,
        dag_id: str,
        conf: Mapping[str, object],
        env: Mapping[str, str],
        answer: str | None = None,
        *,
        as_the_form: bool = False,
        is_retried: bool = True,
        folder: Path = DAGS,
    ) -> dict[str, Any]:
        """Run a DAG by hand, with this configuration, and these variables added to its environment.

        Args:
            dag_id: which.
            conf: its params.
            env: the variables.
            answer: the answer to the approval request; None: the run must not request approval.
            as_the_form: name a logical date, as the form of Airflow's pages does; the run has the last whole interval.
            is_retried: whether a failed task is tried again, after ten seconds and more.
            folder: of the DAG's file.

        Returns:
            {"state", "run_id", "run_after", "tasks": {task id: state}, "results": {task id: what it returned},
            "assets": the names of those it updated, "question": what a person was asked, "answered": status or None}.
        """
        command = {"do": "run", "dag_id": dag_id, "conf": dict(conf), "env": dict(env), "answer": answer}
        how = {"has_logical_date": as_the_form, "is_retried": is_retried, "folder": str(folder)}
        return self._ask({**command, **how})

    def read(self, conn_id: str, path: str, env: Mapping[str, str]) -> dict[str, Any]:
        """Read a path of a node through the hook.

        Returns:
            {"answer": the response or None, "error": the exception as text or None, "test": what the button of
            Airflow's connections shows}.
        """
        return self._ask({"do": "read", "conn_id": conn_id, "path": path, "env": dict(env)})

    def console_url(self, cluster: str, env: Mapping[str, str]) -> str:
        """Return the address of the reports that DAGs for a cluster link to."""
        return str(self._ask({"do": "console", "cluster": cluster, "env": dict(env)})["url"])

    def database_url(self, cluster: str, env: Mapping[str, str]) -> str:
        """Return the address that a job for a cluster gets."""
        return str(self._ask({"do": "database", "cluster": cluster, "env": dict(env)})["url"])

    def approval(self, xcoms: Mapping[str, object]) -> object:
        """Return the answer by which `apply` applies, or None, after tasks have left such XComs (`<task>.<key>`)."""
        return self._ask({"do": "approval", "xcoms": dict(xcoms)})["answer"]

    def defer(self, arguments: Mapping[str, object]) -> dict[str, Any]:
        """Return the arguments of the trigger that a lag sensor defers to; or {"error": exception as text}."""
        return dict(self._ask({"do": "defer", "arguments": dict(arguments)}))

    def render(self, operator: str, arguments: Mapping[str, object], params: Mapping[str, object]) -> dict[str, Any]:
        """Return the fields of an operator or sensor of the provider in a DAG with native templates."""
        return self._ask({"do": "render", "operator": operator, "arguments": arguments, "params": params})

    def time_out(self, arguments: Mapping[str, object], env: Mapping[str, str]) -> dict[str, Any]:
        """Resume a lag sensor whose trigger has timed out; return {"result", "error": exception as text or None}."""
        return self._ask({"do": "time_out", "arguments": dict(arguments), "env": dict(env)})

    def queue(
        self, pools: Mapping[str, int], running: Sequence[tuple[str, str]], scheduled: Sequence[tuple[str, str]]
    ) -> list[tuple[str, str]]:
        """Have the scheduler queue tasks, each of a run of its own.

        Args:
            pools: pool → its slots.
            running: DAG and task of those that run already.
            scheduled: DAG and task of those that wait.

        Returns:
            DAG and task of those that it queued.
        """
        tasks = [(*task, "running") for task in running] + [(*task, "scheduled") for task in scheduled]
        return [(dag, task) for dag, task in self._ask({"do": "queue", "pools": dict(pools), "tasks": tasks})["queued"]]

    def log(self) -> str:
        """Return everything that tasks have printed so far."""
        return self._log.read_text(errors="replace")

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None, "it was started with pipes"
        assert self._process.stdout is not None, "it was started with pipes"
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"Airflow ended with {self._process.poll()}:\n{self.log()[-4000:]}"
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def started(home: Path, env: Mapping[str, str]) -> Iterator[AirflowProcess]:
    """Start Airflow's process on a database of its own in `home`, and end it with the block."""
    log = home / "airflow.log"
    settings = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(_bundles()),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
        # Whatever the machine's owner has set must not reach the DAGs under test.
        "MUSTER_RETENTION_SCHEDULE": "",
        "MUSTER_REPORTS_SINCE": "2026-11-20",
        "MUSTER_TOKEN": "",
        "MUSTER_CLUSTERS": "",
        "MUSTER_SPARK_POOL": PROPOSAL_POOL,
        "MUSTER_SPARK_REPORT_POOL": REPORT_POOL,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__API_AUTH__JWT_SECRET": "no secret, and long enough for those who count its characters, as some do",
    }
    (home / "passwords.json").write_text(json.dumps({USER: PASSWORD}))
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.airflow.airflow_process"],
            cwd=ROOT,
            env={**env, **settings},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        )
    with process:
        try:
            yield AirflowProcess(process, log)
        finally:
            process.kill()


def _bundles() -> list[dict[str, Any]]:
    """Return Airflow's configuration of the bundles."""
    local = "airflow.dag_processing.bundles.local.LocalDagBundle"
    return [{"name": name, "classpath": local, "kwargs": {"path": str(folder)}} for name, folder in BUNDLES.items()]


def main() -> None:
    """Answer commands until there are no more."""
    # Responses go to the pipe that the test reads; all other output goes to the log.
    with os.fdopen(os.dup(1), "w", buffering=1) as answers:
        os.dup2(2, 1)
        from airflow.dag_processing.dagbag import DagBag  # noqa: PLC0415 - this process may have it
        from airflow.utils import db  # noqa: PLC0415 - this process may have it

        db.initdb()
        for line in sys.stdin:
            command = json.loads(line)
            if command["do"] in WITHOUT_DAGS:
                print(json.dumps(WITHOUT_DAGS[command["do"]](command)), file=answers)
                continue
            # Parsed again each time: a test run leaves its configuration in the DAG.
            folder = Path(command.get("folder", DAGS))
            with _environment(command.get("env", {})):
                bag = DagBag(folder, bundle_path=folder)
            match command["do"]:
                case "describe":
                    answer = _describe(bag)
                case "run":
                    answer = _run(bag, command)
                case _:
                    answer = _queue(bag, command)
            print(json.dumps(answer), file=answers)


def _read(command: dict[str, Any]) -> dict[str, Any]:
    from muster_airflow.hooks.muster import MusterHook  # noqa: PLC0415 - this process may have Airflow

    hook = MusterHook(command["conn_id"], retry_timeout_s=0)
    with _environment(command["env"]):
        try:
            answer, error = hook.get(command["path"]), None
        except Exception as failure:  # noqa: BLE001 - the test reads which
            answer, error = None, f"{type(failure).__name__}: {failure}"
        return {"answer": answer, "error": error, "test": hook.test_connection()}


def _console(command: dict[str, Any]) -> dict[str, Any]:
    from dags.parts.cluster import console_url  # noqa: PLC0415 - this process may have Airflow

    with _environment(command["env"]):
        return {"url": console_url({"params": {"cluster": command["cluster"]}})}


def _database(command: dict[str, Any]) -> dict[str, Any]:
    from dags.parts.cluster import provide_database  # noqa: PLC0415 - this process may have Airflow
    from spark_jobs.submit import database_variable  # noqa: PLC0415 - likewise

    with _environment(command["env"]):
        provide_database({"params": {"cluster": command["cluster"]}})
        return {"url": os.environ[database_variable(command["cluster"])]}


def _approval(command: dict[str, Any]) -> dict[str, Any]:
    from dags.parts.proposals import _approval_response  # noqa: PLC0415 - this process may have Airflow

    class Instance:
        def xcom_pull(self, task_ids: str, key: str = "return_value") -> object:
            return command["xcoms"].get(f"{task_ids}.{key}")

    return {"answer": _approval_response({"ti": Instance()})}  # type: ignore[typeddict-item]  # what it reads


def _defer(command: dict[str, Any]) -> dict[str, Any]:
    from airflow.sdk.exceptions import TaskDeferred  # noqa: PLC0415 - this process may have Airflow

    from muster_airflow.sensors.consumer_group import ConsumerGroupLagSensor  # noqa: PLC0415 - likewise

    try:
        ConsumerGroupLagSensor(task_id="wait", **command["arguments"]).execute({})
    except TaskDeferred as deferred:
        _, arguments = deferred.trigger.serialize()
        return dict(arguments)
    except Exception as failure:  # noqa: BLE001 - the test reads which
        return {"error": f"{type(failure).__name__}: {failure}"}
    raise AssertionError("it defers")


def _render(command: dict[str, Any]) -> dict[str, Any]:
    from airflow.sdk import DAG  # noqa: PLC0415 - likewise

    from muster_airflow.operators.reset_offsets import ResetOffsetsOperator  # noqa: PLC0415 - likewise
    from muster_airflow.sensors.consumer_group import ConsumerGroupLagSensor  # noqa: PLC0415 - likewise

    types = {"reset": ResetOffsetsOperator, "lag": ConsumerGroupLagSensor}
    with DAG("native", schedule=None, render_template_as_native_obj=True):
        task = types[command["operator"]](task_id="task", **command["arguments"])
    task.render_template_fields({"params": command["params"], "dag": task.dag})
    return {name: getattr(task, name) for name in task.template_fields}


def _time_out(command: dict[str, Any]) -> dict[str, Any]:
    from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR, TriggerFailureReason  # noqa: PLC0415 - likewise

    from muster_airflow.sensors.consumer_group import ConsumerGroupLagSensor  # noqa: PLC0415 - likewise

    sensor = ConsumerGroupLagSensor(task_id="wait", **command["arguments"])
    with _environment(command["env"]):
        try:
            ended = {"error": TriggerFailureReason.TRIGGER_TIMEOUT.value}
            return {"result": sensor.resume_execution(TRIGGER_FAIL_REPR, ended, {}), "error": None}
        except Exception as failure:  # noqa: BLE001 - the test reads which
            return {"result": None, "error": f"{type(failure).__name__}: {failure}"}


WITHOUT_DAGS = {
    "read": _read,
    "console": _console,
    "database": _database,
    "approval": _approval,
    "defer": _defer,
    "render": _render,
    "time_out": _time_out,
}
"""Commands that need no DAGs, and what carries them out."""


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Add variables to the environment for the time of the block."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _describe(bag: Any) -> dict[str, Any]:  # noqa: ANN401 - Airflow has no stable type for it
    return {
        "import_errors": bag.import_errors,
        "warnings": [str(warning) for found in bag.captured_warnings.values() for warning in found],
        "dags": [_describe_dag(dag) for dag in bag.dags.values()],
    }


def _describe_dag(dag: Any) -> dict[str, Any]:  # noqa: ANN401 - likewise
    return {
        "dag_id": dag.dag_id,
        "file": Path(dag.fileloc).name,
        "doc_md": dag.doc_md,
        "tags": sorted(dag.tags),
        "catchup": dag.catchup,
        "start_date": dag.start_date.isoformat(),
        "max_active_runs": dag.max_active_runs,
        "timeout_s": _seconds(dag.dagrun_timeout),
        "deadlines": [alert.callback.path for alert in dag.deadline or ()],
        "deadlines_s": [alert.interval for alert in dag.deadline or ()],
        "tells_of_failure": dag.on_failure_callback is not None,
        "starts_on": _assets_of(dag.timetable),
        "params": {name: dag.params.get_param(name).schema for name in dag.params},
        "tasks": [
            {
                "task_id": task.task_id,
                "owner": task.owner,
                "retries": task.retries,
                "backs_off": task.retry_exponential_backoff > 1,
                "has_timeout": task.execution_timeout is not None,
                "tells_of_failure": bool(task.on_failure_callback),
                "mode": getattr(task, "mode", None),
                "longest_pause_s": _seconds(getattr(task, "max_wait", None)) or getattr(task, "poke_interval", None),
                "pool": task.pool,
                "priority": _priority(task),
                "operator": type(task).__name__,
                "response_timeout_s": _seconds(getattr(task, "response_timeout", None)),
                "default_answer": getattr(task, "defaults", None),
                "downstream": sorted(task.downstream_task_ids),
                "assets": [asset.name for asset in task.outlets],
            }
            for task in dag.tasks
        ],
    }


def _priority(task: Any) -> int:  # noqa: ANN401 - likewise
    """Return a task's priority in its pool: by default its own weight and those of its downstream tasks."""
    if type(task.weight_rule).__name__ == "_AbsolutePriorityWeightStrategy":
        return int(task.priority_weight)
    return int(task.priority_weight) + len(task.get_flat_relative_ids(upstream=False))


def _assets_of(timetable: Any) -> list[str]:  # noqa: ANN401 - likewise
    condition = getattr(timetable, "asset_condition", None)
    return [] if condition is None else [asset.name for asset in condition.objects]


def _seconds(length: Any) -> float | None:  # noqa: ANN401 - likewise
    return None if length is None else float(length.total_seconds())


def _run(bag: Any, command: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - likewise
    approver = None if command["answer"] is None else Answering(command["answer"])
    if approver is not None:
        approver.start()
    dag = bag.dags[command["dag_id"]]
    # `test` looks up a deadline by an id that only a scheduler assigns.
    dag.deadline = None
    if not command["is_retried"]:
        for task in dag.tasks:
            task.retries = 0
    logical_date = datetime.now(UTC) if command["has_logical_date"] else None
    with _environment(command["env"]):
        run = dag.test(run_conf=command["conf"], logical_date=logical_date)
    if approver is not None:
        approver.stop()
    return {
        "state": str(run.state),
        "run_id": run.run_id,
        "run_after": run.run_after.isoformat(),
        "tasks": {instance.task_id: str(instance.state) for instance in run.get_task_instances()},
        "results": {task_id: _result(run, task_id) for task_id in dag.task_ids},
        "assets": _updated_assets(run),
        "question": _question(run) if approver is not None else None,
        "answered": None if approver is None else approver.status,
    }


def _queue(bag: Any, command: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - likewise
    """Set the states of tasks, have the scheduler queue those that find a slot in their pool, and undo all of it."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager  # noqa: PLC0415 - this process may have it
    from airflow.dag_processing.dagbag import sync_bag_to_db  # noqa: PLC0415 - likewise
    from airflow.jobs.job import Job  # noqa: PLC0415 - likewise
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner  # noqa: PLC0415 - likewise
    from airflow.models.dag import DagModel  # noqa: PLC0415 - likewise
    from airflow.models.pool import Pool  # noqa: PLC0415 - likewise
    from airflow.utils.session import create_session  # noqa: PLC0415 - likewise
    from sqlalchemy import update  # noqa: PLC0415 - likewise

    DagBundlesManager().sync_bundles_to_db()  # type: ignore[no-untyped-call]  # Airflow's own
    sync_bag_to_db(bag, next(iter(BUNDLES)), None)
    with create_session() as session:
        session.execute(update(DagModel).values(is_paused=False))
        for pool, slots in command["pools"].items():
            Pool.create_or_update_pool(pool, slots, "", include_deferred=False, session=session)
        for number, (dag_id, task_id, state) in enumerate(command["tasks"]):
            run = _create_run(dag_id, f"queue-{number}", session)
            run.get_task_instance(task_id, session=session).state = state
        session.flush()
        scheduler = SchedulerJobRunner(job=Job())  # type: ignore[no-untyped-call]  # Airflow's own
        found = scheduler._executable_task_instances_to_queued(max_tis=32, session=session)
        queued = [[instance.dag_id, instance.task_id] for instance in found]
        session.rollback()
    return {"queued": queued}


def _create_run(dag_id: str, run_id: str, session: Any) -> Any:  # noqa: ANN401 - likewise
    """Return a new run of a DAG, which is running."""
    from airflow.models.dagbag import DBDagBag  # noqa: PLC0415 - this process may have it
    from airflow.utils.state import DagRunState  # noqa: PLC0415 - likewise
    from airflow.utils.types import DagRunTriggeredByType, DagRunType  # noqa: PLC0415 - likewise

    dag = DBDagBag().get_latest_version_of_dag(dag_id, session=session)
    assert dag is not None, "the DAGs were stored"
    return dag.create_dagrun(
        run_id=run_id,
        run_after=datetime.now(UTC),
        run_type=DagRunType.MANUAL,
        triggered_by=DagRunTriggeredByType.TEST,
        state=DagRunState.RUNNING,
        session=session,
    )


def _result(run: Any, task_id: str) -> Any:  # noqa: ANN401 - likewise
    """Return what a task returned."""
    from airflow.models.xcom import XComModel  # noqa: PLC0415 - this process may have it
    from airflow.utils.session import create_session  # noqa: PLC0415 - likewise

    with create_session() as session:
        query = XComModel.get_many(run_id=run.run_id, key="return_value", task_ids=task_id, dag_ids=run.dag_id)
        found = session.scalars(query).first()
        return None if found is None else XComModel.deserialize_value(found)


def _updated_assets(run: Any) -> list[str]:  # noqa: ANN401 - likewise
    """Return the names of the Assets that a run has updated."""
    from airflow.models.asset import AssetEvent  # noqa: PLC0415 - likewise
    from airflow.utils.session import create_session  # noqa: PLC0415 - likewise
    from sqlalchemy import select  # noqa: PLC0415 - likewise

    with create_session() as session:
        updates = select(AssetEvent).where(
            AssetEvent.source_run_id == run.run_id, AssetEvent.source_dag_id == run.dag_id
        )
        return sorted(update.asset.name for update in session.scalars(updates))


def _question(run: Any) -> str:  # noqa: ANN401 - likewise
    """Return what a person was asked."""
    from airflow.models.hitl import HITLDetail  # noqa: PLC0415 - likewise
    from airflow.models.taskinstance import TaskInstance  # noqa: PLC0415 - likewise
    from airflow.utils.session import create_session  # noqa: PLC0415 - likewise
    from sqlalchemy import select  # noqa: PLC0415 - likewise

    with create_session() as session:
        asked = select(HITLDetail.body).join(TaskInstance, TaskInstance.id == HITLDetail.ti_id)
        return str(session.scalar(asked.where(TaskInstance.run_id == run.run_id, TaskInstance.dag_id == run.dag_id)))


if __name__ == "__main__":
    main()
