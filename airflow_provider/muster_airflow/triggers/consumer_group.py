"""Triggers that poll a group until a condition is met.

A trigger keeps nothing between two polls: started again, by this triggerer or another, it continues.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any, ClassVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from muster_airflow.client import RequestRefused
from muster_airflow.conditions import GroupNotFound, LagCondition, StateCondition, look_once
from muster_airflow.hooks.muster import MusterHook


class ConsumerGroupTrigger(BaseTrigger):
    """Polls a group, and fires once: with the `result`, or with the `error` that ends the wait."""

    condition_type: ClassVar[type[LagCondition | StateCondition]]

    def __init__(self, *, muster_conn_id: str, poll_interval_s: float, wait_for_group: bool, **condition: Any) -> None:
        """Set how to poll, and the fields of the condition."""
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's own
        self.muster_conn_id = muster_conn_id
        self.poll_interval_s = poll_interval_s
        self.wait_for_group = wait_for_group
        self.condition = self.condition_type(**condition)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and its arguments."""
        polling = {
            "muster_conn_id": self.muster_conn_id,
            "poll_interval_s": self.poll_interval_s,
            "wait_for_group": self.wait_for_group,
        }
        return f"{type(self).__module__}.{type(self).__qualname__}", {**polling, **asdict(self.condition)}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll until the condition is met, or never will be."""
        client = await MusterHook(self.muster_conn_id, retry_timeout_s=0).aget_conn()
        try:
            while True:
                progress = await look_once(self.condition, client, wait_for_group=self.wait_for_group)
                self.log.info(progress.text)
                if progress.is_met:
                    break
                await asyncio.sleep(self.poll_interval_s)
        except (GroupNotFound, RequestRefused) as failure:
            yield TriggerEvent({"error": str(failure)})  # type: ignore[no-untyped-call]  # Airflow's own
        else:
            yield TriggerEvent({"result": progress.result})  # type: ignore[no-untyped-call]  # likewise


class ConsumerGroupLagTrigger(ConsumerGroupTrigger):
    """Fires when a group has caught up."""

    condition_type = LagCondition


class ConsumerGroupStateTrigger(ConsumerGroupTrigger):
    """Fires when a group is in a state."""

    condition_type = StateCondition
