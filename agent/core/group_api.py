"""The endpoints of one group as typed methods: one request, one typed response, no state."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from agent.assignors import Assignment, Assignor
from agent.core import responses
from agent.core.connection import Connection
from agent.core.membership import MemberIdentity
from agent.core.responses import EffectiveTimeouts, JoinGroupResponse, TopicMetadata
from agent.partitions import JsonObject, OffsetAndMetadata, TopicPartition, grouped

PROTOCOL_TYPE: Final = "consumer"
NONE: Final = "NONE"
"""The code of success."""
MAX_REASON_LENGTH: Final = 255
LONG_POLL_GRACE_MS: Final = 5_000
"""How much later than requested the response to a long poll may arrive."""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """The content of a join request, apart from the member's identity."""

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

    async def join(
        self, connection: Connection, identity: MemberIdentity, request: JoinRequest, *, max_wait_ms: int
    ) -> JoinGroupResponse:
        """Join the next generation; the response may take max_wait_ms."""
        body = {
            "member_id": identity.member_id,
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
        return await connection.call(
            responses.parse_join_group, "POST", f"{self._path}/join", body, timeout_ms=timeout_ms
        )

    async def sync(
        self, connection: Connection, joined: JoinGroupResponse, assignment: Assignment, *, max_wait_ms: int
    ) -> tuple[TopicPartition, ...]:
        """Send the leader's assignment ({} from a follower) and return this member's partitions."""
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
        return await connection.call(
            responses.parse_sync_group, "POST", f"{self._path}/sync", body, timeout_ms=timeout_ms
        )

    async def heartbeat(
        self, connection: Connection, identity: MemberIdentity, *, timeout_ms: int
    ) -> EffectiveTimeouts:
        """Send a heartbeat and return the effective timeouts."""
        body = self._as_member(identity)
        return await connection.call(
            responses.parse_timeouts, "POST", f"{self._path}/heartbeat", body, timeout_ms=timeout_ms
        )

    async def leave(self, connection: Connection, member_id: str, reason: str, *, timeout_ms: int) -> None:
        """Leave the group; the member's own result code is ignored, since an unknown member has left already."""
        entry = {
            "member_id": member_id,
            "group_instance_id": self._group_instance_id,
            "reason": reason[:MAX_REASON_LENGTH],
        }
        await connection.call(
            responses.parse_leave_group, "POST", f"{self._path}/leave", {"members": [entry]}, timeout_ms=timeout_ms
        )

    async def commit(
        self,
        connection: Connection,
        identity: MemberIdentity,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        *,
        timeout_ms: int,
    ) -> dict[TopicPartition, str]:
        """Commit offsets and return the code of each; those with NONE are stored."""
        body = self._as_member(identity) | {"offsets": [_offset_entry(each, offsets[each]) for each in sorted(offsets)]}
        return await connection.call(
            responses.parse_offset_commit, "POST", f"{self._path}/offsets", body, timeout_ms=timeout_ms
        )

    async def committed(
        self, connection: Connection, partitions: Iterable[TopicPartition], *, timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset of each partition; None where nothing is committed."""
        body = {"partitions": grouped(partitions)}
        return await connection.call(
            responses.parse_offset_fetch, "POST", f"{self._path}/offsets/query", body, timeout_ms=timeout_ms
        )

    async def topics(self, connection: Connection, *, timeout_ms: int) -> dict[str, TopicMetadata]:
        """Return the topic metadata of all topics."""
        found: dict[str, TopicMetadata] = {}
        path = "/v1/topics"
        while True:
            page, cursor = await connection.call(responses.parse_topics, "GET", path, timeout_ms=timeout_ms)
            found |= page
            if cursor is None:
                return found
            path = f"/v1/topics?cursor={cursor}"

    def _as_member(self, identity: MemberIdentity) -> JsonObject:
        return {
            "generation": identity.generation,
            "member_id": identity.member_id,
            "group_instance_id": self._group_instance_id,
        }


def group_segment(group_id: str) -> str:
    """Return a group id as a path segment: unchanged if it is plain, else `~` and base64url without padding."""
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
