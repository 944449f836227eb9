"""Sensors that wait for a group: until it has caught up, or until it is in a state.

Both are deferrable by default: the triggerer polls, and the task takes no slot. A group that does not exist, or that is
deleted meanwhile, fails the task at once without retries, unless `wait_for_group`. While no node answers they keep
polling until `timeout`.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any, ClassVar

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue
from airflow.sdk.exceptions import AirflowFailException

from muster_airflow.client import Json, RequestRefused
from muster_airflow.conditions import GroupNotFound, LagCondition, StateCondition, look_once
from muster_airflow.hooks.muster import MusterHook
from muster_airflow.triggers.consumer_group import (
    ConsumerGroupLagTrigger,
    ConsumerGroupStateTrigger,
    ConsumerGroupTrigger,
)


class ConsumerGroupSensor(BaseSensorOperator):
    """Base of the sensors that wait for a group.

    Args:
        group_id: the group.
        wait_for_group: whether to wait for a group that does not exist, instead of failing.
        muster_conn_id: the connection.
        deferrable: whether the triggerer polls; otherwise the task does, in the sensor's `mode`.
        kwargs: arguments of `BaseSensorOperator`, such as `poke_interval` and `timeout` (seconds, or timedelta).
    """

    template_fields: Sequence[str] = ("group_id", "muster_conn_id")
    trigger_type: ClassVar[type[ConsumerGroupTrigger]]

    def __init__(
        self,
        *,
        group_id: str,
        wait_for_group: bool = False,
        muster_conn_id: str = MusterHook.default_conn_name,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        """Set what to wait for; templates are rendered when the task runs."""
        super().__init__(**kwargs)
        self.group_id = group_id
        self.wait_for_group = wait_for_group
        self.muster_conn_id = muster_conn_id
        self.deferrable = deferrable

    def condition(self) -> LagCondition | StateCondition:
        """Return the condition, of rendered fields.

        Raises:
            ValueError: a field is invalid.
        """
        raise NotImplementedError

    def execute(self, context: Context) -> Any:
        """Defer to the trigger, or poll."""
        if not self.deferrable:
            return super().execute(context)
        trigger = self.trigger_type(
            muster_conn_id=self.muster_conn_id,
            poll_interval_s=self.poke_interval,
            wait_for_group=self.wait_for_group,
            **asdict(self.condition()),
        )
        return self.defer(trigger=trigger, method_name="execute_complete", timeout=timedelta(seconds=self.timeout))

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> Json:
        """Return the result of the trigger's event, or fail with its error."""
        if "error" in event:
            raise AirflowFailException(event["error"])
        self.log.info("The condition is met: %s", event["result"])
        return dict(event["result"])

    def poke(self, context: Context) -> PokeReturnValue:
        """Look at the group once, if the sensor is not deferrable."""
        client = MusterHook(self.muster_conn_id, retry_timeout_s=0).get_conn()
        try:
            progress = asyncio.run(look_once(self.condition(), client, wait_for_group=self.wait_for_group))
        except (GroupNotFound, RequestRefused) as failure:
            raise AirflowFailException(str(failure)) from failure
        self.log.info(progress.text)
        return PokeReturnValue(progress.is_met, progress.result)


class ConsumerGroupLagSensor(ConsumerGroupSensor):
    """Waits until a group has caught up.

    A lag that is unknown or a lower bound never counts, and neither does a group without a committed offset: the log
    names such partitions. XCom: `group_id`, `state`, `lag` (records), `lag_seconds`.

    Args:
        group_id: the group.
        topics: only these topics, each of which must have a partition; none: all of the group.
        max_lag: limit of the lag summed over the partitions, in records; None: no limit.
        max_lag_seconds: limit of the lag of each partition in time; None: no limit.
        kwargs: arguments of `ConsumerGroupSensor`.
    """

    template_fields = (*ConsumerGroupSensor.template_fields, "topics", "max_lag", "max_lag_seconds")
    trigger_type = ConsumerGroupLagTrigger

    def __init__(
        self,
        *,
        group_id: str,
        topics: Collection[str] = (),
        max_lag: int | str | None = 0,
        max_lag_seconds: float | str | None = None,
        **kwargs: Any,
    ) -> None:
        """Set what to wait for; a text is a template of a number."""
        super().__init__(group_id=group_id, **kwargs)
        self.topics = topics
        self.max_lag = max_lag
        self.max_lag_seconds = max_lag_seconds

    def condition(self) -> LagCondition:
        """Return the condition, of rendered fields."""
        return LagCondition(
            self.group_id,
            list(self.topics),
            None if self.max_lag is None else int(self.max_lag),
            None if self.max_lag_seconds is None else float(self.max_lag_seconds),
        )


class ConsumerGroupStateSensor(ConsumerGroupSensor):
    """Waits until a group is in one of several states. XCom: `group_id`, `state`.

    Args:
        group_id: the group.
        states: names of states: Empty, PreparingRebalance, CompletingRebalance, Stable.
        kwargs: arguments of `ConsumerGroupSensor`.
    """

    template_fields = (*ConsumerGroupSensor.template_fields, "states")
    trigger_type = ConsumerGroupStateTrigger

    def __init__(self, *, group_id: str, states: Collection[str], **kwargs: Any) -> None:
        """Set what to wait for."""
        super().__init__(group_id=group_id, **kwargs)
        self.states = states

    def condition(self) -> StateCondition:
        """Return the condition, of rendered fields."""
        return StateCondition(self.group_id, list(self.states))
