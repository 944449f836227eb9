"""Watching: on a terminal in place, in a pipe line by line; Ctrl-C ends it as it should."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.support.http_client import Client, Group, fresh_id, join_body, position
from tests.support.muster_command import PATIENT, Muster, commit
from tests.support.nodes import Node, running_node
from tests.support.waiting import PATIENCE_S, poll_until

WIDTH = 60
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, url: str, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        environment = {**os.environ, "MUSTER_URL": url, "COLUMNS": str(WIDTH), "LINES": "40", "TERM": "xterm"}
        command = [sys.executable, "-m", "muster", *arguments]
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        self.shown = ""

    def read_until(self, text: str) -> str:
        """Read until the terminal has shown a text, and return all that it has shown."""
        deadline_s = time.monotonic() + PATIENCE_S
        while text not in self.shown:
            assert time.monotonic() < deadline_s, self.shown
            self._read()
        return self.shown

    def rest(self) -> str:
        """Read to the end, and return all that was shown."""
        while self._read():
            pass
        return self.shown

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def _read(self) -> bool:
        if not select.select([self._ours], [], [], PATIENCE_S)[0]:
            return False
        try:
            piece = os.read(self._ours, 65_536)
        except OSError:  # The other side is closed.
            return False
        self.shown += piece.decode(errors="replace")
        return bool(piece)


@contextmanager
def in_a_pipe(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], Iterator[str]]]:
    """Run a command until the block ends; what it prints comes line by line."""
    command = [sys.executable, "-m", "muster", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, iter(process.stdout)
        finally:
            process.kill()


@pytest.fixture
def terminals(bare_muster: Muster) -> Iterator[list[Terminal]]:
    assert bare_muster is not None
    terminals: list[Terminal] = []
    yield terminals
    for each in terminals:
        each.close()


def test_a_group_is_watched_in_place_until_ctrl_c(node: Node, group: Group, terminals: list[Terminal]) -> None:
    first = group.stable(client_id="first", **PATIENT)
    terminals.append(terminal := Terminal(node.url, "groups", "watch", group.group_id, "--interval", "0.1"))
    terminal.read_until("Stable")
    group.client.later(group, "join", join_body(member_id=group.handshake(), **PATIENT))

    assert "waits for first at 127.0.0.1" in terminal.read_until("PreparingRebalance")
    terminal.process.send_signal(signal.SIGINT)
    assert "Traceback" not in terminal.rest()
    assert terminal.process.wait(PATIENCE_S) == 0
    group.client.call("POST", f"{group.path}/leave", {"members": [{"member_id": first.member_id}]})


def test_a_long_id_is_folded_in_a_narrow_terminal_and_not_lost(
    node: Node, client: Client, terminals: list[Terminal]
) -> None:
    group_id = fresh_id("x" * 100)
    commit(client.group(group_id), position(1))
    terminals.append(terminal := Terminal(node.url, "groups", "list", "--prefix", "xxx"))

    shown = COLOURS.sub("", terminal.rest())

    assert all(len(line) <= WIDTH for line in shown.splitlines())
    assert shown.count("x") == 100
    assert "…" not in shown


def test_watch_in_a_pipe_prints_changed_groups_only(muster: Muster, group: Group) -> None:
    commit(group, position(1))

    said = muster.ok("groups", "watch", group.group_id, "--interval", "0.1", "--count", "3").out

    assert len(said.splitlines()) == 1
    assert f"{group.group_id}: Empty" in said


def test_watch_without_names_shows_all_groups(muster: Muster, client: Client) -> None:
    rebalancing, settled = client.group(fresh_id("watched")), client.group(fresh_id("watched"))
    member = rebalancing.join()
    commit(settled, position(1))

    said = muster.ok("groups", "watch", "--count", "1").out

    assert f"{rebalancing.group_id}: CompletingRebalance" in said
    assert f"waits for agent-1 at 127.0.0.1 ({member.member_id}, the leader) to sync" in said
    assert f"{settled.group_id}: Empty, generation 0, members none" in said
    rebalancing.post("leave", {"members": [{"member_id": member.member_id}]})
    poll_until(lambda: rebalancing.describe()["state"] == "Empty")


def test_stopped_node_is_reported_and_ctrl_c_still_works(bare_muster: Muster, database_url: str) -> None:
    assert bare_muster is not None
    with ExitStack() as of_node:
        node = of_node.enter_context(running_node(database_url))
        commit(Client(node.url).group("watched"), position(1))
        with in_a_pipe("groups", "watch", "--interval", "0.1", "--url", node.url) as (watching, lines):
            assert "watched: Empty" in next(lines)
            of_node.close()
            # A stopping node first answers that it stops; later connections fail.
            last = next(line for line in lines if "this node is stopping" not in line)
            assert f"No node answers at {node.url}" in last

            watching.send_signal(signal.SIGINT)
            out, err = watching.communicate(timeout=PATIENCE_S)
            assert (watching.returncode, out, err) == (0, "", "")


def test_unauthorized_request_is_rejected(muster: Muster) -> None:
    assert "GROUP_ID_NOT_FOUND" in muster.refused(1, "groups", "watch", "nobody", "--count", "1")
