"""Sensors that wait for a group: until it has caught up, or until it is in a state.

Both are deferrable by default: the triggerer polls, and the task takes no slot. A group that does not exist, or that is
deleted meanwhile, fails the task at once without retries, unless `wait_for_group`, and so does a field, or a
connection, that is wrong. While no node answers they keep polling until `timeout`.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout, AirflowSkipException

from muster_airflow import fields
from muster_airflow.client import Json
from muster_airflow.conditions import FINAL_FAILURES, LagCondition, StateCondition, log_progress, look_once
from muster_airflow.hooks.muster import MusterHook
from muster_airflow.templates import TextTemplates
from muster_airflow.triggers.consumer_group import (
    ConsumerGroupLagTrigger,
    ConsumerGroupStateTrigger,
    ConsumerGroupTrigger,
)


class ConsumerGroupSensor(TextTemplates, BaseSensorOperator):
    """Base of the sensors that wait for a group.

    Args:
        group_id: the group.
        wait_for_group: whether to wait for a group that does not exist, instead of failing.
        muster_conn_id: the connection.
        deferrable: whether the triggerer polls; otherwise the task does, in the sensor's `mode`.
        kwargs: arguments of `BaseSensorOperator`, such as `poke_interval` and `timeout` (seconds, or timedelta).

    Raises:
        ValueError: a field that is no template is invalid.
    """

    template_fields: Sequence[str] = ("group_id", "muster_conn_id")
    trigger_type: ClassVar[type[ConsumerGroupTrigger]]
    readers: ClassVar[Mapping[str, Callable[[str, Any], Any]]]
    """The fields of the condition, and how each is read."""

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
        self._last_progress = ""
        self._was_answered = False

    def condition(self) -> LagCondition | StateCondition:
        """Return the condition, of rendered fields.

        Raises:
            ValueError: a field is invalid.
        """
        return self._condition(fields.text("group_id", self.group_id))

    def _condition(self, group_id: str) -> LagCondition | StateCondition:
        values = {name: read(name, getattr(self, name)) for name, read in self.readers.items()}
        return self.trigger_type.condition_type(group_id, **values)

    def check_literals(self) -> None:
        """Raise a ValueError if a field that is no template is invalid."""
        literals = [name for name in self.readers if not fields.is_template(getattr(self, name))]
        for name in literals:
            self.readers[name](name, getattr(self, name))
        if len(literals) == len(self.readers):
            self._condition("any group")

    def execute(self, context: Context) -> Any:
        """Defer to the trigger, or poll."""
        if not self.deferrable:
            return super().execute(context)
        try:
            condition = self.condition()
            # Read here too, since Airflow passes the error of a trigger on without its reason.
            MusterHook(self.muster_conn_id).get_conn()
        except ValueError as failure:
            self._fail(failure)
        trigger = self.trigger_type(
            muster_conn_id=self.muster_conn_id,
            poll_interval_s=self.poke_interval,
            wait_for_group=self.wait_for_group,
            exponential_backoff=self.exponential_backoff,
            max_wait_s=self.max_wait.total_seconds() if self.max_wait else None,
            **asdict(condition),
        )
        return self.defer(trigger=trigger, method_name="execute_complete", timeout=timedelta(seconds=self.timeout))

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> Json:
        """Return the result of the trigger's event, or fail with its error."""
        if "error" in event:
            self._fail(event["error"])
        self.log.info("The condition is met: %s", event["result"])
        return dict(event["result"])

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Continue after the trigger; if it has timed out, look a last time, which logs what was waited for."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except (AirflowSensorTimeout, AirflowSkipException) as end:
            if not any(isinstance(each, AirflowSensorTimeout) for each in (end, end.__cause__)):
                raise
            try:
                found = self.poke(context)
            except Exception as failure:
                raise end from failure
            if not found:
                raise
            return found.xcom_value

    def poke(self, context: Context) -> PokeReturnValue:
        """Look at the group once."""
        try:
            client = MusterHook(self.muster_conn_id, retry_timeout_s=0).get_conn()
            look = look_once(
                self.condition(), client, wait_for_group=self.wait_for_group, was_answered=self._was_answered
            )
            progress = asyncio.run(look)
        except (*FINAL_FAILURES, ValueError) as failure:
            self._fail(failure)
        log_progress(self.log, progress, self._last_progress)
        self._last_progress, self._was_answered = progress.text, self._was_answered or progress.is_answered
        return PokeReturnValue(progress.is_met, progress.result)

    def _fail(self, failure: object) -> NoReturn:
        """Fail without retries, or skip with `soft_fail`; log why, since Airflow drops the reason of a skip."""
        self.log.error(str(failure))
        raise (AirflowSkipException if self.soft_fail or self.never_fail else AirflowFailException)(str(failure))


class ConsumerGroupLagSensor(ConsumerGroupSensor):
    """Waits until a group has caught up.

    A lag that is unknown or a lower bound never counts, and neither does a group without a committed offset: the log
    names such partitions. XCom: `group_id`, `state`, `lag` (records), `lag_seconds`.

    Args:
        group_id: the group.
        topics: only these topics, each of which must have a partition; a text is one; none: all of the group.
        max_lag: limit of the lag summed over the partitions, in records; None: no limit.
        max_lag_seconds: limit of the lag of each partition in time; None: no limit.
        kwargs: arguments of `ConsumerGroupSensor`.
    """

    template_fields = (*ConsumerGroupSensor.template_fields, "topics", "max_lag", "max_lag_seconds")
    trigger_type = ConsumerGroupLagTrigger
    readers = MappingProxyType({"topics": fields.names, "max_lag": fields.records, "max_lag_seconds": fields.seconds})

    def __init__(
        self,
        *,
        group_id: str,
        topics: Collection[str] | str | None = None,
        max_lag: int | str | None = 0,
        max_lag_seconds: float | str | None = None,
        **kwargs: Any,
    ) -> None:
        """Set what to wait for; a text is a template of a number."""
        super().__init__(group_id=group_id, **kwargs)
        self.topics = topics
        self.max_lag = max_lag
        self.max_lag_seconds = max_lag_seconds
        self.check_literals()


class ConsumerGroupStateSensor(ConsumerGroupSensor):
    """Waits until a group is in one of several states. XCom: `group_id`, `state`.

    Args:
        group_id: the group.
        states: one or several of Empty, PreparingRebalance, CompletingRebalance, Stable.
        kwargs: arguments of `ConsumerGroupSensor`.
    """

    template_fields = (*ConsumerGroupSensor.template_fields, "states")
    trigger_type = ConsumerGroupStateTrigger
    readers = MappingProxyType({"states": fields.names})

    def __init__(self, *, group_id: str, states: Collection[str] | str, **kwargs: Any) -> None:
        """Set what to wait for."""
        super().__init__(group_id=group_id, **kwargs)
        self.states = states
        self.check_literals()
