"""Driver in process, under a virtual clock: the smallest runtime that decides, stores and replies in this order.

Storing is instant, so replies are sent at once. `reload` uses the rows that a real store would hold.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from coordinator_core.protocol.decide import decide
from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.errors import CoordinatorError, CoordinatorLoadInProgress, NotCoordinator
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.protocol.loading import respond_while_loading
from coordinator_core.protocol.offsets import retention_facts_of
from coordinator_core.protocol.records import AssignmentAccepted, CommittedOffset, OffsetRemoved, OffsetsCommitted
from coordinator_core.protocol.requests import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    ExpireDeadline,
    ExpireOffsets,
    ExpiryCandidate,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    OffsetToCommit,
    Request,
    Resume,
    RetireGroup,
    StoredOffset,
    SupportedProtocol,
    SyncGroup,
)
from coordinator_core.protocol.responses import (
    CommitOffsetsResponse,
    DeleteOffsetsResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
)
from coordinator_core.protocol.retention import OffsetFacts, due_at
from coordinator_core.protocol.settings import Context, GroupSettings, Now
from coordinator_core.protocol.states import STABLE
from coordinator_core.runtime.timers import GroupTimer, Timers
from coordinator_core.state_store.ledger import Ledger
from coordinator_core.state_store.projection import load_group, project
from coordinator_core.state_store.rows import GroupRow, MemberRow, StoredGroup
from tests.system.conformance import metadata
from tests.system.conformance.driver import Answer, Handle, Value

EPOCH_MS = 1_700_000_000_000
SETTINGS = {
    "group.min.session.timeout.ms": "group_min_session_timeout_ms",
    "group.max.session.timeout.ms": "group_max_session_timeout_ms",
    "group.initial.rebalance.delay.ms": "group_initial_rebalance_delay_ms",
    "group.max.size": "group_max_size",
    "new.member.join.timeout.ms": "group_new_member_join_timeout_ms",
    "group.sync.timeout.scope": "group_sync_timeout_scope",
    "offsets.retention.minutes": "offsets_retention_minutes",
    "offset.metadata.max.bytes": "offset_metadata_max_bytes",
}
COUNTED_AS = {"expired": "offset_expirations", "deleted": "offset_deletions"}
"""Reason of a deleted offset, and Kafka's counter of it; offsets deleted with their group are counted by neither."""
SWEEP = "offsets.retention.check.interval.ms"


@dataclass(slots=True)
class Stored:
    """The stored rows of one group."""

    group: GroupRow | None
    members: dict[str, MemberRow]


class Machine:
    """A coordinator of one node whose time is a number."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = dict(config)
        self._now_ms = 0
        self._serial = count(1)
        self._groups: dict[str, Group] = {}
        self._ledgers: dict[str, Ledger] = {}
        self._timers = Timers()
        self._waiting: dict[int, Callable[[Any, str], None]] = {}
        self._stored: dict[str, Stored] = {}
        self._offsets: dict[str, dict[tuple[str, int], StoredOffset]] = {}
        self._states: dict[str, list[str]] = {}
        self._completed_rebalances = 0
        self._counts = {"offset_commits": 0, "offset_expirations": 0, "offset_deletions": 0}
        self._is_loading = False
        self._next_sweep_ms: int = config[SWEEP]
        self._last_fired_ms: int | None = None
        self.slack_ms: int | None = None
        """The smallest distance so far between a step and a deadline; None while there was no deadline."""

    def settle(self, handle: Handle, *, is_due: bool) -> None:
        """Do nothing: every immediate answer is already there."""

    # -- decide, store, reply ----------------------------------------------------------------------------

    def _perform(self, group_id: str, request: Request) -> None:
        group = self._groups.get(group_id) or Group(group_id)
        decision = decide(group, request, self._now(), self._context())
        _check_fold(group, decision)
        self._groups[group_id] = decision.group
        self._store(group_id, decision)
        for deadline, delay_ms in decision.deadlines:
            armed = GroupTimer(group_id, deadline)
            if delay_ms is None:
                self._timers.stop(armed)
            else:
                self._timers.start(armed, self._now_ms + delay_ms)
        for reply in decision.replies:
            self._waiting.pop(reply.token)(reply.answer, reply.member_id)

    def _store(self, group_id: str, decision: Decision) -> None:
        self._completed_rebalances += sum(isinstance(r, AssignmentAccepted) for r in decision.records)
        ledger = self._ledgers.setdefault(group_id, Ledger(group_id, 0))
        write = project(decision.group, decision.records, ledger)
        if write is None:
            return
        self._states.setdefault(group_id, []).extend(t.to_state for t in write.transitions if t.from_state)
        offsets = self._offsets.setdefault(group_id, {})
        for committed in write.committed_offsets:
            offsets[committed.topic, committed.partition] = self._stored_offset(committed)
            self._counts["offset_commits"] += 1
        for removed in write.removed:
            offsets.pop((removed.offset.topic, removed.offset.partition), None)
            if removed.cause in COUNTED_AS:
                self._counts[COUNTED_AS[removed.cause]] += 1
        if write.is_group_deleted:
            for place in (self._stored, self._groups, self._ledgers, self._states):
                place.pop(group_id, None)
            return
        stored = self._stored.setdefault(group_id, Stored(None, {}))
        stored.group = write.group or stored.group
        for member_id, row in write.members.items():
            if row is None:
                stored.members.pop(member_id, None)
            else:
                stored.members[member_id] = row

    def _stored_offset(self, record: CommittedOffset) -> StoredOffset:
        return StoredOffset(
            record.topic,
            record.partition,
            record.offset,
            record.leader_epoch,
            record.metadata,
            record.log_end_offset,
            record.at_ms,
            record.expires_at_ms,
            next(self._serial),
        )

    def _ask(self, group_id: str, token: int, request: Request) -> Value:
        """Send a request that is answered at once."""
        if self._is_loading:
            try:
                return respond_while_loading(request, self._context().settings)
            except CoordinatorError as error:
                return error
        answers: list[Any] = []
        self._waiting[token] = lambda answer, _: answers.append(answer)
        self._perform(group_id, request)
        return answers[0]

    def _context(self) -> Context:
        values = {ours: self._config[kafkas] for kafkas, ours in SETTINGS.items()}
        return Context(GroupSettings(**values))

    def _now(self) -> Now:
        return Now(self._now_ms, EPOCH_MS + self._now_ms)

    # -- time ----------------------------------------------------------------------------------------------

    def advance(self, ms: int) -> None:
        """Advance the clock; every deadline fires at its own time, and so does the retention sweep."""
        end_ms = self._now_ms + ms
        while (next_ms := self._next_event_ms()) <= end_ms:
            self._now_ms = max(self._now_ms, next_ms)
            if self._next_sweep_ms <= self._now_ms:
                self._next_sweep_ms += self._config[SWEEP]
                self.cleanup()
            while (armed := self._timers.pop_due(self._now_ms)) is not None:
                self._last_fired_ms = self._now_ms
                self._perform(armed.group_id, ExpireDeadline(armed.deadline))
        self._now_ms = end_ms
        self._note_slack()

    def _note_slack(self) -> None:
        """Measure the distance between the end of a wait and the deadlines before and after it."""
        distances = [due_ms - self._now_ms for due_ms in self._timers._due_at_ms.values()]
        if self._last_fired_ms is not None:
            distances.append(self._now_ms - self._last_fired_ms)
        self._narrow_slack(distances)

    def _narrow_slack(self, distances: list[int]) -> None:
        if distances:
            self.slack_ms = min(distances if self.slack_ms is None else [*distances, self.slack_ms])

    def _next_event_ms(self) -> int:
        due_ms = self._timers.next_due_ms()
        return self._next_sweep_ms if due_ms is None else min(due_ms, self._next_sweep_ms)

    def cleanup(self) -> None:
        """Sweep once: due offsets expire, and groups without offsets are retired."""
        for group_id in list(self._groups):
            stored = tuple(self._offsets.get(group_id, {}).values())
            self._narrow_slack([abs(due_ms - self._now().wall_ms) for due_ms in self._dues_ms(group_id, stored)])
            candidates = tuple(ExpiryCandidate(o.topic, o.partition, o.commit_version) for o in stored)
            token = next(self._serial)
            self._ask(group_id, token, ExpireOffsets(token, candidates, stored, "sweep"))
            token = next(self._serial)
            self._ask(group_id, token, RetireGroup(token, bool(self._offsets.get(group_id))))

    def _dues_ms(self, group_id: str, stored: Iterable[StoredOffset]) -> Iterator[int]:
        """Yield when offsets expire if their group stays as it is."""
        retention_ms = self._context().settings.retention_ms
        for one in stored:
            facts = OffsetFacts(one.topic, one.committed_at_ms, one.expires_at_ms)
            due = due_at(retention_facts_of(self._groups[group_id]), facts, retention_ms)
            if due is not None:
                yield due[0]

    # -- members -------------------------------------------------------------------------------------------

    def join(self, group: str, fields: Answer, handle: Handle) -> None:
        """Send a join; the handle resolves when it is answered."""
        token = next(self._serial)
        stem = fields["instance_id"] or fields["client_id"]
        request = JoinGroup(
            token=token,
            member_id=fields["member_id"],
            group_instance_id=fields["instance_id"],
            client_id=fields["client_id"],
            client_host="/127.0.0.1",
            session_timeout_ms=fields["session_timeout_ms"],
            rebalance_timeout_ms=fields["rebalance_timeout_ms"],
            protocol_type=fields["protocol_type"],
            protocols=tuple(
                SupportedProtocol(p["name"], metadata.to_bytes(p["metadata"])) for p in fields["protocols"]
            ),
            new_member_id=f"{stem}-{token}",
            require_known_member_id=fields.get("require_known_member_id", True),
            supports_skip_assignment=fields.get("skip_assignment_supported", True),
        )
        self._send(group, token, request, lambda answer, member_id: handle.resolve(_joined(answer, member_id)))

    def sync(self, group: str, fields: Answer, handle: Handle) -> None:
        """Send a sync; the handle resolves when it is answered."""
        token = next(self._serial)
        request = SyncGroup(
            token,
            fields["generation"],
            fields["member_id"],
            fields["instance_id"],
            fields["protocol_type"],
            fields["protocol_name"],
            tuple((member_id, data.encode()) for member_id, data in fields["assignment"].items()),
        )
        self._send(group, token, request, lambda answer, _: handle.resolve(_synced(answer)))

    def _send(self, group: str, token: int, request: Request, resolve: Callable[[Any, str], None]) -> None:
        if self._is_loading:
            resolve(self._ask(group, token, request), "")
            return
        self._waiting[token] = resolve
        self._perform(group, request)

    def heartbeat(self, group: str, fields: Answer) -> Answer:
        """Send a heartbeat."""
        token = next(self._serial)
        request = Heartbeat(token, fields["generation"], fields["member_id"], fields["instance_id"])
        return {"error": _error(self._ask(group, token, request))}

    def leave(self, group: str, members: list[Answer]) -> Answer:
        """Send a leave."""
        token = next(self._serial)
        leaving_members = tuple(LeavingMember(member["member_id"], member["instance_id"]) for member in members)
        answer = self._ask(group, token, LeaveGroup(token, leaving_members))
        results = [_error(result.error) for result in answer.members] if isinstance(answer, LeaveGroupResponse) else []
        return {"error": _error(answer), "members": results}

    def commit(self, group: str, fields: Answer) -> Answer:
        """Commit offsets."""
        token = next(self._serial)
        offsets = tuple(
            OffsetToCommit(o["topic"], o["partition"], o["offset"], o.get("leader_epoch", -1), o.get("metadata", ""))
            for o in fields["offsets"]
        )
        who = (fields["generation"], fields["member_id"], fields["instance_id"])
        request = CommitOffsets(token, *who, offsets, fields.get("retention_time_ms", -1))
        answer = self._ask(group, token, request)
        if not isinstance(answer, CommitOffsetsResponse):
            return {"error": _error(answer)}
        rows = [
            {"topic": one.topic, "partition": one.partition, "error": _error(answer.errors.get(place))}
            for place, one in enumerate(offsets)
        ]
        errors = {row["error"] for row in rows}
        return {"error": errors.pop() if len(errors) == 1 else "MIXED" if errors else "NONE", "partitions": rows}

    def fetch(self, group: str, partitions: list[Answer] | None) -> Answer:
        """Read committed offsets; it never depends on the group."""
        offsets = self._offsets.get(group, {})
        wanted = offsets.keys() if partitions is None else [(p["topic"], p["partition"]) for p in partitions]
        rows = []
        for topic, partition in wanted:
            found = offsets.get((topic, partition))
            rows.append(
                {
                    "topic": topic,
                    "partition": partition,
                    "offset": -1 if found is None else found.offset,
                    "leader_epoch": -1 if found is None else found.leader_epoch,
                    "metadata": "" if found is None else found.metadata,
                    "error": "NONE",
                }
            )
        return {"error": "NONE", "offsets": rows}

    # -- administration --------------------------------------------------------------------------------------

    def offset_delete(self, group: str, partitions: list[Answer]) -> Answer:
        """Delete offsets."""
        token = next(self._serial)
        wanted = tuple((p["topic"], p["partition"]) for p in partitions)
        stored = tuple(self._offsets.get(group, {}).values())
        answer = self._ask(group, token, DeleteOffsets(token, wanted, stored, "delete"))
        results = answer.offsets if isinstance(answer, DeleteOffsetsResponse) else ()
        rows = [{"topic": t, "partition": p, "error": _error(e)} for t, p, e in results]
        return {"error": _error(answer), "partitions": rows}

    def delete_group(self, group: str) -> Answer:
        """Delete a group with its offsets."""
        token = next(self._serial)
        stored = tuple(self._offsets.get(group, {}).values())
        return {"error": _error(self._ask(group, token, DeleteGroup(token, stored, "delete")))}

    def delete_topic_partitions(self, partitions: list[Answer]) -> None:
        """Remove the offsets of deleted partitions from every group."""
        gone = {(p["topic"], p["partition"]) for p in partitions}
        for offsets in self._offsets.values():
            for key in gone & offsets.keys():
                del offsets[key]

    def describe(self, group: str) -> Answer:
        """Describe a group as Kafka does: metadata and assignments only while it is Stable."""
        if self._is_loading:
            return {"error": CoordinatorLoadInProgress.code}
        known = self._groups.get(group) or Group(group)
        is_stable = known.state is STABLE
        members = [
            {
                "member_id": member.member_id,
                "instance_id": member.group_instance_id,
                "metadata": member.metadata_for(known.protocol_name) if is_stable else b"",
                "assignment": member.assignment.decode() if is_stable else "",
            }
            for member in known.members.values()
        ]
        return {
            "error": "NONE",
            "state": known.state,
            "protocol_type": known.protocol_type,
            "protocol": known.protocol_name if is_stable else "",
            "members": members,
        }

    def list_groups(self, states: list[str], types: list[str]) -> Answer:
        """List groups, narrowed by state (in any case) and type (all are classic)."""
        if self._is_loading:
            return {"error": CoordinatorLoadInProgress.code}
        wanted = {state.lower() for state in states}
        is_classic = not types or "classic" in {name.lower() for name in types}
        rows = [
            {"group_id": group.group_id, "state": group.state, "protocol_type": group.protocol_type or ""}
            for group in self._live()
            if is_classic and (not wanted or group.state.lower() in wanted)
        ]
        return {"error": "NONE", "groups": rows}

    def _live(self) -> Iterable[Group]:
        return [group for group in self._groups.values() if group.exists]

    def find_coordinator(self, key: str, partitions: int) -> Answer:
        """Return a group's partition."""
        return {"partition": shard_of(key, partitions)}

    # -- losing the node ---------------------------------------------------------------------------------------

    def set_loading(self, on: bool) -> None:
        """Set whether the coordinator is loading."""
        self._is_loading = on

    def reload(self, config: dict[str, Any]) -> None:
        """Drop everything but the stored rows, and load them."""
        self._config |= config
        waiting, self._waiting = self._waiting, {}
        for resolve in waiting.values():
            resolve(NotCoordinator("unloaded"), "")
        self._groups, self._ledgers, self._timers = {}, {}, Timers()
        for group_id, stored in self._stored.items():
            assert stored.group is not None
            members = tuple(sorted(stored.members.values(), key=lambda row: row.join_order))
            group, ledger, _ = load_group(StoredGroup(stored.group, members), self._now().wall_ms)
            self._groups[group_id], self._ledgers[group_id] = group, ledger
        for group_id in list(self._groups):
            self._perform(group_id, Resume())

    # -- inspection ----------------------------------------------------------------------------------------------

    def state(self, group: str) -> Answer:
        """Return the group's internal state."""
        known = self._groups.get(group) or Group(group)
        return {
            "exists": known.exists,
            "state": known.state,
            "generation": known.generation,
            "members": [{"member_id": member_id} for member_id in known.members],
            "pending_members": len(known.pending_member_ids),
            "leader": known.leader_id,
            "static_ids": sorted(known.static_members),
            "protocol_name": known.protocol_name,
        }

    def transitions(self, group: str) -> list[str]:
        """Return every state the group entered since it was created."""
        return self._states.get(group, [])

    def metrics(self) -> Answer:
        """Return the counts since the start."""
        return {"completed_rebalances": self._completed_rebalances} | self._counts


def _check_fold(before: Group, decision: Decision) -> None:
    """Check that the group is the fold of its records, in every step of every scenario."""
    of_group = [r for r in decision.records if not isinstance(r, OffsetsCommitted | OffsetRemoved)]
    folded = before.fold(of_group)
    for field in Group.__slots__:
        assert getattr(folded, field) == getattr(decision.group, field), f"{field} is not the fold of the records"


def _joined(answer: Value, member_id: str) -> Answer:
    if not isinstance(answer, JoinGroupResponse):
        return {
            "error": _error(answer),
            "generation": -1,
            "leader": "",
            "member_id": member_id,
            "members": [],
            "protocol_type": None,
            "protocol_name": None,
            "skip_assignment": False,
        }
    return {
        "error": "NONE",
        "generation": answer.generation,
        "leader": answer.leader_id,
        "member_id": answer.member_id,
        "members": [
            {"member_id": m.member_id, "instance_id": m.group_instance_id, "metadata": metadata.from_bytes(m.metadata)}
            for m in answer.members
        ],
        "protocol_type": answer.protocol_type,
        "protocol_name": answer.protocol_name,
        "skip_assignment": answer.skip_assignment,
    }


def _synced(answer: Value) -> Answer:
    if not isinstance(answer, SyncGroupResponse):
        return {"error": _error(answer), "assignment": "", "protocol_type": None, "protocol_name": None}
    return {
        "error": "NONE",
        "assignment": answer.assignment.decode(),
        "protocol_type": answer.protocol_type,
        "protocol_name": answer.protocol_name,
    }


def _error(answer: Value) -> str:
    if isinstance(answer, CoordinatorError):
        return answer.code
    assert answer is None or not isinstance(answer, HeartbeatResponse) or answer.heartbeat_interval_ms > 0
    return "NONE"
