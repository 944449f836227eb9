"""Requests that clients seldom send: they name nothing, or get more than their version has room for."""

import tracemalloc
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from api.kafka import brokers
from api.kafka.apis import APIS, ApiKey
from api.kafka.kept_requests import KEPT_BODY_MAX_BYTES
from api.kafka.messages import load_all
from api.shared.limits import ListenerLimits
from api.shared.node_context import NodeContext
from coordinator_core.queries.committed_offsets import read_highest_commits, read_log_ends_at
from coordinator_core.queries.limits import QueryLimits
from coordinator_core.queries.runner import QueryRunner
from coordinator_core.queries.topics import read_log_starts
from coordinator_core.runtime.coordinator import Coordinator
from tests.support.kafka_listener import PATIENT
from tests.support.memory_store import MemoryStore
from tests.support.no_queries import NO_QUERIES
from tests.support.tokens_file import ADA, TokensFile
from tests.unit.api.kafka.wire import Wire
from tests.unit.coordinator_core.runtime.nodes import QUICK, Member, config, running

pytestmark = pytest.mark.anyio

OFFSET_METADATA_TOO_LARGE, INVALID_GROUP_ID, INVALID_REQUEST, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 12, 24, 42, 68, 69
NONE, UNKNOWN_TOPIC_OR_PARTITION, INCONSISTENT_GROUP_PROTOCOL, TOPIC_AUTHORIZATION_FAILED = 0, 3, 23, 29


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def node(store: MemoryStore) -> AsyncIterator[Coordinator]:
    load_all()
    settings = replace(QUICK, offset_metadata_max_bytes=100_000)
    async with running(store, config(settings=settings)) as coordinator:
        yield coordinator


@pytest.fixture
async def wire(node: Coordinator) -> AsyncIterator[Wire]:
    wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits()))
    yield wire
    wire.close()


NOTHING: list[list[dict[str, Any]]] = [[], [{"name": "t", "partitions": ()}]]
"""Topics without partitions."""


@pytest.mark.parametrize("topics", NOTHING, ids=["no topics", "no partitions"])
@pytest.mark.parametrize(("group_id", "code"), [("", INVALID_GROUP_ID), ("unknown", GROUP_ID_NOT_FOUND)])
async def test_deletion_of_no_offsets_is_refused_for_a_group_that_there_is_not(
    wire: Wire, topics: list[dict[str, Any]], group_id: str, code: int
) -> None:
    answer = await wire.call(ApiKey.OFFSET_DELETE, 0, {"group_id": group_id, "topics": topics})
    assert (answer.error_code, answer.topics) == (code, ())


@pytest.mark.parametrize("topics", NOTHING, ids=["no topics", "no partitions"])
async def test_deletion_of_no_offsets_is_refused_for_a_group_whose_members_may_read_anything(
    wire: Wire, topics: list[dict[str, Any]]
) -> None:
    joined = {"group_id": "g", "member_id": "", "protocol_type": "other", "session_timeout": PATIENT}
    protocols = [{"name": "a", "metadata": b""}]
    await wire.call(ApiKey.JOIN_GROUP, 0, {**joined, "protocols": protocols})
    answer = await wire.call(ApiKey.OFFSET_DELETE, 0, {"group_id": "g", "topics": topics})
    assert (answer.error_code, answer.topics) == (NON_EMPTY_GROUP, ())


@pytest.mark.parametrize("topics", NOTHING, ids=["no topics", "no partitions"])
async def test_deletion_of_no_offsets_is_no_change(
    wire: Wire, node: Coordinator, store: MemoryStore, topics: list[dict[str, Any]]
) -> None:
    await Member(node, "g").settle()
    answer = await wire.call(ApiKey.OFFSET_DELETE, 0, {"group_id": "g", "topics": topics})
    assert (answer.error_code, [each.name for each in answer.topics]) == (0, [each["name"] for each in topics])
    assert store.history.changes == []


@pytest.mark.parametrize(
    ("version", "protocol", "code"),
    [
        (4, (None, None), NONE),
        (5, (None, "range"), INCONSISTENT_GROUP_PROTOCOL),
        (5, ("consumer", None), INCONSISTENT_GROUP_PROTOCOL),
        (5, ("consumer", "range"), NONE),
    ],
)
async def test_sync_names_the_protocol_from_version_5_on(
    wire: Wire, node: Coordinator, version: int, protocol: tuple[str | None, str | None], code: int
) -> None:
    member = Member(node, "g")
    await member.settle()
    names = dict(zip(("protocol_type", "protocol_name"), protocol, strict=True))
    sync = {"group_id": "g", "generation_id": 1, "member_id": member.member_id, "assignments": (), **names}
    answer = await wire.call(ApiKey.SYNC_GROUP, version, sync)
    assert answer.error_code == code


@pytest.mark.parametrize(("version", "operations"), [(5, 328), (6, -(2**31))], ids=["Dead", "an error"])
async def test_unknown_group_has_no_authorized_operations_where_it_is_an_error(
    wire: Wire, version: int, operations: int
) -> None:
    asked = {"groups": ("unknown",), "include_authorized_operations": True}
    answer = await wire.call(ApiKey.DESCRIBE_GROUPS, version, asked)
    assert answer.groups[0].authorized_operations == operations


async def test_commit_without_topics_creates_no_group(wire: Wire, node: Coordinator) -> None:
    commit = {"group_id": "unknown", "generation_id_or_member_epoch": -1, "member_id": "", "topics": ()}
    assert (await wire.call(ApiKey.OFFSET_COMMIT, 8, commit)).topics == ()
    assert node.describe("unknown") is None


DENIAL = {"permission": "DENY", "operations": ["COMMIT"], "resource": "TOPIC", "pattern": "LITERAL", "name": "denied"}


@pytest.mark.parametrize(
    ("client_id", "metadata"),
    [("wire", ""), ("wire", "m" * KEPT_BODY_MAX_BYTES), ("adminclient-1", "m" * KEPT_BODY_MAX_BYTES)],
    ids=["small", "large", "a reset"],
)
async def test_each_partition_has_its_own_code_whatever_refuses_it(
    store: MemoryStore, node: Coordinator, tmp_path: Path, client_id: str, metadata: str
) -> None:
    """The token refuses topics, the listener what cannot be stored, and the group partitions that there are not."""

    def partition(number: int, offset: int, text: str = "", epoch: int = -1) -> dict[str, Any]:
        committed = {"committed_offset": offset, "committed_leader_epoch": epoch, "committed_metadata": text}
        return {"partition_index": number, **committed}

    tokens = TokensFile.written(tmp_path, {**ADA, "acls": [DENIAL]}).read()
    store.observe_topics({"known": 3})
    await node.refresh_settings()
    topics: list[tuple[str, list[tuple[dict[str, Any], int]]]] = [
        ("denied", [(partition(0, 1), TOPIC_AUTHORIZATION_FAILED), (partition(1, 1), TOPIC_AUTHORIZATION_FAILED)]),
        ("known", [(partition(7, 1), UNKNOWN_TOPIC_OR_PARTITION), (partition(0, 10, metadata), NONE)]),
        ("t", [(partition(0, -1), INVALID_REQUEST), (partition(1, 11, "a\0"), NONE)]),
        ("t", []),
        ("denied", [(partition(2, 1), TOPIC_AUTHORIZATION_FAILED)]),
        ("", [(partition(0, 1), INVALID_REQUEST)]),
        ("t", [(partition(2, 12), NONE), (partition(3, 1, epoch=-2), INVALID_REQUEST), (partition(4, 13), NONE)]),
        ("known", [(partition(1, 14), NONE), (partition(3, 1), UNKNOWN_TOPIC_OR_PARTITION)]),
    ]
    commit = {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": name, "partitions": [one for one, _ in named]} for name, named in topics],
    }
    wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits(), tokens=tokens))
    await wire.call(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
    await wire.call(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": b"\0any\0ada's"})
    for _ in range(2):
        answer = await wire.call(ApiKey.OFFSET_COMMIT, 6, commit, client_id)
        found = [
            (each.name, [(one.partition_index, one.error_code) for one in each.partitions]) for each in answer.topics
        ]
        assert found == [(name, [(one["partition_index"], code) for one, code in named]) for name, named in topics]
    stored = await node.fetch_offsets("g", None)
    assert [(one.topic, one.partition, one.offset, one.metadata) for one in stored] == [
        ("known", 0, 10, metadata),
        ("known", 1, 14, ""),
        ("t", 1, 11, "a"),
        ("t", 2, 12, ""),
        ("t", 4, 13, ""),
    ]
    recorded = {len(each.after["offsets"]) for each in store.history.changes if each.after is not None}
    assert recorded == ({len(stored)} if client_id == "adminclient-1" else set())
    usual = {**commit, "topics": [{"name": "t", "partitions": [partition(0, 1)]}]}
    (topic,) = (await wire.call(ApiKey.OFFSET_COMMIT, 6, usual, client_id)).topics
    assert [one.error_code for one in topic.partitions] == [NONE]
    wire.close()


async def test_refusals_of_many_offsets_take_little_memory_and_a_short_line_of_the_log(wire: Wire) -> None:
    """A topic's name may be as long as a request, and each of its partitions may be refused."""
    partition = {"partition_index": 0, "committed_offset": -1, "committed_leader_epoch": -1, "committed_metadata": ""}
    topics = [{"name": "t" * 50_000, "partitions": [partition] * 5_000}]
    commit = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
    tracemalloc.start()
    try:
        with capture_logs() as logs:
            answer = await wire.call(ApiKey.OFFSET_COMMIT, 8, commit)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert {one.error_code for one in answer.topics[0].partitions} == {INVALID_REQUEST}
    assert peak_bytes < 3_500_000, "no error for each partition"
    (refusal,) = [each for each in logs if each["event"] == "kafka_request_refused"]
    assert len(refusal["reason"]) < 300


@pytest.mark.parametrize("version", range(APIS[ApiKey.OFFSET_FETCH].first, APIS[ApiKey.OFFSET_FETCH].last + 1))
async def test_metadata_longer_than_the_strings_of_a_version_is_an_error_of_its_partition(
    wire: Wire, version: int
) -> None:
    """The limit of metadata may be above the 32,767 bytes that a length of two bytes allows."""
    texts = ["note", "é" * 20_000]
    partitions = [
        {"partition_index": number, "committed_offset": 7, "committed_metadata": text}
        for number, text in enumerate(texts)
    ]
    commit = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": ""}
    await wire.call(ApiKey.OFFSET_COMMIT, 8, {**commit, "topics": [{"name": "t", "partitions": partitions}]})
    of_group = {"group_id": "g", "topics": [{"name": "t", "partition_indexes": (0, 1)}]}
    answer = await wire.call(ApiKey.OFFSET_FETCH, version, {**of_group, "groups": [of_group]})

    (topic,) = (answer.groups[0] if version >= 8 else answer).topics
    found = [(each.committed_offset, each.metadata, each.error_code) for each in topic.partitions]
    longest = (7, texts[1], 0) if version >= 6 else (-1, "", OFFSET_METADATA_TOO_LARGE)
    assert found == [(7, "note", 0), longest]


class NothingStored:
    """Finds no rows, and keeps which queries it ran."""

    limits = QueryLimits()

    def __init__(self) -> None:
        self.ran: list[Callable[..., Any]] = []

    async def run(self, query: Callable[..., Any], /, *_arguments: Any, **_keywords: Any) -> Any:  # noqa: ANN401
        self.ran.append(query)
        return {}


@pytest.mark.parametrize(
    ("timestamp", "queries"),
    [(-1, [read_highest_commits, read_log_starts]), (-2, [read_log_starts]), (5, [read_log_ends_at, read_log_starts])],
    ids=["end", "beginning", "time"],
)
async def test_commits_are_read_for_log_ends_only(
    node: Coordinator, store: MemoryStore, timestamp: int, queries: list[Callable[..., Any]]
) -> None:
    """To find the highest commits takes Postgres longer than all else."""
    store.observe_topics({"t": 1})
    await node.refresh_settings()
    found = NothingStored()
    wire = Wire(NodeContext(node, cast("QueryRunner", found), ListenerLimits()))
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": timestamp}]}]
    await wire.call(ApiKey.LIST_OFFSETS, 5, {"replica_id": -1, "isolation_level": 0, "topics": topics})
    wire.close()
    assert found.ran == queries


async def test_log_ends_of_one_topic_are_listed_without_reading_all_topics(
    node: Coordinator, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.observe_topics({"t": 1})
    await node.refresh_settings()
    monkeypatch.delattr(MemoryStore, "topics")
    wire = Wire(NodeContext(node, cast("QueryRunner", NothingStored()), ListenerLimits()))
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    answer = await wire.call(ApiKey.LIST_OFFSETS, 5, {"replica_id": -1, "isolation_level": 0, "topics": topics})
    wire.close()
    (found,) = answer.topics[0].partitions
    assert (found.error_code, found.offset) == (0, 0)


@pytest.mark.parametrize("topics", [None, [{"name": "t"}]], ids=["all", "named"])
async def test_partitions_beyond_the_highest_count_are_not_described(
    node: Coordinator, store: MemoryStore, wire: Wire, monkeypatch: pytest.MonkeyPatch, topics: list[object] | None
) -> None:
    """Release 0.1.0 stored any count: the description of two billion partitions takes all memory."""
    monkeypatch.setattr(brokers, "PARTITION_COUNT_MAX", 3)
    monkeypatch.setattr(node, "addresses", lambda _: {"a": "127.0.0.1:9092"})
    store.observe_topics({"t": 5})
    await node.refresh_settings()
    answer = await wire.call(ApiKey.METADATA, 8, {"topics": topics, "allow_auto_topic_creation": False})
    assert [len(each.partitions) for each in answer.topics] == [3]
