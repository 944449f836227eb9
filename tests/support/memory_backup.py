"""A backup of a memory store: a copy of its contents, to be restored later."""

from copy import deepcopy
from dataclasses import replace

from tests.support.memory_store import MemoryStore

HELD = ("_leases", "_groups", "_partitions", "_maintenance", "_settings_and_topics", "_incarnation")


class Backup:
    """The contents of a store at one time."""

    def __init__(self, store: MemoryStore) -> None:
        with store._lock:
            self._held = deepcopy({name: getattr(store, name) for name in HELD})

    def put_back(self, store: MemoryStore) -> None:
        """Roll the store back in place, for which its server is started again; its identity stays."""
        with store._lock:
            store.server_starts += 1
            for name, held in deepcopy(self._held).items():
                setattr(store, name, held)

    def promote(self, store: MemoryStore) -> None:
        """Put a standby in the store's place that has not received what came after the backup."""
        with store._lock:
            self.put_back(store)
            store.identity = replace(store.identity, timeline=store.identity.timeline + 1)
