"""A decision is a value: what will have happened, who is told what, and what to wait for next.

The driver owes it four things, in this order (ARCHITECTURE.md "Where a request goes"):

1. take `group` in place of the old one, at once;
2. stop the timers named in `deadlines`, at once;
3. store every record whose ``is_stored`` is true, all or none;
4. only then start the timers (their delays count from now) and let the replies go.

If the store refuses, the group is loaded again and nobody is told anything but a retriable error.
"""

from typing import NamedTuple, Self

from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import GroupRecord, OffsetRecord, Record
from coordinator_core.protocol.replies import Answer, Reply
from coordinator_core.protocol.requests import Deadline, DeadlineKind, Token
from coordinator_core.protocol.settings import Context, Now


class Decision(NamedTuple):
    """What follows from one request."""

    group: Group
    """The group as it is from now on; the very same object where nothing changed."""
    records: tuple[Record, ...] = ()
    replies: tuple[Reply, ...] = ()
    deadlines: tuple[tuple[Deadline, int | None], ...] = ()
    """Timer → delay in milliseconds from when the decision is stored; None stops it. One entry a timer."""

    @classmethod
    def refusal(cls, group: Group, token: Token, error: CoordinatorError, member_id: str = "") -> Self:
        """Return the decision that changes nothing and says why."""
        return cls(group, replies=(Reply(token, error, member_id),))


class Draft:
    """A decision in the making.

    Every record emitted is also applied to a copy of the group, made at the first one, so each step sees what
    the steps before it did and the original stays as it was whatever happens.
    """

    __slots__ = ("_deadlines", "_original", "_records", "_replies", "context", "group", "now")

    def __init__(self, group: Group, now: Now, context: Context) -> None:
        self.group = group
        self.now = now
        self.context = context
        self._original = group
        self._records: list[Record] = []
        self._replies: list[Reply] = []
        self._deadlines: dict[Deadline, int | None] = {}

    def emit(self, record: GroupRecord) -> None:
        """Let something have happened to the group."""
        if self.group is self._original:
            self.group = self._original.copy()
        self._records.append(record)
        self.group.apply(record)

    def emit_offset(self, record: OffsetRecord) -> None:
        """Let something have happened to offsets; the group holds none, so it stays as it is."""
        self._records.append(record)

    def reply(self, token: Token, answer: Answer | CoordinatorError, member_id: str = "") -> None:
        """Tell whoever stands behind `token`; an error goes with the decision, which stands all the same."""
        self._replies.append(Reply(token, answer, member_id))

    def start(self, kind: DeadlineKind, delay_ms: int, subject: str = "") -> None:
        """Start a timer, or start it again."""
        self._deadlines[Deadline(kind, subject)] = delay_ms

    def stop(self, kind: DeadlineKind, subject: str = "") -> None:
        """Stop a timer, whether or not it runs."""
        self._deadlines[Deadline(kind, subject)] = None

    def decision(self) -> Decision:
        """Return what has come together."""
        return Decision(self.group, tuple(self._records), tuple(self._replies), tuple(self._deadlines.items()))
