"""Tests of a trigger's wait: intervals, and tokens that are replaced meanwhile."""

import asyncio
import logging
from collections.abc import Sequence

import pytest

from muster_airflow.client import (
    InvalidConnection,
    Json,
    MusterClient,
    NodesUnavailable,
    NodesUnusable,
    RequestRefused,
)
from muster_airflow.conditions import GroupNotFound, Progress
from muster_airflow.waiting import Interval, wait_until_met

STABLE = Progress(is_met=False, text="Group g is Stable.", result={})
EMPTY = Progress(is_met=True, text="Group g is Empty.", result={"state": "Empty"})
UNAUTHORIZED = RequestRefused(401, {"code": "UNAUTHORIZED"})


class NumberedClient(MusterClient):
    """A client of nowhere that is known by its number."""

    def __init__(self, number: int) -> None:
        super().__init__(["http://127.0.0.1:1"])
        self.number = number


class Scripted:
    """A condition whose looks have these outcomes, and the connection that it is looked at by."""

    def __init__(self, *outcomes: Progress | Exception) -> None:
        self._outcomes = list(outcomes)
        self.failures: list[Exception | None] = []
        """Of the first readings of the connection."""
        self.connections = 0
        self.looked_at: list[int] = []
        """Of each look the number of its connection, from 1 on."""

    async def connect(self) -> MusterClient:
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        self.connections += 1
        return NumberedClient(self.connections)

    async def look(self, client: MusterClient) -> Progress:
        assert isinstance(client, NumberedClient)
        self.looked_at.append(client.number)
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def wait(script: Scripted) -> Json:
    log = logging.getLogger("muster_airflow")
    return asyncio.run(wait_until_met(script, script.connect, Interval(0.0), log, wait_for_group=False))


def test_wait_ends_when_the_condition_is_met() -> None:
    script = Scripted(STABLE, NodesUnavailable("No node answers."), EMPTY)
    assert wait(script) == {"state": "Empty"}
    assert script.looked_at == [1, 1, 2]


@pytest.mark.parametrize(
    "failure", [GroupNotFound("Group g does not exist."), RequestRefused(403, {"code": "SOME_CODE"})]
)
def test_wait_ends_with_what_no_look_will_change(failure: Exception) -> None:
    script = Scripted(STABLE, failure)
    with pytest.raises(type(failure)):
        wait(script)
    assert script.connections == 1


def test_nodes_that_cannot_be_used_end_the_wait_unless_one_has_answered() -> None:
    unusable, lost = NodesUnusable("No node can be used."), NodesUnavailable("No node answers.")
    assert wait(Scripted(STABLE, unusable, EMPTY)) == {"state": "Empty"}
    with pytest.raises(NodesUnusable):
        wait(Scripted(lost, unusable))


def test_connection_is_read_again_when_its_token_was_replaced() -> None:
    script = Scripted(STABLE, UNAUTHORIZED, STABLE, UNAUTHORIZED, EMPTY)
    assert wait(script) == {"state": "Empty"}
    assert script.connections == 3


def test_connection_is_read_again_while_no_node_answers() -> None:
    """Its nodes may have moved, or Airflow may have had none for a moment, so that the variables counted."""
    lost = NodesUnavailable("No node answers.")
    script = Scripted(lost, lost, STABLE, EMPTY)
    assert wait(script) == {"state": "Empty"}
    assert script.looked_at == [1, 2, 3, 3]


@pytest.mark.parametrize("failure", [OSError("Airflow does not answer."), InvalidConnection("a key without its file")])
def test_connection_that_cannot_be_used_for_a_moment_does_not_end_the_wait(failure: Exception) -> None:
    script = Scripted(NodesUnavailable("No node answers."), EMPTY)
    script.failures = [None, failure]
    assert wait(script) == {"state": "Empty"}
    assert script.looked_at == [1, 1]


@pytest.mark.parametrize("outcomes", [[UNAUTHORIZED], [STABLE, UNAUTHORIZED, UNAUTHORIZED]])
def test_token_that_was_never_accepted_ends_the_wait(outcomes: Sequence[Progress | Exception]) -> None:
    script = Scripted(*outcomes)
    with pytest.raises(RequestRefused):
        wait(script)
    assert len(script.looked_at) == len(outcomes)


def test_interval_is_doubled_only_with_exponential_backoff() -> None:
    assert {Interval(30.0, max_wait_s=5.0).after(looks) for looks in range(1, 9)} == {30.0}
    doubled = Interval(30.0, exponential_backoff=True)
    for looks, least_s in ((1, 15.0), (2, 30.0), (3, 60.0), (8, 1920.0)):
        assert least_s <= doubled.after(looks) <= 2 * least_s
    assert Interval(30.0, exponential_backoff=True, max_wait_s=100.0).after(8) == 100.0
    assert 1.0 <= Interval(0.0, exponential_backoff=True).after(10_000) <= 2.0
