"""Confirmations: which nodes have not applied a change of the cluster's settings.

* With each renewal a node stores the version of the settings that it has applied. A node that applies a newer version
  renews again at once.
* A node that does not renew is listed until other nodes own its shards. From then on it cannot serve with the older
  settings, because a node applies the newest settings before it serves a shard that it has acquired.

Source: http-api.md "Changing settings".
"""

import asyncio
from functools import partial
from typing import Final

from coordinator_core.runtime.clock import Clock, StoreReader
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.runtime.metadata_cache import MetadataCache
from coordinator_core.runtime.shard_ownership import RENEWALS_PER_TTL
from coordinator_core.state_store.interface import RuntimeStore

POLL_S: Final = 0.05
"""How often the store is read while nodes have not confirmed."""
ALLOWANCE_MS: Final = 200
"""The time that is left for the renewals themselves, beyond the interval, and for the response, before its deadline."""


class Confirmations:
    """The confirmations of the other nodes, as one node reads them from the store."""

    def __init__(
        self, store: RuntimeStore, read: StoreReader, metadata_cache: MetadataCache, clock: Clock, config: NodeConfig
    ) -> None:
        self._store = store
        self._read = read
        self._metadata_cache = metadata_cache
        self._clock = clock
        self._node_id = config.node_id
        self._max_wait_ms = config.lease_ttl_ms / RENEWALS_PER_TTL + ALLOWANCE_MS

    async def unconfirmed_nodes(self) -> list[str]:
        """Return the other nodes that have not confirmed the settings that are effective here, sorted."""
        return await self._unconfirmed(self._metadata_cache.versions.cluster_configs)

    async def wait(self, time_left_ms: float) -> list[str]:
        """Wait until the other nodes have confirmed the settings that are effective here, for one renewal at most.

        Args:
            time_left_ms: how long the caller may take.

        Returns:
            The nodes that have not confirmed, sorted.
        """
        cluster_configs = self._metadata_cache.versions.cluster_configs
        until_ms = self._clock.now().node_ms + min(self._max_wait_ms, time_left_ms - ALLOWANCE_MS)
        while unconfirmed := await self._unconfirmed(cluster_configs):
            left_ms = until_ms - self._clock.now().node_ms
            if left_ms <= 0:
                break
            await asyncio.sleep(min(POLL_S, left_ms / 1000))
        return unconfirmed

    async def _unconfirmed(self, cluster_configs: int) -> list[str]:
        found = await self._read(partial(self._store.unconfirmed_nodes, cluster_configs))
        return [node_id for node_id in found if node_id != self._node_id]
