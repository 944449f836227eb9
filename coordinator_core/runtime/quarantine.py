"""Quarantine: groups whose stored rows cannot be loaded, or that make their shard fail again and again.

A node refuses every request for a quarantined group with a retriable error, and writes nothing for it, until an
operator has removed the cause and reloaded the group. The other groups of the shard are served.
"""

import asyncio
from collections.abc import Callable, Container
from typing import Final, NamedTuple

import structlog

from coordinator_core.protocol.errors import CoordinatorNotAvailable, InvalidRequest
from coordinator_core.protocol.settings import Now

log = structlog.get_logger("muster.runtime")

FAILURES_MAX: Final = 3
"""How often a group makes its shard fail before it is quarantined."""
FAILURES_EXPIRE_MS: Final = 300_000
"""How long a failure counts: sessions that expire in vain, of 45 s by default, fail three times within it."""
REFUSALS: Final = "the database has refused its writes again and again; the log event write_refused has the reasons"
VIOLATIONS: Final = (
    "its requests have violated an invariant of the node again and again; the log event invariant_violated has each"
)


class ReloadRefused(InvalidRequest):
    """The group is not quarantined, or its rows still cannot be loaded."""


class WriteRefused(CoordinatorNotAvailable):
    """The database has refused the rows of a group, and its shard is loaded again; the text names neither."""


class GroupQuarantined(CoordinatorNotAvailable):
    """The group is quarantined: clients retry, and an operator removes the cause and reloads it."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the group is quarantined: {reason}. An operator repairs its rows with SQL, or removes what else is the"
            " cause, and then runs muster groups reload"
        )
        self.reason = reason


class QuarantinedGroup(NamedTuple):
    """A quarantined group; `reason` is one sentence about its rows."""

    group_id: str
    shard_id: int
    reason: str
    since_ms: int
    """Wall time."""
    epoch: int | None = None
    """The last epoch of its shard on this node, if it has made its shard fail; None: its rows cannot be loaded."""


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
        self._failures: dict[tuple[str, int], int] = {}
        """(group, epoch of its shard) that ended with a failure of the group → when, in node time."""
        self.reloading = asyncio.Lock()
        """Held while a group is reloaded: rows that were read before another reload ended may be outdated after it."""

    def add(self, group: QuarantinedGroup) -> None:
        """Quarantine a group, unless the node serves it: then the rows have the wrong shard, and are skipped."""
        if self._is_served(group.group_id):
            log.warning("misplaced_rows_skipped", group=group.group_id, shard=group.shard_id, reason=group.reason)
            return
        self._groups[group.group_id] = group
        log.error("group_quarantined", group=group.group_id, shard=group.shard_id, reason=group.reason)

    def count_failure(self, group_id: str, shard_id: int, epoch: int, now: Now, reason: str) -> None:
        """Count a failure of a shard by a group, once in an epoch; quarantine the group when it had too many of late.

        Call it after the shard was unloaded.

        Args:
            group_id: of the group whose write was refused, or whose request violated an invariant.
            shard_id: of the group.
            epoch: of the shard that has failed.
            now: the time.
            reason: why the group would be quarantined, as a clause.
        """
        expired_ms = now.node_ms - FAILURES_EXPIRE_MS
        self._failures = {failed: at_ms for failed, at_ms in self._failures.items() if at_ms > expired_ms}
        self._failures[group_id, epoch] = now.node_ms
        if sum(failed == group_id for failed, _ in self._failures) >= FAILURES_MAX:
            self.add(QuarantinedGroup(group_id, shard_id, reason, now.wall_ms, epoch))

    def release(self, group_id: str) -> None:
        """End the quarantine of a group."""
        if self._groups.pop(group_id, None) is not None:
            log.info("group_reloaded", group=group_id)

    def begin_load(self, shard_id: int, epoch: int) -> None:
        """Forget the groups of a shard before it is loaded.

        Those that have made it fail remain, unless another node may have owned the shard meanwhile.
        """
        for group in [each for each in self._groups.values() if each.shard_id == shard_id]:
            if group.epoch == epoch - 1:
                self._groups[group.group_id] = group._replace(epoch=epoch)
            else:
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
