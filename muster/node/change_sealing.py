"""Sealing of the audit log: every node tries several times a minute, and the database lets one of them seal it."""

import asyncio
from datetime import UTC, datetime
from typing import Final

import structlog

from coordinator_core.state_store.interface import Store, StoreError

log = structlog.get_logger("muster.node")

SEAL_INTERVAL_S: Final = 15.0
"""The time between two attempts, so that a minute is sealed by any node that runs."""


async def seal_changes(store: Store, interval_s: float = SEAL_INTERVAL_S) -> None:
    """Seal the audit log minute by minute, until cancelled."""
    while True:
        await asyncio.sleep(interval_s)
        try:
            sealed = await asyncio.to_thread(store.seal_changes)
        except StoreError as error:
            log.warning("sealing_failed", reason=str(error))
            continue
        if sealed is not None:
            minute = datetime.fromtimestamp(sealed.minute_ms / 1000, UTC).isoformat()
            log.info("changes_sealed", minute=minute, changes=sealed.change_count, seal=sealed.seal)
