"""Requests that a connection repeats: nothing of the last one is left in the next one."""

import gc
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.offset_commit.v6.request import OffsetCommitRequestPartition
from structlog.testing import capture_logs

from api.kafka.apis import ApiKey
from api.kafka.commits import CommitLayout
from api.kafka.kept_requests import KEPT_BODY_MAX_BYTES, KEPT_REQUESTS_MAX, LAYOUTS_IN_VAIN_MAX
from api.kafka.list_lengths import TOO_LONG
from api.kafka.messages import load_all
from api.kafka.request import KafkaRequest
from api.shared.identity import Role
from api.shared.limits import MEMBER_ID_MAX_CHARS, ListenerLimits
from api.shared.node_context import NodeContext
from api.shared.quotas import QuotaLimits, Quotas
from api.shared.tokens import Tokens, known_token, token_entry
from coordinator_core.protocol.records import OffsetsCommitted
from coordinator_core.runtime.coordinator import Coordinator
from tests.support.kafka_wire import frame, read_response
from tests.support.memory_store import MemoryStore
from tests.support.no_queries import NO_QUERIES
from tests.support.tokens_file import ADA, TokensFile
from tests.support.waiting import turns
from tests.unit.api.kafka.wire import Fields, Wire
from tests.unit.coordinator_core.runtime.nodes import HeldStore, Member, running, until

pytestmark = pytest.mark.anyio

VERSION = 6
ILLEGAL_GENERATION = 22
UNKNOWN_MEMBER_ID = 25
TOPIC_AUTHORIZATION_FAILED = 29
GROUP_AUTHORIZATION_FAILED = 30
INVALID_REQUEST = 42


@pytest.fixture
async def node() -> AsyncIterator[Coordinator]:
    load_all()
    async with running(MemoryStore()) as coordinator:
        yield coordinator


def commit(member: Member, offsets: dict[int, int], metadata: str = "") -> Fields:
    """Return a commit of partition → offset."""
    partitions = [
        {"partition_index": number, "committed_offset": offset, "committed_metadata": metadata}
        for number, offset in offsets.items()
    ]
    return {
        "group_id": member.group_id,
        "generation_id_or_member_epoch": member.generation,
        "member_id": member.member_id,
        "topics": [{"name": "t", "partitions": partitions}],
    }


def context_with_quotas(node: Coordinator, limits: QuotaLimits, tokens: Tokens | None = None) -> NodeContext:
    """Return a context whose quotas refill slowly: a busy machine may take longer for a test than a quota's window."""
    context = NodeContext(node, NO_QUERIES, ListenerLimits(quotas=limits), tokens=tokens)
    context.quotas = Quotas(limits, context.metrics.throttled, lambda: time.monotonic() / 1_000)
    return context


async def log_in(wire: Wire, token: str) -> None:
    await wire.call(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
    await wire.call(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": b"\0any\0" + token.encode()})


def codes(answer: Any) -> list[tuple[int, int]]:  # noqa: ANN401  # a class for each version
    return [(int(one.partition_index), int(one.error_code)) for one in answer.topics[0].partitions]


async def test_other_lists_than_those_of_the_last_commit_are_checked(node: Coordinator) -> None:
    member = Member(node, "g")
    await member.settle()
    wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits()))
    try:
        for offset in range(1, 4):
            answer = await wire.call(ApiKey.OFFSET_COMMIT, VERSION, commit(member, {0: offset}))
            assert codes(answer) == [(0, 0)]
        request = frame(ApiKey.OFFSET_COMMIT, VERSION, "wire", **commit(member, {0: 4}))
        one_topic = b"\0\0\0\1\0\1t"
        assert request.count(one_topic) == 1
        with capture_logs() as logs:
            wire.send_bytes(request.replace(one_topic, b"\0\1\0\0\0\1t"))
        assert [each["reason"] for each in logs] == [TOO_LONG]
    finally:
        wire.close()


async def test_a_request_that_only_ends_like_the_last_one_is_decoded(node: Coordinator) -> None:
    member = Member(node, "g")
    await member.settle()
    known = {"group_id": "g", "generation_id": member.generation, "member_id": member.member_id}
    wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits()))
    try:
        first = frame(ApiKey.HEARTBEAT, 2, "wire", **known)
        other = frame(ApiKey.HEARTBEAT, 2, "wire", **{**known, "group_id": "unknown"})
        size_bytes, header_bytes = 4, 14
        followed = other[size_bytes:] + first[size_bytes + header_bytes :]  # Bytes after a request are ignored.
        wire.send_bytes(first)
        wire.send_bytes(len(followed).to_bytes(size_bytes) + followed)
        await until(lambda: len(wire.frames()) == 2, "both responses")
        answers = [read_response(ApiKey.HEARTBEAT, 2, each).error_code for each in wire.frames()]
        assert answers == [0, UNKNOWN_MEMBER_ID]
    finally:
        wire.close()


async def test_repeated_requests_that_arrive_together_are_each_answered(node: Coordinator) -> None:
    wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits()))
    try:
        request = frame(ApiKey.HEARTBEAT, 2, "wire", group_id="g", generation_id=1, member_id="m")
        wire.send_bytes(request)
        wire.send_bytes(request + request)
        await until(lambda: len(wire.frames()) == 3, "all responses")
    finally:
        wire.close()


async def test_a_request_of_the_same_size_with_another_header_is_decoded(node: Coordinator) -> None:
    wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits()))
    try:
        for client_id, group_id in (("wire", "g"), ("wire", "g"), ("wir", "gg")):
            heartbeat = {"group_id": group_id, "generation_id": 1, "member_id": "m"}
            answer = await wire.call(ApiKey.HEARTBEAT, 2, heartbeat, client_id=client_id)
            assert answer.error_code == UNKNOWN_MEMBER_ID
    finally:
        wire.close()


async def test_a_repeated_request_with_a_revoked_token_is_refused(node: Coordinator, tmp_path: Path) -> None:
    tokens = TokensFile.written(tmp_path, ADA).read()
    stored = known_token(token_entry("stored", "ada", Role.OPERATOR, ("",)))
    tokens.replace_stored({stored.digest: stored})
    wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits(), tokens=tokens))
    try:
        await log_in(wire, "stored")
        heartbeat = {"group_id": "g", "generation_id": 1, "member_id": "m"}
        for _ in range(2):
            await wire.call(ApiKey.HEARTBEAT, 4, heartbeat)
        tokens.replace_stored({})
        with capture_logs() as logs:
            wire.send(ApiKey.HEARTBEAT, 4, heartbeat)
            await turns()
        assert wire.is_closed
        assert [each["event"] for each in logs] == ["kafka_connection_closed"]
    finally:
        wire.close()


async def test_a_repeated_commit_that_waits_for_its_quota_is_refused_once_its_token_is_narrowed(
    node: Coordinator, tmp_path: Path
) -> None:
    tokens = TokensFile.written(tmp_path, ADA).read()

    def issue(prefix: str) -> None:
        known = known_token(token_entry("stored", "ada", Role.OPERATOR, (prefix,)))
        tokens.replace_stored({known.digest: known})

    issue("")
    member = Member(node, "g")
    await member.settle()
    context = context_with_quotas(node, QuotaLimits(group_quota_requests_per_s=1, quota_window_s=4), tokens)
    wire = Wire(context)
    try:
        await log_in(wire, "stored")
        for offset in range(3):
            assert codes(await wire.call(ApiKey.OFFSET_COMMIT, VERSION, commit(member, {0: offset}))) == [(0, 0)]
        throttled, offset = context.metrics.throttled, 3
        while not throttled.total():
            wire.send(ApiKey.OFFSET_COMMIT, VERSION, commit(member, {0: offset}))
            await until(lambda: wire.is_answered or throttled.total() > 0, "the response, or the quota")
            offset += 1
        assert not wire.is_answered
        issue("elsewhere-")
        context.quotas = Quotas(QuotaLimits(), context.metrics.throttled)
        await until(lambda: wire.is_answered, "the response")
        answer = read_response(ApiKey.OFFSET_COMMIT, VERSION, wire.frames()[0])
        assert codes(answer) == [(0, GROUP_AUTHORIZATION_FAILED)]
    finally:
        wire.close()


async def test_repeated_commits_are_refused_for_topics_that_the_token_denies(node: Coordinator, tmp_path: Path) -> None:
    denial = {"permission": "DENY", "operations": ["COMMIT"], "resource": "TOPIC", "pattern": "LITERAL", "name": "t"}
    tokens = TokensFile.written(tmp_path, {**ADA, "acls": [denial]}).read()
    member = Member(node, "g")
    await member.settle()
    wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits(), tokens=tokens))
    try:
        await log_in(wire, "ada's")
        for offset in range(4):
            request = commit(member, {0: offset})
            request["topics"].append({"name": "u", "partitions": request["topics"][0]["partitions"]})
            answer = await wire.call(ApiKey.OFFSET_COMMIT, VERSION, request)
            found = {each.name: int(one.error_code) for each in answer.topics for one in each.partitions}
            assert found == {"t": TOPIC_AUTHORIZATION_FAILED, "u": 0}
            assert [(one.topic, one.offset) for one in await node.fetch_offsets("g", None)] == [("u", offset)]
    finally:
        wire.close()


async def test_commits_with_the_end_of_a_c_string_are_each_stored_without_it(node: Coordinator) -> None:
    member = Member(node, "g")
    await member.settle()
    wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits()))
    try:
        for offset in range(4):
            answer = await wire.call(ApiKey.OFFSET_COMMIT, VERSION, commit(member, {0: offset}, "note\0"))
            assert codes(answer) == [(0, 0)]
            (stored,) = await node.fetch_offsets("g", ["t"])
            assert (stored.offset, stored.metadata) == (offset, "note")
    finally:
        wire.close()


async def test_commits_of_one_connection_are_each_what_was_sent(node: Coordinator) -> None:
    """Equal ones, others, large ones whose bodies are not kept, one of another group, and a refused one."""
    first, second = Member(node, "first"), Member(node, "second")
    await first.settle()
    await second.settle()
    stranded = Member(node, "second")
    stranded.generation, stranded.member_id = second.generation, "another"
    large = "m" * KEPT_BODY_MAX_BYTES
    wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits()))
    try:
        for member, offsets, metadata in (
            (first, {0: 1}, ""),
            (first, {0: 1}, ""),
            (first, {0: 2, 3: 7}, ""),
            (first, {1: 5}, large),
            (first, {1: 6}, large),
            (first, {1: 6}, large),
            (first, {1: 7, 2: 8}, large),
            (second, {0: 9}, ""),
            (first, {0: 2, 3: 7}, ""),
        ):
            answer = await wire.call(ApiKey.OFFSET_COMMIT, VERSION, commit(member, offsets, metadata))
            assert codes(answer) == [(number, 0) for number in offsets]
            stored = {one.partition: one.offset for one in await node.fetch_offsets(member.group_id, ["t"])}
            assert offsets.items() <= stored.items()
        other = await wire.call(ApiKey.OFFSET_COMMIT, VERSION, commit(first, {2: 4}), client_id="of another length")
        assert codes(other) == [(2, 0)]
        refused = await wire.call(ApiKey.OFFSET_COMMIT, VERSION, commit(stranded, {4: 1}))
        assert codes(refused) == [(4, UNKNOWN_MEMBER_ID)]
        assert codes(await wire.call(ApiKey.OFFSET_COMMIT, VERSION, commit(second, {4: 1}))) == [(4, 0)]
    finally:
        wire.close()


async def test_commits_of_the_same_partitions_are_each_what_was_sent(node: Coordinator) -> None:
    """Other offsets, the same ones again, others than can be stored, other metadata, and what a member has no more."""
    member = Member(node, "g")
    await member.settle()
    wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits()))
    stored: dict[int, tuple[int, str]] = {}
    try:
        for offsets, metadata in (
            ({0: 1, 1: 1}, "a"),
            ({0: 2, 1: 2}, "a"),
            ({0: 3, 1: 2**63 - 1}, "a"),
            ({0: 3, 1: 2**63 - 1}, "a"),
            ({0: 2, 1: 2}, "a"),
            ({0: 4, 1: -1}, "a"),
            ({0: 5, 1: 5}, "a"),
            ({0: 6, 1: 6}, "b"),
            ({0: 7, 1: 7}, "a"),
            ({1: 8, 0: 8}, "a"),
            ({0: 9, 1: 9}, "a"),
        ):
            answer = await wire.call(ApiKey.OFFSET_COMMIT, VERSION, commit(member, offsets, metadata))
            assert codes(answer) == [
                (number, 0 if offset >= 0 else INVALID_REQUEST) for number, offset in offsets.items()
            ]
            stored |= {number: (offset, metadata) for number, offset in offsets.items() if offset >= 0}
            fetched = await node.fetch_offsets("g", ["t"])
            assert {one.partition: (one.offset, one.metadata) for one in fetched} == stored
        member.generation += 1
        for offset in range(10, 13):
            answer = await wire.call(ApiKey.OFFSET_COMMIT, VERSION, commit(member, {0: offset, 1: offset}, "a"))
            assert codes(answer) == [(0, ILLEGAL_GENERATION), (1, ILLEGAL_GENERATION)]
    finally:
        wire.close()


async def test_commits_that_are_refused_for_their_member_id_remain_so(node: Coordinator) -> None:
    wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits()))
    request = {**commit(Member(node, "g"), {}), "member_id": "m" * (MEMBER_ID_MAX_CHARS + 1)}
    try:
        for offset in range(4):
            partition = {"partition_index": 0, "committed_offset": offset}
            request["topics"] = [{"name": "t", "partitions": [partition]}]
            assert codes(await wire.call(ApiKey.OFFSET_COMMIT, VERSION, request)) == [(0, INVALID_REQUEST)]
    finally:
        wire.close()


@pytest.mark.parametrize(("partitions", "kept"), [([0, 0, 0, 1, 1, 1], 1), ([0, 1], 0)], ids=["repeated", "others"])
async def test_layouts_are_made_no_more_when_no_commit_has_one_again(
    node: Coordinator, partitions: list[int], kept: int
) -> None:
    member = Member(node, "g")
    await member.settle()
    wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits()))
    try:
        before = objects(CommitLayout)
        for offset in range(6 * LAYOUTS_IN_VAIN_MAX):
            partition = partitions[offset % len(partitions)]
            await wire.call(ApiKey.OFFSET_COMMIT, VERSION, commit(member, {partition: offset}))
        assert objects(CommitLayout) - before == kept
    finally:
        wire.close()


async def test_a_connection_keeps_few_requests(node: Coordinator) -> None:
    member = Member(node, "g")
    await member.settle()
    wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits()))
    try:
        before = objects(KafkaRequest)
        for length in range(2 * KEPT_REQUESTS_MAX):
            await wire.call(ApiKey.OFFSET_COMMIT, VERSION, commit(member, {0: length}, "m" * length))
        assert objects(KafkaRequest) - before == KEPT_REQUESTS_MAX
    finally:
        wire.close()


async def test_a_bare_token_that_looks_like_the_last_request_is_none(node: Coordinator, tmp_path: Path) -> None:
    tokens = TokensFile.written(tmp_path, ADA).read()
    wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits(), tokens=tokens))
    try:
        await log_in(wire, "ada's")
        heartbeat = {"group_id": "g", "generation_id": 1, "member_id": "m"}
        for _ in range(2):
            await wire.call(ApiKey.HEARTBEAT, 4, heartbeat)
        await wire.call(ApiKey.SASL_HANDSHAKE, 0, {"mechanism": "PLAIN"})
        with capture_logs() as logs:
            wire.send(ApiKey.HEARTBEAT, 4, heartbeat)
            await turns()
        assert [each["event"] for each in logs] == ["kafka_authentication_failed"]
    finally:
        wire.close()


@pytest.mark.parametrize(("metadata", "kept"), [("", 1), ("m" * KEPT_BODY_MAX_BYTES, 0)], ids=["small", "large"])
async def test_objects_of_a_large_commit_are_freed_before_it_is_stored(metadata: str, kept: int) -> None:
    load_all()
    store = HeldStore()
    async with running(store) as node:
        member = Member(node, "g")
        await member.settle()
        wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits()))
        decoded, decided = objects(OffsetCommitRequestPartition), objects(OffsetsCommitted)
        store.go.clear()
        wire.send(ApiKey.OFFSET_COMMIT, VERSION, commit(member, {0: 1}, metadata))
        assert (objects(OffsetCommitRequestPartition), objects(OffsetsCommitted)) == (decoded + kept, decided)
        assert not wire.is_answered
        store.go.set()
        await until(lambda: wire.is_answered, "the response")
        wire.close()


def objects(kind: type[object]) -> int:
    gc.collect()
    return sum(isinstance(each, kind) for each in gc.get_objects())


async def test_requests_of_one_connection_take_from_the_quota_of_the_group_that_each_names(node: Coordinator) -> None:
    wire = Wire(context_with_quotas(node, QuotaLimits(group_quota_requests_per_s=1, quota_window_s=2)))
    try:
        for group_id in ("g", "h") * 4:  # as many of each as a group may have at once, with its debt
            wire.send(ApiKey.HEARTBEAT, 4, {"group_id": group_id, "generation_id": 1, "member_id": "m"})
            await until(lambda: wire.is_answered, "the response")
        for _ in range(2):  # a little time has passed
            wire.send(ApiKey.HEARTBEAT, 4, {"group_id": "g", "generation_id": 1, "member_id": "m"})
            await turns()
        assert not wire.is_answered
    finally:
        wire.close()


@pytest.mark.parametrize("is_added", [True, False], ids=["added", "removed"])
async def test_a_quota_that_has_changed_counts_for_a_client_with_a_stored_token(
    node: Coordinator, tmp_path: Path, *, is_added: bool
) -> None:
    entries = ADA, {**ADA, "quotas": {"client_quota_requests_per_s": 1}}
    file = TokensFile.written(tmp_path, entries[not is_added])
    tokens = file.read()
    stored = known_token(token_entry("stored", "ada", Role.OPERATOR, ("",)))
    tokens.replace_stored({stored.digest: stored})
    wire = Wire(context_with_quotas(node, QuotaLimits(), tokens))
    try:
        await log_in(wire, "stored")
        await wire.call(ApiKey.HEARTBEAT, 4, {"group_id": "g", "generation_id": 1, "member_id": "m"})
        file.write(entries[is_added])
        file.clock.now_s += 60
        answered = 0
        while wire.is_answered and answered < 30:
            wire.send(ApiKey.HEARTBEAT, 4, {"group_id": "g", "generation_id": 1, "member_id": "m"})
            await turns()
            answered += wire.is_answered
        assert (answered < 30) == is_added
    finally:
        wire.close()


@pytest.mark.parametrize(
    ("key", "version", "named"),
    [
        (ApiKey.OFFSET_FETCH, 8, {"groups": [{"group_id": "g", "topics": None}, {"group_id": "h", "topics": None}]}),
        (ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["g", "h"]}),
        (ApiKey.DELETE_GROUPS, 2, {"groups_names": ["g", "h"]}),
    ],
    ids=["fetch", "describe", "delete"],
)
async def test_a_request_takes_from_the_quota_of_each_group_that_it_names(
    node: Coordinator, key: ApiKey, version: int, named: Fields
) -> None:
    wire = Wire(context_with_quotas(node, QuotaLimits(group_quota_requests_per_s=1, quota_window_s=2)))
    try:
        for _ in range(3):  # as many as a group may have at once, with its debt
            await wire.call(key, version, named)
        wire.send(ApiKey.OFFSET_FETCH, 7, {"group_id": "h", "topics": None})
        await turns()
        assert not wire.is_answered
    finally:
        wire.close()


@pytest.mark.parametrize(("actor", "is_accepted"), [("ada", True), ("bob", False)])
async def test_a_connection_may_send_another_token_only_of_the_same_actor(
    node: Coordinator, tmp_path: Path, actor: str, *, is_accepted: bool
) -> None:
    tokens = TokensFile.written(tmp_path, ADA).read()
    newer = known_token(token_entry("newer", actor, Role.OPERATOR, ("",)))
    tokens.replace_stored({newer.digest: newer})
    wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits(), tokens=tokens))
    try:
        await wire.call(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        first = await wire.call(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": b"\0any\0ada's"})
        second = await wire.call(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": b"\0any\0newer"})
        assert (int(first.error_code), int(second.error_code) == 0) == (0, is_accepted)
    finally:
        wire.close()
