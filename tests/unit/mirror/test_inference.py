"""What happened to a mirrored group is inferred from its log, and what cannot be known is not guessed."""

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coordinator_core.protocol.consumer_protocol import partitions_of
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.records import (
    GroupCreated,
    GroupDied,
    GroupFound,
    MemberRemoved,
    MemberReplaced,
    Record,
    RemovalReason,
)
from coordinator_core.protocol.requests import Heartbeat, Reevaluate, Resume
from coordinator_core.protocol.responses import Reply
from coordinator_core.protocol.settings import Context, Now, TopicMetadata
from coordinator_core.protocol.states import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, GroupState
from coordinator_core.runtime.group_context import GroupContext
from coordinator_core.runtime.stuck_groups import rebalancing_groups
from coordinator_core.state_store.ledger import Ledger
from coordinator_core.state_store.projection import project
from coordinator_core.state_store.rows import GroupWrite
from mirror.decide import GroupDeletedObserved, GroupObserved, Observation, StatePolled, decide
from mirror.inference import REBALANCING
from mirror.observed import ObservedGroup, ObservedMember
from tests.unit.mirror.observations import SYNC_MS, T0_MS, appended_ms, generation, member

NOW = Now(0, T0_MS + 10_000_000)


class Mirrored:
    """A mirrored group with its ledger."""

    def __init__(self) -> None:
        self.group = Group("g")
        self.ledger = Ledger("g", 0, is_mirrored=True)
        self.context = Context()

    def observe(self, observation: Observation) -> GroupWrite:
        """Decide an observation; return its write, empty if it has none."""
        decision = decide(self.group, observation, NOW, self.context)
        self.records: Sequence[Record] = decision.records
        self.group = decision.group
        return project(self.group, decision.records, self.ledger) or GroupWrite("g", 0)

    def see(self, seen: ObservedGroup, *, is_first_read: bool = False) -> GroupWrite:
        """Observe a group's value."""
        return self.observe(GroupObserved(seen, appended_ms(seen), is_first_read))


@pytest.fixture
def mirrored() -> Mirrored:
    return Mirrored()


def test_first_generation_is_a_rebalance_whose_start_is_the_end_of_its_join_phase(mirrored: Mirrored) -> None:
    (row,) = mirrored.see(generation(1, member("a", 0, 1))).rebalances

    assert (row.trigger, row.trigger_member_id, row.generation) == ("member_joined", "a", 1)
    assert row.started_at_ms == row.joined_at_ms == T0_MS + 1_000
    assert row.completed_at_ms == T0_MS + 1_000 + SYNC_MS
    assert (row.is_trigger_inferred, row.is_start_inferred) == (True, True)
    assert (row.member_count_before, row.member_count_after) == (0, 1)
    assert mirrored.group.state is STABLE


def test_what_is_known_has_no_records(mirrored: Mirrored) -> None:
    seen = generation(1, member("a", 0), member("b", 1))
    mirrored.see(seen)

    assert mirrored.see(seen) == GroupWrite("g", 0)
    assert not mirrored.records


BEFORE = (member("a", 0, 1), member("b", 2, 3))
TRIGGERS: dict[str, tuple[tuple[ObservedMember, ...], str, str | None]] = {
    "a new member": ((*BEFORE, member("c")), "member_joined", "c"),
    "a member is gone": (BEFORE[:1], "member_left_or_expired", "b"),
    "one is gone, and another is new": ((BEFORE[0], member("c", 2, 3)), "member_left_or_expired", "b"),
    "another topic": ((BEFORE[0], member("b", 2, topic="bills")), "subscription_changed", "b"),
    "the same members with other partitions": ((member("a", 0), member("b", 1, 2, 3)), "leader_rejoined", "a"),
}


@pytest.mark.parametrize(("members", "trigger", "member_id"), TRIGGERS.values(), ids=list(TRIGGERS))
def test_trigger_is_inferred_from_the_members(
    mirrored: Mirrored, members: tuple[ObservedMember, ...], trigger: str, member_id: str | None
) -> None:
    mirrored.see(generation(1, *BEFORE))

    (row,) = mirrored.see(generation(2, *members)).rebalances

    assert (row.trigger, row.trigger_member_id) == (trigger, member_id)


def test_polled_rebalance_starts_when_it_was_seen(mirrored: Mirrored) -> None:
    mirrored.see(generation(1, *BEFORE))
    mirrored.observe(StatePolled(PREPARING, T0_MS + 1_500))
    assert mirrored.group.state is PREPARING

    (row,) = mirrored.see(generation(2, *BEFORE, member("c"))).rebalances

    assert (row.started_at_ms, row.joined_at_ms) == (T0_MS + 1_500, T0_MS + 2_000)
    assert (row.trigger, row.trigger_member_id) == ("member_joined", "c")
    assert (row.is_trigger_inferred, row.is_start_inferred, row.restarts) == (True, False, 0)


def test_start_that_was_polled_after_the_join_phase_is_inferred(mirrored: Mirrored) -> None:
    mirrored.see(generation(1, *BEFORE))
    mirrored.observe(StatePolled(COMPLETING, T0_MS + 2_500))

    (row,) = mirrored.see(generation(2, *BEFORE)).rebalances

    assert row.started_at_ms == row.joined_at_ms == T0_MS + 2_000
    assert row.is_start_inferred


def test_polled_states_are_transitions(mirrored: Mirrored) -> None:
    mirrored.see(generation(1, *BEFORE))
    polled = [PREPARING, COMPLETING, COMPLETING, PREPARING, COMPLETING]
    writes = [mirrored.observe(StatePolled(state, T0_MS + 1_100 + at)) for at, state in enumerate(polled)]
    last = mirrored.see(generation(2, *BEFORE))

    states = [row.to_state for write in [*writes, last] for row in write.transitions]
    assert states == [PREPARING, COMPLETING, PREPARING, COMPLETING, STABLE]
    assert [row.restarts for row in last.rebalances] == [1]


@pytest.mark.parametrize("state", [PREPARING, COMPLETING])
def test_polled_rebalance_may_leave_no_member(mirrored: Mirrored, state: GroupState) -> None:
    mirrored.see(generation(1, *BEFORE))
    mirrored.observe(StatePolled(state, T0_MS + 1_500))

    (row,) = mirrored.see(generation(2)).rebalances

    assert (row.outcome, row.started_at_ms, row.trigger) == ("emptied", T0_MS + 1_500, "member_left_or_expired")
    assert mirrored.group.state is EMPTY


@pytest.mark.parametrize("members", [BEFORE, ()], ids=["Stable", "Empty"])
def test_rebalance_that_leads_to_no_generation_is_abandoned(
    mirrored: Mirrored, members: tuple[ObservedMember, ...]
) -> None:
    mirrored.see(generation(1, *members))
    before = mirrored.group
    mirrored.observe(StatePolled(PREPARING, T0_MS + 1_500))
    mirrored.observe(StatePolled(COMPLETING, T0_MS + 1_600))

    (row,) = mirrored.observe(StatePolled(None, T0_MS + 1_700)).rebalances

    assert (row.outcome, row.trigger, row.member_count_after) == ("abandoned", "unknown", len(members))
    assert (mirrored.group.state, mirrored.group.members) == (before.state, before.members)


def test_poll_of_a_group_without_a_rebalance_has_no_records(mirrored: Mirrored) -> None:
    mirrored.see(generation(1, *BEFORE))

    mirrored.observe(StatePolled(None, T0_MS + 1_500))

    assert not mirrored.records


def test_generation_before_a_polled_rebalance_is_known(mirrored: Mirrored) -> None:
    mirrored.see(generation(1, *BEFORE))
    mirrored.observe(StatePolled(PREPARING, T0_MS + 1_500))

    mirrored.see(generation(1, *BEFORE))

    assert not mirrored.records
    assert mirrored.group.state is PREPARING


def test_members_that_a_polled_rebalance_waits_for_are_not_guessed(mirrored: Mirrored) -> None:
    mirrored.see(generation(1, *BEFORE))
    mirrored.observe(StatePolled(PREPARING, T0_MS + 1_500))

    (named,) = rebalancing_groups([GroupContext(mirrored.group, mirrored.ledger)], T0_MS + 2_500)

    assert (named.rebalancing_s, named.awaited_count, named.awaited) == (1.0, 0, ())


def test_session_has_the_timeout_with_which_its_member_joined_last(mirrored: Mirrored) -> None:
    mirrored.see(generation(1, member("a", 0, session_ms=10_000)))
    mirrored.see(generation(2, member("a", 0, session_ms=20_000)))

    (row,) = mirrored.see(generation(3)).sessions

    assert row.session_timeout_ms == 20_000


def test_new_partitions_of_a_topic_are_a_trigger(mirrored: Mirrored) -> None:
    mirrored.see(generation(1, *BEFORE))
    mirrored.context = Context(topic_metadata={"orders": TopicMetadata(6, 1)}, topics_version=1)

    (row,) = mirrored.see(generation(2, *BEFORE)).rebalances

    assert row.trigger == "partitions_changed"


def test_static_member_with_a_new_id_in_a_new_generation_is_replaced(mirrored: Mirrored) -> None:
    mirrored.see(generation(1, member("a-1", 0, instance_id="a")))

    (row,) = mirrored.see(generation(2, member("a-2", 0, 1, instance_id="a"))).rebalances

    assert (row.trigger, row.trigger_member_id) == ("static_member_replaced", "a-2")


def test_static_member_with_a_new_id_in_the_same_generation_has_no_rebalance(mirrored: Mirrored) -> None:
    mirrored.see(generation(1, member("a-1", 0, instance_id="a"), member("b", 1)))

    write = mirrored.see(generation(1, member("a-2", 0, instance_id="a"), member("b", 1), at_ms=T0_MS + 5_000))

    assert not write.rebalances
    assert [type(record) for record in mirrored.records] == [MemberReplaced]
    assert set(mirrored.group.members) == {"a-2", "b"}


def test_generation_that_was_written_twice_is_a_second_rebalance(mirrored: Mirrored) -> None:
    mirrored.see(generation(1, *BEFORE))

    (row,) = mirrored.see(generation(1, BEFORE[0], member("c", 1), at_ms=T0_MS + 5_000)).rebalances

    assert (row.generation, row.member_count_after) == (1, 2)
    assert set(mirrored.group.members) == {"a", "c"}


def test_rebalances_of_one_generation_have_ids_of_their_own(mirrored: Mirrored) -> None:
    """An assignment grows as the names of its topics are found, one after another."""
    writes = [mirrored.see(generation(1, member("a", *range(count)))) for count in (1, 2, 3)]

    assert len({row.rebalance_id for write in writes for row in write.rebalances}) == 3


def test_member_that_is_gone_left_or_expired(mirrored: Mirrored) -> None:
    mirrored.see(generation(1, *BEFORE))

    write = mirrored.see(generation(2, BEFORE[0]))

    (session,) = write.sessions
    assert (session.member_id, session.end_reason) == ("b", "left_or_expired")
    assert (session.heartbeat_count, session.heartbeat_gap_ms_max, session.heartbeat_gap_histogram) == (None,) * 3
    assert [record.removal_reason for record in mirrored.records if isinstance(record, MemberRemoved)] == [
        RemovalReason.LEFT_OR_EXPIRED
    ]


def test_who_held_a_rebalance_up_is_unknown(mirrored: Mirrored) -> None:
    mirrored.see(generation(1, *BEFORE))

    rows = mirrored.see(generation(2, *BEFORE, member("c"))).rebalance_members

    assert {row.member_id for row in rows} == {"a", "b", "c"}
    assert {(row.joined_after_ms, row.synced_after_ms, row.waited_for_ms) for row in rows} == {(None, None, None)}


def test_moved_partitions_have_two_ownerships(mirrored: Mirrored) -> None:
    mirrored.see(generation(1, member("a", 0, 1)))

    write = mirrored.see(generation(2, member("a", 0), member("b", 1)))

    (ended,) = write.ownerships
    assert (ended.member_id, ended.partitions, ended.generation) == ("a", (1,), 1)
    assert (ended.valid_from_ms, ended.valid_to_ms) == (T0_MS + 1_000 + SYNC_MS, T0_MS + 2_000 + SYNC_MS)
    assert write.rebalances[0].partitions_moved == 1


def test_group_without_members_is_empty(mirrored: Mirrored) -> None:
    mirrored.see(generation(1, *BEFORE))

    (row,) = mirrored.see(generation(2)).rebalances

    assert (row.outcome, row.member_count_after, row.trigger) == ("emptied", 0, "member_left_or_expired")
    assert (mirrored.group.state, mirrored.group.generation) == (EMPTY, 2)


def test_group_that_is_made_has_no_rebalance(mirrored: Mirrored) -> None:
    write = mirrored.see(generation(0))

    assert not write.rebalances
    assert [type(record) for record in mirrored.records] == [GroupCreated]


def test_first_read_finds_a_group_without_history(mirrored: Mirrored) -> None:
    write = mirrored.see(generation(7, *BEFORE), is_first_read=True)

    assert [type(record) for record in mirrored.records] == [GroupFound]
    assert (write.rebalances, write.transitions, write.ownerships, write.rebalance_members) == ((),) * 4
    assert write.group is not None
    assert (write.group.state, write.group.generation, write.group.member_count) == ("Stable", 7, 2)
    owned = write.members["a"]
    assert owned is not None
    assert [(each["topic"], each["partitions"], each["since_ms"]) for each in owned.ownership] == [
        ("orders", [0, 1], T0_MS + 7_000)
    ]


def test_found_group_goes_on_as_any_other(mirrored: Mirrored) -> None:
    seen = generation(7, *BEFORE)
    mirrored.see(seen, is_first_read=True)

    assert mirrored.see(seen) == GroupWrite("g", 0)
    (row,) = mirrored.see(generation(8, BEFORE[0])).rebalances
    assert (row.member_count_before, row.member_count_after, row.partitions_moved) == (2, 1, 0)


def test_deleted_group_dies(mirrored: Mirrored) -> None:
    mirrored.see(generation(1, *BEFORE))

    write = mirrored.observe(GroupDeletedObserved(T0_MS + 9_000))

    assert write.is_group_deleted
    assert isinstance(mirrored.records[-1], GroupDied)
    assert {session.member_id for session in write.sessions} == {"a", "b"}
    assert mirrored.group.state is DEAD


def test_requests_of_clients_are_refused() -> None:
    decision = decide(
        Group("g"), Heartbeat(token=1, member_id="a", group_instance_id=None, generation=1), NOW, Context()
    )

    (reply,) = decision.replies
    assert isinstance(reply, Reply)
    assert "mirrored Kafka cluster" in str(reply.answer)
    assert not decision.records


def test_settings_and_failover_change_nothing(mirrored: Mirrored) -> None:
    mirrored.see(generation(1, *BEFORE))

    for request in (Resume(), Reevaluate(is_rebalance_timeout_changed=True)):
        decision = decide(mirrored.group, request, NOW, Context())
        assert (decision.group, decision.records, decision.deadlines) == (mirrored.group, (), ())


MEMBERS = st.lists(
    st.builds(
        lambda name, partitions, topic, instance: member(
            f"{name}-{instance}", *partitions, topic=topic, instance_id=name if instance else None
        ),
        st.sampled_from("abc"),
        st.sets(st.integers(0, 3)).map(sorted),
        st.sampled_from(["orders", "bills"]),
        st.integers(0, 2),
    ),
    max_size=4,
    unique_by=(lambda each: each.member_id, lambda each: each.group_instance_id or each.member_id),
)
VALUES = st.builds(
    lambda number, members, at_ms: generation(number, *members, at_ms=T0_MS + at_ms),
    st.integers(0, 4),
    MEMBERS,
    st.integers(0, 10_000),
)
OBSERVATIONS = st.lists(
    st.one_of(
        st.tuples(VALUES, st.booleans()).map(lambda each: GroupObserved(each[0], appended_ms(each[0]), each[1])),
        st.integers(0, 10_000).map(lambda at_ms: GroupDeletedObserved(T0_MS + at_ms)),
        st.builds(
            lambda state, at_ms: StatePolled(state, T0_MS + at_ms),
            st.sampled_from([PREPARING, COMPLETING, None]),
            st.integers(0, 10_000),
        ),
    ),
    max_size=12,
)


def owned(members: Iterable[Member | ObservedMember]) -> dict[str, set[tuple[str, int]]]:
    """Return the partitions of each member; clients may name a topic without partitions in an assignment."""
    assignments = {each.member_id: partitions_of(each.assignment) or () for each in members}
    return {
        member_id: {(topic, number) for topic, numbers in partitions for number in numbers}
        for member_id, partitions in assignments.items()
    }


OTHER_TOPIC_WITHOUT_PARTITIONS: list[Observation] = [
    GroupObserved(seen, appended_ms(seen), False)
    for seen in (generation(1, member("a", topic=topic)) for topic in ("orders", "bills"))
]


@given(OBSERVATIONS)
@example(OTHER_TOPIC_WITHOUT_PARTITIONS)
def test_every_order_of_values_ends_in_what_the_last_one_says(observations: list[Observation]) -> None:
    mirrored = Mirrored()
    for observation in observations:
        if isinstance(observation, StatePolled) and not mirrored.group.exists:
            continue
        mirrored.observe(observation)
        if mirrored.group.state is DEAD:
            mirrored = Mirrored()

        if isinstance(observation, GroupObserved):
            seen = observation.seen
            assert mirrored.group.generation == seen.generation
            assert mirrored.group.state in {STABLE if seen.members else EMPTY, *REBALANCING}
            assert owned(mirrored.group.members.values()) == owned(seen.members)
            assert set(mirrored.ledger.sessions) == set(mirrored.ledger.ownership) == set(mirrored.group.members)
