"""Parsers of the coordinator's responses; unknown fields are ignored.

A response without a required field counts as no response, since a proxy may have sent it.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from agent.assignors import Member
from agent.core.membership import MemberIdentity
from agent.errors import RequestError, Unreachable
from agent.partitions import JsonObject, OffsetAndMetadata, TopicPartition, ungrouped

log = logging.getLogger("muster.agent")

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class EffectiveTimeouts:
    """The effective timeouts, which an operator may have changed."""

    session_timeout_ms: int
    heartbeat_interval_ms: int


@dataclass(frozen=True, slots=True)
class JoinGroupResponse:
    """The response to a join; `members` is empty except for the leader."""

    identity: MemberIdentity
    protocol_name: str
    is_leader: bool
    skip_assignment: bool
    members: tuple[Member, ...]
    timeouts: EffectiveTimeouts


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """The metadata of one topic."""

    partitions: int
    log_start_offset: int


def read(reader: Callable[[JsonObject], Value], answer: JsonObject) -> Value:
    """Return the reader's value of a response.

    Raises:
        Unreachable: a required field is missing or has another type.
    """
    try:
        return reader(answer)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise Unreachable(
            f"the response cannot be read ({problem!r}): is it a Muster node?", was_connected=True
        ) from None


def parse_join_group(answer: JsonObject) -> JoinGroupResponse:
    """Parse the response to a join."""
    member_id = str(answer["member_id"])
    return JoinGroupResponse(
        identity=MemberIdentity(member_id, int(answer["generation"])),
        protocol_name=str(answer["protocol_name"]),
        is_leader=answer["leader"] == member_id,
        skip_assignment=bool(answer.get("skip_assignment", False)),
        members=tuple(_member(entry) for entry in answer["members"]),
        timeouts=parse_timeouts(answer),
    )


def parse_timeouts(answer: JsonObject) -> EffectiveTimeouts:
    """Parse the effective timeouts in the response to a join or heartbeat."""
    return EffectiveTimeouts(int(answer["session_timeout_ms"]), int(answer["heartbeat_interval_ms"]))


def parse_sync_group(answer: JsonObject) -> tuple[TopicPartition, ...]:
    """Parse the response to a sync: the partitions of this member, sorted.

    Raises:
        RequestError: the leader, another client, sent its assignment in a binary form.
    """
    assignment = answer["assignment"]
    if not assignment:
        return ()
    if isinstance(assignment, str):
        raise RequestError("the group's leader sends assignments in a binary form that this client cannot read")
    return ungrouped(assignment["partitions"])


def parse_leave_group(answer: JsonObject) -> list[str]:
    """Parse the response to a leave: a code for each member, in the order of the request."""
    return [str(entry["code"]) for entry in answer["members"]]


def parse_offset_commit(answer: JsonObject) -> dict[TopicPartition, str]:
    """Parse the response to a commit: the code of each partition."""
    return {TopicPartition(entry["topic"], entry["partition"]): str(entry["code"]) for entry in answer["offsets"]}


def parse_offset_fetch(answer: JsonObject) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """Parse the response to an offset fetch; None where nothing is committed."""
    return {
        TopicPartition(entry["topic"], entry["partition"]): None if entry["offset"] < 0 else _offset(entry)
        for entry in answer["offsets"]
    }


def parse_topics(answer: JsonObject) -> tuple[dict[str, TopicMetadata], str | None]:
    """Parse a page of the topic metadata, and the cursor of the next page; None if it is the last one."""
    page = {
        entry["topic"]: TopicMetadata(int(entry["partitions"]), int(entry.get("log_start_offset") or 0))
        for entry in answer["topics"]
    }
    return page, answer.get("next_cursor")


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
        log.warning(
            "member %s sends its subscription in a binary form that this client cannot read; it gets no partitions",
            entry["member_id"],
        )
        metadata = {"topics": []}
    user_data = metadata.get("user_data")
    return Member(
        member_id=str(entry["member_id"]),
        group_instance_id=entry.get("group_instance_id"),
        topics=tuple(metadata["topics"]),
        owned_partitions=ungrouped(metadata.get("owned_partitions") or ()),
        user_data=None if user_data is None else base64.b64decode(user_data),
        generation=int(metadata.get("generation", -1)),
    )
