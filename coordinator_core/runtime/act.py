"""Whoever changes something says who they are and why; it is kept in `changes`, in the transaction of what it changes.

Rules:

* Every act that is answered leaves its row, whether or not there was anything to change; a refused one leaves none,
  and one whose every partition was refused is a refused one.
* The row's key is the act's own id, which a caller may choose. An act whose row is there was done: it is answered as
  it was then, by any node, and not done again. The same id for anything else is refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.errors import CoordinatorError, InvalidRequest, RequestError
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.replies import Answer
from coordinator_core.protocol.requests import Token
from coordinator_core.protocol.settings import Now
from coordinator_core.store.actions import Action
from coordinator_core.store.rows import NOTHING_BESIDE, Beside, ChangeRow, Json, RecordedChange, Undone


class KeyTaken(InvalidRequest):
    """The change id belongs to another act."""

    def __init__(self) -> None:
        super().__init__("the Idempotency-Key belongs to another change")


class ChangeUnknown(RequestError):
    """There is no such change."""

    code, kafka_code = "RESOURCE_NOT_FOUND", 91


class CannotUndo(InvalidRequest):
    """The change cannot be taken back, or not any more."""


@dataclass(frozen=True, slots=True)
class Act:
    """One operator's or DAG's act."""

    actor: str
    reason: str | None
    change_id: str
    """A UUID; the caller's idempotency key, or a fresh one."""

    def change(self, action: Action, group_id: str | None, at_ms: int) -> ChangeRow:
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


def check_same(found: RecordedChange, action: Action, group_id: str | None, what: Mapping[str, Json]) -> ChangeRow:
    """Return the change that was made under an act's id, if it is this very act.

    Args:
        found: the change.
        action: what is asked for now.
        group_id: of which group.
        what: of which thing; the change's `after` says the same.

    Raises:
        KeyTaken: it is another one.
    """
    change = found.change
    is_same = (change.action, change.group_id) == (action, group_id)
    if not is_same or any(change.after.get(key) != value for key, value in what.items()):
        raise KeyTaken
    return change


BeforeAndAfter = Callable[[Group, Group, Answer], tuple[Json, Json] | None]
"""Says what a change keeps: from the group before, the group after, and the answer. None: nothing was done."""


@dataclass(frozen=True, slots=True)
class Noting:
    """Puts an act's row beside the decision that carries it out."""

    act: Act
    action: Action
    group_id: str
    token: Token
    tell: BeforeAndAfter
    undoes: str | None = None
    """The change that the act takes back."""

    def beside(self, before: Group, decision: Decision, now: Now) -> Beside:
        """Return the row, or nothing where the act is refused."""
        (answer,) = (answer for token, answer, _ in decision.replies if token == self.token)
        if isinstance(answer, CoordinatorError):
            return NOTHING_BESIDE
        told = self.tell(before, decision.group, answer)
        if told is None:
            return NOTHING_BESIDE
        was, is_now = told
        change = replace(self.act.change(self.action, self.group_id, now.wall_ms), before=was, after=is_now)
        if self.undoes is None:
            return Beside(changes=(change,))
        return Beside(changes=(change,), undone=(Undone(self.undoes, now.wall_ms, self.act.change_id),))
