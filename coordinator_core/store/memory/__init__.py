"""The in-memory store, for tests and simulation. Import `MemoryStore`; the other modules are its parts."""

from coordinator_core.store.memory.store import MemoryStore

__all__ = ["MemoryStore"]
