"""The simulation can fail: broken code is caught, within a few seeds, by the invariant that names what is broken."""

from typing import NamedTuple

import pytest

from coordinator_core.protocol import commit, decide, expiry, heartbeat, join, offsets, reset, sync
from coordinator_core.runtime.act import Noting
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.maintenance import Maintenance
from coordinator_core.runtime.ownership import Ownership
from coordinator_core.runtime.shard import Shard
from coordinator_core.runtime.timekeeper import Timekeeper
from coordinator_core.runtime.timers import Timers
from coordinator_core.runtime.writer import Turn
from coordinator_core.store.memory import MemoryStore
from tests.system.simulation.mutation import mutated
from tests.system.simulation.seeds import run_seed
from tests.system.simulation.world import Violation

SEEDS = 20
"""How many seeds it may take at most; where to begin is only a matter of not waiting for long."""


def first_violation(first_seed: int = 3, seeds_at_most: int = SEEDS) -> Violation | None:
    """Return what the first seed that fails fails by."""
    seeds = range(first_seed, first_seed + seeds_at_most)
    return next((found for found in (run_seed(seed).violation for seed in seeds) if found is not None), None)


def test_a_write_that_proves_no_lease_is_caught() -> None:
    fence = "held = self._leases.held(batch.node_id, {shard: batch.epochs[shard] for shard in shards})"
    with mutated(MemoryStore, "write", fence, "held = frozenset(shards)"):
        found = first_violation(5)
    assert found is not None
    assert found.invariant == "OneWriterPerShard"


def test_a_node_that_does_not_fence_itself_is_caught() -> None:
    doubt = "shard.valid_until_ms > now.node_ms"
    with mutated(Coordinator, "_shard_of", doubt, "True"):
        found = first_violation()
    assert found is not None
    assert found.invariant == "OneDeciderPerShard"


def test_an_answer_that_leaves_before_it_is_stored_is_caught() -> None:
    too_soon = "hosted.unsettled += 1; self._settle(hosted, pending, self._clock.now().node_ms)"
    with mutated(Shard, "_enqueue", "hosted.unsettled += 1", too_soon):
        found = first_violation()
    assert found is not None
    assert found.invariant == "StoredBeforeSaid"


def test_a_join_limit_that_does_nothing_is_caught() -> None:
    with mutated(expiry, "_expire_join_phase", "        end_join_phase(draft)", "        pass"):
        found = first_violation(1)
    assert found is not None
    assert found.invariant in {"JoinPhasesEnd", "EverythingIsTimed"}


def test_a_pause_that_counts_as_silence_is_caught() -> None:
    with mutated(Timers, "delay_members", "self._due_at_ms[armed] += gap_ms", "pass"):
        found = first_violation()
    assert found is not None
    assert found.invariant == "NobodyIsPutOutForAPause"


def test_doubt_that_counts_as_silence_is_caught() -> None:
    with mutated(Timers, "delay_all", "self._due_at_ms[armed] += doubt_ms", "pass"):
        found = first_violation()
    assert found is not None
    assert found.invariant == "NobodyIsPutOutForAPause"


def test_a_keeper_of_time_that_waits_for_what_it_may_not_do_is_caught() -> None:
    with mutated(Timekeeper, "_time_to_sleep_ms", " if self._is_sure(shard)", ""):
        found = first_violation()
    assert found is not None
    assert found.invariant == "NobodySpins"


def test_a_write_behind_one_that_was_not_whole_is_caught() -> None:
    with mutated(Turn, "write_behind", "not before.is_whole or ", ""):
        found = first_violation(15, 50)  # One seed in fifteen has a write behind one that a third party spoils.
    assert found is not None
    assert found.invariant in {"TransitionsAreLegal", "RowsFollowTransitions", "SpansDoNotOverlap"}


def test_a_caller_that_waits_at_a_shard_that_is_gone_is_caught() -> None:
    with mutated(Shard, "drop", "future.set_exception(error)", "pass"):
        found = first_violation()
    assert found is not None
    assert found.invariant == "WhoWaitsIsLetGo"


def test_a_heartbeat_that_hears_nothing_of_a_rebalance_is_caught() -> None:
    with mutated(decide, "decide_heartbeat", "if group.state is PREPARING:", "if False:"):
        found = first_violation()
    assert found is not None
    assert found.invariant == "HeartbeatsTellOfRebalances"


def test_a_commit_of_a_generation_that_is_over_is_caught() -> None:
    with mutated(commit, "_check_committer", "check_generation(group, request.generation)", "pass"):
        found = first_violation()
    assert found is not None
    assert found.invariant == "TheOverIsOver"


class Break(NamedTuple):
    """One piece of code that is broken, and the invariant that is to notice."""

    owner: object
    function: str
    old: str
    new: str
    invariant: str


BREAKS = {
    "a refusal of what is in bounds": Break(
        join, "_check_session_timeout", "low <= asked_ms <= high", "low < asked_ms <= high", "NobodyDiesOfAnAnswer"
    ),
    "followers that are given nothing": Break(
        sync, "_answer", "group.members[member_id].assignment", "b''", "StoredBeforeSaid"
    ),
    "a process whose place was taken and goes on": Break(
        heartbeat, "check_member", "if owner_id != member_id:", "if False:", "TheFencedAreTold"
    ),
    "an offset deleted that somebody reads": Break(
        offsets, "_deletion_refusal", "if is_read(draft.group, topic):", "if False:", "LiveOffsetsStay"
    ),
    "a reset under the feet of members": Break(
        reset, "_check_resettable", "if group.exists and group.state is not EMPTY:", "if False:", "LiveOffsetsStay"
    ),
    "an id that was handed out for ever": Break(
        join,
        "_join_stranger",
        "draft.start(DeadlineKind.HANDSHAKE, request.session_timeout_ms, member_id)",
        "pass",
        "EverythingIsTimed",
    ),
    "a queue without an end": Break(
        Coordinator, "ask", "self._writer.queued_rows > self._config.max_queued_rows", "False", "QueuesAreBounded"
    ),
    "an owner that nobody hears of": Break(
        Coordinator, "_shard_of", 'owns this group", lease.url', 'owns this group", self.url', "TheCalmRefusesNobody"
    ),
    "an act that no change tells of": Break(
        Noting, "beside", "return Beside(changes=(change,))", "return NOTHING_BESIDE", "ActsAreNoted"
    ),
    "a run that never ends": Break(
        Maintenance, "work_off", "await self._threads.read(self._store.finish_runs)", "()", "RunsEnd"
    ),
    "a stop that keeps the shards": Break(
        Ownership, "_release", "await self._threads.lease(", "str(", "WhoStopsHandsOver"
    ),
}


@pytest.mark.parametrize("broken", BREAKS.values(), ids=BREAKS)
def test_broken_code_is_caught_by_the_invariant_that_names_what_is_broken(broken: Break) -> None:
    with mutated(broken.owner, broken.function, broken.old, broken.new):
        found = first_violation(1)
    assert found is not None
    assert found.invariant == broken.invariant


def test_a_mutation_whose_code_has_moved_fails() -> None:
    with pytest.raises(AssertionError), mutated(Timers, "delay_all", "this is not there", ""):
        pass
