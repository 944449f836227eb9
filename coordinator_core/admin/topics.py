"""Changes of topic metadata and of log end offsets; any node makes them."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from coordinator_core.admin.changes import Change, recorded_change
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.rows import ChangeRow, Json, TopicRow

T = TypeVar("T")


async def put_topic(
    coordinator: Coordinator, topic: str, partitions: int, log_start_offset: int | None, change: Change
) -> TopicRow:
    """Create or change a topic's metadata; a higher partition count rebalances every Stable group that reads it.

    Raises:
        ValueError: the count would decrease.
    """
    arguments: dict[str, Json] = {"topic": topic, "partitions": partitions}
    if log_start_offset is not None:
        arguments["log_start_offset"] = log_start_offset
    earlier = await recorded_change(coordinator, change, ChangeAction.PUT_TOPIC, None, arguments)
    if earlier is not None:
        return TopicRow(**earlier.after, version=0)
    stored = partial(coordinator.store.put_topic, topic, partitions, log_start_offset)
    return await _make(coordinator, change, ChangeAction.PUT_TOPIC, arguments, stored)


async def delete_topic(coordinator: Coordinator, topic: str, change: Change) -> Json | None:
    """Delete a topic's metadata; a run archives the offsets that all groups have in it.

    Groups that read it rebalance. The run does not archive offsets that are committed later.

    Returns:
        The `after` of the change: the run and its number of candidates; None if there is no such topic.
    """
    arguments: dict[str, Json] = {"topic": topic}
    earlier = await recorded_change(coordinator, change, ChangeAction.DELETE_TOPIC, None, arguments)
    if earlier is not None:
        return earlier.after
    stored = partial(coordinator.store.delete_topic, topic)
    recorded = await _make(coordinator, change, ChangeAction.DELETE_TOPIC, arguments, stored)
    coordinator.wake_maintenance()
    return None if recorded is None else recorded.after


async def delete_log_ends(coordinator: Coordinator, topic: str, partition: int | None, change: Change) -> ChangeRow:
    """Delete the known log end offsets of a topic, or of one partition, until they are reported again.

    Every node discards all reports, of other topics too, that it has not stored yet.

    Returns:
        The change as it was recorded; its `before` lists the deleted log end offsets.
    """
    arguments: dict[str, Json] = {"topic": topic, "partition": partition}
    earlier = await recorded_change(coordinator, change, ChangeAction.DELETE_LOG_ENDS, None, arguments)
    if earlier is not None:
        return earlier
    stored = partial(coordinator.store.delete_log_ends, topic, partition)
    return await _make(coordinator, change, ChangeAction.DELETE_LOG_ENDS, arguments, stored)


async def _make(
    coordinator: Coordinator,
    change: Change,
    action: ChangeAction,
    arguments: Mapping[str, Json],
    stored: Callable[[ChangeRow], T],
) -> T:
    """Make a change of topics, apply it on this node, and return the store's result.

    Raises:
        IdempotencyKeyConflict: another change has taken its id meanwhile, so the store did nothing.
    """
    result = await coordinator.read(partial(stored, change.row(action, None, coordinator.wall_ms())))
    await recorded_change(coordinator, change, action, None, arguments)
    await coordinator.refresh_settings()
    return result
