"""Checks that changes take effect: of timeouts, of topics that are deleted, and of members before a take-over.

What is expected is read from the store, so that a node is found that has the newest versions and goes by older values.
"""

from collections.abc import Mapping

from coordinator_core.protocol.consumer_protocol import CONSUMER
from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.requests import CommitOffsets, Deadline, DeadlineKind, Heartbeat, Reevaluate, Request
from coordinator_core.protocol.settings import Now, TopicMetadata
from coordinator_core.protocol.states import COMPLETING, PREPARING, STABLE
from coordinator_core.runtime.metadata_cache import MetadataCache
from tests.system.simulation.loop import SimulatedLoop
from tests.system.simulation.stored import Stored
from tests.system.simulation.world import World


class Effects:
    """What decisions, and answers to heartbeats, owe to changes."""

    def __init__(self, world: World, stored: Stored) -> None:
        self._world = world
        self._stored = stored
        self._topics: dict[SimulatedLoop, Mapping[str, TopicMetadata]] = {}
        """Process → the topics that it knows."""
        self._deleted: dict[SimulatedLoop, tuple[frozenset[str], float]] = {}
        """Process → the topics that it knows no more since it last read them, and when that was."""

    def decided(
        self, loop: SimulatedLoop, group: Group, request: Request, now: Now, decision: Decision, cache: MetadataCache
    ) -> None:
        """Look at a decision that a process took with what it knows of settings and topics."""
        known = self._topics.setdefault(loop, cache.topic_metadata)
        if known is not cache.topic_metadata:
            self._topics[loop] = cache.topic_metadata
            self._deleted[loop] = frozenset(known.keys() - cache.topic_metadata.keys()), self._world.now_s
        is_newest = cache.versions[:2] == self._stored.store.versions()[:2]
        if isinstance(request, Reevaluate):
            if group.topics_version < cache.context(group.group_id).topics_version:  # else it was assigned since
                self._topics_deleted(group, decision, *self._deleted.get(loop, (frozenset(), 0.0)))
            if is_newest:
                self._phase_limited(group, now, decision)
        elif isinstance(request, Heartbeat | CommitOffsets) and is_newest:
            self._session_restarted(group, request.member_id, decision)

    def _session_restarted(self, group: Group, member_id: str, decision: Decision) -> None:
        """Check that a sign of life restarts the session with the timeout of today."""
        member = group.members.get(member_id)
        if member is None or member.is_new:
            return
        setting_ms = self._stored.store.timeout_ms(group.group_id, "session_timeout_ms")
        wanted_ms = member.session_timeout_ms if setting_ms is None else setting_ms
        for deadline, delay_ms in decision.deadlines:
            if deadline == Deadline(DeadlineKind.SESSION, member_id) and delay_ms != wanted_ms:
                detail = f"the session of {member_id} ends in {delay_ms} ms; its timeout is {wanted_ms} ms"
                self._world.fail("TimeoutsAreEffective", detail, group.group_id)

    def _phase_limited(self, group: Group, now: Now, decision: Decision) -> None:
        """Check that a phase under way has the limit of today, as of its start."""
        setting_ms = self._stored.store.timeout_ms(group.group_id, "rebalance_timeout_ms")
        is_joining = group.state is PREPARING and group.initial_delay_ms is None
        is_syncing = group.state in {COMPLETING, STABLE} and len(group.pending_syncs) > 0
        # A rebalance that the same request starts has a new phase, and a limit of its own.
        is_same_phase = decision.group.state is group.state
        if setting_ms == group.phase_timeout_ms or not is_same_phase or not (is_joining or is_syncing):
            return
        self._world.strike("timeout_changed_in_phase", f"to {setting_ms} ms", group.group_id)
        # The limit of a join phase that has pending members alone is 0.
        of_members_ms = max((member.rebalance_timeout_ms for member in group.members.values()), default=0)
        limit_ms = of_members_ms if setting_ms is None or not group.members else setting_ms
        ends_ms = group.phase_started_node_ms + limit_ms
        wanted_ms = max(0, ends_ms - now.node_ms)
        kind = DeadlineKind.JOIN if is_joining else DeadlineKind.SYNC
        found = [delay_ms for deadline, delay_ms in decision.deadlines if deadline.kind is kind]
        if found != [wanted_ms]:
            detail = f"the limit of the phase became {setting_ms} ms, {wanted_ms} ms from now; the timer has {found}"
            self._world.fail("TimeoutsAreEffective", detail, group.group_id)

    def _topics_deleted(self, group: Group, decision: Decision, deleted: frozenset[str], at_s: float) -> None:
        """Check that a group with an assignment rebalances when its node learns that one of its topics is deleted."""
        is_assigned = group.state in {STABLE, COMPLETING} and group.protocol_type == CONSUMER
        lost = deleted & (group.subscribed_topics or frozenset())
        if lost and is_assigned and at_s == self._world.now_s and decision.group.state is not PREPARING:
            self._world.fail("DeletedTopicsRebalance", f"{min(lost)} is deleted, and was assigned", group.group_id)

    def heartbeat_succeeded(self, node_name: str, shard_id: int, group_id: str) -> None:
        """Check that the owner of a group which has to rebalance since it was taken over does not say all is well."""
        past = self._stored.groups.get(group_id)
        life = None if past is None else past.life
        is_owner = self._stored.owners.get(shard_id, ("", 0))[0] == node_name
        if is_owner and life is not None and life.must_rebalance and life.state in {STABLE, COMPLETING}:
            detail = f"{node_name} answers a heartbeat of generation {life.generation}, which no longer fits"
            self._world.fail("PendingRebalancesResume", detail, group_id)
