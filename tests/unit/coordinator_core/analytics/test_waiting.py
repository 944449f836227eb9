"""The consumers that a group waits for longest, by the pure rule."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator_core.analytics.waiting import Wait, rank_waits


def wait(member_id: str, waited_for_ms: int, client_id: str = "c", host: str | None = "h", **more: str) -> Wait:
    return Wait(member_id, more.get("instance"), client_id, host, waited_for_ms, more.get("outcome", "joined"))


def ranked(*waits: Wait) -> list[tuple[str, int, int]]:
    return [(each.longest.member_id, each.member_count, each.waited_for_ms) for each in rank_waits(waits)]


def test_waits_of_member_ids_in_a_crash_loop_are_summed() -> None:
    crashes = [wait(f"clicks-3-{number}", 30_000 + number, "clicks-3") for number in range(3)]
    assert ranked(wait("clicks-2-a", 61_000, "clicks-2"), *crashes) == [
        ("clicks-3-2", 3, 90_003),
        ("clicks-2-a", 1, 61_000),
    ]


def test_instance_is_one_consumer_on_any_host_and_client_on_its_host() -> None:
    static = [wait("a", 10, "one", "h", instance="pod"), wait("b", 10, "two", "i", instance="pod")]
    dynamic = [wait("c", 15, host="h"), wait("d", 15, host="i"), wait("e", 6, host=None), wait("f", 6, host=None)]
    assert ranked(*static, *dynamic) == [("a", 2, 20), ("c", 1, 15), ("d", 1, 15), ("e", 2, 12)]


def test_members_that_were_not_waited_for_are_left_out() -> None:
    assert ranked(wait("a", 0), wait("b", 0)) == []


waits = st.lists(
    st.builds(
        wait,
        member_id=st.uuids().map(str),
        waited_for_ms=st.integers(0, 3),
        client_id=st.sampled_from("xy"),
        host=st.sampled_from(["h", None]),
    ),
    max_size=8,
)


@given(waits)
def test_the_ranking_does_not_depend_on_the_order_and_loses_no_wait(given_waits: list[Wait]) -> None:
    before = ranked(*given_waits)
    assert before == ranked(*reversed(given_waits))
    assert sum(waited for *_, waited in before) == sum(each.waited_for_ms for each in given_waits)
