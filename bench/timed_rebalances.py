"""Time rebalances of a group: from its last join sent until its last sync response.

All members but one have rejoined and wait. Each member has its own connection.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from bench.cpu_time import CpuMeter, Pids


class GroupMember(Protocol):
    """A member of the group."""

    member_id: str
    leader_id: str
    generation: int

    async def join(self) -> None:
        """Join, and keep the response."""

    async def sync(self, member_ids: Sequence[str]) -> None:
        """Sync, with assignments for all members as the leader and with none as a follower."""

    def close(self) -> None:
        """Close the connection."""


M = TypeVar("M", bound=GroupMember)
CPU_SINCE_MS: Final = 100
"""The processor time of shorter rebalances is too few ticks of /proc to be a figure."""
UntilWaiting = Callable[[int], Awaitable[None]]
"""Returns when that many members wait for the response to their join."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """The time of one rebalance, and the servers' processor time for a member."""

    took_ms: float
    cpu_us: dict[str, float]

    def details(self) -> dict[str, float]:
        """Return the processor times as details of a figure; none of a short rebalance."""
        if self.took_ms < CPU_SINCE_MS:
            return {}
        return {f"{name}_cpu_us": used_us for name, used_us in self.cpu_us.items()}


async def form_group(members: Sequence[M]) -> list[M]:
    """Let new members join and sync; return them, the leader first."""
    await asyncio.gather(*(member.join() for member in members))
    leader_first = sorted(members, key=lambda member: member.member_id != member.leader_id)
    await _sync_all(leader_first)
    return leader_first


async def time_rebalance(members: Sequence[GroupMember], until_waiting: UntilWaiting, pids: Pids) -> Rebalance:
    """Let all members join, and sync when their join is answered, and return the time since the last join.

    The first member is the leader.
    """
    member_ids = [member.member_id for member in members]

    async def rejoin(member: GroupMember, assigned: Sequence[str] = ()) -> None:
        await member.join()
        await member.sync(assigned)

    leader, *others = members
    waiting = [asyncio.create_task(rejoin(leader, member_ids))]
    await until_waiting(1)
    waiting += [asyncio.create_task(rejoin(member)) for member in others[:-1]]
    await until_waiting(len(others))
    meter = CpuMeter(pids)
    began_s = time.perf_counter()
    await asyncio.gather(*waiting, rejoin(others[-1]))
    took_s = time.perf_counter() - began_s
    assert len({member.generation for member in members}) == 1, "all members are in one generation"
    return Rebalance(took_s * 1_000, meter.us_per_request(len(members)))


async def _sync_all(members: Sequence[GroupMember]) -> None:
    leader, *others = members
    member_ids = [member.member_id for member in members]
    await asyncio.gather(leader.sync(member_ids), *(member.sync([]) for member in others))
