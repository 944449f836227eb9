"""Store many Stable groups in a database without a node, using the protocol's own decisions."""

from collections.abc import Iterator
from itertools import islice

from coordinator_core.protocol.consumer_protocol import Assignment, Subscription, write_assignment, write_subscription
from coordinator_core.protocol.decide import decide
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.protocol.requests import (
    Deadline,
    DeadlineKind,
    ExpireDeadline,
    JoinGroup,
    Request,
    SupportedProtocol,
    SyncGroup,
)
from coordinator_core.protocol.settings import Context, Now
from coordinator_core.state_store.ledger import Ledger
from coordinator_core.state_store.postgres import PostgresStore
from coordinator_core.state_store.projection import project
from coordinator_core.state_store.rows import Batch, GroupWrite

SHARDS = 50
NODE = "bench:1"
GROUPS_A_BATCH = 250
LEASE_MS = 60_000
NOW = Now(0, 1_900_000_000_000)
CONTEXT = Context()
OFFER = SupportedProtocol("range", write_subscription(Subscription(("orders",))))


def store_groups(database_url: str, groups: int, members: int) -> None:
    """Store groups `many-0`, `many-1`, …, each Stable, with members that own no partitions."""
    store = PostgresStore(database_url)
    try:
        epochs = store.acquire_leases(NODE, range(SHARDS), LEASE_MS)
        numbers = iter(range(groups))
        while some := list(islice(numbers, GROUPS_A_BATCH)):
            writes = [write for number in some for write in _writes(f"many-{number}", members)]
            store.write(Batch(NODE, epochs, tuple(writes)))
        store.release(NODE, epochs)
    finally:
        store.close()


def _writes(group_id: str, members: int) -> Iterator[GroupWrite]:
    group = Group(group_id)
    ledger = Ledger(group_id, shard_of(group_id, SHARDS))
    for request in _requests(group_id, members):
        decision = decide(group, request, NOW, CONTEXT)
        group = decision.group
        write = project(group, decision.records, ledger)
        if write is not None:
            yield write


def _requests(group_id: str, members: int) -> Iterator[Request]:
    ids = [f"{group_id}-member-{number}" for number in range(members)]
    for token, member_id in enumerate(ids):
        yield _join(token, member_id)
    yield ExpireDeadline(Deadline(DeadlineKind.JOIN))
    nothing = write_assignment(Assignment(()))
    yield SyncGroup(0, 1, ids[0], assignments=tuple((member_id, nothing) for member_id in ids))


def _join(token: int, member_id: str) -> JoinGroup:
    return JoinGroup(
        token=token,
        member_id="",
        group_instance_id=None,
        client_id="bench",
        client_host="127.0.0.1",
        session_timeout_ms=600_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=(OFFER,),
        new_member_id=member_id,
        require_known_member_id=False,
    )
