"""Whoever changes something says who they are and why; it is kept in `changes`."""

from dataclasses import dataclass

from coordinator_core.store.rows import ChangeRow


@dataclass(frozen=True, slots=True)
class Act:
    """One operator's or DAG's act."""

    actor: str
    reason: str | None
    change_id: str
    """A UUID; the caller's idempotency key, or a fresh one."""

    def change(self, action: str, group_id: str | None, at_ms: int) -> ChangeRow:
        """Return the act as a row of `changes`; before and after are filled in by whoever knows them."""
        return ChangeRow(
            change_id=self.change_id,
            at_ms=at_ms,
            actor=self.actor,
            action=action,
            group_id=group_id,
            before=None,
            after=None,
            reason=self.reason,
        )
