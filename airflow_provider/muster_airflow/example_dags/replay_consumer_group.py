"""Replay a consumer group: wait until its consumers have stopped, reset its offsets, wait until it has caught up.

**What.** `wait_until_empty` waits until the group has no members. `reset_offsets` logs what a reset would do and,
unless `dry_run`, resets the topic's offsets to the earliest. `wait_until_caught_up` waits until the consumers, started
again by hand, have read everything.

**When it fails.** The task's last line is the node's reason. Clear the task: a reset that was made is not made again.
The log of `reset_offsets` has the command that undoes it.

It needs a connection `muster_default` of type `muster`.
"""

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from muster_airflow.operators.reset_offsets import ResetOffsetsOperator
from muster_airflow.sensors.consumer_group import ConsumerGroupLagSensor, ConsumerGroupStateSensor

with DAG(
    dag_id="replay_consumer_group",
    description="Wait for a group to stop, reset its offsets, wait until it has caught up",
    doc_md=__doc__,
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    params={
        "group_id": Param(type="string", description="The group to replay"),
        "topic": Param(type="string", description="The topic to read again"),
        "dry_run": Param(default=False, type="boolean", description="Log the plan, and reset nothing"),
    },
    tags=["muster"],
):
    wait_until_empty = ConsumerGroupStateSensor(
        task_id="wait_until_empty",
        group_id="{{ params.group_id }}",
        states=["Empty"],
        poke_interval=2,
        timeout=timedelta(hours=1),
    )
    reset_offsets = ResetOffsetsOperator(
        task_id="reset_offsets",
        group_id="{{ params.group_id }}",
        to="earliest",
        topics=["{{ params.topic }}"],
        dry_run="{{ params.dry_run }}",
        reason="replay by {{ run_id }}",
    )
    wait_until_caught_up = ConsumerGroupLagSensor(
        task_id="wait_until_caught_up",
        group_id="{{ params.group_id }}",
        topics=["{{ params.topic }}"],
        max_lag=0,
        poke_interval=2,
        timeout=timedelta(hours=6),
    )

    wait_until_empty >> reset_offsets >> wait_until_caught_up
