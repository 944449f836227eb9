"""Driver over Kafka's wire protocol: members, offsets and groups by a Kafka listener, all else over HTTP.

A join or a sync that may wait has a connection of its own, because a connection answers its requests in order.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import cached_property
from threading import Thread
from typing import Any, Final

from api.kafka.apis import ApiKey
from tests.support.kafka_wire import KafkaWire, read_response
from tests.system.conformance import metadata
from tests.system.conformance.driver import UNSEEN, Answer, Handle
from tests.system.conformance.http_driver import HttpDriver, Site
from tests.system.conformance.scaled_clock import ScaledClock
from tests.system.conformance.scenarios import Scenario
from tests.system.conformance.wire import CUT_OFF

WITHOUT_KNOWN_MEMBER_ID: Final = 3
"""The newest version of JoinGroup whose members need not come back with the member id that they are given."""
WITH_RETENTION_TIME: Final = 4
"""The newest version of OffsetCommit with a retention of the offsets' own."""
DEAD_IS_A_STATE: Final = 5
"""The newest version of DescribeGroups that has a state for an unknown group, and no error."""


class KafkaDriver(HttpDriver):
    """One scenario's connections to a node."""

    def __init__(self, scenario: Scenario, site: Site, clock: ScaledClock, prefix: str, patience_s: float) -> None:
        super().__init__(scenario, site, clock, prefix, patience_s)
        assert site.kafka_address is not None, "the node has a Kafka listener"
        self._kafka_address = site.kafka_address
        self._wires: list[KafkaWire] = []

    def close(self) -> None:
        """Close all connections."""
        super().close()
        for wire in self._wires:
            wire.close()

    @cached_property
    def _kafka(self) -> KafkaWire:
        """The connection of requests that do not wait; a node closes one that stays without a request."""
        wire = KafkaWire(self._kafka_address)
        self._wires.append(wire)
        return wire

    def _call_later(
        self, client_id: str, key: ApiKey, version: int, fields: Answer, take: Callable[[Any], None]
    ) -> None:
        """Send a request that may wait, on a connection of its own; `take` gets its response, None if it is cut off."""
        wire = KafkaWire(self._kafka_address, client_id)
        wire.socket.settimeout(None)
        self._wires.append(wire)
        wire.ask(key, version, **fields)

        def wait() -> None:
            try:
                answer = read_response(key, version, wire.receive())
            except OSError:
                answer = None
            take(answer)

        Thread(target=wait, name=f"waits for {key.name}", daemon=True).start()

    def _ms(self, virtual_ms: int) -> timedelta:
        return timedelta(milliseconds=self._real_ms(virtual_ms))

    # -- members -------------------------------------------------------------------------------------------

    def join(self, group: str, fields: Answer, handle: Handle) -> None:
        """Send a join."""
        version = 9 if fields.get("require_known_member_id", True) else WITHOUT_KNOWN_MEMBER_ID
        body = {
            "group_id": self._named(group),
            "session_timeout": self._ms(fields["session_timeout_ms"]),
            "rebalance_timeout": self._ms(fields["rebalance_timeout_ms"]),
            "member_id": fields["member_id"],
            "group_instance_id": fields["instance_id"],
            "protocol_type": fields["protocol_type"],
            "protocols": [
                {"name": each["name"], "metadata": metadata.to_bytes(self._renamed(each["metadata"]))}
                for each in fields["protocols"]
            ],
        }

        def take(answer: Any) -> None:  # noqa: ANN401  # a response of kio's
            handle.resolve(self._joined_group(answer))

        self._call_later(fields["client_id"], ApiKey.JOIN_GROUP, version, body, take)

    def _renamed(self, value: Answer) -> Answer:
        return value | {"topics": [self._topic(topic) for topic in value["topics"]]} if "topics" in value else value

    def _joined_group(self, answer: Any) -> Answer:  # noqa: ANN401  # a response of kio's
        if answer is None:
            return self._joined({"error": CUT_OFF})
        error = _name(answer.error_code)
        if error != "NONE":
            given = {"member_id": answer.member_id} if error == "MEMBER_ID_REQUIRED" else {}
            return self._joined({"error": error} | given)
        members = [
            {
                "member_id": each.member_id,
                "instance_id": getattr(each, "group_instance_id", UNSEEN),
                "metadata": self._shown(metadata.from_bytes(each.metadata)),
            }
            for each in answer.members
        ]
        return {
            "error": error,
            "generation": answer.generation_id,
            "leader": answer.leader,
            "member_id": answer.member_id,
            "members": members,
            "protocol_type": getattr(answer, "protocol_type", UNSEEN),
            "protocol_name": answer.protocol_name,
            "skip_assignment": getattr(answer, "skip_assignment", UNSEEN),
        }

    def _shown(self, value: Answer) -> Answer:
        return value | {"topics": [self._untopic(topic) for topic in value["topics"]]} if "topics" in value else value

    def sync(self, group: str, fields: Answer, handle: Handle) -> None:
        """Send a sync."""
        named = {key: fields[key] for key in ("protocol_type", "protocol_name")}
        body = self._who(group, fields) | named
        body["assignments"] = [
            {"member_id": member_id, "assignment": text.encode()} for member_id, text in fields["assignment"].items()
        ]

        def take(answer: Any) -> None:  # noqa: ANN401  # a response of kio's
            if answer is None:
                handle.resolve({"error": CUT_OFF, "assignment": "", "protocol_type": None, "protocol_name": None})
                return
            handle.resolve(
                {
                    "error": _name(answer.error_code),
                    "assignment": answer.assignment.decode(),
                    "protocol_type": getattr(answer, "protocol_type", UNSEEN),
                    "protocol_name": getattr(answer, "protocol_name", UNSEEN),
                }
            )

        self._call_later("wire", ApiKey.SYNC_GROUP, 5 if any(named.values()) else 4, body, take)

    def _who(self, group: str, fields: Answer) -> Answer:
        return {
            "group_id": self._named(group),
            "generation_id": fields["generation"],
            "generation_id_or_member_epoch": fields["generation"],
            "member_id": fields["member_id"],
            "group_instance_id": fields["instance_id"],
        }

    def heartbeat(self, group: str, fields: Answer) -> Answer:
        """Send a heartbeat."""
        answer = self._kafka.call(ApiKey.HEARTBEAT, 4, **self._who(group, fields))
        return self._now({"error": _name(answer.error_code)})

    def leave(self, group: str, members: list[Answer]) -> Answer:
        """Send a leave; afterwards the answers of the removed members are read."""
        leaving = [{"member_id": each["member_id"], "group_instance_id": each["instance_id"]} for each in members]
        answer = self._kafka.call(ApiKey.LEAVE_GROUP, 5, group_id=self._named(group), members=leaving)
        self._fence()
        codes = [_name(each.error_code) for each in answer.members]
        return self._now({"error": _name(answer.error_code), "members": codes})

    # -- offsets -------------------------------------------------------------------------------------------

    def commit(self, group: str, fields: Answer) -> Answer:
        """Commit offsets."""
        retention_ms = fields.get("retention_time_ms", -1)
        version = 9 if retention_ms == -1 else WITH_RETENTION_TIME
        topics = [
            {
                "name": self._topic(each["topic"]),
                "partitions": [
                    {
                        "partition_index": each["partition"],
                        "committed_offset": each["offset"],
                        "committed_leader_epoch": each.get("leader_epoch", -1),
                        "committed_metadata": each.get("metadata", ""),
                    }
                ],
            }
            for each in fields["offsets"]
        ]
        body = self._who(group, fields) | {"topics": topics, "retention_time": self._ms(retention_ms)}
        return self._results_of(self._kafka.call(ApiKey.OFFSET_COMMIT, version, **body).topics)

    def _results_of(self, topics: Any) -> Answer:  # noqa: ANN401  # topics of a response of kio's
        rows = [
            {"topic": self._untopic(each.name), "partition": one.partition_index, "error": _name(one.error_code)}
            for each in topics
            for one in each.partitions
        ]
        errors = {row["error"] for row in rows}
        return self._now(
            {"error": errors.pop() if len(errors) == 1 else "MIXED" if errors else "NONE", "partitions": rows}
        )

    def fetch(self, group: str, partitions: list[Answer] | None) -> Answer:
        """Read committed offsets."""
        topics = None
        if partitions is not None:
            topics = [{"name": self._topic(p["topic"]), "partition_indexes": (p["partition"],)} for p in partitions]
        answer = self._kafka.call(ApiKey.OFFSET_FETCH, 9, groups=[{"group_id": self._named(group), "topics": topics}])
        (found,) = answer.groups
        rows = [
            {
                "topic": self._untopic(each.name),
                "partition": one.partition_index,
                "offset": one.committed_offset,
                "leader_epoch": one.committed_leader_epoch,
                "metadata": one.metadata,
                "error": _name(one.error_code),
            }
            for each in found.topics
            for one in each.partitions
        ]
        return self._now({"error": _name(found.error_code), "offsets": rows})

    def offset_delete(self, group: str, partitions: list[Answer]) -> Answer:
        """Delete offsets."""
        topics = [
            {"name": self._topic(each["topic"]), "partitions": [{"partition_index": each["partition"]}]}
            for each in partitions
        ]
        answer = self._kafka.call(ApiKey.OFFSET_DELETE, 0, group_id=self._named(group), topics=topics)
        if answer.error_code:
            return self._now({"error": _name(answer.error_code), "partitions": []})
        rows = self._results_of(answer.topics)["partitions"]
        return {"error": "NONE", "partitions": rows}

    # -- groups --------------------------------------------------------------------------------------------

    def describe(self, group: str) -> Answer:
        """Describe a group."""
        answer = self._kafka.call(ApiKey.DESCRIBE_GROUPS, DEAD_IS_A_STATE, groups=(self._named(group),))
        (found,) = answer.groups
        is_stable = found.group_state == "Stable"
        members = [
            {
                "member_id": each.member_id,
                "instance_id": each.group_instance_id,
                "metadata": self._shown(metadata.from_bytes(each.member_metadata)) if is_stable else UNSEEN,
                "assignment": each.member_assignment.decode(),
            }
            for each in found.members
        ]
        return self._now(
            {
                "error": _name(found.error_code),
                "state": found.group_state,
                "protocol_type": found.protocol_type or None,
                "protocol": found.protocol_data or None,
                "members": members,
            }
        )

    def list_groups(self, states: list[str], types: list[str]) -> Answer:
        """List this run's groups."""
        prefix = f"{self._prefix}."
        answer = self._kafka.call(ApiKey.LIST_GROUPS, 5, states_filter=tuple(states), types_filter=tuple(types))
        rows = [
            {
                "group_id": each.group_id.removeprefix(prefix),
                "state": each.group_state,
                "protocol_type": each.protocol_type or None,
                "generation": UNSEEN,
                "member_count": UNSEEN,
            }
            for each in sorted(answer.groups, key=lambda each: str(each.group_id))
            if each.group_id.startswith(prefix)
        ]
        return self._now({"error": _name(answer.error_code), "groups": rows})

    def delete_group(self, group: str) -> Answer:
        """Delete a group."""
        answer = self._kafka.call(ApiKey.DELETE_GROUPS, 2, groups_names=(self._named(group),))
        return self._now({"error": _name(answer.results[0].error_code)})


def _name(code: Any) -> str:  # noqa: ANN401  # an error code of kio's
    """Return Kafka's name of an error code."""
    name: str = code.name.upper()
    return name
