"""The calls of the group protocol as typed functions: one request, one typed answer, no state."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from agent import answers
from agent.answers import Intervals, Joined, TopicInfo
from agent.assignors import Assignment, Assignor
from agent.membership import Identity
from agent.partitions import JsonObject, OffsetAndMetadata, TopicPartition, grouped
from agent.transport import Lane

PROTOCOL_TYPE: Final = "consumer"
NONE: Final = "NONE"
"""The code of what went well."""
MAX_REASON_LENGTH: Final = 255
LONG_POLL_GRACE_MS: Final = 5_000
"""How much later than asked for the answer to a long poll may come."""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """What one round of joining sends, whoever the member is by then."""

    client_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    topics: tuple[str, ...]
    owned_partitions: tuple[TopicPartition, ...]
    last_assignment: tuple[TopicPartition, ...]
    last_generation: int
    assignors: tuple[Assignor, ...]
    reason: str

    def protocols(self) -> list[JsonObject]:
        """Return the offered assignors with this subscription, the preferred one first."""
        return [{"name": assignor.name, "metadata": self._metadata(assignor)} for assignor in self.assignors]

    def _metadata(self, assignor: Assignor) -> JsonObject:
        user_data = assignor.user_data(self.last_assignment, self.last_generation)
        return {
            "topics": list(self.topics),
            "owned_partitions": grouped(self.owned_partitions),
            "user_data": None if user_data is None else base64.b64encode(user_data).decode(),
        }


class GroupApi:
    """The endpoints of one group, for one member."""

    def __init__(self, group_id: str, group_instance_id: str | None) -> None:
        self._path = f"/v1/groups/{group_segment(group_id)}"
        self._group_instance_id = group_instance_id

    def join(self, lane: Lane, who: Identity, request: JoinRequest, *, max_wait_ms: int) -> Joined:
        """Ask to be part of the next generation; the answer may take max_wait_ms."""
        body = {
            "member_id": who.member_id,
            "group_instance_id": self._group_instance_id,
            "client_id": request.client_id,
            "session_timeout_ms": request.session_timeout_ms,
            "rebalance_timeout_ms": request.rebalance_timeout_ms,
            "protocol_type": PROTOCOL_TYPE,
            "protocols": request.protocols(),
            "require_known_member_id": True,
            "reason": request.reason[:MAX_REASON_LENGTH],
            "max_wait_ms": max_wait_ms,
        }
        timeout_ms = max_wait_ms + LONG_POLL_GRACE_MS
        return lane.call(answers.joined, "POST", f"{self._path}/join", body, timeout_ms=timeout_ms)

    def sync(
        self, lane: Lane, joined: Joined, assignment: Assignment, *, max_wait_ms: int
    ) -> tuple[TopicPartition, ...]:
        """Hand in the leader's assignment ({} from a follower) and return this member's own partitions."""
        body = self._as_member(joined.identity) | {
            "protocol_type": PROTOCOL_TYPE,
            "protocol_name": joined.protocol_name,
            "assignments": [
                {"member_id": member_id, "assignment": {"partitions": grouped(partitions), "user_data": None}}
                for member_id, partitions in assignment.items()
            ],
            "max_wait_ms": max_wait_ms,
        }
        timeout_ms = max_wait_ms + LONG_POLL_GRACE_MS
        return lane.call(answers.own_partitions, "POST", f"{self._path}/sync", body, timeout_ms=timeout_ms)

    def heartbeat(self, lane: Lane, who: Identity, *, timeout_ms: int) -> Intervals:
        """Say that the member lives, and return the times in force."""
        body = self._as_member(who)
        return lane.call(answers.intervals, "POST", f"{self._path}/heartbeat", body, timeout_ms=timeout_ms)

    def leave(self, lane: Lane, member_id: str, reason: str, *, timeout_ms: int) -> None:
        """Take the member out of the group; that it was out already is no error, so its code is not looked at."""
        entry = {
            "member_id": member_id,
            "group_instance_id": self._group_instance_id,
            "reason": reason[:MAX_REASON_LENGTH],
        }
        lane.call(answers.left, "POST", f"{self._path}/leave", {"members": [entry]}, timeout_ms=timeout_ms)

    def commit(
        self, lane: Lane, who: Identity, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, timeout_ms: int
    ) -> dict[TopicPartition, str]:
        """Store offsets and return the code of each; those with NONE are stored."""
        body = self._as_member(who) | {"offsets": [_offset_entry(each, offsets[each]) for each in sorted(offsets)]}
        return lane.call(answers.codes, "POST", f"{self._path}/offsets", body, timeout_ms=timeout_ms)

    def committed(
        self, lane: Lane, partitions: Iterable[TopicPartition], *, timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return what is committed for each partition; None where nothing is."""
        body = {"partitions": grouped(partitions)}
        return lane.call(answers.committed, "POST", f"{self._path}/offsets/query", body, timeout_ms=timeout_ms)

    def topics(self, lane: Lane, *, timeout_ms: int) -> dict[str, TopicInfo]:
        """Return the catalogue: every topic that Muster knows."""
        return lane.call(answers.topics, "GET", "/v1/topics", timeout_ms=timeout_ms)

    def _as_member(self, who: Identity) -> JsonObject:
        return {
            "generation": who.generation,
            "member_id": who.member_id,
            "group_instance_id": self._group_instance_id,
        }


def group_segment(group_id: str) -> str:
    """Return the path segment that names a group: itself if it is plain, else `~` and base64url without padding."""
    if re.fullmatch(r"[A-Za-z0-9._-]+", group_id) and group_id not in (".", ".."):
        return group_id
    return "~" + base64.urlsafe_b64encode(group_id.encode()).decode().rstrip("=")


def _offset_entry(partition: TopicPartition, offset: OffsetAndMetadata) -> JsonObject:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": offset.offset,
        "leader_epoch": offset.leader_epoch,
        "metadata": offset.metadata,
        "log_end_offset": offset.log_end_offset,
    }
