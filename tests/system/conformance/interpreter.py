"""Interpreter of scenarios: resolves a step's symbols, runs it on a driver, and compares the result.

Symbols: ``"$A"`` is A's present member id, ``"@s7"`` the member id in the answer of join step s7. A consumer's
record takes the member id from answers NONE and MEMBER_ID_REQUIRED, the generation and protocol from NONE.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tests.system.conformance.assign_step import assigned
from tests.system.conformance.driver import UNSEEN, Answer, Driver, Handle, Value
from tests.system.conformance.metadata import comparable
from tests.system.conformance.scenarios import Scenario


class Disagreement(AssertionError):
    """A step did not show the expected result; the text names scenario, step, expectation and result."""


@dataclass(slots=True)
class Consumer:
    """The state that a consumer keeps between requests, and its counts."""

    settings: dict[str, Any]
    member_id: str = ""
    generation: int = -1
    protocol_name: str | None = None
    protocol_type: str | None = None
    join_requests: int = 0
    joins_completed: int = 0
    assignments: int = 0


class Interpreter:
    """One run of one scenario."""

    def __init__(self, scenario: Scenario, driver: Driver, skipped_steps: Collection[str] = ()) -> None:
        """Prepare; `skipped_steps` are steps that only observe, and cannot through this driver."""
        self.unseen: set[str] = set()
        """Fields that were to be compared, and that the driver does not see."""
        self._scenario = scenario
        self._driver = driver
        self._skipped_steps = skipped_steps
        self._consumers: dict[str, Consumer] = {}
        self._handles: dict[str, Handle] = {}

    def run(self) -> None:
        """Run every step.

        Raises:
            Disagreement: names the first step that fails.
        """
        for step in self._scenario.steps:
            if step["id"] in self._skipped_steps:
                continue
            try:
                self._do(step)
            except Exception as error:  # a coordinator that breaks does not show what it must either
                place = f"scenario {self._scenario.scenario_id}, step {step['id']} ({step['op']})"
                problem = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
                raise Disagreement(f"{place}: {problem}\n  {step}") from error

    def _do(self, step: dict[str, Any]) -> None:
        args = step.get("args", {})
        expect = step.get("expect")
        group = args.get("group", self._scenario.group)
        match step["op"]:
            case "join":
                self._check_handle(self._join(step, group, args), expect, group)
            case "sync":
                self._check_handle(self._sync(step, group, args), expect, group)
            case "await":
                self._check_handle(self._handles[step["ref"]], expect, group)
            case "keepalive":
                self._keep_alive(step, group, args, expect or {})
            case "advance_clock":
                self._driver.advance(step["ms"])
            case "delete_group":
                results = {name: self._driver.delete_group(name)["error"] for name in args["groups"]}
                self._compare({"results": results}, expect or {}, group)
            case "counts":
                consumer = self._consumer(step["who"])
                self._compare({key: getattr(consumer, key) for key in expect or {}}, expect or {}, group)
            case "assign":
                self._compare(assigned(args, expect or {}), expect or {}, group)
            case _:
                self._compare(self._call(step, group, args) or {}, expect or {}, group)

    def _call(self, step: dict[str, Any], group: str, args: dict[str, Any]) -> Answer | None:
        driver = self._driver
        match step["op"]:
            case "heartbeat":
                return driver.heartbeat(group, self._who(step, args) | self._generation(step, args))
            case "leave":
                return driver.leave(group, self._leavers(step, args))
            case "commit":
                return self._commit(group, self._who(step, args) | self._generation(step, args), args)
            case "fetch":
                return driver.fetch(group, args.get("partitions"))
            case "offset_delete":
                return driver.offset_delete(group, args["partitions"])
            case "describe":
                return driver.describe(group)
            case "list":
                return driver.list_groups(args.get("states", []), args.get("types", []))
            case "find_coordinator":
                return driver.find_coordinator(args["key"], args.get("partitions", 50))
            case "state":
                return driver.state(group)
            case "transitions":
                return {"sequence": driver.transitions(group)}
            case "metrics":
                return driver.metrics()
            case _:
                self._interfere(step["op"], args)
                return None

    def _interfere(self, op: str, args: dict[str, Any]) -> None:
        """Run a step that no client can request."""
        match op:
            case "cleanup":
                self._driver.cleanup()
            case "delete_topic_partitions":
                self._driver.delete_topic_partitions(args["partitions"])
            case "reload":
                self._driver.reload(args.get("config", {}))
            case "set_loading":
                self._driver.set_loading(args["on"])
            case _:
                raise AssertionError(f"no such op: {op}")

    # -- joins and syncs ---------------------------------------------------------------------------------

    def _join(self, step: dict[str, Any], group: str, args: dict[str, Any]) -> Handle:
        name = step["who"]
        consumer = self._consumer(name)
        consumer.join_requests += 1
        fields = consumer.settings | args | self._who(step, args)
        handle = self._send_join(name, group, fields)
        if self._is_two_step(fields):
            self._driver.settle(handle, is_due=True)
            if handle.answer and handle.answer["error"] == "MEMBER_ID_REQUIRED":
                handle = self._send_join(name, group, fields | {"member_id": handle.answer["member_id"]})
        self._handles[step["id"]] = handle
        return handle

    def _send_join(self, name: str, group: str, fields: dict[str, Any]) -> Handle:
        handle = Handle(lambda answer: self._note_join(name, answer))
        self._driver.join(group, fields, handle)
        return handle

    @staticmethod
    def _is_two_step(fields: dict[str, Any]) -> bool:
        is_new_member = fields["member_id"] == "" and fields["instance_id"] is None
        return is_new_member and fields.get("require_known_member_id", True) and fields.get("two_step", True)

    def _note_join(self, name: str, answer: Answer) -> None:
        consumer = self._consumer(name)
        if answer["error"] in {"NONE", "MEMBER_ID_REQUIRED"}:
            consumer.member_id = answer["member_id"]
        if answer["error"] == "NONE":
            consumer.joins_completed += 1
            consumer.generation = answer["generation"]
            consumer.protocol_name = answer["protocol_name"]
            consumer.protocol_type = answer["protocol_type"]

    def _sync(self, step: dict[str, Any], group: str, args: dict[str, Any]) -> Handle:
        consumer = self._consumer(step["who"])
        fields = {"protocol_type": consumer.protocol_type, "protocol_name": consumer.protocol_name} | args
        fields |= self._who(step, args) | self._generation(step, args)
        given = args.get("assignment", {})
        fields["assignment"] = {self._assignee(key): value for key, value in given.items()}

        def note(answer: Answer) -> None:
            consumer.assignments += answer["error"] == "NONE"

        handle = self._handles[step["id"]] = Handle(note)
        self._driver.sync(group, fields, handle)
        return handle

    def _assignee(self, key: str) -> str:
        if key.startswith("#"):
            return key[1:]
        return self._id(key if key.startswith("@") else f"${key}")

    def _check_handle(self, handle: Handle, expect: dict[str, Any] | None, group: str) -> None:
        is_due = bool(expect) and not (expect or {}).get("pending")
        self._driver.settle(handle, is_due=is_due)
        if expect is None:
            return
        if not is_due:
            assert handle.answer is None, f"expected no answer yet, got {handle.answer}"
        else:
            assert handle.answer is not None, f"expected {expect}, got no answer"
        self._compare(handle.answer or {}, {key: value for key, value in expect.items() if key != "pending"}, group)

    def _keep_alive(self, step: dict[str, Any], group: str, args: dict[str, Any], expect: dict[str, Any]) -> None:
        names = step["who"] if isinstance(step["who"], list) else [step["who"]]
        for _ in range(args["for_ms"] // args["every_ms"]):
            self._driver.advance(args["every_ms"])
            for name in names:
                own = step | {"who": name}
                answer = self._driver.heartbeat(group, self._who(own, {}) | self._generation(own, {}))
                self._compare(answer, expect, group)

    # -- symbols ---------------------------------------------------------------------------------------------

    def _consumer(self, name: str) -> Consumer:
        if name not in self._consumers:
            self._consumers[name] = Consumer(self._scenario.consumer(name))
        return self._consumers[name]

    def _id(self, symbol: str) -> str:
        if symbol.startswith("$"):
            return self._consumer(symbol[1:]).member_id
        if symbol.startswith("@"):
            answer = self._handles[symbol[1:]].answer
            assert answer is not None, f"{symbol} is not answered"
            return str(answer["member_id"])
        return symbol

    def _who(self, step: dict[str, Any], args: dict[str, Any]) -> dict[str, Any]:
        name = step.get("who")
        own_instance = self._consumer(name).settings["instance_id"] if name else None
        return {
            "member_id": self._id(args.get("member_id", f"${name}" if name else "")),
            "instance_id": args.get("instance_id", own_instance),
        }

    def _generation(self, step: dict[str, Any], args: dict[str, Any]) -> dict[str, Any]:
        name = step.get("who")
        return {"generation": args.get("generation", self._consumer(name).generation if name else -1)}

    def _leavers(self, step: dict[str, Any], args: dict[str, Any]) -> list[dict[str, Any]]:
        if "members" not in args:
            return [self._who(step, args)]
        return [
            {
                "member_id": self._id(entry.get("member_id", "")),
                "instance_id": entry.get("instance_id"),
            }
            for entry in args["members"]
        ]

    def _commit(self, group: str, committer: dict[str, Any], args: dict[str, Any]) -> Answer:
        """Commit; an error of the whole request is one of each partition."""
        answer = self._driver.commit(group, args | committer)
        each = [{"topic": o["topic"], "partition": o["partition"], "error": answer["error"]} for o in args["offsets"]]
        return {"partitions": each} | answer

    # -- comparison ------------------------------------------------------------------------------------------

    def _compare(self, answer: Answer, expect: dict[str, Any], group: str) -> None:
        for key, wanted in expect.items():
            found = self._driver.state(group)["state"] if key == "state" else self._found(answer, key, wanted)
            if found is UNSEEN:
                self.unseen.add(key)
            else:
                self._check(key, found, wanted)

    def _found(self, answer: Answer, key: str, wanted: Value) -> Value:
        """Return the value of an expectation's key, with member ids mapped back to names."""
        match key:
            case "is_leader":
                return answer["leader"] == answer["member_id"] != ""
            case "members" if isinstance(wanted, int):
                return len(answer["members"])
            case "member_names":
                return sorted(self._name(member["member_id"]) for member in answer["members"])
            case "instance_ids":
                return sorted(m["instance_id"] or "" for m in answer["members"])
            case "member_metadata":
                return {self._name(m["member_id"]): comparable(m["metadata"]) for m in answer["members"]}
            case "has_metadata":
                shown = [m["metadata"] for m in answer["members"]]
                return UNSEEN if UNSEEN in shown else all(shown)
            case "has_assignment":
                return any(m["assignment"] for m in answer["members"])
            case "assignments" if "members" in answer:
                return {self._name(m["member_id"]): m["assignment"] for m in answer["members"]}
            case "member_id_prefix" | "member_id_not":
                return answer["member_id"]
            case "count":
                return len(answer["groups"])
            case _:
                assert key in answer, f"{key}: expected {wanted!r}, got an answer without it: {answer}"
                return answer[key]

    def _name(self, member_id: str) -> str:
        names = [name for name, consumer in self._consumers.items() if consumer.member_id == member_id]
        return names[0] if names else member_id

    def _check(self, key: str, found: Value, wanted: Value) -> None:
        match key:
            case "member_id" | "leader":
                wanted = None if wanted is None else self._id(wanted)
                is_so = found == wanted
            case "member_id_not":
                wanted = self._id(wanted)
                is_so = found != wanted
            case "member_id_prefix":
                is_so = found.startswith(wanted)
            case "protocol_name" | "protocol" | "protocol_type":
                is_so = (found or "") == (wanted or "")
            case "partitions" | "offsets" | "groups":
                is_so = _is_same_set(found, wanted)
            case "member_names" | "instance_ids" | "static_ids":
                is_so = found == sorted(wanted)
            case "member_metadata":
                is_so = found == {name: comparable(metadata) for name, metadata in wanted.items()}
            case _:
                is_so = found == wanted
        assert is_so, f"{key}: expected {wanted!r}, got {found!r}"


def _is_same_set(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> bool:
    """Compare rows as sets, by the expected fields."""
    of = {_identity(row): row for row in found}
    if len(found) != len(wanted) or of.keys() != {_identity(row) for row in wanted}:
        return False
    return all(of[_identity(row)][field] == value for row in wanted for field, value in row.items())


def _identity(row: dict[str, Any]) -> tuple[Value, ...]:
    return (row["group_id"],) if "group_id" in row else (row["topic"], row["partition"])
