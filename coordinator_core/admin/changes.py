"""Changes: an operation of an operator or a DAG, recorded in `changes` in the transaction of its effect.

Rules:

* Every successful operation leaves its row, even if there was nothing to change. A refused one leaves none; an
  operation of which every partition was refused counts as refused.
* The row's key is the change id, which a caller may choose. If the row exists, any node repeats the recorded response
  and does nothing else. The same id with another operation, or of another actor, is refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.errors import READ_ONLY_MIRROR, CoordinatorError, InvalidRequest, RequestError
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.requests import Token
from coordinator_core.protocol.responses import Answer
from coordinator_core.protocol.settings import Now
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.rows import NO_EXTRA_ROWS, ChangeRow, ExtraRows, Json, RecordedChange, UndoneChange


class IdempotencyKeyConflict(InvalidRequest):
    """The change id belongs to another change."""

    def __init__(self) -> None:
        super().__init__("the Idempotency-Key belongs to another change")


class ChangeNotFound(RequestError):
    """There is no such change."""

    code, kafka_code = "RESOURCE_NOT_FOUND", 91


class CannotUndo(InvalidRequest):
    """The change cannot be undone, or not any more."""


@dataclass(frozen=True, slots=True)
class Change:
    """The actor, the reason and the id of an operation."""

    actor: str
    reason: str | None
    change_id: str
    """A UUID; the caller's idempotency key, or a fresh one."""
    token_id: str | None = None
    client_address: str | None = None

    def row(self, action: ChangeAction, group_id: str | None, at_ms: int) -> ChangeRow:
        """Return the change as a row of `changes`; the caller fills in `before` and `after`."""
        return ChangeRow(
            change_id=self.change_id,
            at_ms=at_ms,
            actor=self.actor,
            action=action,
            group_id=group_id,
            before=None,
            after=None,
            reason=self.reason,
            token_id=self.token_id,
            client_address=self.client_address,
        )


def check_same_change(
    found: RecordedChange, actor: str, action: ChangeAction, group_id: str | None, arguments: Mapping[str, Json]
) -> ChangeRow:
    """Return the row of a recorded change if it is the same operation of the same actor.

    Args:
        found: the recorded change.
        actor: who requests it.
        action: the requested action.
        group_id: the requested group; None if there is none.
        arguments: the other arguments; the `after` of the recorded change has the same.

    Raises:
        IdempotencyKeyConflict: it is another operation, or another actor's.
    """
    change_row = found.change
    is_same = (change_row.actor, change_row.action, change_row.group_id) == (actor, action, group_id)
    if not is_same or any(change_row.after.get(key) != value for key, value in arguments.items()):
        raise IdempotencyKeyConflict
    return change_row


ALLOWED_ON_MIRRORS: Final = frozenset(
    {ChangeAction.PUT_SETTINGS, ChangeAction.APPLY_RUN, ChangeAction.REJECT_RUN, ChangeAction.UNDO}
)
"""What operators may change where groups are mirrored, unless it is about a group."""


async def recorded_change(
    coordinator: Coordinator,
    change: Change,
    action: ChangeAction,
    group_id: str | None,
    arguments: Mapping[str, Json] | None = None,
) -> ChangeRow | None:
    """Return the recorded row if this change was made before, else None.

    Raises:
        InvalidRequest: the node is a mirror, and the change is one of groups, offsets or topics.
        IdempotencyKeyConflict: the change id belongs to another change.
    """
    if coordinator.is_mirror and (group_id is not None or action not in ALLOWED_ON_MIRRORS):
        raise InvalidRequest(READ_ONLY_MIRROR)
    found = await coordinator.read(partial(coordinator.store.change, change.change_id))
    return None if found is None else check_same_change(found, change.actor, action, group_id, arguments or {})


async def find_change(coordinator: Coordinator, change_id: str) -> RecordedChange:
    """Return one change.

    Raises:
        ChangeNotFound: there is none.
    """
    found = await coordinator.read(partial(coordinator.store.change, change_id))
    if found is None:
        raise ChangeNotFound(f"there is no change {change_id}")
    return found


DescribeChange = Callable[[Group, Group, Answer], tuple[Json, Json] | None]
"""Returns `before` and `after` of a change, from the group before and after it and the response; None: no change."""


@dataclass(frozen=True, slots=True)
class ChangeRecorder:
    """Adds the row of a change to the decision that carries it out."""

    change: Change
    action: ChangeAction
    group_id: str
    token: Token
    describe: DescribeChange
    undoes: str | None = None
    """The change that this change undoes."""

    def extra_rows(self, before: Group, decision: Decision, now: Now) -> ExtraRows:
        """Return the row of the change; no row if the decision refuses it."""
        (answer,) = (reply.answer for reply in decision.replies if reply.token == self.token)
        if isinstance(answer, CoordinatorError):
            return NO_EXTRA_ROWS
        before_and_after = self.describe(before, decision.group, answer)
        if before_and_after is None:
            return NO_EXTRA_ROWS
        old, new = before_and_after
        change_row = replace(self.change.row(self.action, self.group_id, now.wall_ms), before=old, after=new)
        if self.undoes is None:
            return ExtraRows(changes=(change_row,))
        return ExtraRows(changes=(change_row,), undone=(UndoneChange(self.undoes, now.wall_ms, self.change.change_id),))
