"""Checks of `muster doctor` on stored groups: whether a node could load each of them."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Final

from sqlalchemy.exc import NoResultFound

from coordinator_core.store.interface import StoreError
from coordinator_core.store.postgres import PostgresStore
from coordinator_core.store.projection import load_group
from coordinator_core.store.row_checks import UnreadableRow, check_shard
from coordinator_core.store.rows import StoredGroup, UnreadableGroup
from muster import display
from muster.commands.check_result import CheckResult, error, ok
from muster.commands.database_checks import ROW_LOST
from muster.commands.output import counted

SHARD_COUNT_MAX: Final = 10_000
NAMED_MAX: Final = 5
"""Groups that the finding names."""
REPAIR: Final = "repair the rows with SQL, then muster groups reload GROUP; docs/runbook.md#mustergroupsquarantined"


def check_groups(url: str) -> CheckResult:
    """Read the groups of all shards as a take-over does.

    Args:
        url: the database, as SQLAlchemy writes it.
    """
    try:
        with closing(PostgresStore(url)) as store:
            total, reasons = _unreadable_groups(store)
    except StoreError as failure:
        return error("groups", f"they cannot be read: {failure}", "run muster migrate if a table is missing")
    except NoResultFound:
        return error("groups", "the table versions has no row, so no node starts", ROW_LOST)
    if not reasons:
        return ok("groups", f"{counted(total, 'group')} can be loaded")
    named = [f"{display.printable(group_id)} ({reason})" for group_id, reason in sorted(reasons.items())[:NAMED_MAX]]
    more = f", and {len(reasons) - NAMED_MAX} more" if len(reasons) > NAMED_MAX else ""
    return error("groups", f"{len(reasons)} of {total} cannot be loaded: {', '.join(named)}{more}", REPAIR)


def _unreadable_groups(store: PostgresStore) -> tuple[int, dict[str, str]]:
    """Return how many groups there are, and why some cannot be loaded."""
    shard_count, total = store.shard_count(), 0
    reasons: dict[str, str] = {}
    for shard_ids in (*([shard_id] for shard_id in range(shard_count)), range(shard_count, SHARD_COUNT_MAX)):
        for one in store.load_shards(shard_ids):
            total += 1
            reason = _why_unreadable(one, shard_count)
            # Nodes may have written between the reads of groups and members, so it is looked at once more.
            again = None if reason is None else store.load_group(one.group_id)
            if again is not None and (reason := _why_unreadable(again, shard_count)) is not None:
                reasons[one.group_id] = reason
    return total, reasons


def _why_unreadable(stored: StoredGroup | UnreadableGroup, shard_count: int) -> str | None:
    try:
        check_shard(stored, stored.shard_id, shard_count)
        if isinstance(stored, UnreadableGroup):
            return stored.reason
        load_group(stored, time.time_ns() // 1_000_000)
    except UnreadableRow as failure:
        return str(failure)
    except Exception as failure:  # noqa: BLE001 - rows written by hand may break anything; the reason is shown
        return f"{type(failure).__name__}: {failure}"
    return None
