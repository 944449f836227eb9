"""Assignors: complete, balanced assignments, equal to Kafka's."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent import Assignor, Member, TopicPartition
from agent.assignors import BUILT_IN, Assignment, resolve_assignors
from agent.assignors.claims import Claim, owned_claim, remembered_claim, remembered_data
from agent.core.responses import parse_join_group

Pairs = dict[str, list[tuple[str, int]]]


def assigned(name: str, counts: dict[str, int], members: list[Member]) -> Pairs:
    assignment = BUILT_IN[name].assign(counts, members)
    return {
        member_id: sorted((topic, number) for topic, number in partitions)
        for member_id, partitions in assignment.items()
    }


def members(subscriptions: dict[str, str], instances: dict[str, str] | None = None) -> list[Member]:
    """Return members; topics are written as one string with spaces."""
    return [Member(name, tuple(topics.split()), (instances or {}).get(name)) for name, topics in subscriptions.items()]


def test_range_gives_the_larger_ranges_to_the_first_members() -> None:
    assert assigned("range", {"A": 7}, members({"C1": "A", "C2": "A", "C3": "A"})) == {
        "C1": [("A", 0), ("A", 1), ("A", 2)],
        "C2": [("A", 3), ("A", 4)],
        "C3": [("A", 5), ("A", 6)],
    }


def test_range_assigns_each_topic_separately() -> None:
    assert assigned("range", {"t0": 3, "t1": 3}, members({"C0": "t0 t1", "C1": "t0 t1"})) == {
        "C0": [("t0", 0), ("t0", 1), ("t1", 0), ("t1", 1)],
        "C1": [("t0", 2), ("t1", 2)],
    }


def test_range_leaves_members_idle_when_there_are_too_many() -> None:
    assert assigned("range", {"t": 2}, members({"C1": "t", "C2": "t", "C3": "t"})) == {
        "C1": [("t", 0)],
        "C2": [("t", 1)],
        "C3": [],
    }


def test_range_respects_subscriptions_and_skips_missing_topics() -> None:
    assert assigned("range", {"t": 3, "u": 2}, members({"C1": "t", "C2": "t u missing"})) == {
        "C1": [("t", 0), ("t", 1)],
        "C2": [("t", 2), ("u", 0), ("u", 1)],
    }


def test_members_with_an_instance_id_come_first() -> None:
    dynamic_and_static = members({"z-dyn": "t", "a-dyn": "t", "zz": "t"}, {"zz": "i9"})
    assert assigned("range", {"t": 3}, dynamic_and_static) == {
        "zz": [("t", 0)],
        "a-dyn": [("t", 1)],
        "z-dyn": [("t", 2)],
    }
    both_static = members({"m1": "t", "m2": "t"}, {"m1": "i2", "m2": "i1"})
    assert assigned("roundrobin", {"t": 2}, both_static) == {"m1": [("t", 1)], "m2": [("t", 0)]}


def test_round_robin_continues_across_topics() -> None:
    assert assigned("roundrobin", {"t0": 3, "t1": 3}, members({"C0": "t0 t1", "C1": "t0 t1"})) == {
        "C0": [("t0", 0), ("t0", 2), ("t1", 1)],
        "C1": [("t0", 1), ("t1", 0), ("t1", 2)],
    }


def test_round_robin_is_uneven_when_subscriptions_are() -> None:
    unequal = members({"C0": "t0", "C1": "t0 t1", "C2": "t0 t1 t2"})
    assert assigned("roundrobin", {"t0": 1, "t1": 2, "t2": 3}, unequal) == {
        "C0": [("t0", 0)],
        "C1": [("t1", 0)],
        "C2": [("t1", 1), ("t2", 0), ("t2", 1), ("t2", 2)],
    }


def owning(topics: str, owned: dict[str, list[tuple[str, int]]], user_data: bytes | None = None) -> list[Member]:
    return [
        Member(name, tuple(topics.split()), None, tuple(TopicPartition(*each) for each in partitions), user_data)
        for name, partitions in owned.items()
    ]


def sizes(assignment: Pairs) -> dict[str, int]:
    return {member_id: len(partitions) for member_id, partitions in assignment.items()}


def test_sticky_balances_and_keeps_owned_partitions() -> None:
    counts, topics = {f"t{number}": 2 for number in range(4)}, "t0 t1 t2 t3"
    fresh = assigned("sticky", counts, members({"C0": topics, "C1": topics, "C2": topics}))
    assert sizes(fresh) == {"C0": 3, "C1": 3, "C2": 2}
    remaining = {name: fresh[name] for name in ("C0", "C2")}
    after = assigned("sticky", counts, owning(topics, remaining))

    assert sizes(after) == {"C0": 4, "C2": 4}
    assert all(set(remaining[name]) <= set(after[name]) for name in remaining)


def test_sticky_balances_unequal_subscriptions_better_than_round_robin() -> None:
    unequal = members({"C0": "t0", "C1": "t0 t1", "C2": "t0 t1 t2"})
    assert assigned("sticky", {"t0": 1, "t1": 2, "t2": 3}, unequal) == {
        "C0": [("t0", 0)],
        "C1": [("t1", 0), ("t1", 1)],
        "C2": [("t2", 0), ("t2", 1), ("t2", 2)],
    }


def test_sticky_moves_partitions_only_to_improve_balance() -> None:
    uneven = [
        Member("a", ("t",), owned_partitions=tuple(TopicPartition("t", number) for number in range(4))),
        Member("b", ("t", "u")),
    ]

    assert assigned("sticky", {"t": 4, "u": 1}, uneven) == {
        "a": [("t", 1), ("t", 2), ("t", 3)],
        "b": [("t", 0), ("u", 0)],
    }


def test_cooperative_sticky_withholds_partitions_until_they_are_revoked() -> None:
    before = owning("t", {"C1": [("t", number) for number in range(4)], "C2": []})
    assert sizes(assigned("cooperative-sticky", {"t": 4}, before)) == {"C1": 2, "C2": 0}
    after = owning("t", {"C1": [("t", 0), ("t", 1)], "C2": []})

    assert assigned("cooperative-sticky", {"t": 4}, after) == {
        "C1": [("t", 0), ("t", 1)],
        "C2": [("t", 2), ("t", 3)],
    }


def test_eager_member_claims_its_remembered_assignment() -> None:
    remembered = BUILT_IN["sticky"].user_data([TopicPartition("t", 1), TopicPartition("t", 3)], 7)

    assert assigned("sticky", {"t": 4}, [Member("a", ("t",)), Member("b", ("t",), user_data=remembered)]) == {
        "a": [("t", 0), ("t", 2)],
        "b": [("t", 1), ("t", 3)],
    }


@pytest.mark.parametrize(("generation", "owner", "other"), [(6, "b", "a"), (8, "a", "b")])
def test_the_claim_of_the_newer_generation_wins(generation: int, owner: str, other: str) -> None:
    wanted = tuple(TopicPartition("t", number) for number in range(2))
    claims = [
        Member(name, ("t",), owned_partitions=wanted, user_data=BUILT_IN["cooperative-sticky"].user_data((), at))
        for name, at in (("a", generation), ("b", 7))
    ]

    assert assigned("cooperative-sticky", {"t": 2}, claims) == {owner: [("t", 0)], other: []}


def test_the_generation_of_a_member_of_librdkafka_is_read() -> None:
    """It is in the subscription, since version 2; the user data are those of sticky."""
    owned = {"topics": ["t"], "owned_partitions": [{"topic": "t", "partitions": [0]}]}
    subscriptions = {
        "agent": {**owned, "user_data": _base64(BUILT_IN["cooperative-sticky"].user_data((), 6))},
        "librdkafka": {**owned, "user_data": _base64(remembered_data([TopicPartition("t", 0)], 7)), "generation": 7},
    }
    response = {
        "member_id": "agent",
        "leader": "agent",
        "generation": 8,
        "protocol_name": "cooperative-sticky",
        "members": [{"member_id": name, "metadata": metadata} for name, metadata in subscriptions.items()],
        "session_timeout_ms": 45_000,
        "heartbeat_interval_ms": 3_000,
    }

    claims = list(parse_join_group(response).members)
    assert assigned("cooperative-sticky", {"t": 1}, claims) == {"agent": [], "librdkafka": [("t", 0)]}


def _base64(data: bytes | None) -> str:
    return b64encode(data or b"").decode()


def test_equal_claims_of_one_generation_are_ignored() -> None:
    both = owning("t", {"a": [("t", 0), ("t", 1)], "b": [("t", 1)]})

    assert assigned("cooperative-sticky", {"t": 2}, both) == {"a": [("t", 0)], "b": []}


REMEMBERED = [TopicPartition("a", 0), TopicPartition("größe", 1), TopicPartition("größe", 5)]


def test_sticky_user_data_has_kafkas_encoding() -> None:
    written = remembered_data([TopicPartition("ab", 1)], 3)

    assert written.hex() == "00000001" + "0002" + "6162" + "00000001" + "00000001" + "00000003"
    assert remembered_claim(Member("m", (), user_data=remembered_data(REMEMBERED, 3))) == Claim(tuple(REMEMBERED), 3)


def test_sticky_user_data_without_generation_is_decoded() -> None:
    assert remembered_claim(Member("m", (), user_data=remembered_data(REMEMBERED, 3)[:-4])) == Claim(tuple(REMEMBERED))


@given(st.binary(max_size=40))
@example(bytes.fromhex("7fffffff" + "fffa" + "00000000"))
def test_invalid_user_data_is_ignored(data: bytes) -> None:
    assert remembered_claim(Member("m", (), user_data=data)).generation >= -(2**31)
    assert owned_claim(Member("m", (), user_data=data)).partitions == ()


TOPICS = ["t0", "t1", "t2"]
GROUPS = st.dictionaries(
    st.text("abc", min_size=1, max_size=3), st.lists(st.sampled_from(TOPICS), unique=True), min_size=1, max_size=6
)
COUNTS = st.fixed_dictionaries({topic: st.integers(1, 9) for topic in TOPICS})
OWNED = st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(0, 11)).map(lambda pair: TopicPartition(*pair)))
COMPLETE = [name for name in BUILT_IN if name != "cooperative-sticky"]


@pytest.mark.parametrize("name", COMPLETE)
@given(group=GROUPS, counts=COUNTS, data=st.data())
def test_every_partition_goes_to_exactly_one_of_its_subscribers(
    name: str, group: dict[str, list[str]], counts: dict[str, int], data: st.DataObject
) -> None:
    joined = [Member(each, tuple(group[each]), owned_partitions=tuple(data.draw(OWNED))) for each in group]
    assignment: Assignment = BUILT_IN[name].assign(counts, joined)
    given_out = sorted(partition for partitions in assignment.values() for partition in partitions)
    wanted = {topic for topics in group.values() for topic in topics}

    assert given_out == [TopicPartition(topic, number) for topic in sorted(wanted) for number in range(counts[topic])]
    assert all(each.topic in group[name] for name, partitions in assignment.items() for each in partitions)
    assert assignment.keys() == group.keys()


@pytest.mark.parametrize("name", COMPLETE)
@given(size=st.integers(1, 9), count=st.integers(1, 40), data=st.data())
def test_members_with_equal_subscriptions_differ_by_at_most_one_partition(
    name: str, size: int, count: int, data: st.DataObject
) -> None:
    numbers = st.lists(st.integers(0, 39)).map(lambda found: tuple(TopicPartition("t", number) for number in found))
    alike = [Member(f"m{number}", ("t",), owned_partitions=data.draw(numbers)) for number in range(size)]
    shares = [len(partitions) for partitions in BUILT_IN[name].assign({"t": count}, alike).values()]

    assert max(shares) - min(shares) <= 1


@given(group=GROUPS, counts=COUNTS, data=st.data())
def test_no_single_move_improves_a_sticky_assignment(
    group: dict[str, list[str]], counts: dict[str, int], data: st.DataObject
) -> None:
    joined = [Member(each, tuple(group[each]), owned_partitions=tuple(data.draw(OWNED))) for each in group]
    shares = BUILT_IN["sticky"].assign(counts, joined)

    for owner, share in shares.items():
        for partition in share:
            takers = [name for name in group if partition.topic in group[name] and name != owner]
            assert all(len(share) <= len(shares[taker]) + 1 for taker in takers)


@given(group=GROUPS, counts=COUNTS)
def test_a_sticky_assignment_is_kept_when_nothing_has_changed(
    group: dict[str, list[str]], counts: dict[str, int]
) -> None:
    first = BUILT_IN["sticky"].assign(counts, [Member(each, tuple(group[each])) for each in group])
    again = [Member(each, tuple(group[each]), owned_partitions=tuple(first[each])) for each in group]

    assert BUILT_IN["sticky"].assign(counts, again) == first


@given(group=GROUPS, counts=COUNTS, data=st.data())
def test_cooperative_rebalances_never_assign_a_partition_twice_and_end(
    group: dict[str, list[str]], counts: dict[str, int], data: st.DataObject
) -> None:
    owned = {each: tuple(data.draw(OWNED)) for each in group}
    for _ in range(3):
        joined = [Member(each, tuple(group[each]), owned_partitions=owned[each]) for each in group]
        assignment = BUILT_IN["cooperative-sticky"].assign(counts, joined)
        for name, share in assignment.items():
            others = {each for other in group if other != name for each in owned[other]}
            assert not others & set(share)
        owned = {name: tuple(share) for name, share in assignment.items()}
    wanted = {topic for topics in group.values() for topic in topics}

    assert sum(len(share) for share in owned.values()) == sum(counts[topic] for topic in wanted)


def test_assignors_are_names_or_values() -> None:
    own = Assignor("mine", BUILT_IN["range"].assign)

    assert resolve_assignors(["roundrobin", own]) == (BUILT_IN["roundrobin"], own)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ([], "non-empty"),
        ("range", "non-empty"),
        ([None], "non-empty"),
        (["best"], "'best'"),
        (["range", "range"], "same name"),
    ],
)
def test_invalid_assignors_are_rejected(wrong: list[str | Assignor], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        resolve_assignors(wrong)


async def assign_later(counts: object, members: object) -> None:
    """Assign nothing."""


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"name": ""}, "a name of an assignor must have 1 to 249 characters, and has 0"),
        ({"name": 7}, "a name of an assignor must be a string, and is 7"),
        ({"is_cooperative": None}, "is_cooperative must be True or False, and is None"),
        ({"assign": None}, "assign must be a function, and is None"),
        ({"assign": assign_later}, "assign must not be a coroutine function"),
        ({"assign": len}, "assign must take 2 positional arguments"),
        ({"user_data": assign_later}, "user_data must not be a coroutine function"),
        ({"on_assignment": 5}, "on_assignment must be a function, and is 5"),
    ],
)
def test_assignor_of_wrong_parts_is_rejected(arguments: dict[str, Any], why: str) -> None:
    good: dict[str, Any] = {"name": "mine", "assign": BUILT_IN["range"].assign}
    with pytest.raises(ValueError, match=why):
        Assignor(**(good | arguments))
