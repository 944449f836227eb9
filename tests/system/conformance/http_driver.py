"""Driver over HTTP: translates scenario steps into API requests, on a real clock.

Every run has its own group names, so that many scenarios share a node. A waiting request has its own thread. A *fence*
shows whether one waits: a commit to another group that is sent after it. The node stores in the order in which it
decides, and answers after storing; so when the fence is answered, every immediate answer has been sent before.

Source: docs/http-api.md; docs/conformance.md "Three drivers, one interpreter".
"""

from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Any, Final

from tests.system.conformance import metadata
from tests.system.conformance.database_view import DatabaseView
from tests.system.conformance.driver import UNSEEN, Answer, Handle, Value
from tests.system.conformance.machine import SETTINGS, SWEEP
from tests.system.conformance.scaled_clock import ScaledClock
from tests.system.conformance.scenarios import Scenario
from tests.system.conformance.wire import Wire, group_path

FENCES: Final = 2
"""The first may overtake a request that is still being read; the second cannot."""
LATE_ANSWER_S: Final = 10.0
"""How long an answer that is not in time is waited for, only to know how late it was."""
AFTERMATH_S: Final = 0.005
"""What a thread of ours may need to read an answer that is here."""
POLL_S: Final = 0.02
INT32_MAX: Final = 2**31 - 1
PREFIXED_MAX_CHARS: Final = 180
"""A longer group id keeps its name, because its length is what matters."""
REASON: Final = [("reason", "conformance")]
NOTHING_TO_COMMIT: Final = {"generation": -1, "member_id": "", "offsets": []}


@dataclass(frozen=True, slots=True)
class Site:
    """The node of a driver."""

    url: str
    database_url: str
    kafka_address: str | None = None
    """Where the node listens for Kafka clients; None: it does not."""
    restart: Callable[[], str] | None = None
    """Ends the node and starts it again; returns its new address."""


class HttpDriver:
    """One scenario's connection to a node."""

    def __init__(self, scenario: Scenario, site: Site, clock: ScaledClock, prefix: str, patience_s: float) -> None:
        self.clock = clock
        self._scenario = scenario
        self._site = site
        self._prefix = prefix
        self._patience_s = patience_s
        self._wire = Wire(site.url)
        self._database = DatabaseView(site.database_url)
        self._next_sweep_ms: int = scenario.config[SWEEP]
        self._renames_topics = any(step["op"] == "delete_topic_partitions" for step in scenario.steps)

    def close(self) -> None:
        """Close all connections."""
        self._wire.close()
        self._database.close()

    def prepare(self) -> None:
        """Apply the scenario's settings, and register its topics if some will be deleted."""
        for group in self._scenario.groups:
            if group == "":
                self._wire.request("DELETE", group_path(""), query=REASON)
        self._put_config(self._scenario.config)
        for topic, count in (_partition_counts(self._scenario) if self._renames_topics else {}).items():
            self._done(self._wire.request("PUT", f"/v1/topics/{self._topic(topic)}", {"partitions": count}))
        self.clock.go_on()

    def _put_config(self, config: dict[str, Any]) -> None:
        values = real_settings(config, self._scenario.default_config, self.clock)
        for group in self._scenario.groups:
            if values and group:
                body = {"values": values, "reason": "conformance"}
                self._done(self._wire.request("PUT", self._path(group, "config"), body))

    # -- names and times -------------------------------------------------------------------------------------

    def _named(self, group: str) -> str:
        return f"{self._prefix}.{group}" if 0 < len(group) <= PREFIXED_MAX_CHARS else group

    def _path(self, group: str, action: str = "") -> str:
        return group_path(self._named(group), action)

    def _topic(self, topic: str) -> str:
        return f"{topic}.{self._prefix}" if self._renames_topics else topic

    def _untopic(self, topic: str) -> str:
        return topic.removesuffix(f".{self._prefix}") if self._renames_topics else topic

    def _real_ms(self, virtual_ms: int) -> int:
        return _real_ms(virtual_ms, self.clock)

    # -- immediate and later responses -------------------------------------------------------------------------

    def settle(self, handle: Handle, *, is_due: bool) -> None:
        """Wait for an answer that is due; otherwise until an immediate one would have arrived.

        Raises:
            AssertionError: the answer came after the scenario's slack. The clock has recorded how late it was, so that
                a busy machine and a node that never answers differ.
        """
        if not is_due:
            for _ in range(FENCES):
                self._fence()
            self.clock.note()
            return
        handle.wait(self._patience_s)
        is_in_time = handle.answer is not None
        if not is_in_time:
            handle.wait(LATE_ANSWER_S)
        if handle.answer is not None:
            self.clock.note()
            assert is_in_time, f"answered, but later than {self._patience_s:.1f} s: {handle.answer}"

    def _fence(self) -> None:
        """Return when every earlier decision is answered, and the answers are read."""
        self._done(self._wire.post(group_path(f"fence.{self._prefix}", "offsets"), NOTHING_TO_COMMIT))
        Event().wait(AFTERMATH_S)

    def _now(self, answer: Answer) -> Answer:
        """Return an answer that came at once, and record its time."""
        self.clock.note()
        return answer

    @staticmethod
    def _done(answer: Answer) -> Answer:
        assert answer["error"] == "NONE", f"the node refused what the scenario rests on: {answer}"
        return answer

    # -- members -------------------------------------------------------------------------------------------

    def join(self, group: str, fields: Answer, handle: Handle) -> None:
        """Send a join."""
        body = {
            "member_id": fields["member_id"],
            "group_instance_id": fields["instance_id"],
            "client_id": fields["client_id"],
            "session_timeout_ms": self._real_ms(fields["session_timeout_ms"]),
            "rebalance_timeout_ms": self._real_ms(fields["rebalance_timeout_ms"]),
            "protocol_type": fields["protocol_type"],
            "protocols": [
                {"name": each["name"], "metadata": self._sent_metadata(each["metadata"], fields["protocol_type"])}
                for each in fields["protocols"]
            ],
            "require_known_member_id": fields.get("require_known_member_id", True),
        }
        self._wire.post_later(self._path(group, "join"), body, lambda answer: handle.resolve(self._joined(answer)))

    def _sent_metadata(self, value: Answer, protocol_type: str) -> Value:
        if "topics" in value:
            value = value | {"topics": [self._topic(topic) for topic in value["topics"]]}
        if protocol_type != "consumer" or "raw" in value:
            return b64encode(metadata.to_bytes(value)).decode()
        user_data = value.get("user_data")
        encoded = None if user_data is None else b64encode(str(user_data).encode()).decode()
        return {"topics": value["topics"], "user_data": encoded}

    def _read_metadata(self, shown: Value) -> Answer:
        if isinstance(shown, str):
            value = metadata.from_bytes(b64decode(shown))
        else:
            user_data = {"user_data": b64decode(shown["user_data"]).decode()} if shown["user_data"] else {}
            value = {"topics": shown["topics"]} | user_data
        return value if "raw" in value else value | {"topics": [self._untopic(topic) for topic in value["topics"]]}

    def _joined(self, answer: Answer) -> Answer:
        """Return a join's answer; an error has no generation, and a member id only where a new one was issued."""
        refused = {
            "generation": -1,
            "leader": "",
            "member_id": UNSEEN,
            "members": [],
            "protocol_type": None,
            "protocol_name": None,
            "skip_assignment": False,
        }
        members = [
            {
                "member_id": member["member_id"],
                "instance_id": member["group_instance_id"],
                "metadata": self._read_metadata(member["metadata"]),
            }
            for member in answer.get("members", [])
        ]
        return refused | answer | {"members": members}

    def sync(self, group: str, fields: Answer, handle: Handle) -> None:
        """Send a sync."""
        given = fields["assignment"].items()
        named = {key: fields[key] for key in ("protocol_type", "protocol_name") if fields[key] is not None}
        body = _who(fields) | named
        body["assignments"] = [
            {"member_id": member_id, "assignment": b64encode(text.encode()).decode()} for member_id, text in given
        ]
        refused = {"assignment": "", "protocol_type": None, "protocol_name": None}

        def take(answer: Answer) -> None:
            handle.resolve(refused | answer | {"assignment": _read_assignment(answer.get("assignment"))})

        self._wire.post_later(self._path(group, "sync"), body, take)

    def heartbeat(self, group: str, fields: Answer) -> Answer:
        """Send a heartbeat."""
        return self._now(self._wire.post(self._path(group, "heartbeat"), _who(fields)))

    def leave(self, group: str, members: list[Answer]) -> Answer:
        """Send a leave; afterwards the answers of the removed members are read."""
        leaving_members = [
            {"member_id": each["member_id"], "group_instance_id": each["instance_id"]} for each in members
        ]
        answer = self._wire.post(self._path(group, "leave"), {"members": leaving_members})
        self._fence()
        return self._now(answer | {"members": [each["code"] for each in answer.get("members", [])]})

    # -- offsets -------------------------------------------------------------------------------------------

    def commit(self, group: str, fields: Answer) -> Answer:
        """Commit offsets."""
        offsets = [
            {key: value for key, value in each.items() if value is not None} | {"topic": self._topic(each["topic"])}
            for each in fields["offsets"]
        ]
        retention_ms = fields.get("retention_time_ms", -1)
        body = _who(fields) | {"offsets": offsets, "retention_time_ms": self._real_ms(retention_ms)}
        answer = self._wire.post(self._path(group, "offsets"), body)
        if answer["error"] != "NONE":
            return self._now(answer)
        rows = self._results(answer)
        errors = {row["error"] for row in rows}
        self._now(answer)
        return {"error": errors.pop() if len(errors) == 1 else "MIXED" if errors else "NONE", "partitions": rows}

    def _results(self, answer: Answer) -> list[Answer]:
        return [
            {"topic": self._untopic(row["topic"]), "partition": row["partition"], "error": row["code"]}
            for row in answer["offsets"]
        ]

    def fetch(self, group: str, partitions: list[Answer] | None) -> Answer:
        """Read committed offsets."""
        if partitions is None:
            answer = self._wire.request("GET", self._path(group, "offsets"))
        else:
            wanted = [{"topic": self._topic(p["topic"]), "partitions": [p["partition"]]} for p in partitions]
            answer = self._wire.post(self._path(group, "offsets/query"), {"partitions": wanted})
        rows = [row | {"topic": self._untopic(row["topic"]), "error": "NONE"} for row in answer.get("offsets", [])]
        return self._now(answer | {"offsets": rows})

    def offset_delete(self, group: str, partitions: list[Answer]) -> Answer:
        """Delete offsets, one partition after another; an error of the request is the first one's."""
        rows: list[Answer] = []
        for each in partitions:
            query = [*REASON, ("topic", self._topic(each["topic"])), ("partition", str(each["partition"]))]
            answer = self._wire.request("DELETE", self._path(group, "offsets"), query=query)
            if answer["error"] != "NONE":
                return self._now({"error": answer["error"], "partitions": []})
            rows += self._results(answer)
        return self._now({"error": "NONE", "partitions": rows})

    # -- administration --------------------------------------------------------------------------------------

    def describe(self, group: str) -> Answer:
        """Describe a group; an unknown one is Dead to Kafka, and 404 here."""
        shown = self._wire.request("GET", self._path(group))
        is_unknown = shown["error"] == "GROUP_ID_NOT_FOUND"
        members = [
            {
                "member_id": member["member_id"],
                "instance_id": member["group_instance_id"],
                "metadata": UNSEEN,
                "assignment": _read_assignment(member["assignment"]),
            }
            for member in shown.get("members", [])
        ]
        return self._now(
            {
                "error": "NONE" if is_unknown else shown["error"],
                "state": shown.get("state", "Dead"),
                "protocol_type": shown.get("protocol_type"),
                "protocol": shown.get("protocol_name"),
                "members": members,
            }
        )

    def list_groups(self, states: list[str], types: list[str]) -> Answer:
        """List this run's groups; there is no filter by type, so no such step is run here."""
        assert not types, "the API has no group types"
        prefix = f"{self._prefix}."
        query = [("prefix", prefix), ("limit", "1000"), *(("state", state) for state in states)]
        answer = self._wire.request("GET", "/v1/groups", query=query)
        rows = [row | {"group_id": row["group_id"].removeprefix(prefix)} for row in answer.get("groups", [])]
        return self._now(answer | {"groups": rows})

    def delete_group(self, group: str) -> Answer:
        """Delete a group."""
        return self._now(self._wire.request("DELETE", self._path(group), query=REASON))

    def find_coordinator(self, key: str, partitions: int) -> Answer:
        """Return the shard of a group by its own name."""
        answer = self._wire.request("GET", group_path(key, "coordinator"))
        return self._now(answer | {"partition": answer.get("shard_id")})

    def delete_topic_partitions(self, partitions: list[Answer]) -> None:
        """Remove whole topics from the topic metadata, with their offsets."""
        for topic in dict.fromkeys(each["topic"] for each in partitions):
            self._done(self._wire.request("DELETE", f"/v1/topics/{self._topic(topic)}", query=REASON))

    # -- time and trouble --------------------------------------------------------------------------------------

    def advance(self, ms: int) -> None:
        """Wait, and run each sweep that is due meanwhile."""
        end_ms = self.clock.virtual_ms + ms
        while self._next_sweep_ms <= end_ms:
            self.clock.advance(self._next_sweep_ms - self.clock.virtual_ms)
            self._next_sweep_ms += self._scenario.config[SWEEP]
            self.cleanup()
        self.clock.advance(end_ms - self.clock.virtual_ms)

    def cleanup(self) -> None:
        """Propose all offsets for expiry, and let the node judge them."""
        run_id = self._database.propose([self._named(group) for group in self._scenario.groups])
        run = f"/v1/maintenance/runs/{run_id}"
        self._done(self._wire.post(f"{run}/apply", {"reason": "conformance"}))
        while self._done(self._wire.request("GET", run))["status"] != "applied":
            Event().wait(POLL_S)

    def reload(self, config: dict[str, Any]) -> None:
        """Restart the node."""
        assert self._site.restart is not None, "a scenario that restarts its node has one of its own"
        self._put_config(config)
        url = self._site.restart()
        self._wire.close()
        self._wire = Wire(url)
        self.clock.go_on()

    def set_loading(self, on: bool) -> None:
        """Raise: no scenario that needs this is run here."""
        raise AssertionError(f"a node cannot be held in loading ({on})")

    # -- inspection ----------------------------------------------------------------------------------------------

    def state(self, group: str) -> Answer:
        """Return the group as an operator sees it. Its protocol is shown while it is Stable."""
        shown = self._wire.request("GET", self._path(group))
        members = shown.get("members", [])
        state = shown.get("state", "Dead")
        instance_ids = sorted(each["group_instance_id"] for each in members if each["group_instance_id"])
        return self._now(
            {
                "exists": state != "Dead",
                "state": state,
                "generation": shown.get("generation", 0),
                "members": members,
                "pending_members": shown.get("pending_members", 0),
                "leader": shown.get("leader"),
                "static_ids": instance_ids,
                "protocol_name": shown.get("protocol_name") if state == "Stable" else UNSEEN,
            }
        )

    def transitions(self, group: str) -> list[str]:
        """Return the group's states from the history."""
        return self._database.transitions(self._named(group))

    def metrics(self) -> Answer:
        """Return counts of this run's groups from the history and the archive; commits are counted for all groups."""
        groups = [self._named(group) for group in self._scenario.groups]
        return {
            "completed_rebalances": self._database.completed_rebalances(groups),
            "offset_commits": UNSEEN,
            "offset_expirations": self._database.archived(groups, "expired"),
            "offset_deletions": self._database.archived(groups, "deleted"),
        }


def real_settings(config: dict[str, Any], defaults: dict[str, Any], clock: ScaledClock) -> dict[str, Any]:
    """Return the settings by which a node's group behaves in real time as the scenario's does in its own.

    Milliseconds follow the pace. Minutes are whole, so they only grow with a slower one: a faster pace is never given
    to a scenario in which they run out.
    """
    pace_of_minutes = min(clock.scale, 1.0)
    values: dict[str, Any] = {}
    for key, value in config.items():
        if key not in SETTINGS:
            continue
        real = value
        if key.endswith(".ms"):
            real = _real_ms(value, clock)
        elif key.endswith(".minutes"):
            real = round(value / pace_of_minutes)
        if real != value or value != defaults[key]:
            values[SETTINGS[key]] = real
    return values


def _real_ms(virtual_ms: int, clock: ScaledClock) -> int:
    return min(clock.real_ms(virtual_ms), INT32_MAX)


def _who(fields: Answer) -> Answer:
    return {
        "generation": fields["generation"],
        "member_id": fields["member_id"],
        "group_instance_id": fields["instance_id"],
    }


def _read_assignment(shown: Value) -> str:
    """Return an assignment as the text that was sent; an empty assignment is an empty text."""
    return b64decode(shown).decode() if isinstance(shown, str) else ""


def _partition_counts(scenario: Scenario) -> dict[str, int]:
    """Return how many partitions each topic must have for the scenario's steps."""
    counts: dict[str, int] = {}
    for step in scenario.steps:
        args = step.get("args", {})
        rows = [*args.get("offsets", []), *(args.get("partitions") or [])] if step["op"] != "find_coordinator" else []
        for row in rows:
            counts[row["topic"]] = max(counts.get(row["topic"], 0), row["partition"] + 1)
    return counts
