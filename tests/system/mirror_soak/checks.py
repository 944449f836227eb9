"""What has to hold at the end of the soak: the rows are those of Kafka's log, and of what members have reported."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from confluent_kafka.admin import AdminClient
from psycopg2.extensions import connection as Connection  # noqa: N812 - a class under a function's name

from tests.support.kafka_log import topic_ids_of
from tests.support.kafka_members import Event
from tests.support.mirrored_history import History, logged_history, read_log, stored_history
from tests.support.reported_history import assignments_without_rows, client_ids, commits_not_in_log
from tests.support.waiting import PATIENCE_S
from tests.system.mirror_soak.groups import PREFIX, TOPIC

POLL_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison."""

    name: str
    checked: int
    """How many things were compared."""
    violations: list[str]


def checks(bootstrap: str, rows: Connection, events: list[Event], keep_alive: Callable[[], None]) -> list[Check]:
    """Compare, when all members have left and the mirrors have read what is in the log.

    Args:
        bootstrap: the cluster.
        rows: the mirrors' database.
        events: what the members have reported.
        keep_alive: called while the mirrors read.

    Returns:
        All comparisons, with their violations.
    """
    names = {
        topic_id: name
        for name, topic_id in topic_ids_of(AdminClient({"bootstrap.servers": bootstrap}), [TOPIC]).items()
    }
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        seen = read_log(bootstrap, names)
        logged, stored = logged_history(seen, PREFIX), stored_history(rows, PREFIX)
        if (_are_empty(logged) and logged == stored) or time.monotonic() > deadline_s:
            break
        keep_alive()
        time.sleep(POLL_S)
    own = [event for event in events if event["group_id"].startswith(PREFIX)]
    clients = client_ids(rows)
    return [
        *compare(logged, stored),
        _reported("assignments that members reported have rows", own, assignments_without_rows(own, stored, clients)),
        _reported("commits that were answered are in the log", own, commits_not_in_log(own, seen)),
    ]


def compare(logged: History, stored: History) -> list[Check]:
    """Compare the rows with the log."""
    return [_compared(name, facts(logged), facts(stored)) for name, facts in FACTS.items()]


def _are_empty(history: History) -> bool:
    return all(group.generations and not group.generations[-1].members for group in history.values())


def _compared(name: str, logged: Counter[object], stored: Counter[object]) -> Check:
    missing = [f"not in the rows: {each}" for each in (logged - stored).elements()]
    return Check(name, logged.total(), missing + [f"not in the log: {each}" for each in (stored - logged).elements()])


def _reported(name: str, events: list[Event], violations: list[Event]) -> Check:
    kind = "assigned" if name.startswith("assignments") else "committed"
    return Check(name, sum(event["event"] == kind for event in events), list(map(str, violations)))


# -- facts, in an order where they have one -------------------------------------------------------------------


def _generations(history: History) -> Counter[object]:
    return Counter(
        (group_id, *each) for group_id, group in history.items() for each in enumerate(group.generations, start=1)
    )


def _owned(history: History) -> Counter[object]:
    return Counter((group_id, each) for group_id, group in history.items() for each in group.owned)


def _offsets(history: History) -> Counter[object]:
    return Counter((group_id, *each) for group_id, group in history.items() for each in group.offsets.items())


def _minutes(history: History) -> Counter[object]:
    return Counter(
        (group_id, partition, *each)
        for group_id, group in history.items()
        for partition, minutes in group.minutes.items()
        for each in enumerate(minutes, start=1)
    )


FACTS: Final[dict[str, Callable[[History], Counter[object]]]] = {
    "generations and their members are those of the log": _generations,
    "owners of partitions are those of the log": _owned,
    "committed offsets are those of the log": _offsets,
    "the last offset of each minute is that of the log": _minutes,
}
