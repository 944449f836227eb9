"""The groups of the soak, one for each kind of member: members join, commit, leave, are paused and killed at random."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.support.kafka_members import KafkaMember, KafkaMembers

PREFIX: Final = "soak-"
TOPIC: Final = "soak-orders"
MEMBERS_MAX: Final = 3
SESSION_MS: Final = 6_000
PAUSE_MAX_S: Final = 1.8 * SESSION_MS / 1000
CLASSIC: Final = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 500}
STICKY: Final = "cooperative-sticky"

Join = Callable[[KafkaMembers, str, str, int], KafkaMember]
"""Starts a member: of these members, in a group, with a client id, at a place of the group."""


def _of_library(library: str, options: Mapping[str, object]) -> Join:
    return lambda members, group_id, client_id, _: members.join(
        library, group_id, TOPIC, client_id=client_id, **options
    )


def _static(members: KafkaMembers, group_id: str, client_id: str, place: int) -> KafkaMember:
    options = {**CLASSIC, "partition_assignment_strategy": STICKY, "group_instance_id": f"host-{place}"}
    return members.join("confluent-kafka", group_id, TOPIC, client_id=client_id, **options)


def _java(members: KafkaMembers, group_id: str, client_id: str, _: int) -> KafkaMember:
    return members.join_java(
        group_id, TOPIC, client_id, "--session-timeout", str(SESSION_MS), "--reset-policy", "earliest"
    )


KINDS: Final[dict[str, Join]] = {
    "kafka-python": _of_library("kafka-python", CLASSIC),
    "aiokafka": _of_library("aiokafka", CLASSIC),
    "confluent": _of_library("confluent-kafka", {**CLASSIC, "partition_assignment_strategy": STICKY}),
    "static": _static,
    "consumer-protocol": _of_library("confluent-kafka", {"group_protocol": "consumer"}),
    "franz-go": _of_library("franz-go", {**CLASSIC, "assignor": STICKY}),
    "sarama": _of_library("sarama", CLASSIC),
    "java": _java,
}
"""Kinds of members, by the names of their groups without the prefix."""


@dataclass(slots=True)
class Slot:
    """A place in a group, which has a member or none."""

    kind: str
    place: int
    member: KafkaMember | None = None
    resume_at_s: float | None = None
    """When its member, which is paused, goes on; None: it is not paused."""


class Groups:
    """All groups, and what is done with their members."""

    def __init__(self, members: KafkaMembers, kinds: list[str], random: Random) -> None:
        self._members = members
        self._random = random
        self._slots = [Slot(kind, place) for kind in kinds for place in range(MEMBERS_MAX)]
        self.done: Counter[str] = Counter()
        """How often each kind of thing was done."""

    def step(self) -> None:
        """Do one thing with one member, at random; replace members that have ended by themselves."""
        self._resume(time.monotonic())
        slot = self._random.choice(self._slots)
        if slot.member is not None and not slot.member.is_running():
            slot.member = None
        if slot.member is None:
            self._join(slot)
        elif slot.resume_at_s is None:
            commit, leave, kill, pause = self._commit, self._leave, self._kill, self._pause
            [act] = self._random.choices([commit, leave, kill, pause], weights=[30, 2, 1, 2])
            with suppress(BrokenPipeError):  # It has ended by itself, as clients do after some failures.
                act(slot, slot.member)

    def end(self) -> None:
        """Let all members leave; kill those that have not within the time of a session."""
        self._resume(float("inf"))
        running = [slot.member for slot in self._slots if slot.member is not None and slot.member.is_running()]
        for member in running:
            with suppress(BrokenPipeError):
                member.send_leave()
        ends_s = time.monotonic() + SESSION_MS / 1000
        for member in running:
            member.end(max(0.0, ends_s - time.monotonic()))

    def _join(self, slot: Slot) -> None:
        self.done["joins"] += 1
        client_id = f"{slot.kind}-{self.done['joins']}"
        slot.member = KINDS[slot.kind](self._members, PREFIX + slot.kind, client_id, slot.place)

    def _commit(self, slot: Slot, member: KafkaMember) -> None:
        if slot.kind != "java":  # It commits by itself what it consumes.
            self.done["commits"] += 1
            member.send_commit(self.done["commits"], f"commit-{self.done['commits']}")

    def _leave(self, slot: Slot, member: KafkaMember) -> None:
        self.done["leaves"] += 1
        member.send_leave()
        slot.member = None

    def _kill(self, slot: Slot, member: KafkaMember) -> None:
        self.done["kills"] += 1
        member.kill()
        slot.member = None

    def _pause(self, slot: Slot, member: KafkaMember) -> None:
        self.done["pauses"] += 1
        member.pause()
        slot.resume_at_s = time.monotonic() + self._random.uniform(0, PAUSE_MAX_S)

    def _resume(self, now_s: float) -> None:
        for slot in self._slots:
            if slot.resume_at_s is not None and slot.resume_at_s <= now_s:
                assert slot.member is not None, "a paused member stays in its place"
                slot.member.resume()
                slot.resume_at_s = None
