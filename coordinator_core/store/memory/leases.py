"""Leases in memory, by an injected clock."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from coordinator_core.store.rows import LeaseRow


@dataclass(slots=True)
class Lease:
    """A row of `shard_leases`."""

    node_id: str | None = None
    epoch: int = 0
    expires_at_ms: int | None = None


@dataclass(slots=True)
class Node:
    """A row of `nodes`."""

    url: str
    version: str
    expires_at_ms: int
    renewals: int


class Leases:
    """Who owns which shard."""

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

    def renew_node(self, node_id: str, url: str, version: str, ttl_ms: int, renewals: int) -> int:
        """Renew the node; return how often that was done, which is counted from `renewals` on where it is not known."""
        known = self._nodes.get(node_id)
        counted = (renewals if known is None else known.renewals) + 1
        self._nodes[node_id] = Node(url, version, self._clock_ms() + ttl_ms, counted)
        return counted

    def renew(self, node_id: str, epochs: Mapping[int, int], ttl_ms: int) -> frozenset[int]:
        """Renew what the node holds; return what that is."""
        expires_at_ms = self._clock_ms() + ttl_ms
        held = self.held(node_id, epochs)
        for shard in held:
            self.shards[shard].expires_at_ms = expires_at_ms
        return held

    def take_over(self, node_id: str, shard_ids: Iterable[int], ttl_ms: int) -> dict[int, int]:
        """Take what is free, expired or already the node's, each under a new epoch."""
        taken = {}
        for shard in sorted(shard_ids):
            lease = self.shards.get(shard)
            if lease is not None and (lease.node_id == node_id or self._is_expired(lease)):
                self.shards[shard] = Lease(node_id, lease.epoch + 1, self._clock_ms() + ttl_ms)
                taken[shard] = lease.epoch + 1
        return taken

    def release(self, node_id: str, epochs: Mapping[int, int]) -> None:
        """Give up what is still the node's."""
        for shard in self.held(node_id, epochs):
            self.shards[shard] = Lease(epoch=self.shards[shard].epoch)

    def end_all(self, epochs: int) -> None:
        """End every lease, and raise their epochs by so much."""
        self.shards = {shard: Lease(epoch=lease.epoch + epochs) for shard, lease in self.shards.items()}

    def last_renewed_at_ms(self) -> int:
        """Return when the node expires that renewed last; 0 where there is no node."""
        return max((node.expires_at_ms for node in self._nodes.values()), default=0)

    def retire_node(self, node_id: str) -> None:
        """Forget a node."""
        self._nodes.pop(node_id, None)

    def forget_nodes(self, gone_for_ms: int) -> None:
        """Forget nodes that were lost so long ago."""
        lost_by_ms = self._clock_ms() - gone_for_ms
        self._nodes = {name: node for name, node in self._nodes.items() if node.expires_at_ms >= lost_by_ms}

    def rows(self) -> tuple[LeaseRow, ...]:
        """Return every lease, by shard."""
        return tuple(
            LeaseRow(shard, lease.node_id, lease.epoch, self._is_expired(lease), self._url_of(lease.node_id))
            for shard, lease in sorted(self.shards.items())
        )

    def live_nodes(self) -> tuple[str, ...]:
        """Return the nodes that are unexpired, sorted."""
        now_ms = self._clock_ms()
        return tuple(sorted(node_id for node_id, node in self._nodes.items() if node.expires_at_ms > now_ms))

    def _is_expired(self, lease: Lease) -> bool:
        return lease.node_id is None or lease.expires_at_ms is None or lease.expires_at_ms <= self._clock_ms()

    def _url_of(self, node_id: str | None) -> str | None:
        node = self._nodes.get(node_id) if node_id is not None else None
        return None if node is None else node.url
