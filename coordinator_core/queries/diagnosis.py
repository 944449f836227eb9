"""Diagnosis of a group's last hour: which clients cause rebalances, why, and which setting would help.

The last finding is about the present: an assignment that is uneven. The others are computed from history, so any node
answers, and clients are named after their members have left. A client is an instance id, or for dynamic members a
client id and a host: a restarted process has a new member id. The console and the command line show the texts as they
are.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from typing import Final, Literal, NamedTuple

from coordinator_core.analytics.eviction_cause import EvictionCause
from coordinator_core.protocol.records import RemovalReason, Trigger
from coordinator_core.queries.member_sessions import (
    RECONNECT_WINDOW_MS,
    ListedMemberSession,
    MemberSessionFilter,
    read_member_sessions,
)
from coordinator_core.queries.rebalances import RebalanceWait, WaitQuery, read_rebalances, read_waits
from coordinator_core.queries.settings import SettingOrigin, read_setting_origins
from coordinator_core.queries.timeout_advice import REBALANCE, SESSION
from coordinator_core.queries.uneven_assignment import UnevenAssignment, read_uneven_assignment
from coordinator_core.runtime.views import EffectiveSetting
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.rows import Rebalance

WINDOW_MS: Final = 3_600_000
"""The window of a diagnosis."""
SESSIONS_MAX: Final = 1_000
"""Sessions that a diagnosis reads, newest first."""
REBALANCES_MAX: Final = 500
"""Rebalances that a diagnosis reads, newest first."""
WAITS_MAX: Final = 1_000
"""Waits that a diagnosis reads, longest first."""
WAIT_MIN_MS: Final = 5_000
"""Shorter waits are normal: a member learns of a rebalance with its next heartbeat, up to three seconds later."""
SLOW_MIN: Final = 2
"""Rebalances that waited for one client before it counts as slow."""
SLOW_SHARE: Final = 0.5
"""The share of rebalances with a wait that must have waited for one client before it counts as slow."""
RESTARTS_MIN: Final = 3
"""Times that a client left and rejoined before it counts as restarting."""
HEADROOM: Final = 1.25
"""The ratio of a suggested timeout to the time that was needed."""
STEPS_S: Final = (6, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1_200, 1_800)
"""Values that suggested timeouts are rounded up to; longer ones are multiples of the last."""
SESSION_MAX: Final = "group_max_session_timeout_ms"
"""The setting that bounds a suggested session timeout."""
SAME_PROCESS: Final = ("UNKNOWN_MEMBER_ID", "UnknownMemberId", "ILLEGAL_GENERATION", "IllegalGeneration")
"""Parts of a join's reason which show that the client was a member before."""
POLL_TIMEOUT: Final = ("poll timeout has expired", "max_poll_interval_ms")
"""Parts of the reason of a leave, by Kafka's Java client and by Muster's agent, of a member that polled too late."""
UUID_CHARS: Final = 36
"""A member id is an instance id or client id, a dash, and a UUID of so many characters."""
RANGE: Final = "range"

FindingKind = Literal[
    "crashed", "silent", "paused", "late_join", "late_sync", "removed", "restarted", "poll_timeout", "slow", "uneven"
]
ENDS: Final = (*(str(each) for each in RemovalReason),)
"""End reasons of the sessions that a diagnosis reads."""


class Client(NamedTuple):
    """A client across its member ids: an instance id alone, or a client id and a host."""

    group_instance_id: str | None
    client_id: str | None
    client_host: str | None

    @classmethod
    def of(cls, instance_id: str | None, client_id: str, client_host: str) -> "Client":
        """Return the client of a member."""
        return cls(None, client_id, client_host) if instance_id is None else cls(instance_id, None, None)

    def __str__(self) -> str:
        host = f" at {self.client_host}" if self.client_host else ""
        return f"{self.group_instance_id or self.client_id}{host}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about one client, in a few sentences; `text` begins with the client's name."""

    kind: FindingKind
    client: Client
    text: str
    setting: str | None = None
    """The setting of the group that would help; None: none would."""
    value_ms: int | None = None
    """The suggested value; None: an operator has to decide."""


@dataclass(frozen=True, slots=True)
class DiagnosisEvidence:
    """The rows that a diagnosis is based on; sessions and rebalances newest first, waits longest first."""

    sessions: Sequence[ListedMemberSession]
    rebalances: Sequence[Rebalance]
    waits: Sequence[RebalanceWait]
    settings: Mapping[str, EffectiveSetting]
    origins: Mapping[str, SettingOrigin]
    now_ms: int
    """When the rows were read, in wall time."""


def diagnose(
    transaction: Transaction, group_id: str, settings: Mapping[str, EffectiveSetting], now_ms: int
) -> list[Finding]:
    """Return the findings of the last hour, none of a former group of that name, and an uneven assignment now.

    Args:
        transaction: the transaction.
        group_id: the group.
        settings: its effective settings.
        now_ms: the wall time.

    Raises:
        GroupIdNotFound: there never was such a group.
    """
    from_ms = now_ms - WINDOW_MS
    ended = MemberSessionFilter(group_id, from_ms, end_reasons=ENDS, present_only=True)
    sessions = read_member_sessions(transaction, ended, None, SESSIONS_MAX)
    created_at_ms = {each.row.group_created_at_ms for each in sessions}
    evidence = DiagnosisEvidence(
        sessions=sessions,
        rebalances=[
            each
            for each in read_rebalances(transaction, group_id, None, REBALANCES_MAX)
            if (each.completed_at_ms is None or each.completed_at_ms >= from_ms)
            and each.group_created_at_ms in created_at_ms
        ],
        waits=read_waits(transaction, WaitQuery(group_id, from_ms, WAIT_MIN_MS), WAITS_MAX),
        settings=settings,
        origins=read_setting_origins(transaction, group_id),
        now_ms=now_ms,
    )
    return [*findings(evidence), *_uneven(read_uneven_assignment(transaction, group_id))]


# -- the rules --------------------------------------------------------------------------------------------


def findings(evidence: DiagnosisEvidence) -> Iterator[Finding]:
    """Return the findings: for each client evictions, removals and restarts, then slow clients."""
    sessions: dict[Client, list[ListedMemberSession]] = defaultdict(list)
    for each in evidence.sessions:
        sessions[Client.of(each.row.group_instance_id, each.row.client_id, each.row.client_host)].append(each)
    waits: dict[Client, list[RebalanceWait]] = defaultdict(list)
    for wait in evidence.waits:
        waits[Client.of(wait.group_instance_id, wait.client_id, wait.client_host)].append(wait)
    by_number = sorted(sessions, key=lambda client: -len(sessions[client]))
    named: set[Client] = set()
    for client in by_number:
        of_client = _ClientSessions(client, sessions[client], waits.get(client, ()), evidence)
        for finding in of_client.findings():
            named.add(client)
            yield finding
    yield from _slow(waits, named)


class _ClientSessions:
    """The ended sessions of one client, and the waits for it."""

    def __init__(
        self,
        client: Client,
        sessions: Sequence[ListedMemberSession],
        waits: Sequence[RebalanceWait],
        evidence: DiagnosisEvidence,
    ) -> None:
        self.client = client
        self.sessions = sessions
        self.waits = waits
        self.evidence = evidence

    def findings(self) -> Iterator[Finding]:
        evicted = [each for each in self.sessions if each.cause is not None]
        crashed = [each for each in evicted if each.successor_at_ms is not None]
        alive = [each for each in evicted if each.successor_at_ms is None]
        if crashed:
            yield self._crashed(crashed)
        silent = [each for each in alive if each.cause is EvictionCause.SILENT]
        if back := [each for each in silent if each.reconnected_at_ms is not None and not self._is_cured(each)]:
            yield self._paused(back)
        if lost := [each for each in silent if each.reconnected_at_ms is None]:
            yield self._not_back(lost)
        for cause in (EvictionCause.LATE_JOIN, EvictionCause.LATE_SYNC):
            if late := [each for each in alive if each.cause is cause]:
                yield self._late(cause, late)
        if removed := [each for each in self.sessions if each.row.end_reason == RemovalReason.ADMIN]:
            yield self._removed(removed)
        left = [
            each
            for each in self.sessions
            if each.row.end_reason == RemovalReason.LEFT and each.reconnected_at_ms is not None
        ]
        if len(left) >= RESTARTS_MIN:
            yield self._restarted(left)

    def _is_cured(self, session: ListedMemberSession) -> bool:
        """Return whether the effective session timeout is now longer than the gap was."""
        value = self.evidence.settings[SESSION].value
        return isinstance(value, int) and value > session.row.session_timeout_ms + _away_ms(session)

    def _crashed(self, found: Sequence[ListedMemberSession]) -> Finding:
        text = (
            f"{self.client} died {_times(found)}, the last time before {_when(found)}: a new process joined before the"
            f" silent member was evicted.{self._waited()} Its own log says why; no timeout cures that."
        )
        return Finding("crashed", self.client, text)

    def _paused(self, found: Sequence[ListedMemberSession]) -> Finding:
        away_ms = max(_away_ms(each) for each in found)
        timeout_ms = max(each.row.session_timeout_ms for each in found)
        text = (
            f"{self.client} was evicted {_times(found)} because it sent no heartbeat for {_span(timeout_ms)}, and was"
            f" back within {_span(away_ms)}; the last time at {_when(found)}.{self._waited()}"
        )
        reasons = self._join_reasons()
        is_same = any(word in reason for reason in reasons for word in SAME_PROCESS)
        if reasons and not is_same:
            return Finding(
                "crashed",
                self.client,
                f"{text} Each time it was a new process: it dies and is started again. Its own log says why; no timeout"
                " cures that.",
            )
        explanation = "It was the same process: it pauses." if is_same else "It paused, or was started again at once."
        most_ms = self.evidence.settings[SESSION_MAX].value
        assert isinstance(most_ms, int), "its rule is that of a whole number"
        if most_ms <= timeout_ms + away_ms:
            text = f"{text} {explanation} No session timeout can be set that would have kept it: {SESSION_MAX} is"
            return Finding("paused", self.client, f"{text} {_span(most_ms)}.")
        value_ms = min(most_ms, _suggested_ms(timeout_ms + away_ms))
        text = f"{text} {explanation} A session timeout of {_span(value_ms)} would have kept it."
        return Finding("paused", self.client, text, SESSION, value_ms)

    def _join_reasons(self) -> list[str]:
        """Return the reasons that the client gave when it joined as a new member; many clients give none."""
        name = self.client.group_instance_id or self.client.client_id
        return [
            each.client_reason
            for each in self.evidence.rebalances
            if each.trigger == Trigger.MEMBER_JOINED
            and (each.trigger_member_id or "")[:-UUID_CHARS] == f"{name}-"
            and each.client_reason
        ]

    def _not_back(self, found: Sequence[ListedMemberSession]) -> Finding:
        silent_ms = max(each.silent_ms for each in found)
        is_recent = self.evidence.now_ms - found[0].row.ended_at_ms < RECONNECT_WINDOW_MS
        absent = "is not back yet" if is_recent else "was not back within a minute"
        text = (
            f"{self.client} was evicted {_times(found)} after {_span(silent_ms)} without a heartbeat, the last time at"
            f" {_when(found)}, and {absent}: its process is dead, hangs or is cut off.{self._waited()} Its own log says"
            " why."
        )
        return Finding("silent", self.client, text)

    def _late(self, cause: EvictionCause, found: Sequence[ListedMemberSession]) -> Finding:
        verb = "join" if cause is EvictionCause.LATE_JOIN else "sync"
        silent_ms = max(each.silent_ms for each in found)
        late_ms = max((each.late_by_ms for each in found if each.late_by_ms is not None), default=None)
        evicted = {each.row.member_id for each in found}
        timeout_ms = max((wait.waited_for_ms for wait in self.waits if wait.member_id in evicted), default=None)
        within = "" if timeout_ms is None else f" of {_span(timeout_ms)}"
        late = "" if late_ms is None else f"; it joined {_span(late_ms)} too late"
        text = (
            f"{self.client} was evicted {_times(found)} although it was alive, the last time at {_when(found)}: its"
            f" heartbeats went on (the last one at most {_span(silent_ms)} before), and it did not {verb} within the"
            f" rebalance timeout{within}{late}. Either that timeout is too short for it, or it processes for too long"
            f" between two polls. {self._timeout_origin(found[0].row.ended_at_ms)}"
        )
        needed_ms = None if timeout_ms is None or late_ms is None else timeout_ms + late_ms
        present_ms = self.evidence.settings[REBALANCE].value
        is_cured = isinstance(present_ms, int) and needed_ms is not None and present_ms > needed_ms
        value_ms = None if needed_ms is None or is_cured else _suggested_ms(needed_ms)
        kind: FindingKind = "late_join" if cause is EvictionCause.LATE_JOIN else "late_sync"
        return Finding(kind, self.client, text, REBALANCE, value_ms)

    def _timeout_origin(self, evicted_at_ms: int) -> str:
        """Return a sentence with the rebalance timeout and its source."""
        setting = self.evidence.settings[REBALANCE]
        if not isinstance(setting.value, int):
            return (
                "No rebalance_timeout_ms is set: the longest that a member asks for holds, which is its"
                " max.poll.interval.ms."
            )
        value = f"rebalance_timeout_ms is {_span(setting.value)}"
        origin = self.evidence.origins.get(REBALANCE)
        if setting.source not in {"group", "cluster"} or origin is None:
            return f"{value}, from the {setting.source} of the node."
        since = " since" if origin.set_at_ms > evicted_at_ms else ""
        at = f"{_instant(origin.set_at_ms):%Y-%m-%d %H:%M:%S} UTC"
        return f"{value}, set{since} for this {setting.source} by {origin.set_by} at {at}."

    def _removed(self, found: Sequence[ListedMemberSession]) -> Finding:
        text = (
            f"{self.client} was removed {_times(found)} by an operator, or by a lower group_max_size, the last time at"
            f" {_when(found)}.{self._waited()}"
        )
        return Finding("removed", self.client, text)

    def _restarted(self, found: Sequence[ListedMemberSession]) -> Finding:
        left = f"{self.client} left {_times(found)} and was back within a minute"
        if late := self._leaves_after_poll_timeout(found):
            text = (
                f"{left}; {_times(late)} it said that its poll timeout had expired: it processes for longer than its"
                " max.poll.interval.ms between two polls. Reduce that work (max.poll.records), or raise"
                " max.poll.interval.ms at the client."
            )
            return Finding("poll_timeout", self.client, text)
        text = (
            f"{left}: it is being deployed, or a supervisor starts it again. As a static member (group_instance_id) it"
            " could do so without a rebalance."
        )
        return Finding("restarted", self.client, text)

    def _leaves_after_poll_timeout(self, found: Sequence[ListedMemberSession]) -> list[Rebalance]:
        """Return the rebalances that began with such a leave; many clients give no reason."""
        member_ids = {each.row.member_id for each in found}
        return [
            each
            for each in self.evidence.rebalances
            if each.trigger == Trigger.MEMBER_LEFT
            and each.trigger_member_id in member_ids
            and any(words in (each.client_reason or "") for words in POLL_TIMEOUT)
        ]

    def _waited(self) -> str:
        if not self.waits:
            return ""
        together_ms = sum(wait.waited_for_ms for wait in self.waits)
        return f" Rebalances waited {_span(together_ms)} for it."


def _slow(waits: Mapping[Client, Sequence[RebalanceWait]], named: Collection[Client]) -> Iterator[Finding]:
    """Return a finding for each client that most of the slow rebalances waited for, except those named already."""
    rebalances = {wait.rebalance_id for found in waits.values() for wait in found}
    for client, found in waits.items():
        slow = {wait.rebalance_id for wait in found}
        if client in named or len(slow) < SLOW_MIN or len(slow) < SLOW_SHARE * len(rebalances):
            continue
        longest_ms, together_ms = found[0].waited_for_ms, sum(wait.waited_for_ms for wait in found)
        text = (
            f"{client} is slow: {len(slow)} of {len(rebalances)} slow rebalances waited for it, up to"
            f" {_span(longest_ms)} and {_span(together_ms)} together. It is busy and joins late: reduce its work"
            " between two polls. A shorter rebalance timeout would evict it although it is alive."
        )
        yield Finding("slow", client, text)


def _uneven(found: UnevenAssignment | None) -> Iterator[Finding]:
    if found is None:
        return
    client = Client.of(found.group_instance_id, found.client_id, found.client_host)
    idle = {0: "", 1: ", and 1 member owns none"}.get(
        found.idle_members, f", and {found.idle_members} members own none"
    )
    assignor = (
        "range assigns each topic by itself: roundrobin, sticky and cooperative-sticky spread partitions of all topics."
        if found.protocol_name == RANGE
        else f"The assignment is that of the assignor {found.protocol_name}."
    )
    text = (
        f"{client} owns {found.owned} of {found.partitions} partitions{idle}: the assignment is uneven. Another one"
        f" gives no member more than {found.best_max}. {assignor}"
    )
    yield Finding("uneven", client, text)


# -- texts ------------------------------------------------------------------------------------------------


def _away_ms(session: ListedMemberSession) -> int:
    return 0 if session.reconnected_at_ms is None else session.reconnected_at_ms - session.row.ended_at_ms


def _suggested_ms(needed_ms: int) -> int:
    wanted_s = HEADROOM * needed_ms / 1_000
    return 1_000 * next((step for step in STEPS_S if step >= wanted_s), STEPS_S[-1] * ceil(wanted_s / STEPS_S[-1]))


def _times(found: Sequence[object]) -> str:
    return "once" if len(found) == 1 else f"{len(found)} times"


def _when(found: Sequence[ListedMemberSession]) -> str:
    """Return the end of the newest session, as text."""
    return f"{_instant(found[0].row.ended_at_ms):%H:%M:%S} UTC"


def _instant(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1_000, UTC)


def _span(length_ms: int) -> str:
    """Return a duration as text: milliseconds below a second, then seconds, then minutes."""
    if length_ms < 1_000:
        return f"{length_ms} ms"
    if length_ms < 60_000:
        return f"{length_ms / 1_000:.3g} s"
    return f"{length_ms // 60_000} min {length_ms % 60_000 // 1_000} s".removesuffix(" 0 s")
