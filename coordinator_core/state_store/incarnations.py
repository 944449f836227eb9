"""Incarnations of the database: a restore, a failover or a rollback starts a new one, which repeats no earlier number.

The database may have lost the last transactions, and with them generations, lease epochs and commit versions that
clients and nodes already know. So a new incarnation raises each of these numbers above all that can have been lost:

* The identity of the database (`Identity`) is stored. Acquiring and renewing leases compares it with the actual one;
  writes compare the parts that are cheap to read.
* A database that was rolled back in place keeps its identity. A node detects it with `is_rolled_back`.
* The jump grows with the time since the last recorded activity in the database, so numbers do not repeat even if one
  backup is restored again, a minute later or more, or an older one after it.

Source: docs/backup.md.
"""

import uuid
from dataclasses import asdict
from typing import Final, NamedTuple

from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.rows import ChangeRow, Incarnation, Renewal

GENERATION_JUMP: Final = 10_000
"""The minimum by which the generations of all groups are raised."""
JUMP_MINUTES: Final = 10
"""How many lost minutes the minimum covers; each further one raises generations by a tenth of it."""
GENERATIONS_A_MINUTE: Final = GENERATION_JUMP // JUMP_MINUTES
EPOCHS_A_MINUTE: Final = 1_000
VERSIONS_A_MINUTE: Final = 1_000
COMMIT_VERSIONS_A_MINUTE: Final = 1_000_000_000
"""More than a database stores in a minute."""

IDENTITY_CHANGED: Final = (
    "the database is not the one that nodes last served: it was restored, or a standby was promoted"
)
ROLLED_BACK: Final = "the database holds less than a node remembers: it was rolled back in place"

_CHANGE_IDS: Final = uuid.UUID("6d757374-6572-4000-8000-696e6361726e")
"""The namespace of the ids of the changes that record incarnations."""


class Jump(NamedTuple):
    """The amounts by which a new incarnation raises numbers."""

    generations: int
    epochs: int
    commit_versions: int
    versions: int
    """Of settings and topic metadata, so that every node reads them again."""


def jump_over(lost_ms: int) -> Jump:
    """Return the jump above all numbers that can have been used in that time."""
    minutes = JUMP_MINUTES + max(0, lost_ms) // 60_000
    return Jump(
        generations=minutes * GENERATIONS_A_MINUTE,
        epochs=minutes * EPOCHS_A_MINUTE,
        commit_versions=minutes * COMMIT_VERSIONS_A_MINUTE,
        versions=minutes * VERSIONS_A_MINUTE,
    )


def is_rolled_back(found: Renewal, last: Renewal) -> bool:
    """Return whether the database was rolled back since a node's last renewal without a new incarnation.

    A renewal raises the node's number of renewals, and acquiring a lease raises its epoch. Neither ever decreases.
    """
    if found.incarnation != last.incarnation:
        return found.incarnation.started_at_ms < last.incarnation.started_at_ms
    last_epochs = {lease.shard_id: lease.epoch for lease in last.leases}
    return found.renewals <= last.renewals or any(
        lease.epoch < last_epochs.get(lease.shard_id, 0) for lease in found.leases
    )


def change_of(before: Incarnation, after: Incarnation, jump: Jump, actor: str, reason: str) -> ChangeRow:
    """Return the row of `changes` that records the start of an incarnation."""
    return ChangeRow(
        change_id=str(uuid.uuid5(_CHANGE_IDS, f"{after.number} {after.started_at_ms}")),
        at_ms=after.started_at_ms,
        actor=actor,
        action=ChangeAction.START_INCARNATION,
        group_id=None,
        before=_described(before),
        after={**_described(after), "generations_raised_by": jump.generations},
        reason=reason,
    )


def _described(incarnation: Incarnation) -> dict[str, int]:
    identity = {} if incarnation.identity is None else asdict(incarnation.identity)
    return {"incarnation": incarnation.number, **identity}
