"""What is read from the coordinator's answers: only what is needed, whatever else they hold.

An answer that lacks what is needed counts as no answer, since some proxy may have made it up.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from agent.assignors import Member
from agent.errors import RequestError, Unreachable
from agent.membership import Identity
from agent.partitions import JsonObject, OffsetAndMetadata, TopicPartition, ungrouped

log = logging.getLogger("muster.agent")

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Intervals:
    """The times in force, which on-call may have changed."""

    session_timeout_ms: int
    heartbeat_interval_ms: int


@dataclass(frozen=True, slots=True)
class Joined:
    """A join's answer; `members` is empty but for the leader."""

    identity: Identity
    protocol_name: str
    is_leader: bool
    skip_assignment: bool
    members: tuple[Member, ...]
    intervals: Intervals


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """What the catalogue knows of a topic."""

    partitions: int
    log_start_offset: int


def read(reader: Callable[[JsonObject], Value], answer: JsonObject) -> Value:
    """Return what the reader makes of an answer.

    Raises:
        Unreachable: when something that is needed is missing or of another kind.
    """
    try:
        return reader(answer)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise Unreachable(
            f"the answer cannot be read ({problem!r}): is it a Muster node?", was_connected=True
        ) from None


def joined(answer: JsonObject) -> Joined:
    """Read a join's answer."""
    member_id = str(answer["member_id"])
    return Joined(
        identity=Identity(member_id, int(answer["generation"])),
        protocol_name=str(answer["protocol_name"]),
        is_leader=answer["leader"] == member_id,
        skip_assignment=bool(answer.get("skip_assignment", False)),
        members=tuple(_member(entry) for entry in answer["members"]),
        intervals=intervals(answer),
    )


def intervals(answer: JsonObject) -> Intervals:
    """Read the times in force from a join's or a heartbeat's answer."""
    return Intervals(int(answer["session_timeout_ms"]), int(answer["heartbeat_interval_ms"]))


def own_partitions(answer: JsonObject) -> tuple[TopicPartition, ...]:
    """Read a sync's answer: the partitions of this member, sorted.

    Raises:
        RequestError: when the leader, some other program, assigned in bytes of its own.
    """
    assignment = answer["assignment"]
    if not assignment:
        return ()
    if isinstance(assignment, str):
        raise RequestError("the group's leader assigns partitions in a form that cannot be read here")
    return ungrouped(assignment["partitions"])


def left(answer: JsonObject) -> list[str]:
    """Read a leave's answer: a code for each member, in the order asked for."""
    return [str(entry["code"]) for entry in answer["members"]]


def codes(answer: JsonObject) -> dict[TopicPartition, str]:
    """Read a commit's answer: the code of each partition."""
    return {TopicPartition(entry["topic"], entry["partition"]): str(entry["code"]) for entry in answer["offsets"]}


def committed(answer: JsonObject) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """Read a fetch's answer; None where nothing is committed."""
    return {
        TopicPartition(entry["topic"], entry["partition"]): None if entry["offset"] < 0 else _offset(entry)
        for entry in answer["offsets"]
    }


def topics(answer: JsonObject) -> dict[str, TopicInfo]:
    """Read the catalogue."""
    return {
        entry["topic"]: TopicInfo(int(entry["partitions"]), int(entry.get("log_start_offset") or 0))
        for entry in answer["topics"]
    }


def _offset(entry: JsonObject) -> OffsetAndMetadata:
    end = entry.get("log_end_offset")
    return OffsetAndMetadata(
        offset=int(entry["offset"]),
        metadata=str(entry.get("metadata") or ""),
        leader_epoch=int(entry.get("leader_epoch", -1)),
        log_end_offset=None if end is None else int(end),
    )


def _member(entry: JsonObject) -> Member:
    metadata: Any = entry["metadata"]
    if not isinstance(metadata, dict):
        log.warning("member %s subscribes in a form that cannot be read; it gets no partitions", entry["member_id"])
        metadata = {"topics": []}
    user_data = metadata.get("user_data")
    return Member(
        member_id=str(entry["member_id"]),
        group_instance_id=entry.get("group_instance_id"),
        topics=tuple(metadata["topics"]),
        owned_partitions=ungrouped(metadata.get("owned_partitions") or ()),
        user_data=None if user_data is None else base64.b64decode(user_data),
    )
