"""The store in memory, for tests and simulation. Import `MemoryStore`; the modules beside it are its parts."""

from coordinator_core.store.memory.store import MemoryStore

__all__ = ["MemoryStore"]
