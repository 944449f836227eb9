"""Nodes and shard leases in memory, with an injected clock."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from coordinator_core.state_store.rows import LEASE_TTL_MAX_MS, LeaseRow


@dataclass(slots=True)
class Lease:
    """A row of `shard_leases`."""

    node_id: str | None = None
    epoch: int = 0
    expires_at_ms: int | None = None


@dataclass(slots=True)
class Node:
    """A row of `nodes`."""

    listeners: Mapping[str, str]
    version: str
    expires_at_ms: int
    renewals: int
    cluster_configs: int


class Leases:
    """The nodes, and the owners of shards."""

    def __init__(self, shards: int, clock_ms: Callable[[], int]) -> None:
        self.shards = {shard: Lease() for shard in range(shards)}
        self._nodes: dict[str, Node] = {}
        self._clock_ms = clock_ms

    def held(self, node_id: str, epochs: Mapping[int, int]) -> frozenset[int]:
        """Return which of these shards are still the node's, under these epochs."""
        return frozenset(
            shard
            for shard, epoch in epochs.items()
            if shard in self.shards and (self.shards[shard].node_id, self.shards[shard].epoch) == (node_id, epoch)
        )

    def renewals_of(self, node_id: str) -> int | None:
        """Return the node's number of renewals; None: it has no row."""
        known = self._nodes.get(node_id)
        return None if known is None else known.renewals

    def renew_node(
        self,
        node_id: str,
        listeners: Mapping[str, str],
        version: str,
        ttl_ms: int,
        renewals: int,
        cluster_configs: int,
    ) -> None:
        """Renew the node for the given time in all."""
        self._nodes[node_id] = Node(listeners, version, self._clock_ms() + ttl_ms, renewals, cluster_configs)

    def renew(self, node_id: str, epochs: Mapping[int, int], ttl_ms: int) -> frozenset[int]:
        """Renew the leases that the node owns, and shorten those that end too late; return the node's shards."""
        expires_at_ms = self._clock_ms() + ttl_ms
        held = self.held(node_id, epochs)
        for shard in held:
            self.shards[shard].expires_at_ms = expires_at_ms
        rows: tuple[Node | Lease, ...] = (*self._nodes.values(), *self.shards.values())
        for row in rows:
            if (row.expires_at_ms or 0) > self._clock_ms() + LEASE_TTL_MAX_MS:
                row.expires_at_ms = expires_at_ms
        return held

    def acquire_leases(self, node_id: str, shard_ids: Iterable[int], ttl_ms: int) -> dict[int, int]:
        """Acquire leases that are free, expired or already the node's, each under a new epoch."""
        taken = {}
        for shard in sorted(shard_ids):
            lease = self.shards.get(shard)
            if lease is not None and (lease.node_id == node_id or self._is_expired(lease)):
                self.shards[shard] = Lease(node_id, lease.epoch + 1, self._clock_ms() + ttl_ms)
                taken[shard] = lease.epoch + 1
        return taken

    def release(self, node_id: str, epochs: Mapping[int, int]) -> None:
        """Release leases that are still the node's."""
        for shard in self.held(node_id, epochs):
            self.shards[shard] = Lease(epoch=self.shards[shard].epoch)

    def end_all(self, epochs: int) -> None:
        """End every lease, and raise all epochs by a number."""
        self.shards = {shard: Lease(epoch=lease.epoch + epochs) for shard, lease in self.shards.items()}

    def last_renewed_at_ms(self) -> int:
        """Return the latest expiry of a node; 0 without nodes."""
        return max((node.expires_at_ms for node in self._nodes.values()), default=0)

    def delete_node(self, node_id: str) -> None:
        """Delete a node."""
        self._nodes.pop(node_id, None)

    def delete_lost_nodes(self, lost_for_ms: int) -> None:
        """Delete nodes that expired at least so long ago."""
        lost_by_ms = self._clock_ms() - lost_for_ms
        self._nodes = {name: node for name, node in self._nodes.items() if node.expires_at_ms >= lost_by_ms}

    def rows(self) -> tuple[LeaseRow, ...]:
        """Return every lease, by shard."""
        return tuple(
            LeaseRow(shard, lease.node_id, lease.epoch, self._is_expired(lease), self._listeners_of(lease.node_id))
            for shard, lease in sorted(self.shards.items())
        )

    def live_nodes(self) -> tuple[str, ...]:
        """Return the nodes that are unexpired, sorted."""
        now_ms = self._clock_ms()
        return tuple(sorted(node_id for node_id, node in self._nodes.items() if node.expires_at_ms > now_ms))

    def unconfirmed_nodes(self, cluster_configs: int) -> list[str]:
        """Return the nodes that are live or own a shard, and have not confirmed a version; sorted."""
        serving = {*self.live_nodes(), *(lease.node_id for lease in self.shards.values())}
        return sorted(
            name for name, node in self._nodes.items() if node.cluster_configs < cluster_configs and name in serving
        )

    def _is_expired(self, lease: Lease) -> bool:
        return lease.node_id is None or lease.expires_at_ms is None or lease.expires_at_ms <= self._clock_ms()

    def _listeners_of(self, node_id: str | None) -> Mapping[str, str]:
        node = self._nodes.get(node_id) if node_id is not None else None
        return {} if node is None else node.listeners
