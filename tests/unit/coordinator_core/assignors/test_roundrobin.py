"""Round robin assigns in turn, and the turn continues from topic to topic."""

from tests.unit.coordinator_core.assignors.groups import drawn, member


def test_round_robin_of_two_topics_of_three_is_three_and_three() -> None:
    assert drawn("roundrobin", {"t0": 3, "t1": 3}, member("C0", "t0 t1"), member("C1", "t0 t1")) == {
        "C0": "t0-0 t0-2 t1-1",
        "C1": "t0-1 t1-0 t1-2",
    }


def test_round_robin_of_unequal_subscriptions_is_unbalanced() -> None:
    members = (member("C0", "t0"), member("C1", "t0 t1"), member("C2", "t0 t1 t2"))

    assert drawn("roundrobin", {"t0": 1, "t1": 2, "t2": 3}, *members) == {
        "C0": "t0-0",
        "C1": "t1-0",
        "C2": "t1-1 t2-0 t2-1 t2-2",
    }


def test_member_that_cannot_take_a_partition_is_skipped() -> None:
    members = (member("a", "t"), member("b", "u"), member("c", "t u"))

    assert drawn("roundrobin", {"t": 2, "u": 1}, *members) == {"a": "t-0", "b": "u-0", "c": "t-1"}


def test_round_robin_repeats_the_order_of_members_within_a_topic() -> None:
    members = (member("a", "t"), member("b", "u"), member("c", "t u"))

    assert drawn("roundrobin", {"t": 5, "u": 3}, *members) == {
        "a": "t-0 t-2 t-4",
        "b": "u-0 u-2",
        "c": "t-1 t-3 u-1",
    }


def test_a_single_reader_of_a_topic_gets_all_of_it() -> None:
    assert drawn("roundrobin", {"t": 2, "u": 3}, member("a", "t"), member("b", "t u")) == {
        "a": "t-0",
        "b": "t-1 u-0 u-1 u-2",
    }


def test_topic_without_partitions_is_skipped_in_round_robin() -> None:
    members = (member("a", "t"), member("b", "empty t"), member("c", "t"))

    assert drawn("roundrobin", {"empty": 0, "t": 2}, *members) == {"a": "t-0", "b": "t-1", "c": ""}


def test_static_members_come_first_in_round_robin() -> None:
    members = (member("m1", "t", instance_id="i2"), member("m2", "t", instance_id="i1"), member("a", "t"))

    assert drawn("roundrobin", {"t": 3}, *members) == {"m2": "t-0", "m1": "t-1", "a": "t-2"}
