"""Invalid input raises one clear sentence; valid input may come in any order."""

from itertools import permutations

import pytest

from coordinator_core.assignors import ASSIGNORS, assign
from coordinator_core.assignors.group_spec import build_group_spec
from tests.unit.coordinator_core.assignors.groups import drawn, member

EVERY_ASSIGNOR = pytest.mark.parametrize("name", ASSIGNORS)


def test_assignors_have_kafka_s_names() -> None:
    assert {name: assignor.name for name, assignor in ASSIGNORS.items()} == {
        "range": "range",
        "roundrobin": "roundrobin",
        "sticky": "sticky",
        "cooperative-sticky": "cooperative-sticky",
    }


def test_an_unknown_assignor_is_refused() -> None:
    with pytest.raises(ValueError, match="no assignor is called 'best'; there are range, roundrobin, sticky, coop"):
        assign("best", {"t": 1}, [])


@EVERY_ASSIGNOR
def test_two_members_of_one_id_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="two members have the id 'a'"):
        assign(name, {"t": 1}, [member("a", "t"), member("b", "t"), member("a", "u")])


@EVERY_ASSIGNOR
def test_a_negative_count_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="topic 'u' cannot have -1 partitions"):
        assign(name, {"t": 1, "u": -1}, [member("a", "t")])


@EVERY_ASSIGNOR
def test_member_without_share_gets_nothing(name: str) -> None:
    assert drawn(name, {"t": 3}) == {}


@EVERY_ASSIGNOR
def test_topics_that_are_missing_empty_or_unread_are_skipped(name: str) -> None:
    assert drawn(name, {"empty": 0, "unread": 4}, member("a", "missing empty"), member("b", "")) == {"a": "", "b": ""}


@EVERY_ASSIGNOR
def test_a_topic_named_twice_is_one_subscription(name: str) -> None:
    assert drawn(name, {"t": 4}, member("a", "t t"), member("b", "t")) == drawn(
        name, {"t": 4}, member("a", "t"), member("b", "t")
    )


@EVERY_ASSIGNOR
def test_the_order_of_input_does_not_matter(name: str) -> None:
    members = (
        member("a", "t u", "t-0 t-1 t-2", 3),
        member("b", "u", "u-0", 4, "i"),
        member("c", "t", "t-1 t-3", 3, "h"),
    )
    expected = drawn(name, {"t": 5, "u": 3}, *members)

    assert list(expected) == ["c", "b", "a"]
    for topics in ({"t": 5, "u": 3}, {"u": 3, "t": 5}):
        for shuffled in permutations(members):
            given = drawn(name, topics, *shuffled)
            assert (list(given), given) == (list(expected), expected)


def test_names_sort_as_in_java() -> None:
    """A character beyond the first plane is a pair of surrogates there, and those sort before U+FFFD."""
    late, early = "\ufffd", "\U0001f600"
    group_spec = build_group_spec({late: 1, early: 1}, [member(late, f"{late} {early}"), member(early, late)])

    assert late < early
    assert [one.member_id for one in group_spec.members] == [early, late]
    assert list(group_spec.counts) == [early, late]


def test_unpaired_surrogate_is_a_valid_name() -> None:
    assert drawn("range", {"t": 1}, member("\ud800", "t")) == {"\ud800": "t-0"}
