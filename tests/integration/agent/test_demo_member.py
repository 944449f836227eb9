"""The demonstration member: a process that consumes generated records and ends with its parent."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise

import pytest

from agent import TopicPartition
from muster.local.demo_member import BURST_RECORDS, RECORDS_BEGAN_AT_S, end_offset
from tests.support.fake_coordinator import FakeCoordinator, Problem

Process = subprocess.Popen[str]


def command(coordinator: FakeCoordinator) -> list[str]:
    options = ["--url", coordinator.url, "--group", "billing", "--topic", "orders", "--client-id", "billing-1"]
    return [sys.executable, "-m", "muster.local.demo_member", *options]


@pytest.fixture
def member(coordinator: FakeCoordinator) -> Iterator[Process]:
    coordinator.heartbeat_interval_ms = 50
    with subprocess.Popen(command(coordinator), stdout=subprocess.PIPE, text=True) as process:
        yield process
        if process.poll() is None:
            process.kill()


def line(process: Process) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_demo_member_commits_growing_offsets_and_log_end_offsets(coordinator: FakeCoordinator, member: Process) -> None:
    coordinator.wait_for_calls("commit", 3)

    joins, commits = coordinator.bodies("join"), coordinator.bodies("commit")
    assert joins[0]["client_id"] == f"billing-1-pid{member.pid}"
    assert joins[0]["session_timeout_ms"] == 6_000
    assert line(member) == "generation 1: assigned orders-0 orders-1 orders-2"
    assert commits[2]["offsets"][0]["offset"] > commits[0]["offsets"][0]["offset"] > 0
    assert commits[2]["offsets"][0]["log_end_offset"] >= commits[2]["offsets"][0]["offset"]


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_demo_member_leaves_the_group_at_sigterm(
    coordinator: FakeCoordinator, member: Process, signal_number: signal.Signals
) -> None:
    coordinator.wait_for_calls("commit", 1)
    member.send_signal(signal_number)

    assert member.wait() == 0
    assert coordinator.member_id == ""
    assert member.stdout is not None
    assert member.stdout.read().splitlines()[-1] == "left the group"


def test_demo_member_stops_without_responses(coordinator: FakeCoordinator, member: Process) -> None:
    coordinator.wait_for_calls("commit", 1)
    unavailable = [Problem("COORDINATOR_NOT_AVAILABLE", 503, "retry")] * 1_000
    coordinator.next("commit", *unavailable)
    coordinator.next("leave", *unavailable)
    coordinator.wait_for_calls("commit", 3)
    member.terminate()

    assert member.wait() == 0
    assert member.stdout is not None
    assert sum(each.startswith("not committed") for each in member.stdout.read().splitlines()) == 1


def test_demo_member_ends_with_its_parent(coordinator: FakeCoordinator) -> None:
    program = "import subprocess, sys; subprocess.Popen(sys.argv[1:]); sys.stdin.read()"
    parent_command = [sys.executable, "-c", program, *command(coordinator)]
    with subprocess.Popen(parent_command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        coordinator.wait_for_calls("commit", 1)
        parent.kill()
        assert parent.stdout is not None
        parent.stdout.read()  # ends when no process holds the pipe

    assert coordinator.count("leave") == 0


def test_rejected_demo_member_prints_the_reason_in_one_line(coordinator: FakeCoordinator) -> None:
    coordinator.next("join", Problem("GROUP_MAX_SIZE_REACHED", 409, "fix"))
    done = subprocess.run(command(coordinator), capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == "cannot go on: GROUP_MAX_SIZE_REACHED: as the test says\n"


def test_invalid_url_is_rejected_in_one_line(coordinator: FakeCoordinator) -> None:
    wrong = [part.replace("http://", "") for part in command(coordinator)]
    done = subprocess.run(wrong, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert done.stderr.startswith("a base URL must look like http://host:port")
    assert done.stderr.count("\n") == 1


def test_end_offsets_grow_with_the_clock_and_jump_each_minute() -> None:
    partition = TopicPartition("orders", 0)
    offsets = [end_offset(partition, RECORDS_BEGAN_AT_S + second) for second in range(121)]

    assert offsets[0] == 0
    steps = [later - earlier for earlier, later in pairwise(offsets)]
    assert steps.count(3) == 118
    assert [second + 1 for second, step in enumerate(steps) if step == 3 + BURST_RECORDS] == [60, 120]


def test_partitions_have_their_bursts_in_turn() -> None:
    at_s = RECORDS_BEGAN_AT_S + 50

    assert (
        end_offset(TopicPartition("orders", 1), at_s) == end_offset(TopicPartition("orders", 0), at_s) + BURST_RECORDS
    )


def test_end_offset_is_0_before_records_began() -> None:
    assert end_offset(TopicPartition("orders", 0), 0.0) == 0
