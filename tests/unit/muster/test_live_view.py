"""The live view shows groups, steps, events and addresses: as a table that fits its terminal, or as lines."""

import datetime as dt
import errno
import io
import os
from collections.abc import Sequence

import pytest
from rich.console import Console

from muster.live_view import Address, LiveView, PlainView, group_line, group_table, run_line
from muster.local.demo_fleet import GROUPS
from muster.node_client import Json
from muster.snapshots import NOT_STORED, Snapshot, WatchedGroup
from tests.support.waiting import poll_until

NODE = [Address("Node", "http://127.0.0.1:8080")]
RUN = {
    "run_id": "1",
    "kind": "offset_retention",
    "status": "applied",
    "as_of": "2026-11-01T00:00:00Z",
    "counts": {"expired": 3, "committed_since": 2},
}


def ago(seconds: float) -> str:
    return (dt.datetime.now(dt.UTC) - dt.timedelta(seconds=seconds)).isoformat()


def watched(
    group_id: str, client_ids: Sequence[str] = (), triggered_by: str | None = None, **changes: Json
) -> WatchedGroup:
    """Return a group whose members own 4 partitions each; `changes` are of its summary."""
    members = [
        {
            "member_id": f"{client_id}-id",
            "client_id": client_id,
            "client_host": "127.0.0.1",
            "owned_partitions": [{"topic": "t", "partitions": [0, 1, 2, 3]}],
            "missing_request": None,
        }
        for client_id in client_ids
    ]
    summary = {**NOT_STORED, "group_id": group_id, "state": "Stable", "generation": 4, **changes}
    no_awaited: Json = {"waiting_for": [], "waiting_until": None, "pending_members": 0, "leader": None}
    described = {**summary, **no_awaited, "members": members} if members else None
    return WatchedGroup(summary, described, triggered_by)


def billing(**changes: Json) -> WatchedGroup:
    last = {"last_rebalance_trigger": "session_expired", "last_rebalance_at": ago(0)}
    return watched("billing", ["a"], "b", lag=5, **last, **changes)


def waiting() -> WatchedGroup:
    group = billing()
    assert group.described is not None
    group.described.update(state="PreparingRebalance", waiting_for=["a-id"])
    group.described["members"][0]["missing_request"] = "join"
    return group


def drawn(snapshot: Snapshot, width: int = 80) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width, height=24).print(group_table(snapshot, width))
    return stream.getvalue()


def test_line_of_a_group_shows_all_fields() -> None:
    assert group_line(billing()) == (
        "billing: Stable, generation 4, members a (4), lag 5, last rebalance session_expired of b, 0 s ago"
    )


def test_group_that_rebalances_again_and_again_is_flapping() -> None:
    flapping = billing(rebalances_last_hour=10)

    assert "billing: Stable, flapping, generation" in group_line(flapping)
    assert "Stable, flapping" in drawn(Snapshot("12:00:00", (flapping,)), width=140)
    assert "flapping" not in group_line(billing(rebalances_last_hour=9))
    assert "flapping" not in group_line(billing(rebalances_last_hour=10, state="Empty"))


def test_lag_is_a_lower_bound_where_a_log_end_is_stale() -> None:
    assert "lag ≥ 5," in group_line(billing(is_lag_lower_bound=True))


def test_a_rebalance_under_way_is_shown_with_its_reason() -> None:
    assert group_line(billing(rebalance_trigger="member_joined")).endswith("last rebalance now: member_joined")


def test_line_of_a_run_has_its_candidates_by_outcome() -> None:
    assert run_line(RUN) == "offset_retention applied: 2 committed since, 3 expired"


def test_plain_output_reports_only_changes() -> None:
    stream = io.StringIO()
    view = PlainView(stream)
    with view.step("Postgres") as step:
        step.note = "on 127.0.0.1:5432"
    for trouble in ("", "", "No node answers.", "No node answers."):
        view.show(Snapshot("12:00:00", [billing()], 0, [RUN], trouble), NODE)
    first, *others = stream.getvalue().splitlines()
    assert first.startswith("✓ Postgres")
    assert first.endswith("on 127.0.0.1:5432")
    assert others == [
        "Node     http://127.0.0.1:8080",
        f"12:00:00 {group_line(billing())}",
        run_line(RUN),
        "No node answers.",
    ]


def test_plain_output_names_awaited_members() -> None:
    stream = io.StringIO()
    PlainView(stream).show(Snapshot("12:00:00", [waiting()]), [])
    assert stream.getvalue().splitlines()[1:] == ["  waits for a at 127.0.0.1 (a-id) to join"]


def test_plain_output_repeats_unchanged_groups_after_the_interval() -> None:
    stream = io.StringIO()
    view = PlainView(stream, progress_interval_s=0.0)
    for _ in range(2):
        view.show(Snapshot("12:00:00", [billing(), watched("past", state="Empty")]), [])
    assert [line.split()[1] for line in stream.getvalue().splitlines()] == ["billing:", "past:", "billing:"]


def test_failed_step_prints_no_line() -> None:
    stream = io.StringIO()
    view = PlainView(stream)
    with pytest.raises(ZeroDivisionError), view.step("Postgres"):
        raise ZeroDivisionError
    assert stream.getvalue() == ""


def test_the_picture_shows_groups_steps_events_and_addresses() -> None:
    stream = io.StringIO()
    view = LiveView(Console(file=stream, force_terminal=True, width=160))
    with view.step("Airflow"):
        view.event("demo-a was ended by SIGKILL.")
        view.show(Snapshot("12:00:00", [waiting()], 7, [RUN], "No node answers."), NODE, with_members=True)
        words = ["Airflow …", "billing", "a (4)", "session_expired", "of b", "SIGKILL", "7 more", ":8080", "12:00:00"]
        words += ["waits for a at 127.0.0.1 (a-id) to join", "No node answers.", "CONSUMER-ID", "3 expired"]
        poll_until(lambda: all(word in stream.getvalue() for word in words))
    view.close()
    assert "✓ " in stream.getvalue()


def demo_snapshot(pid: int, *, is_rebalancing: bool = False) -> Snapshot:
    """Return the demonstration with all members, its history groups and two runs."""
    client_ids = {
        group.group_id: [f"{name}-pid{pid}" for name in (*group.members, *([group.visitor] if group.visitor else []))]
        for group in sorted(GROUPS, key=lambda group: group.group_id)
    }
    state = "PreparingRebalance" if is_rebalancing else "Stable"
    last = {"last_rebalance_trigger": "session_expired", "last_rebalance_at": ago(59)}
    if is_rebalancing:
        last["rebalance_trigger"] = "session_expired"
    live = [
        watched(group_id, names, names[0], state=state, generation=41, lag=12_345, **last)
        for group_id, names in client_ids.items()
    ]
    past = [watched(name, state="Empty", generation=0) for name in ("nightly-export", "orders-replay")]
    return Snapshot("12:00:00", [*live, *past], 0, [RUN, RUN])


ADDRESSES = (
    Address("Console", "http://127.0.0.1:8080/"),
    Address("Node", "http://127.0.0.1:8080/v1/groups (described at http://127.0.0.1:8080/docs)"),
    Address("Postgres", f"psql postgresql://muster:{'x' * 32}@127.0.0.1:54321/muster"),
    Address("Airflow", f"http://127.0.0.1:8081 (user admin, password {'x' * 32})"),
    Address("Stop", f"Ctrl-C (logs are in /home/{'a' * 50}/.muster/logs)"),
)


@pytest.mark.parametrize("pid", [7525, 4_194_304])
@pytest.mark.parametrize("is_rebalancing", [False, True])
def test_pids_are_complete_on_a_small_terminal(pid: int, *, is_rebalancing: bool) -> None:
    snapshot = demo_snapshot(pid, is_rebalancing=is_rebalancing)
    stream = io.StringIO()
    view = LiveView(Console(file=stream, force_terminal=True, width=80, height=24))
    view.show(snapshot, ADDRESSES)
    poll_until(lambda: "Last rebal" in stream.getvalue())
    view.close()

    named = [f"{member['client_id']} (4)" for group in snapshot.groups for member in group.members]
    assert [name for name in named if name not in stream.getvalue()] == []
    assert all(group.group_id in stream.getvalue() for group in snapshot.groups if group.members)


def test_pid_in_the_reason_is_complete_or_marked_as_cropped() -> None:
    assert "of audit-1-pid7525\n" in drawn(demo_snapshot(7525))
    assert "of enrichment-1-p…\n" in drawn(demo_snapshot(7525))


def test_first_members_are_named_and_the_others_counted() -> None:
    table = drawn(Snapshot("", [watched("billing", [f"worker-{number}" for number in range(100)])]))
    assert "worker-7 (4)" in table
    assert "and 92 more" in table


def test_members_of_a_group_that_is_not_described_are_counted() -> None:
    assert " 1,234 " in drawn(Snapshot("", [watched("billing", member_count=1_234)]))


def test_long_names_leave_space_for_other_columns() -> None:
    table = drawn(Snapshot("", [watched("g" * 100, ["c" * 200]), demo_snapshot(7525).groups[0]]))
    assert "Stable" in table
    assert "enrichment-1-pid7525 (4)" in table
    assert max(map(len, table.splitlines())) <= 80


class FullDisk(io.StringIO):
    """A stream to a file that cannot grow, or to a reader that has ended."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def write(self, _: str) -> int:
        raise OSError(self._number, os.strerror(self._number))


def test_lines_that_find_no_space_are_lost() -> None:
    PlainView(FullDisk(errno.ENOSPC)).event("Postgres ended.")


def test_view_whose_reader_has_ended_says_so() -> None:
    with pytest.raises(BrokenPipeError):
        PlainView(FullDisk(errno.EPIPE)).event("Postgres ended.")
