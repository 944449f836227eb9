"""The node against a Kafka broker: random requests of a group's members get the same answers from both.

FUZZ_EXAMPLES in the environment is the number of groups; without it, there are few. Each coordinator issues member ids
of its own, so a member has a label here. What Muster does differently on purpose (docs/protocol.md sections 14, 15 and
18), and what Kafka leaves to the order of its hash maps, is not requested or not compared.
"""

import asyncio
import json
import os
import re
import select
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from itertools import count
from random import Random
from typing import Any, Final

import pytest

from api.kafka.apis import APIS, ApiKey
from coordinator_core.protocol.errors import MemberIdRequired
from coordinator_core.protocol.hashing import shard_of
from tests.support.kafka_broker import QUICK, KafkaBroker
from tests.support.kafka_listener import PARTITIONS, PATIENT, TOPIC, commit
from tests.support.kafka_log import create_topics
from tests.support.kafka_wire import KafkaWire, read_response
from tests.support.nodes import Node
from tests.support.waiting import poll_until

pytestmark = [pytest.mark.slow, pytest.mark.peers]

GROUPS: Final = int(os.environ.get("FUZZ_EXAMPLES", "10"))
REQUESTS: Final = 80
OTHER_ANSWER_WAIT_S: Final = 10.0
"""How long an answer is waited for that the other coordinator has given."""
UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SUBSCRIPTION: Final = b"\0\1\0\0\0\1\0\6orders\xff\xff\xff\xff\0\0\0\0"
PROTOCOLS: Final = (("range", "roundrobin"), ("range",), ("roundrobin",))
"""What members offer: however it is divided, no two protocols get the same number of votes."""
INSTANCE_IDS: Final = ("one", "two")
OF_MEMBERS: Final = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.OFFSET_COMMIT, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP)
INSTANCE_IDS_FROM: Final = dict(zip(OF_MEMBERS, (5, 3, 7, 3, 3), strict=True))
KEYS: Final = (*OF_MEMBERS, ApiKey.DESCRIBE_GROUPS, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE)
WEIGHTS: Final = (30, 26, 10, 8, 6, 11, 5, 2)
Fields = dict[str, Any]


class Side:
    """The broker or the node, with connections that are used again once their request is answered."""

    def __init__(self, address: str, shards: int, stack: ExitStack) -> None:
        self._address, self._shards, self._stack = address, shards, stack
        self._idle: list[KafkaWire] = []
        self._member_ids: dict[str, str] = {}
        self.waiting: dict[int, tuple[ApiKey, int, KafkaWire]] = {}
        """Number of a request → its API and version, and where its answer will be."""

    def ask(self, number: int, key: ApiKey, version: int, fields: Fields) -> None:
        """Send a request, with member ids in place of labels."""
        wire = self._wire()
        wire.ask(key, version, **self._with_member_ids(fields))
        self.waiting[number] = key, version, wire

    def settle(self, group_id: str) -> None:
        """Return when earlier requests of a group are decided and stored, as what its shard stores after them is."""
        shard, names = shard_of(group_id, self._shards), map("other-{}".format, count())
        wire = self._wire()
        assert commit(wire, next(name for name in names if shard_of(name, self._shards) == shard), 0, 1) == 0
        self._idle.append(wire)

    def answers(self) -> dict[int, Fields]:
        """Return the answers that are there, with labels in place of member ids."""
        found = {}
        for number, (key, version, wire) in list(self.waiting.items()):
            if select.select([wire.socket], [], [], 0)[0]:
                answer = asdict(read_response(key, version, wire.receive()))
                if is_answer_of_member(answer):
                    self._member_ids.setdefault(f"<{number}>", answer["member_id"])
                text = json.dumps(answer, default=str)
                for label, member_id in self._member_ids.items():
                    text = text.replace(member_id, label)
                found[number] = json.loads(UUID.sub("*", text))
                self._idle.append(wire)
                del self.waiting[number]
        return found

    def _with_member_ids(self, value: Any) -> Any:  # noqa: ANN401  # the fields of a request, or a part of them
        if isinstance(value, dict):
            return {name: self._with_member_ids(part) for name, part in value.items()}
        if isinstance(value, list):
            return [self._with_member_ids(part) for part in value]
        return self._member_ids.get(value, value) if isinstance(value, str) else value

    def _wire(self) -> KafkaWire:
        return self._idle.pop() if self._idle else self._stack.enter_context(KafkaWire(self._address))


def is_answer_of_member(answer: Fields) -> bool:
    """Return whether it is that of a join with the member id; Kafka is not consistent in others."""
    return "leader" in answer and answer["error_code"] in {0, MemberIdRequired.kafka_code}


def comparable(answer: Fields) -> Fields:
    """Return what of an answer has to be the same."""
    for group in [answer, *answer.get("groups", ())]:
        if group.get("group_state", "Stable") != "Stable":
            group["members"] = [{**each, "member_assignment": ""} for each in group["members"]]
        group["members"] = sorted(group.get("members", ()), key=repr)
    return answer if is_answer_of_member(answer) else {**answer, "member_id": ""}


class Requests:
    """Random requests of a group, by what its members would know of it."""

    def __init__(self, group_id: str, seed: int) -> None:
        self._group_id, self._dice = group_id, Random(seed)
        self._offered: dict[str, tuple[str, ...]] = {}
        """Label → what the member offers, of all that were ever asked to join."""
        self._instances: dict[str, str | None] = {}
        self._present: list[str] = []
        """All that have joined and not left: at least the members."""
        self._generation, self._leader, self._exists = 0, "", False
        self._parked: dict[int, tuple[ApiKey, str]] = {}
        """Number → API and label of joins and syncs without an answer."""
        self.superseded: set[int] = set()
        """Those that Kafka never answers: the member has sent another one, or has left before its sync was answered."""

    def next(self, number: int) -> tuple[ApiKey, int, Fields]:
        """Return a request, with its version; the first one creates the group."""
        key = self._dice.choices(KEYS, WEIGHTS)[0] if self._exists else ApiKey.JOIN_GROUP
        version = self._dice.randint(APIS[key].first, APIS[key].last)
        has_instance_id = version >= INSTANCE_IDS_FROM.get(key, 0)
        label = self._member(number, key, has_instance_id=has_instance_id)
        fields = self._fields(key, label, has_instance_id=has_instance_id)
        is_first = key is ApiKey.JOIN_GROUP and label == f"<{number}>"
        return key, version, {**fields, "member_id": ""} if is_first else fields

    def _member(self, number: int, key: ApiKey, *, has_instance_id: bool) -> str:
        """Return the label of a member for a request, and note what the request does to it."""
        dice, present = self._dice, self._present
        leaders = [each for each in present if each == self._leader]
        label = dice.choice([*leaders * 3, *present, *self._offered]) if self._offered else ""
        if key is ApiKey.JOIN_GROUP:
            if not label or dice.random() < 0.35:
                label = f"<{number}>"
                self._instances[label] = dice.choice((None, *INSTANCE_IDS)) if has_instance_id else None
            if label not in self._offered or dice.random() < 0.2:
                self._offered[label] = dice.choice(PROTOCOLS)
        elif key is ApiKey.LEAVE_GROUP:  # If a leader left several others, Kafka would choose the next one by hash.
            without_id = {label for number, (_, label) in self._parked.items() if label == f"<{number}>"}
            may_leave = [each for each in present if each != self._leader or len(present) <= 2]
            label = dice.choice([*(each for each in may_leave if each not in without_id), "unknown"])
            self._present = [each for each in present if each != label]
            self._leader = next(iter(self._present), "") if label == self._leader else self._leader
        ended = ApiKey.SYNC_GROUP if key is ApiKey.LEAVE_GROUP else key
        self.superseded |= {parked for parked, request in self._parked.items() if request == (ended, label)}
        if key in {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP}:
            self._parked[number] = key, label
        return label

    def _fields(self, key: ApiKey, label: str, *, has_instance_id: bool) -> Fields:
        """Return the fields of a request in any API; those of the member are seldom wrong."""
        dice, group_id = self._dice, self._group_id
        generation, instance_id = self._generation, self._instances.get(label)
        if key not in {ApiKey.JOIN_GROUP, ApiKey.LEAVE_GROUP} and dice.random() < 0.2:
            label = dice.choice((label, label, "unknown"))
            instance_id = dice.choice((instance_id, *INSTANCE_IDS, None))
            generation += dice.choice((-1, 0, 1))
        if key is ApiKey.OFFSET_COMMIT and dice.random() < 0.2:
            label, instance_id, generation = "", None, -1
        instance_id = instance_id if has_instance_id else None
        offset = {"committed_offset": dice.randrange(100), "committed_leader_epoch": 1, "committed_metadata": "m"}
        partitions = [{"partition_index": each, **offset} for each in dice.sample(range(PARTITIONS), 2)]
        topics = [{"name": TOPIC, "partitions": partitions, "partition_indexes": range(PARTITIONS)}]
        leaving_id = label if instance_id is None else dice.choice((label, ""))
        return {
            "group_id": group_id,
            "member_id": label,
            "group_instance_id": instance_id,
            **dict.fromkeys(("generation_id", "generation_id_or_member_epoch"), generation),
            "protocol_type": dice.choice(("consumer",) * 20 + ("other",)) if self._exists else "consumer",
            "protocol_name": dice.choice(("range", "range", "roundrobin")),
            "protocols": [{"name": each, "metadata": SUBSCRIPTION} for each in self._offered.get(label, ())],
            **dict.fromkeys(("session_timeout", "rebalance_timeout", "retention_time"), PATIENT),
            "assignments": [{"member_id": each, "assignment": each.encode()} for each in self._present],
            "members": [{"member_id": leaving_id, "group_instance_id": instance_id}],
            "topics": topics,
            "groups": [group_id if key is ApiKey.DESCRIBE_GROUPS else {"group_id": group_id, "topics": topics}],
        }

    def learn(self, number: int, answer: Fields | None) -> None:
        """Take the answer of a request; None: it is parked."""
        key, label = self._parked.get(number, (None, ""))
        if key is ApiKey.JOIN_GROUP and (answer is None or is_answer_of_member(answer)):
            self._exists = True
            if answer is None or answer["error_code"] == 0:
                self._joined(label, answer or {})
        if answer is not None:
            self._parked.pop(number, None)

    def _joined(self, label: str, answer: Fields) -> None:
        instance_id = self._instances[label]
        same = [each for each in self._present if self._instances[each] == instance_id] if instance_id else [label]
        self._present = [*(each for each in self._present if each not in same), label]
        self._leader = label if self._leader in same else self._leader
        self._leader = answer["leader"] if answer.get("leader") in self._present else self._leader
        self._generation = answer.get("generation_id", self._generation)


@pytest.fixture
def sides(kafka: KafkaBroker, kafka_node: Node) -> Iterator[tuple[Side, Side]]:
    asyncio.run(create_topics(kafka.bootstrap, {TOPIC: PARTITIONS}))
    with KafkaWire(kafka.bootstrap) as wire:
        poll_until(lambda: wire.call(ApiKey.FIND_COORDINATOR, 2, key="any", key_type=0).error_code == 0)
        poll_until(lambda: commit(wire, "any", 0, 1) == 0)
    with ExitStack() as stack:
        broker = Side(kafka.bootstrap, int(QUICK["offsets.topic.num.partitions"]), stack)
        yield broker, Side(kafka_node.settings.kafka_address, kafka_node.settings.shards, stack)


@pytest.mark.parametrize("seed", range(GROUPS))
def test_broker_and_node_give_the_same_answers(sides: tuple[Side, Side], group_id: str, seed: int) -> None:
    requests, asked = Requests(group_id, seed), []
    for number in range(REQUESTS):
        request = requests.next(number)
        asked.append(request)
        for side in sides:
            side.ask(number, *request)
        of_broker, of_node = answers(sides, group_id, requests.superseded)
        for each in sorted({number} | of_broker.keys() | of_node.keys()):
            is_same = comparable(of_broker.get(each, {})) == comparable(of_node.get(each, {}))
            assert is_same or each in requests.superseded, (of_broker.get(each), of_node.get(each), asked)
            requests.learn(each, of_node.get(each))


def answers(sides: tuple[Side, Side], group_id: str, superseded: set[int]) -> list[dict[int, Fields]]:
    """Return the answers that both give by now, and those that one of them gives alone."""
    for side in sides:
        side.settle(group_id)
    found = [side.answers() for side in sides]
    while (found[0].keys() ^ found[1].keys()) - superseded:
        sockets = [wire.socket for side in sides for _, _, wire in side.waiting.values()]
        if not select.select(sockets, [], [], OTHER_ANSWER_WAIT_S)[0]:
            break
        for each, side in zip(found, sides, strict=True):
            each.update(side.answers())
    return found
