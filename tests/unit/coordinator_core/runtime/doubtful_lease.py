"""A store whose renewals can fail, so that the node's leases may have ended."""

import threading
from collections.abc import Mapping, Sequence

from coordinator_core.protocol.requests import StoredOffset
from coordinator_core.state_store.interface import StoreUnavailable
from coordinator_core.state_store.rows import Renewal
from tests.support.memory_store import MemoryStore
from tests.support.waiting import PATIENCE_S
from tests.unit.coordinator_core.runtime.nodes import JumpingClock, until


class FarStore(MemoryStore):
    """A store whose renewals can fail, and whose reads of offsets can be held up."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False
        self.renewals = 0
        self.failures = 0
        self.go = threading.Event()
        self.go.set()
        self.is_reading = threading.Event()

    def renew(
        self,
        node_id: str,
        listeners: Mapping[str, str],
        version: str,
        epochs: Mapping[int, int],
        ttl_ms: int,
        last: Renewal | None = None,
        cluster_configs: int = 0,
    ) -> Renewal:
        if self.is_away:
            self.failures += 1
            raise StoreUnavailable("far away")
        self.renewals += 1
        return super().renew(node_id, listeners, version, epochs, ttl_ms, last, cluster_configs)

    def stored_offsets(self, group_id: str, partitions: Sequence[tuple[str, int]] | None = None) -> list[StoredOffset]:
        self.is_reading.set()
        assert self.go.wait(PATIENCE_S), "the test never let the read go"
        return super().stored_offsets(group_id, partitions)


async def put_in_doubt(store: FarStore, clock: JumpingClock, by_ms: int = 20_000) -> None:
    """Let so much time pass without a renewal that the lease may be another's."""
    store.is_away = True
    clock.jumped_ms += by_ms
    failures = store.failures
    await until(lambda: store.failures > failures + 1, "renewals are tried, so the loop turns")


async def be_sure_again(store: FarStore) -> None:
    """Let renewals work, and wait until there were some."""
    store.is_away = False
    renewals = store.renewals
    await until(lambda: store.renewals > renewals + 2, "leases are renewed")
