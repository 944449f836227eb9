"""A reset without waiting before it, and a sensor that polls in the task."""

import json
import os
from datetime import UTC, datetime

from airflow.sdk import DAG, Param

from muster_airflow.operators.reset_offsets import ResetOffsetsOperator
from muster_airflow.sensors.consumer_group import ConsumerGroupLagSensor

with DAG(
    dag_id="one_reset",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    params={"group_id": Param(type="string"), "shift_by": -3, "reason": "a test", "dry_run": "", "max_lag": 0},
):
    reset = ResetOffsetsOperator(
        task_id="reset",
        group_id="{{ params.group_id }}",
        to="shift",
        shift_by="{{ params.shift_by }}",
        topics=json.loads(os.environ.get("RESET_TOPICS", "null")),
        reason="{{ params.reason }}",
        dry_run="{{ params.dry_run or False }}",
    )
    wait = ConsumerGroupLagSensor(
        task_id="wait",
        group_id="{{ params.group_id }}",
        max_lag="{{ params.max_lag }}",
        deferrable=False,
        poke_interval=0.1,
    )
    reset >> wait
