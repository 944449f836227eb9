"""Triggers that poll a group until a condition is met.

A trigger keeps nothing between two polls: started again, by this triggerer or another, it continues.
"""

from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any, ClassVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from muster_airflow.conditions import FINAL_FAILURES, LagCondition, StateCondition
from muster_airflow.hooks.muster import MusterHook
from muster_airflow.waiting import Interval, wait_until_met


class ConsumerGroupTrigger(BaseTrigger):
    """Polls a group, and fires once: with the `result`, or with the `error` that ends the wait."""

    condition_type: ClassVar[type[LagCondition | StateCondition]]

    def __init__(
        self,
        *,
        muster_conn_id: str,
        poll_interval_s: float,
        wait_for_group: bool,
        exponential_backoff: bool = False,
        max_wait_s: float | None = None,
        **condition: Any,
    ) -> None:
        """Set how to poll, and the fields of the condition."""
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's own
        self.muster_conn_id = muster_conn_id
        self.interval = Interval(poll_interval_s, exponential_backoff, max_wait_s)
        self.wait_for_group = wait_for_group
        self.condition = self.condition_type(**condition)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and its arguments."""
        polling = {
            "muster_conn_id": self.muster_conn_id,
            "wait_for_group": self.wait_for_group,
            **asdict(self.interval),
        }
        return f"{type(self).__module__}.{type(self).__qualname__}", {**polling, **asdict(self.condition)}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll until the condition is met, or never will be."""
        hook = MusterHook(self.muster_conn_id, retry_timeout_s=0)
        try:
            result = await wait_until_met(
                self.condition, hook.aget_conn, self.interval, self.log, wait_for_group=self.wait_for_group
            )
        except FINAL_FAILURES as failure:
            yield TriggerEvent({"error": str(failure)})  # type: ignore[no-untyped-call]  # Airflow's own
        else:
            yield TriggerEvent({"result": result})  # type: ignore[no-untyped-call]  # likewise


class ConsumerGroupLagTrigger(ConsumerGroupTrigger):
    """Fires when a group has caught up."""

    condition_type = LagCondition


class ConsumerGroupStateTrigger(ConsumerGroupTrigger):
    """Fires when a group is in a state."""

    condition_type = StateCondition
