"""The in-memory store, for tests and simulation. Import `MemoryStore`; the other modules are its parts."""

from tests.support.memory_store.store import MemoryStore

__all__ = ["MemoryStore"]
