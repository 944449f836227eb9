"""The loop that seals the audit log: it logs each seal, and goes on after an error of the database."""

import asyncio

from structlog.testing import capture_logs

from coordinator_core.state_store.interface import StoreUnavailable
from coordinator_core.state_store.rows import SealedMinute
from muster.node.change_sealing import seal_changes
from tests.support.memory_store.store import MemoryStore


class SealingStore(MemoryStore):
    """A store that fails, has nothing to seal, seals, and then ends the test."""

    def __init__(self, is_over: asyncio.Event) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._is_over = is_over
        self._calls = 0

    def seal_changes(self) -> SealedMinute | None:
        self._calls += 1
        if self._calls == 1:
            raise StoreUnavailable("the server is starting")
        if self._calls == 4:
            self._loop.call_soon_threadsafe(self._is_over.set)
        return SealedMinute(60_000, 7, "ab12") if self._calls == 3 else None


async def seal_until_over() -> None:
    is_over = asyncio.Event()
    sealing = asyncio.create_task(seal_changes(SealingStore(is_over), interval_s=0))
    await is_over.wait()
    sealing.cancel()


def test_seals_are_logged_and_an_error_does_not_end_the_loop() -> None:
    with capture_logs() as logs:
        asyncio.run(seal_until_over())

    failed, sealed = logs
    assert (failed["event"], failed["reason"]) == ("sealing_failed", "the server is starting")
    assert (sealed["event"], sealed["minute"], sealed["changes"], sealed["seal"]) == (
        "changes_sealed",
        "1970-01-01T00:01:00+00:00",
        7,
        "ab12",
    )
