"""The outcome of a request: the new group, records, replies, and timers to start or stop.

The driver carries a decision out in this order (ARCHITECTURE.md "The path of a request"):

1. replace the group by `group`, at once;
2. stop the timers named in `deadlines`, at once;
3. store every record whose ``is_stored`` is true, all or none;
4. only then start the timers (their delays count from now) and send the replies.

If the store fails, the driver reloads the group and answers every caller with a retriable error.
"""

from typing import Self

from msgspec import Struct

from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import GroupRecord, OffsetRecord, Record
from coordinator_core.protocol.requests import Deadline, DeadlineKind, Token
from coordinator_core.protocol.responses import Answer, Reply
from coordinator_core.protocol.settings import Context, Now


class Decision(Struct, frozen=True):
    """The consequences of one request."""

    group: Group
    """The group after the request; the same object if nothing changed."""
    records: tuple[Record, ...] = ()
    replies: tuple[Reply, ...] = ()
    deadlines: tuple[tuple[Deadline, int | None], ...] = ()
    """Timer → delay in milliseconds from when the decision is stored; None stops it. One entry a timer."""

    @classmethod
    def error_response(cls, group: Group, token: Token, error: CoordinatorError, member_id: str = "") -> Self:
        """Return a decision that changes nothing and replies with an error."""
        return cls(group, replies=(Reply(token, error, member_id),))


class Draft:
    """A decision under construction.

    Every emitted record is also applied to a copy of the group, made at the first one. So each step sees the effects of
    the steps before it, and the original never changes.
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
        """Record a change of the group, and apply it to the copy."""
        if self.group is self._original:
            self.group = self._original.copy()
        self._records.append(record)
        self.group.apply(record)

    def emit_offset(self, record: OffsetRecord) -> None:
        """Record a change of offsets; the group holds no offsets, so it stays as it is."""
        self._records.append(record)

    def reply(self, token: Token, answer: Answer | CoordinatorError, member_id: str = "") -> None:
        """Reply to the request with this token; an error here does not discard the decision."""
        self._replies.append(Reply(token, answer, member_id))

    def start(self, kind: DeadlineKind, delay_ms: int, subject: str = "") -> None:
        """Start or restart a timer."""
        self._deadlines[Deadline(kind, subject)] = delay_ms

    def stop(self, kind: DeadlineKind, subject: str = "") -> None:
        """Stop a timer, whether or not it runs."""
        self._deadlines[Deadline(kind, subject)] = None

    def decision(self) -> Decision:
        """Return the finished decision."""
        return Decision(self.group, tuple(self._records), tuple(self._replies), tuple(self._deadlines.items()))
