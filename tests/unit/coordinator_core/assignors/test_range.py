"""Range cuts each topic by itself, and the first members get the extra partitions."""

from tests.unit.coordinator_core.assignors.groups import drawn, member


def test_range_of_seven_partitions_is_three_two_and_two() -> None:
    assert drawn("range", {"A": 7}, member("C1", "A"), member("C2", "A"), member("C3", "A")) == {
        "C1": "A-0 A-1 A-2",
        "C2": "A-3 A-4",
        "C3": "A-5 A-6",
    }


def test_first_member_gets_the_extra_partition_of_every_topic() -> None:
    assert drawn("range", {"T1": 3, "T2": 5}, member("C0", "T1 T2"), member("C1", "T1 T2")) == {
        "C0": "T1-0 T1-1 T2-0 T2-1 T2-2",
        "C1": "T1-2 T2-3 T2-4",
    }


def test_topics_with_equal_counts_have_equal_ranges() -> None:
    assert drawn(
        "range", {"orders": 4, "payments": 4}, member("a", "orders payments"), member("b", "payments orders")
    ) == {
        "a": "orders-0 orders-1 payments-0 payments-1",
        "b": "orders-2 orders-3 payments-2 payments-3",
    }


def test_more_members_than_partitions_leave_the_last_idle() -> None:
    assert drawn("range", {"t": 2}, member("a", "t"), member("b", "t"), member("c", "t")) == {
        "a": "t-0",
        "b": "t-1",
        "c": "",
    }


def test_only_subscribers_get_a_range() -> None:
    assert drawn("range", {"t": 3, "u": 2}, member("a", "t"), member("b", "t u"), member("c", "")) == {
        "a": "t-0 t-1",
        "b": "t-2 u-0 u-1",
        "c": "",
    }


def test_static_members_come_first_by_instance_id() -> None:
    members = (
        member("a", "t"),
        member("b", "t"),
        member("y", "t", instance_id="i2"),
        member("z", "t", instance_id="i1"),
    )

    assert drawn("range", {"t": 4}, *members) == {"z": "t-0", "y": "t-1", "a": "t-2", "b": "t-3"}


def test_a_static_member_s_new_id_changes_nothing() -> None:
    before = (member("m1", "t", instance_id="i1"), member("m2", "t", instance_id="i2"))
    after = (member("m9", "t", instance_id="i1"), member("m2", "t", instance_id="i2"))

    assert drawn("range", {"t": 2}, *before) == {"m1": "t-0", "m2": "t-1"}
    assert drawn("range", {"t": 2}, *after) == {"m9": "t-0", "m2": "t-1"}
