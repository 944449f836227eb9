"""Grammar of scenario files, and their validation.

Source: docs/conformance.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Json = Any

ASYNC_OPS: Final = frozenset({"join", "sync"})
"""Steps that may wait for their answer; `await` looks at one of them later."""


class MalformedScenarios(Exception):
    """The file does not follow the grammar; the sentence names the scenario and the step."""


@dataclass(frozen=True, slots=True)
class Op:
    """The arguments and expectations of one kind of step."""

    answers: frozenset[str]
    """What its expectation may look at, besides `state`."""
    needs: frozenset[str] = frozenset()
    """Arguments without which it means nothing."""
    takes: frozenset[str] = frozenset()
    needs_who: bool = False
    step_needs: frozenset[str] = frozenset()
    """Fields of the step itself, beside its arguments."""

    @property
    def arguments(self) -> frozenset[str]:
        return self.needs | self.takes | {"group"}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


JOINED: Final = _words(
    "error generation is_leader leader members member_names instance_ids member_metadata member_id member_id_not"
    " member_id_prefix protocol_type protocol_name skip_assignment pending"
)
SYNCED: Final = _words("error assignment protocol_type protocol_name pending")
WHO: Final = _words("member_id instance_id")

OPS: Final[Mapping[str, Op]] = {
    "join": Op(
        JOINED,
        takes=WHO
        | _words(
            "session_timeout_ms rebalance_timeout_ms protocol_type protocols require_known_member_id"
            " skip_assignment_supported two_step client_id generation"
        ),
        needs_who=True,
    ),
    "sync": Op(SYNCED, takes=WHO | _words("generation protocol_type protocol_name assignment"), needs_who=True),
    "await": Op(JOINED | SYNCED, step_needs=_words("ref")),
    "heartbeat": Op(_words("error"), takes=WHO | _words("generation"), needs_who=True),
    "keepalive": Op(_words("error"), needs=_words("every_ms for_ms"), needs_who=True),
    "leave": Op(_words("error members"), takes=WHO | _words("members")),
    "commit": Op(
        _words("error partitions"), needs=_words("offsets"), takes=WHO | _words("generation retention_time_ms")
    ),
    "fetch": Op(_words("error offsets"), takes=_words("partitions")),
    "offset_delete": Op(_words("error partitions"), needs=_words("partitions")),
    "describe": Op(
        _words("error protocol_type protocol members member_names instance_ids has_metadata has_assignment assignments")
    ),
    "list": Op(_words("error count groups"), takes=_words("states types")),
    "delete_group": Op(_words("results"), needs=_words("groups")),
    "find_coordinator": Op(_words("partition"), needs=_words("key"), takes=_words("partitions")),
    "advance_clock": Op(frozenset(), step_needs=_words("ms")),
    "cleanup": Op(frozenset()),
    "delete_topic_partitions": Op(frozenset(), needs=_words("partitions")),
    "reload": Op(frozenset(), takes=_words("config")),
    "set_loading": Op(frozenset(), needs=_words("on")),
    "state": Op(_words("exists generation members pending_members leader member_names static_ids protocol_name")),
    "transitions": Op(_words("sequence")),
    "counts": Op(_words("join_requests joins_completed assignments"), needs_who=True),
    "metrics": Op(_words("completed_rebalances offset_commits offset_expirations offset_deletions")),
    "assign": Op(
        _words("assignment counts complete keeps"),
        needs=_words("assignor topics subscriptions"),
        takes=_words("owned instances"),
    ),
}

CONFIG: Final = _words(
    "group.min.session.timeout.ms group.max.session.timeout.ms group.initial.rebalance.delay.ms group.max.size"
    " new.member.join.timeout.ms offsets.retention.minutes offsets.retention.check.interval.ms"
    " offset.metadata.max.bytes offsets.topic.num.partitions group.sync.timeout.scope"
)
CONSUMER: Final = _words("instance_id session_timeout_ms rebalance_timeout_ms protocol_type protocols")
TOPIC_PARTITION: Final = _words("topic partition")
ROWS: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    ("commit", "offsets"): TOPIC_PARTITION | {"offset"},
    ("fetch", "partitions"): TOPIC_PARTITION,
    ("offset_delete", "partitions"): TOPIC_PARTITION,
    ("delete_topic_partitions", "partitions"): TOPIC_PARTITION,
    ("join", "protocols"): _words("name metadata"),
}
"""Arguments that are lists of rows, and the fields that each row must have."""


def check_file(content: Json) -> None:
    """Check the file as a whole, then every scenario in it.

    Raises:
        MalformedScenarios: names the first error and its place.
    """
    if not isinstance(content, dict):
        raise MalformedScenarios("the file holds no object with the fields defaults and scenarios")
    _check_has(content, ("defaults", "scenarios"), "the file")
    _check_has(content["defaults"], ("group", "config", "consumer"), "defaults")
    _check_has(content["defaults"]["config"], CONFIG, "defaults.config")
    _check_has(content["defaults"]["consumer"], CONSUMER, "defaults.consumer")
    scenarios = content["scenarios"]
    if not isinstance(scenarios, list) or not scenarios:
        raise MalformedScenarios("scenarios: there should be a list with at least one scenario")
    seen: set[str] = set()
    for number, scenario in enumerate(scenarios, start=1):
        _check_has(scenario, ("id", "title", "tags", "steps"), f"scenario {_name(scenario, number)}")
        if scenario["id"] in seen:
            raise MalformedScenarios(f"scenario {scenario['id']}: there are two of this id")
        seen.add(scenario["id"])
        _check_config(scenario.get("config", {}), f"scenario {scenario['id']}")
        _check_steps(scenario)


def _check_config(config: Json, place: str) -> None:
    for key in config:
        if key not in CONFIG:
            raise MalformedScenarios(f"{place}: there is no setting {key}")


def _name(scenario: Json, number: int) -> str:
    return str(scenario["id"]) if isinstance(scenario, dict) and "id" in scenario else f"number {number}"


def _check_steps(scenario: Json) -> None:
    handles: set[str] = set()
    seen: set[str] = set()
    if not isinstance(scenario["steps"], list):
        raise MalformedScenarios(f"scenario {scenario['id']}: steps is no list")
    for number, step in enumerate(scenario["steps"], start=1):
        place = f"scenario {scenario['id']}, step {_name(step, number)}"
        _check_has(step, ("id", "op"), place)
        if step["id"] in seen:
            raise MalformedScenarios(f"{place}: there are two steps of this id")
        seen.add(step["id"])
        op = OPS.get(step["op"])
        if op is None:
            raise MalformedScenarios(f"{place}: there is no op {step['op']}")
        _check_step(step, op, handles, place)
        if step["op"] in ASYNC_OPS:
            handles.add(step["id"])


def _check_step(step: Json, op: Op, handles: set[str], place: str) -> None:
    _check_has(step, op.step_needs, place)
    if op.needs_who:
        _check_has(step, ("who",), place)
    args = step.get("args", {})
    _check_has(args, op.needs, place)
    _check_known(args, op.arguments, f"{place}: {step['op']} takes no argument")
    _check_known(step.get("expect") or {}, op.answers | {"state"}, f"{place}: {step['op']} has no answer")
    if step["op"] == "await" and step["ref"] not in handles:
        raise MalformedScenarios(f"{place}: {step['ref']} is no join or sync before it")
    _check_config(args.get("config", {}), place)
    for field in ("ms", "every_ms", "for_ms"):
        _check_duration(step.get(field, args.get(field)), f"{place}: {field}")
    for (name, argument), fields in ROWS.items():
        if name == step["op"] and args.get(argument) is not None:
            _check_rows(args[argument], fields, f"{place}: {argument}")


def _check_rows(rows: Json, fields: frozenset[str], place: str) -> None:
    if not isinstance(rows, list):
        raise MalformedScenarios(f"{place} is no list")
    for row in rows:
        _check_has(row, fields, place)


def _check_duration(value: Json, place: str) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise MalformedScenarios(f"{place} is no whole number of milliseconds")


def _check_known(given: Json, known: Iterable[str], complaint: str) -> None:
    if not isinstance(given, dict):
        raise MalformedScenarios(f"{complaint} that is no object")
    for key in given:
        if key not in known:
            raise MalformedScenarios(f"{complaint} {key}")


def _check_has(given: Json, fields: Iterable[str], place: str) -> None:
    if not isinstance(given, dict):
        raise MalformedScenarios(f"{place} is no object")
    for field in sorted(fields):
        if field not in given:
            raise MalformedScenarios(f"{place}: {field} is missing")
