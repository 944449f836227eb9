"""Ranking of consumers by how long their group waited for them, across member ids.

Rules, which `spark_jobs/transforms/rebalance_frequency.py` and the view `dashboards.slowest_members` have as well:

* A consumer is an instance id, or else a client id and a host. A process in a crash loop has a new member id each time;
  its waits count as those of one consumer.
* A consumer is shown with the member that the group waited for longest; of equals, the first by id.
* Consumers are ranked by their total wait; of equals, by the id of the member that is shown.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wait:
    """How long a group waited for one member."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str | None
    """None: not stored; such members count by their client id."""
    waited_for_ms: int
    outcome: str = "joined"

    @property
    def consumer(self) -> tuple[str | None, ...]:
        """Return the identity of the consumer."""
        return (self.client_id, self.client_host) if self.group_instance_id is None else (self.group_instance_id,)


@dataclass(frozen=True, slots=True)
class ConsumerWait:
    """How long a group waited for one consumer."""

    longest: Wait
    """The member of the consumer with the longest wait."""
    member_count: int
    waited_for_ms: int


def rank_waits(waits: Iterable[Wait]) -> list[ConsumerWait]:
    """Return the waits added up by consumer, longest first, without consumers that caused no wait.

    Args:
        waits: at most one for each member.
    """
    by_consumer: dict[tuple[str | None, ...], list[Wait]] = {}
    for wait in waits:
        if wait.waited_for_ms > 0:
            by_consumer.setdefault(wait.consumer, []).append(wait)
    ranked = [
        ConsumerWait(
            longest=min(members, key=lambda wait: (-wait.waited_for_ms, wait.member_id)),
            member_count=len(members),
            waited_for_ms=sum(wait.waited_for_ms for wait in members),
        )
        for members in by_consumer.values()
    ]
    return sorted(ranked, key=lambda each: (-each.waited_for_ms, each.longest.member_id))
