"""Quarantine: groups whose stored rows cannot be loaded.

A node refuses every request for a quarantined group with a retriable error, and writes nothing for it, until an
operator has repaired the rows and reloaded the group. The other groups of the shard are served.
"""

import asyncio
from collections.abc import Callable, Container
from typing import NamedTuple

import structlog

from coordinator_core.protocol.errors import CoordinatorNotAvailable, InvalidRequest

log = structlog.get_logger("muster.runtime")


class ReloadRefused(InvalidRequest):
    """The group is not quarantined, or its rows still cannot be loaded."""


class GroupQuarantined(CoordinatorNotAvailable):
    """The group is quarantined: clients retry, and an operator repairs its rows and reloads it."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the group is quarantined because its stored rows cannot be loaded: {reason}."
            " An operator repairs the rows with SQL, and then runs muster groups reload"
        )
        self.reason = reason


class QuarantinedGroup(NamedTuple):
    """A quarantined group; `reason` is one sentence about its rows."""

    group_id: str
    shard_id: int
    reason: str
    since_ms: int
    """Wall time."""


class Quarantine:
    """The quarantined groups of one node.

    The groups of an unloaded shard remain until it is loaded again, so that they are refused meanwhile too.
    """

    def __init__(self, is_served: Callable[[str], bool]) -> None:
        """Start empty.

        Args:
            is_served: returns whether the node serves a group from memory.
        """
        self._is_served = is_served
        self._groups: dict[str, QuarantinedGroup] = {}
        self.reloading = asyncio.Lock()
        """Held while a group is reloaded: rows that were read before another reload ended may be outdated after it."""

    def add(self, group: QuarantinedGroup) -> None:
        """Quarantine a group, unless the node serves it: then the rows have the wrong shard, and are skipped."""
        if self._is_served(group.group_id):
            log.warning("misplaced_rows_skipped", group=group.group_id, shard=group.shard_id, reason=group.reason)
            return
        self._groups[group.group_id] = group
        log.error("group_quarantined", group=group.group_id, shard=group.shard_id, reason=group.reason)

    def release(self, group_id: str) -> None:
        """End the quarantine of a group."""
        if self._groups.pop(group_id, None) is not None:
            log.info("group_reloaded", group=group_id)

    def begin_load(self, shard_id: int) -> None:
        """Forget the groups of a shard before it is loaded."""
        for group in [each for each in self._groups.values() if each.shard_id == shard_id]:
            del self._groups[group.group_id]

    def get(self, group_id: str) -> QuarantinedGroup | None:
        """Return a group if it is quarantined, else None."""
        return self._groups.get(group_id)

    def check(self, group_id: str) -> None:
        """Refuse a request for a group that is quarantined.

        Raises:
            GroupQuarantined: the text has the reason, and what an operator does.
        """
        group = self._groups.get(group_id)
        if group is not None:
            raise GroupQuarantined(group.reason)

    def of_shards(self, shard_ids: Container[int]) -> list[QuarantinedGroup]:
        """Return the quarantined groups of some shards, by id."""
        return sorted(each for each in self._groups.values() if each.shard_id in shard_ids)
