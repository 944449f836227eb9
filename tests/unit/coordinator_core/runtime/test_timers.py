"""Timers are due when their full time has passed, the earliest first; moving one back costs nothing."""

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_core.protocol.requests import Deadline, DeadlineKind
from coordinator_core.runtime.timers import GroupTimer, Timers

A, B, C = (GroupTimer("g", Deadline(DeadlineKind.SESSION, name)) for name in "abc")
JOIN = GroupTimer("g", Deadline(DeadlineKind.JOIN))
SYNC = GroupTimer("g", Deadline(DeadlineKind.SYNC))
PENDING_MEMBER = GroupTimer("g", Deadline(DeadlineKind.PENDING_MEMBER, "h"))


def due(timers: Timers, now_ms: int) -> list[GroupTimer]:
    """Take everything that is due."""
    taken = []
    while (timer := timers.pop_due(now_ms)) is not None:
        taken.append(timer)
    return taken


def test_a_deadline_is_due_when_its_full_time_has_passed() -> None:
    timers = Timers()
    timers.start(A, 100)
    assert due(timers, 99) == []
    assert due(timers, 100) == [A]
    assert due(timers, 200) == []


def test_the_earliest_comes_first_and_of_equals_the_one_started_first() -> None:
    timers = Timers()
    for timer, at_ms in [(A, 20), (B, 10), (C, 20)]:
        timers.start(timer, at_ms)
    assert due(timers, 20) == [B, A, C]


def test_a_deadline_that_moves_back_surfaces_at_its_new_time() -> None:
    timers = Timers()
    timers.start(A, 100)
    timers.start(A, 300)
    assert due(timers, 299) == []
    assert due(timers, 300) == [A]


def test_a_deadline_that_moves_back_surfaces_after_those_due_before_it() -> None:
    timers = Timers()
    timers.start(A, 100)
    timers.start(B, 200)
    timers.start(A, 300)
    assert due(timers, 400) == [B, A]


def test_a_deadline_that_moves_forward_surfaces_once() -> None:
    timers = Timers()
    timers.start(A, 300)
    timers.start(A, 100)
    assert due(timers, 100) == [A]
    assert due(timers, 300) == []


def test_a_deadline_that_is_stopped_does_not_surface() -> None:
    timers = Timers()
    timers.start(A, 100)
    timers.stop(A)
    timers.stop(B)
    assert due(timers, 100) == []


def test_a_deadline_that_is_stopped_and_started_again_surfaces_at_its_new_time() -> None:
    timers = Timers()
    timers.start(A, 100)
    timers.stop(A)
    timers.start(A, 150)
    assert due(timers, 149) == []
    assert due(timers, 150) == [A]


def test_sleeping_loop_is_woken_by_an_earlier_timer() -> None:
    timers = Timers()
    assert timers.start(A, 100)
    assert not timers.start(B, 200)
    assert timers.start(B, 50)
    assert not timers.start(B, 500)
    assert timers.next_due_ms() == 50


def test_a_heartbeat_adds_nothing_to_the_heap() -> None:
    timers = Timers()
    for at_ms in range(100, 1_100):
        timers.start(A, at_ms)
    assert len(timers._heap) == 1


def test_only_running_timers_have_a_due_time() -> None:
    timers = Timers()
    timers.start(A, 100)
    assert (timers.due_at_ms(A), timers.due_at_ms(B), len(timers)) == (100, None, 1)
    timers.pop_due(100)
    assert (timers.due_at_ms(A), timers.next_due_ms(), len(timers)) == (None, None, 0)


def test_pause_delays_timers_of_members() -> None:
    timers = Timers()
    for timer in (A, JOIN, SYNC, PENDING_MEMBER):
        timers.start(timer, 100)
    timers.delay_members(50)
    assert due(timers, 149) == [JOIN, SYNC]
    assert due(timers, 150) == [A, PENDING_MEMBER]


class Plain:
    """The same, obviously right: a dictionary that is searched."""

    def __init__(self) -> None:
        self.due_ms: dict[GroupTimer, int] = {}

    def pop_due(self, now_ms: int) -> int | None:
        """Disarm what is due first, and return when it was due."""
        timer = min(self.due_ms, key=self.due_ms.__getitem__, default=None)
        return None if timer is None or self.due_ms[timer] > now_ms else self.due_ms.pop(timer)


ALL = (A, B, C, JOIN)
moves = st.tuples(st.sampled_from(["start", "stop", "take", "delay"]), st.sampled_from(ALL), st.integers(0, 20))


@settings(derandomize=True, database=None, max_examples=300)
@given(st.lists(moves, max_size=40))
def test_heap_agrees_with_a_linear_search(steps: list[tuple[str, GroupTimer, int]]) -> None:
    timers, plain = Timers(), Plain()
    now_ms = 0
    for what, timer, ms in steps:
        match what:
            case "start":
                timers.start(timer, now_ms + ms)
                plain.due_ms[timer] = now_ms + ms
            case "stop":
                timers.stop(timer)
                plain.due_ms.pop(timer, None)
            case "delay":
                timers.delay_members(ms)
                plain.due_ms |= {one: at_ms + ms for one, at_ms in plain.due_ms.items() if one != JOIN}
            case _:
                now_ms += ms
                due_ms = dict(plain.due_ms)
                taken = timers.pop_due(now_ms)
                assert (None if taken is None else due_ms[taken]) == plain.pop_due(now_ms)
                plain.due_ms = {one: at_ms for one, at_ms in due_ms.items() if one != taken}
        assert {one: timers.due_at_ms(one) for one in ALL} == {one: plain.due_ms.get(one) for one in ALL}
        first_ms = timers.next_due_ms()
        assert not plain.due_ms or (first_ms is not None and first_ms <= min(plain.due_ms.values()))
