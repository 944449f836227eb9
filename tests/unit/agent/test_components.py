"""Parts of the agent that need no network: reactions to errors, node selection, backoff, names and settings."""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import re
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import agent
from agent import Assignor, ConsumerAgent, TopicPartition, aio, errors
from agent.core.backoff import Backoff
from agent.core.consumer import Consumer, ConsumerOptions
from agent.core.group_api import GroupApi, group_segment
from agent.core.membership import ON_ERROR, MemberIdentity, Membership, MemberState, Reaction, RequestType
from agent.core.node_selector import NodeSelector
from agent.core.responses import parse_sync_group
from agent.errors import CLASSES, AgentError, Problem, RejoinError, RequestError, RetryError, from_problem
from agent.partitions import grouped, ungrouped
from agent.settings import Timing, TimingOptions
from agent.threaded.clock import SystemClock
from tests.support.manual_clock import ManualClock
from tests.support.repository import ROOT


def error(code: str, action: str = "rejoin", **more: str) -> AgentError:
    return from_problem(Problem(code=code, status=409, action=action, **more))  # type: ignore[arg-type]


def member(state: MemberState = MemberState.STABLE) -> Membership:
    """Return member m of generation 3, in some phase."""
    membership = Membership()
    membership.begin_join()
    membership.joined(MemberIdentity("m", 3))
    if state is not MemberState.COMPLETING_REBALANCE:
        membership.synced()
    if state is MemberState.PREPARING_REBALANCE:
        membership.begin_join()
    return membership


M3 = MemberIdentity("m", 3)
RETRY, RETRY_AT_ONCE, REJOIN, IGNORE, FATAL = (
    Reaction.RETRY,
    Reaction.RETRY_AT_ONCE,
    Reaction.REJOIN,
    Reaction.IGNORE,
    Reaction.FATAL,
)
RESET_MEMBER_ID, NO_GENERATION = Reaction.RESET_MEMBER, Reaction.RESET_GENERATION


@pytest.mark.parametrize(
    ("code", "join", "sync", "heartbeat", "commit"),
    [
        ("COORDINATOR_NOT_AVAILABLE", RETRY, RETRY, RETRY, RETRY),
        ("NOT_COORDINATOR", RETRY, RETRY, RETRY, RETRY),
        ("COORDINATOR_LOAD_IN_PROGRESS", RETRY, RETRY, RETRY, RETRY),
        ("MEMBER_ID_REQUIRED", RETRY_AT_ONCE, None, None, None),
        ("UNKNOWN_MEMBER_ID", RESET_MEMBER_ID, RESET_MEMBER_ID, RESET_MEMBER_ID, RESET_MEMBER_ID),
        ("ILLEGAL_GENERATION", None, NO_GENERATION, NO_GENERATION, NO_GENERATION),
        ("REBALANCE_IN_PROGRESS", RETRY_AT_ONCE, REJOIN, REJOIN, REJOIN),
        ("FENCED_INSTANCE_ID", FATAL, FATAL, FATAL, FATAL),
        ("GROUP_MAX_SIZE_REACHED", FATAL, None, None, None),
        ("INCONSISTENT_GROUP_PROTOCOL", FATAL, FATAL, None, None),
        ("INVALID_SESSION_TIMEOUT", FATAL, None, None, None),
        ("INVALID_GROUP_ID", FATAL, FATAL, FATAL, FATAL),
        ("GROUP_AUTHORIZATION_FAILED", FATAL, FATAL, FATAL, FATAL),
    ],
)
def test_each_error_of_each_call_has_its_reaction(
    code: str, join: Reaction, sync: Reaction, heartbeat: Reaction, commit: Reaction
) -> None:
    phases = {RequestType.JOIN: MemberState.PREPARING_REBALANCE, RequestType.SYNC: MemberState.COMPLETING_REBALANCE}
    wanted = {
        RequestType.JOIN: join,
        RequestType.SYNC: sync,
        RequestType.HEARTBEAT: heartbeat,
        RequestType.COMMIT: commit,
    }
    for call, reaction in wanted.items():
        if reaction is not None:
            assert member(phases.get(call, MemberState.STABLE)).handle_error(call, error(code, ""), M3) is reaction, (
                call
            )


def test_the_table_names_every_call() -> None:
    assert set(ON_ERROR) == set(RequestType)


@pytest.mark.parametrize("call", [RequestType.SYNC, RequestType.HEARTBEAT, RequestType.COMMIT])
@pytest.mark.parametrize(
    "code", ["UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID", "REBALANCE_IN_PROGRESS"]
)
def test_error_of_an_older_generation_is_ignored(call: RequestType, code: str) -> None:
    membership = member()

    assert membership.handle_error(call, error(code), MemberIdentity("m", 2)) is IGNORE
    assert (membership.identity, membership.state, membership.rejoin_reason) == (M3, MemberState.STABLE, None)


def test_unknown_member_discards_its_id_and_one_of_an_old_generation_keeps_it() -> None:
    outsider, latecomer = member(), member()
    outsider.handle_error(RequestType.HEARTBEAT, error("UNKNOWN_MEMBER_ID"), M3)
    latecomer.handle_error(RequestType.HEARTBEAT, error("ILLEGAL_GENERATION"), M3)

    assert outsider.identity == MemberIdentity("", -1)
    assert latecomer.identity == MemberIdentity("m", -1)
    assert {outsider.state, latecomer.state} == {MemberState.UNJOINED}
    assert "UNKNOWN_MEMBER_ID" in (outsider.rejoin_reason or "")


def test_a_rebalance_keeps_id_and_generation_so_that_commits_still_count() -> None:
    membership = member()
    membership.handle_error(RequestType.COMMIT, error("REBALANCE_IN_PROGRESS"), M3)

    assert membership.identity == M3
    assert membership.rejoin_reason is not None


@pytest.mark.parametrize("state", [MemberState.COMPLETING_REBALANCE, MemberState.PREPARING_REBALANCE])
def test_rebalance_heartbeat_is_ignored_unless_stable(state: MemberState) -> None:
    membership = member(state)

    assert membership.handle_error(RequestType.HEARTBEAT, error("REBALANCE_IN_PROGRESS"), M3) is IGNORE
    assert membership.rejoin_reason is None


@pytest.mark.parametrize("call", [RequestType.HEARTBEAT, RequestType.COMMIT])
def test_error_of_the_generation_during_a_join_is_ignored(call: RequestType) -> None:
    membership = member(MemberState.PREPARING_REBALANCE)

    assert membership.handle_error(call, error("ILLEGAL_GENERATION"), M3) is IGNORE
    assert membership.identity == M3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405])
def test_heartbeat_error_without_code_does_not_end_the_membership(status: int) -> None:
    made_up = from_problem(Problem(status=status, detail="Not Found"))
    membership = member()

    assert membership.handle_error(RequestType.HEARTBEAT, made_up, M3) is RETRY
    assert membership.identity == M3
    assert member(MemberState.PREPARING_REBALANCE).handle_error(RequestType.JOIN, made_up, M3) is FATAL


def test_expired_long_poll_is_not_a_rebalance() -> None:
    membership = member(MemberState.COMPLETING_REBALANCE)

    assert membership.handle_error(RequestType.SYNC, error("REBALANCE_IN_PROGRESS", "retry"), M3) is RETRY_AT_ONCE
    assert membership.rejoin_reason is None


def test_member_id_of_a_rejected_join_is_kept() -> None:
    membership = Membership()
    membership.begin_join()
    membership.handle_error(RequestType.JOIN, error("MEMBER_ID_REQUIRED", member_id="new"), MemberIdentity())

    assert membership.identity == MemberIdentity("new", -1)


def test_invalid_commit_does_not_end_the_membership() -> None:
    membership = member()

    assert membership.handle_error(RequestType.COMMIT, error("INVALID_REQUEST", "fix"), M3) is FATAL
    assert membership.identity == M3


@pytest.mark.parametrize(
    ("status", "action", "kind"),
    [
        (400, "fix", RequestError),
        (409, "rejoin", RejoinError),
        (409, "retry", RetryError),
        (500, "", RetryError),
        (404, "", RequestError),
        (429, "", RetryError),
        (503, "fix", RequestError),
        (403, "", errors.NotAuthorized),
    ],
)
def test_unknown_error_code_is_handled_by_its_action(status: int, action: str, kind: type[AgentError]) -> None:
    found = from_problem(Problem(code="SOMETHING_NEW", status=status, action=action, detail="so it is"))

    assert type(found) is kind
    assert str(found) == "SOMETHING_NEW: so it is"
    assert (found.code, found.action) == ("SOMETHING_NEW", action)


def test_every_error_code_has_its_own_class() -> None:
    assert len(set(CLASSES.values())) == len(CLASSES)


@pytest.mark.parametrize(
    ("group_id", "segment"),
    [
        ("billing.eu-1_x", "billing.eu-1_x"),
        ("a/b", "~YS9i"),
        ("~tilde", "~fnRpbGRl"),
        (".", "~Lg"),
        ("..", "~Li4"),
        ("größe", "~Z3LDtsOfZQ"),
        ("a b?", "~YSBiPw"),
    ],
)
def test_group_id_is_encoded_for_a_path(group_id: str, segment: str) -> None:
    assert group_segment(group_id) == segment


def test_backoff_doubles_up_to_its_maximum_with_jitter() -> None:
    backoff = Backoff(100, 1_000, random.Random(1))
    for failures, grown_ms in [(1, 100), (2, 200), (4, 800), (5, 1_000), (90, 1_000)]:
        pauses = {backoff.delay_ms(failures) for _ in range(50)}
        assert min(pauses) >= grown_ms * 0.8 - 1
        assert max(pauses) <= grown_ms * 1.2
        assert len(pauses) > 10


def test_backoff_is_never_shorter_than_retry_after() -> None:
    backoff = Backoff(100, 1_000)

    assert all(3_000 <= backoff.delay_ms(1, retry_after_s=3) <= 3_600 for _ in range(50))


class TestCoordinators:
    """Selection of the next node."""

    BASE = ("http://a:1/", "http://b:1")

    def make(self, clock: ManualClock) -> NodeSelector:
        return NodeSelector(self.BASE, clock.now_ms, 30_000, threading.RLock())

    def test_next_base_url_is_used_if_the_first_fails(self, clock: ManualClock) -> None:
        coordinators = self.make(clock)
        assert coordinators.target() == "http://a:1"
        coordinators.mark_failed("http://a:1", "why", is_of_node=False)
        assert coordinators.target() == "http://b:1"
        coordinators.mark_failed("http://b:1", "why", is_of_node=True)
        assert coordinators.target() == "http://a:1"

    def test_owner_is_used_until_it_fails(self, clock: ManualClock) -> None:
        coordinators = self.make(clock)
        coordinators.prefer_owner("http://owner:1/")
        assert coordinators.target() == "http://owner:1"
        coordinators.mark_failed("http://owner:1", "why", is_of_node=True)
        assert coordinators.target() == "http://a:1"
        coordinators.prefer_owner("http://owner:1")
        assert coordinators.target() == "http://owner:1"

    def test_unreachable_owner_is_avoided_unless_a_node_redirects_to_it(self, clock: ManualClock) -> None:
        coordinators = self.make(clock)
        coordinators.prefer_owner("http://owner:1")
        coordinators.mark_failed("http://owner:1", "why", is_of_node=False)
        coordinators.prefer_owner("http://owner:1")
        assert coordinators.target() == "http://a:1"
        coordinators.redirected("http://owner:1")
        assert coordinators.target() == "http://owner:1"
        coordinators.mark_failed("http://owner:1", "why", is_of_node=False)
        clock.advance(30_000)
        coordinators.prefer_owner("http://owner:1")
        assert coordinators.target() == "http://owner:1"

    def test_unreachable_owner_is_avoided_if_it_is_a_base_url_too(self, clock: ManualClock) -> None:
        coordinators = self.make(clock)
        coordinators.prefer_owner("http://a:1")
        coordinators.mark_failed("http://a:1", "why", is_of_node=False)
        coordinators.prefer_owner("http://a:1")
        assert coordinators.target() == "http://b:1"
        clock.advance(30_000)
        coordinators.prefer_owner("http://a:1")
        assert coordinators.target() == "http://a:1"

    def test_warning_names_the_reason_and_is_logged_once_per_outage(
        self, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "muster.agent")
        coordinators = self.make(clock)
        for _ in range(3):
            coordinators.mark_failed("http://a:1", "Connection refused", is_of_node=False)
        coordinators.mark_reachable("http://b:1")

        assert caplog.messages == [
            "http://a:1 is unreachable or unavailable (Connection refused); retrying",
            "http://b:1 answers instead",
        ]

    def test_repeated_outages_are_logged_every_ten_seconds(
        self, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "muster.agent")
        coordinators = self.make(clock)
        for _ in range(10):
            coordinators.mark_failed("http://a:1", "why", is_of_node=False)
            coordinators.mark_reachable("http://a:1")
            clock.advance(1_000)
        assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
        coordinators.mark_failed("http://a:1", "why", is_of_node=False)
        assert caplog.records[-1].levelname == "WARNING"

    def test_failure_of_a_former_node_is_ignored(self, clock: ManualClock) -> None:
        coordinators = self.make(clock)
        coordinators.prefer_owner("http://owner:1")
        coordinators.mark_failed("http://former:1", "why", is_of_node=True)
        assert coordinators.target() == "http://owner:1"

    def test_https_base_urls_are_never_redirected_to_http(self, clock: ManualClock) -> None:
        coordinators = NodeSelector(
            ["https://a:1", "https://b:1"], clock.now_ms, owner_retry_ms=30_000, lock=threading.RLock()
        )
        coordinators.prefer_owner("http://owner:1")
        assert coordinators.target() == "https://a:1"
        coordinators.redirected("http://owner:1")
        assert coordinators.target() == "https://a:1"
        coordinators.prefer_owner("https://owner:1")
        assert coordinators.target() == "https://owner:1"
        coordinators.redirected("http://owner:1")
        assert coordinators.target() == "https://a:1"

    def test_one_http_base_url_allows_redirects_to_http(self, clock: ManualClock) -> None:
        coordinators = NodeSelector(
            ["https://a:1", "http://b:1"], clock.now_ms, owner_retry_ms=30_000, lock=threading.RLock()
        )
        coordinators.prefer_owner("http://owner:1")
        assert coordinators.target() == "http://owner:1"

    @pytest.mark.parametrize("named", [None, "", "10.0.0.1:8080", "ftp://owner", "http://", "http://owner:port"])
    def test_invalid_owner_address_is_ignored(self, clock: ManualClock, named: str | None) -> None:
        coordinators = self.make(clock)
        coordinators.prefer_owner(named)
        assert coordinators.target() == "http://a:1"


def test_partitions_are_grouped_by_topic_and_sorted() -> None:
    partitions = (TopicPartition("a", 0), TopicPartition("a", 10), TopicPartition("b", 2))

    assert grouped(reversed(partitions)) == [{"topic": "a", "partitions": [0, 10]}, {"topic": "b", "partitions": [2]}]
    assert ungrouped(grouped(partitions)) == partitions


def test_binary_assignment_is_rejected() -> None:
    with pytest.raises(RequestError, match="this client cannot read"):
        parse_sync_group({"assignment": "AAEAAAA="})


def test_every_setting_can_be_given_as_an_argument() -> None:
    assert set(TimingOptions.__annotations__) == set(Timing.__dataclass_fields__)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"session_timeout_ms": 0}, "session_timeout_ms must be at least 1, and is 0"),
        ({"heartbeat_interval_ms": 45_000}, r"heartbeat_interval_ms \(45000\) must be below"),
        ({"group_id": ""}, "a group id must have 1 to 255 characters"),
        ({"group_id": "x" * 256}, "a group id must have 1 to 255 characters"),
        ({"group_id": "a\0b"}, "must not contain NUL"),
        ({"group_id": "\ud800"}, "surrogate"),
        ({"client_id": "x" * 201}, "a client_id must have"),
        ({"group_instance_id": ""}, "a group_instance_id must have"),
        ({"group_instance_id": "x" * 250}, "a group_instance_id must have 1 to 249 characters"),
        ({"session_timeout_ms": None}, "session_timeout_ms must be a whole number, and is None"),
        ({"request_timeout_ms": 6.5}, "request_timeout_ms must be a whole number, and is 6.5"),
        ({"session_timeout_ms": True}, "session_timeout_ms must be a whole number, and is True"),
        ({"group_id": None}, "a group id must be a string, and is None"),
        ({"token": b"secret"}, "a token is one line of printable ASCII"),
        ({"token": ""}, "a token is one line of printable ASCII"),
        ({"token": grouped}, "token must take 0 positional arguments"),
        ({"topics": "orders"}, "topics must be a collection of names, and is 'orders'"),
        ({"topics": None}, "topics must be a collection of names, and is None"),
        ({"topics": [7]}, "a topic must be a string, and is 7"),
        ({"enable_auto_commit": "no"}, "enable_auto_commit must be True or False, and is 'no'"),
        ({"ssl_context": True}, "ssl_context must be an ssl.SSLContext or None, and is True"),
        ({"base_url": None}, "base_url must be a URL or a list of URLs, and is None"),
        ({"base_url": [None]}, "must look like http://host:port, and is None"),
        ({"assignors": None}, "assignors must be a non-empty list"),
        ({"topics": [""]}, "a topic must have"),
        ({"base_url": "127.0.0.1:8080"}, "must look like http://host:port"),
        ({"base_url": "http://node:1/?a=b"}, "must look like http://host:port"),
        ({"base_url": "http://node:1/#a"}, "must look like http://host:port"),
        ({"base_url": []}, "at least one base URL"),
        ({"base_url": "http://ada@node:1"}, "a base URL must hold no user name and no password: use a token"),
        ({"auto_offset_reset": "newest"}, "auto_offset_reset must be one of earliest, latest, none"),
        ({"auto_offset_reset": "latest"}, "needs end_offset_of"),
        ({"assignors": ["best"]}, "unknown assignor 'best'"),
    ],
)
def test_invalid_argument_is_rejected_before_any_request(arguments: dict[str, object], why: str) -> None:
    good: dict[str, object] = {"base_url": "http://127.0.0.1:1", "group_id": "billing", "topics": ["orders"]}

    for agent_class in (ConsumerAgent, aio.ConsumerAgent):
        with pytest.raises(ValueError, match=why):
            agent_class(**(good | arguments))  # type: ignore[arg-type]


@pytest.mark.parametrize("ending", ["\n", "\nand more", "\r", "\0", "ü", "\udcff"])
def test_invalid_token_is_rejected_and_not_shown(ending: str) -> None:
    with pytest.raises(ValueError, match="one line of printable ASCII") as refused:
        ConsumerAgent("http://127.0.0.1:1", "billing", token="hunter2" + ending)

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("url", ["http://ada:hunter2@node:1", "ftp://ada:hunter2@node:1", "http://ada:hunter2?@node:1"])
def test_a_password_in_a_base_url_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ValueError, match="no user name and no password") as refused:
        ConsumerAgent(url, "billing")

    assert "hunter2" not in str(refused.value)


def test_every_error_that_the_manual_names_can_be_imported_from_the_agent() -> None:
    manual = (ROOT / "docs" / "agent.md").read_text(encoding="utf-8")
    named = {name for name in re.findall(r"`([A-Z][A-Za-z]+)`", manual) if hasattr(errors, name)}

    assert "NotAuthorized" in named
    assert named <= set(agent.__all__)
    assert {kind.__name__ for kind in CLASSES.values() if issubclass(kind, RequestError)} <= set(agent.__all__)


def test_waits_are_short_enough_for_a_wakeup_from_a_signal_handler() -> None:
    class ChangeRecorder(threading.Condition):
        asked_s: list[float | None]

        def wait(self, timeout: float | None = None) -> bool:
            self.asked_s.append(timeout)
            return False

    condition = ChangeRecorder()
    condition.asked_s = []
    for timeout_ms in (250, 60_000, 10**15):
        SystemClock().wait(condition, timeout_ms)

    assert condition.asked_s == [0.25, 1.0, 1.0]


def test_subscribing_to_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="unsubscribe"):
        ConsumerAgent("http://127.0.0.1:1", "billing").subscribe([])


@pytest.mark.parametrize(("given", "why"), [("", "have 1 to 200 characters, and has 0"), (0, "be a string, and is 0")])
def test_wrong_client_id_is_refused(given: object, why: str) -> None:
    options: dict[str, Any] = {"client_id": given}
    with pytest.raises(ValueError, match=f"^a client_id must {why}"):
        ConsumerAgent("http://127.0.0.1:1", "billing", **options)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"on_complete": print}, "on_complete is called for asynchronous commits only"),
        ({"on_complete": 5, "asynchronous": True}, "on_complete must be a function, and is 5"),
        ({"asynchronous": None}, "asynchronous must be True or False, and is None"),
    ],
)
def test_wrong_arguments_of_a_commit_are_refused_with_nothing_to_commit(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=f"^{why}"):
        ConsumerAgent("http://127.0.0.1:1", "billing").commit(**arguments)


def test_default_client_id_contains_the_group() -> None:
    first, second = (ConsumerAgent("http://127.0.0.1:1", "g" * 255)._consumer._subscription.client_id for _ in range(2))
    number = int(first.rpartition("-")[2])

    assert len(first) <= 200
    assert first.startswith("consumer-ggg")
    assert second == f"{first.removesuffix(str(number))}{number + 1}"


def test_the_defaults_are_kafkas() -> None:
    """Those of Kafka's ConsumerConfig since 3.0."""
    timing = Timing()

    assert (timing.session_timeout_ms, timing.max_poll_interval_ms) == (45_000, 300_000)
    assert (timing.auto_commit_interval_ms, timing.metadata_max_age_ms) == (5_000, 300_000)
    assert timing.retry_backoff_ms == 100
    agent = ConsumerAgent("http://127.0.0.1:1", "billing")
    assert [each.name for each in agent._consumer._subscription.assignors] == ["range", "cooperative-sticky"]


def test_manual_lists_every_setting_with_its_default() -> None:
    manual = (ROOT / "docs" / "agent.md").read_text(encoding="utf-8")
    rows = [row.split("|")[1:3] for row in manual.splitlines() if row.startswith("| `")]
    reported = {
        name: default
        for names, defaults in rows
        for name, default in zip(re.findall(r"`(\w+)`", names), re.findall(r"[\w' ]+", defaults.strip()), strict=False)
    }

    for name, setting in Timing.__dataclass_fields__.items():
        wanted = "the coordinator's" if setting.default is None else str(setting.default)
        assert reported[name].strip() == wanted, name


CALLER_FUNCTIONS = ("on_revoked", "on_assigned", "on_lost", "partitions_of", "end_offset_of")


@pytest.mark.parametrize("agent_class", [ConsumerAgent, aio.ConsumerAgent], ids=["threads", "asyncio"])
@pytest.mark.parametrize("name", CALLER_FUNCTIONS)
def test_a_function_of_the_caller_is_a_function_or_none(
    agent_class: type[ConsumerAgent | aio.ConsumerAgent], name: str
) -> None:
    options: dict[str, Any] = {name: None}
    agent_class("http://127.0.0.1:1", "billing", **options)
    options[name] = "print"
    with pytest.raises(ValueError, match=f"^{name} must be a function, and is 'print'$"):
        agent_class("http://127.0.0.1:1", "billing", **options)


async def awaited_callback(_: object) -> None:
    """Do nothing."""


class AwaitedCallback:
    """An object that is called like a coroutine function."""

    async def __call__(self, _: object) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    "function", [awaited_callback, partial(awaited_callback), AwaitedCallback()], ids=["function", "partial", "object"]
)
@pytest.mark.parametrize("name", CALLER_FUNCTIONS)
def test_only_the_asyncio_agent_takes_coroutine_functions(name: str, function: object) -> None:
    options: dict[str, Any] = {name: function}
    aio.ConsumerAgent("http://127.0.0.1:1", "billing", **options)
    with pytest.raises(ValueError, match=f"^{name} must not be a coroutine function here"):
        ConsumerAgent("http://127.0.0.1:1", "billing", **options)


def generator(_: object) -> Iterator[int]:
    yield 1


@pytest.mark.parametrize("agent_class", [ConsumerAgent, aio.ConsumerAgent], ids=["threads", "asyncio"])
@pytest.mark.parametrize(
    ("function", "why"),
    [(generator, "a generator function"), (lambda: 1, "take 1 positional argument"), (divmod, "take 1 positional")],
)
def test_function_that_cannot_work_is_refused_at_once(
    agent_class: type[ConsumerAgent | aio.ConsumerAgent], function: object, why: str
) -> None:
    options: dict[str, Any] = {"on_revoked": function}
    with pytest.raises(ValueError, match=f"^on_revoked must .*{why}"):
        agent_class("http://127.0.0.1:1", "billing", **options)


def test_coroutine_function_on_assignment_is_only_for_the_asyncio_agent() -> None:
    async def on_assignment(partitions: object, generation: int) -> None:
        """Do nothing."""

    options: dict[str, Any] = {"assignors": [Assignor("mine", lambda counts, members: {}, on_assignment=on_assignment)]}
    aio.ConsumerAgent("http://127.0.0.1:1", "billing", **options)
    with pytest.raises(ValueError, match=r"^on_assignment must not be a coroutine function here"):
        ConsumerAgent("http://127.0.0.1:1", "billing", **options)


def test_an_unknown_option_is_refused_with_the_list_of_known_ones() -> None:
    options: dict[str, Any] = {"rebalance_timeout_ms": 60_000}
    with pytest.raises(TypeError, match=r"^an agent has no option rebalance_timeout_ms; .*max_poll_interval_ms,"):
        ConsumerAgent("http://127.0.0.1:1", "billing", **options)


def test_both_agents_have_the_same_methods_and_arguments() -> None:
    blocking, asynchronous = (
        {
            name: inspect.signature(method)
            for name, method in inspect.getmembers(each, inspect.isfunction)
            if name[0] != "_"
        }
        for each in (ConsumerAgent, aio.ConsumerAgent)
    )

    assert blocking == asynchronous
    assert ConsumerOptions.__annotations__.keys() == inspect.signature(Consumer).parameters.keys() - {
        "runtime", "base_url", "group_id", "topics", "timing"
    } | TimingOptions.__annotations__.keys()  # fmt: skip


def test_topic_metadata_of_several_pages_is_read_as_a_whole() -> None:
    class PagedConnection:
        async def call(self, parse: Any, method: str, path: str, *, timeout_ms: int) -> Any:  # noqa: ANN401 - of parse
            name = path.partition("?cursor=")[2] or "first"
            following = {"first": "second", "second": "third"}.get(name)
            return parse({"topics": [{"topic": name, "partitions": timeout_ms}], "next_cursor": following})

    api = GroupApi("g", None)
    found = asyncio.run(api.topics(PagedConnection(), timeout_ms=7))  # type: ignore[arg-type]  # what it needs of one
    assert {topic: metadata.partitions for topic, metadata in found.items()} == {"first": 7, "second": 7, "third": 7}
