"""What each API answers about a group whose shard is being loaded: errors after which every client asks again.

A list of groups is refused, too, while the leases of its shards are in doubt.
"""

import threading
from collections.abc import AsyncIterator, Iterable
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from api.kafka.apis import APIS, ApiKey
from api.kafka.messages import load_all
from api.shared.limits import ListenerLimits
from api.shared.node_context import NodeContext
from coordinator_core.protocol.errors import CoordinatorNotAvailable
from coordinator_core.state_store.rows import StoredGroup, UnreadableGroup
from tests.support.kafka_listener import PATIENT
from tests.support.memory_store import MemoryStore
from tests.support.no_queries import NO_QUERIES
from tests.support.waiting import PATIENCE_S
from tests.unit.api.kafka.wire import Fields, Wire
from tests.unit.coordinator_core.runtime.doubtful_lease import FarStore, be_sure_again, put_in_doubt
from tests.unit.coordinator_core.runtime.nodes import JumpingClock, Member, config, running, until

pytestmark = pytest.mark.anyio

GROUP = "g"
NONE, LOAD_IN_PROGRESS, REBALANCE_IN_PROGRESS = 0, 14, 27
A_LEASE_MS = 600_000
"""A lease that no test outlives: a load may take as long."""
OF_MEMBER = {"group_id": GROUP, "generation_id": 1, "member_id": "m"}
FETCHED = {"topics": [{"name": "t", "partition_indexes": [0]}]}
OF_GROUP = {"group_id": GROUP}
REQUESTS: dict[ApiKey, Fields] = {
    ApiKey.JOIN_GROUP: {
        **OF_GROUP,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
        "session_timeout": PATIENT,
        "rebalance_timeout": PATIENT,
    },
    ApiKey.SYNC_GROUP: {
        **OF_MEMBER,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": (),
    },
    ApiKey.HEARTBEAT: OF_MEMBER,
    ApiKey.LEAVE_GROUP: {**OF_MEMBER, "members": [{"member_id": "m"}]},
    ApiKey.OFFSET_COMMIT: {
        **OF_MEMBER,
        "generation_id_or_member_epoch": 1,
        "topics": [
            {
                "name": "t",
                "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}],
            }
        ],
    },
    ApiKey.OFFSET_FETCH: {**OF_GROUP, **FETCHED, "groups": [{**OF_GROUP, **FETCHED}]},
    ApiKey.OFFSET_DELETE: {**OF_GROUP, "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]},
    ApiKey.DESCRIBE_GROUPS: {"groups": [GROUP]},
    ApiKey.DELETE_GROUPS: {"groups_names": [GROUP]},
    ApiKey.LIST_GROUPS: {},
}
"""The requests that are about groups."""
CODES = {ApiKey.HEARTBEAT: NONE, ApiKey.SYNC_GROUP: REBALANCE_IN_PROGRESS}
"""The error codes of those that are not answered LOAD_IN_PROGRESS."""


def codes_of(part: Any) -> set[int]:  # noqa: ANN401  # a response, or a part of it
    """Return the error codes of a response and its parts."""
    if isinstance(part, tuple):
        return set().union(*map(codes_of, part))
    if not is_dataclass(part):
        return set()
    own = {part.error_code} if hasattr(part, "error_code") else set()
    return own.union(*(codes_of(getattr(part, field.name)) for field in fields(part)))


class SlowStore(MemoryStore):
    """A store in which shards are loaded only while `go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.go.set()

    def load_shards(self, shard_ids: Iterable[int]) -> list[StoredGroup | UnreadableGroup]:
        """Load when it may."""
        assert self.go.wait(PATIENCE_S), "the test never let the load go"
        return super().load_shards(shard_ids)


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    """Return a connection to a node that loads the shard of the group, until the test ends."""
    load_all()
    store = SlowStore()
    async with running(store, config(lease_ttl_ms=A_LEASE_MS)) as node:
        await Member(node, GROUP).settle()
        store.go.clear()
        node.loaded_shard(GROUP).fail(CoordinatorNotAvailable("the shard is loaded again"))
        await until(lambda: not node.serves_all_shards(), "the load")
        wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits()))
        try:
            yield wire
        finally:
            wire.close()
            store.go.set()


@pytest.mark.parametrize(
    ("key", "version"),
    [(key, version) for key in REQUESTS for version in range(APIS[key].first, APIS[key].last + 1)],
    ids=lambda each: each.name if isinstance(each, ApiKey) else f"v{each}",
)
async def test_error_while_the_group_is_loaded(wire: Wire, key: ApiKey, version: int) -> None:
    answer = await wire.call(key, version, REQUESTS[key])
    assert codes_of(answer) == {CODES.get(key, LOAD_IN_PROGRESS)}


@pytest.mark.parametrize("version", range(APIS[ApiKey.OFFSET_FETCH].first, APIS[ApiKey.OFFSET_FETCH].last + 1))
async def test_refused_fetch_has_the_error_for_each_partition(wire: Wire, version: int) -> None:
    answer = await wire.call(ApiKey.OFFSET_FETCH, version, REQUESTS[ApiKey.OFFSET_FETCH])
    (topic,) = (answer.groups[0] if version >= 8 else answer).topics
    found = [(each.partition_index, each.committed_offset, each.error_code) for each in topic.partitions]
    assert found == [(0, -1, LOAD_IN_PROGRESS)]


async def test_list_is_refused_while_the_leases_of_its_shards_are_in_doubt() -> None:
    load_all()
    store, clock = FarStore(), JumpingClock()
    async with running(store, config(), clock) as node:
        await Member(node, GROUP).settle()
        wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits()))
        await put_in_doubt(store, clock)
        refused = await wire.call(ApiKey.LIST_GROUPS, 5, {})
        assert (refused.error_code, refused.groups) == (LOAD_IN_PROGRESS, ())
        await be_sure_again(store)
        listed = await wire.call(ApiKey.LIST_GROUPS, 5, {})
        assert [each.group_id for each in listed.groups] == [GROUP]
        wire.close()
