"""Processes of members of Kafka groups, of four languages, and what they have reported."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tests.support.go_members import GO_LIBRARIES, go_member
from tests.support.kafka_broker import SMALL, fetch_jars, java_or_unavailable
from tests.support.node_members import fetch_kafkajs
from tests.support.waiting import PATIENCE_S, poll_until

JAVA_EVENTS: Final = {
    "partitions_assigned": "assigned",
    "partitions_revoked": "revoked",
    "offsets_committed": "committed",
}

SHOWN_EVENTS: Final = 4
SHOWN_ERRORS: Final = 1_000
"""How much of a member's output a failed test shows: events, and characters of what it wrote beside them."""

Event = dict[str, Any]


class KafkaMember:
    """A member in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], output: Path, about: Mapping[str, str]) -> None:
        self._process = process
        self._output = output
        self._about = about

    @classmethod
    def of_library(
        cls, directory: Path, library: str, bootstrap: str, group_id: str, topics: str, **options: object
    ) -> "KafkaMember":
        """Start a member of one of the libraries of `kafka_member`, `go_members` and `node_members`.

        Args:
            directory: where its output goes.
            library: its client library.
            bootstrap: the broker.
            group_id: its group.
            topics: the topics that it subscribes to, separated by commas.
            options: those of the library, with `_` for `.`; all need a client id.

        Raises:
            GoUnavailable: the library is one of Go's, and cannot be had.
            NodeUnavailable: it is kafkajs, and cannot be had.
        """
        dotted = {name.replace("_", "."): value for name, value in options.items()}
        named = json.dumps(dotted if library.startswith(("confluent-kafka", "kafka-clients")) else options)
        if library in GO_LIBRARIES:
            program = [str(go_member(directory, library))]
        elif library == "kafkajs":
            program = fetch_kafkajs()
        else:
            program = [sys.executable, "-m", "tests.support.kafka_member", library]
        argv = [*program, bootstrap, group_id, topics, named]
        return cls._started(directory, argv, library, group_id, str(options["client_id"]))

    @classmethod
    def of_java(
        cls, directory: Path, bootstrap: str, group_id: str, topic: str, client_id: str, *arguments: str
    ) -> "KafkaMember":
        """Start Kafka's own `VerifiableConsumer`, which commits what it consumes.

        Args:
            directory: where its output and properties go.
            bootstrap: the broker.
            group_id: its group.
            topic: the topic that it subscribes to.
            client_id: its client id.
            arguments: more arguments of the tool.
        """
        java = java_or_unavailable(directory)
        properties = directory / f"{client_id}.properties"
        properties.write_text(f"client.id={client_id}\n")
        tool = [java, *SMALL, "-cp", f"{fetch_jars(java, artifact='kafka-tools')}/*"]
        of_group = ["--group-id", group_id, "--topic", topic, "--consumer.config", str(properties)]
        argv = [*tool, "org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", bootstrap, *of_group]
        return cls._started(directory, [*argv, *arguments], "java", group_id, client_id)

    @classmethod
    def _started(cls, directory: Path, argv: list[str], library: str, group_id: str, client_id: str) -> "KafkaMember":
        output = Path(tempfile.mkdtemp(prefix=client_id, dir=directory)) / "out.jsonl"
        with output.open("a") as out, output.with_suffix(".err").open("a") as err:
            process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=out, stderr=err, text=True)
        return cls(process, output, {"library": library, "group_id": group_id, "client_id": client_id})

    def events(self) -> list[Event]:
        """Return what it has reported, with its library, group and client id."""
        lines = self._output.read_text().splitlines(keepends=True)
        events = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]
        return [{**self._about, **event} for event in map(_with_one_form, events) if event]

    def summary(self) -> str:
        """Return who it is, whether it runs, and the last events and errors, for the message of a failed test."""
        state = "runs" if self.is_running() else f"has ended with {self._process.returncode}"
        events = "".join(f"\n  {json.dumps(event)}" for event in self.events()[-SHOWN_EVENTS:])
        errors = self._output.with_suffix(".err").read_text()[-SHOWN_ERRORS:]
        return f"{self._about['client_id']} ({self._about['library']}) {state}{events}\n{errors}"

    def is_running(self) -> bool:
        """Return whether its process runs."""
        return self._process.poll() is None

    def has_left(self) -> bool:
        """Return whether its process has ended as it should."""
        return self._process.poll() == 0

    def owned(self) -> set[tuple[str, int]]:
        """Return the partitions that it owns now."""
        owned: set[tuple[str, int]] = set()
        for event in self.events():
            partitions = {(topic, partition) for topic, partition in event["partitions"]}
            owned = owned | partitions if event["event"] == "assigned" else owned
            owned = owned - partitions if event["event"] == "revoked" else owned
        return owned

    def wait_until(self, condition: "Callable[[KafkaMember], object]") -> None:
        """Return when a condition holds.

        Raises:
            AssertionError: its process has ended before.
        """

        def holds() -> object:
            assert self.is_running(), "its process has ended"
            return condition(self)

        poll_until(holds)

    def commit(self, offset: int, metadata: str) -> None:
        """Commit an offset of each of its partitions, and return when that is done; a rebalance may refuse it first."""

        def outcomes() -> list[str]:
            return [event["event"] for event in self.events() if event["event"] in {"committed", "commit_failed"}]

        def commit() -> bool:
            before = len(outcomes())
            self.send_commit(offset, metadata)
            self.wait_until(lambda _: len(outcomes()) > before)
            return outcomes()[before] == "committed"

        poll_until(commit)

    def send_commit(self, offset: int, metadata: str) -> None:
        """Let it commit an offset of each of its partitions when it comes to it."""
        self._send(f"commit {offset} {metadata}")

    def result_of(self, offset: int) -> Event | None:
        """Return whether the commit of an offset was acknowledged or has failed; None: neither is known."""
        results = (each for each in self.events() if each["event"] in {"committed", "commit_failed"})
        return next((each for each in results if each.get("offset") == offset), None)

    def read_offsets(self) -> dict[tuple[str, int], int]:
        """Return the committed offsets of its partitions, which its library asks the coordinator for.

        Members in Go have no command for this: sarama's reads each commit back before it reports it.
        """
        self.send_read()
        self.wait_until(KafkaMember.reads)
        (offsets,) = self.reads()
        assert offsets is not None, self.events()[-1]
        return offsets

    def send_read(self) -> None:
        """Let it ask for the committed offsets of its partitions when it comes to it."""
        self._send("read")

    def reads(self) -> list[dict[tuple[str, int], int] | None]:
        """Return the committed offsets of each time that it asked for them; None: the library raised an error."""
        return [_offsets_of(event) for event in self.events() if event["event"] in {"read", "read_failed"}]

    def leave(self) -> None:
        """Close its consumer, and return when the process has ended."""
        self.send_leave()
        self._process.wait(PATIENCE_S)

    def send_leave(self) -> None:
        """Let it close its consumer and end."""
        if self._about["library"] == "java":
            self._process.terminate()
        else:
            self._send("leave")

    def pause(self) -> None:
        """Stop its process, which sends no heartbeats until it is resumed."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Resume its process."""
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill its process, as if the machine had failed."""
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE_S)

    def end(self, timeout_s: float) -> None:
        """Return when its process has ended; kill it if it has not in time."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def stop(self) -> None:
        """Kill its process if it runs, and close its pipe."""
        if self._process.poll() is None:
            self.kill()
        assert self._process.stdin is not None, "its input is a pipe"
        with suppress(BrokenPipeError):  # It has ended before it read a command.
            self._process.stdin.close()

    def _send(self, command: str) -> None:
        assert self._process.stdin is not None, "its input is a pipe"
        try:
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise AssertionError("its process has ended") from None


class KafkaMembers:
    """The members that a test or a recording has started."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self._directory = directory
        self._bootstrap = bootstrap
        self.members: Final[list[KafkaMember]] = []
        """Those that were started, in their order."""

    def join(self, library: str, group_id: str, topics: str, **options: object) -> KafkaMember:
        """Start a member of a library."""
        member = KafkaMember.of_library(self._directory, library, self._bootstrap, group_id, topics, **options)
        self.members.append(member)
        return member

    def join_java(self, group_id: str, topic: str, client_id: str, *arguments: str) -> KafkaMember:
        """Start a member of Java's client."""
        member = KafkaMember.of_java(self._directory, self._bootstrap, group_id, topic, client_id, *arguments)
        self.members.append(member)
        return member

    def events(self) -> list[Event]:
        """Return what all of them have reported, in order of time."""
        return sorted((event for each in self.members for event in each.events()), key=lambda event: event["at_ms"])

    def stop(self) -> None:
        """Kill those that still run."""
        for member in self.members:
            member.stop()


@contextmanager
def kafka_members(directory: Path, bootstrap: str) -> Iterator[KafkaMembers]:
    """Start members until the block ends, which kills those that still run.

    A failure's message shows what each of these reported last.
    """
    members = KafkaMembers(directory, bootstrap)
    try:
        yield members
    except Exception as failure:
        failure.add_note("\n".join(member.summary() for member in members.members if not member.has_left()))
        raise
    finally:
        members.stop()


def _offsets_of(event: Event) -> dict[tuple[str, int], int] | None:
    if event["event"] == "read_failed":
        return None
    return dict(zip(((topic, number) for topic, number in event["partitions"]), event["offsets"], strict=True))


def _with_one_form(event: Event) -> Event | None:
    """Return an event of Java's consumer in the form of the others; None if it is of no use."""
    if "at_ms" in event:
        return event
    name = JAVA_EVENTS.get(event["name"])
    if name is None:
        return (
            {"at_ms": event["timestamp"], "event": "left", "partitions": []}
            if event["name"] == "shutdown_complete"
            else None
        )
    items = event["offsets" if name == "committed" else "partitions"]
    details = {"offsets": [item["offset"] for item in items]} if name == "committed" else {}
    pairs = [[item["topic"], item["partition"]] for item in items]
    return {"at_ms": event["timestamp"], "event": name, "partitions": pairs, **details}
