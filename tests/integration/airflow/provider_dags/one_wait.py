"""A sensor with the arguments that a test puts into the environment."""

import json
import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from muster_airflow.sensors.consumer_group import ConsumerGroupLagSensor

with DAG(
    dag_id="one_wait",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    params={"topic": "", "max_lag": Param(6)},
):
    ConsumerGroupLagSensor(
        task_id="wait",
        poke_interval=0.1,
        timeout=20,
        retries=1,
        retry_delay=timedelta(0),
        **{"group_id": "g", **json.loads(os.environ.get("WAIT", "{}"))},
    )
