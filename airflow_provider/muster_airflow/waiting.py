"""The wait of a trigger: look until the condition is met, or never will be."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

from muster_airflow.client import Json, MusterClient, RequestRefused
from muster_airflow.conditions import Condition, Log, log_progress, look_once

MAX_DOUBLINGS = 30
"""How often an interval is doubled at most; 1 second is 34 years then."""


@dataclass(frozen=True, slots=True)
class Interval:
    """How long to wait between two looks, by the rule of Airflow's `BaseSensorOperator`."""

    poll_interval_s: float
    exponential_backoff: bool = False
    """Whether the interval is doubled with each look; a random part is added, as much again at most."""
    max_wait_s: float | None = None
    """Limit of an interval that is doubled; None: no limit."""

    def after(self, looks: int) -> float:
        """Return the seconds to wait after so many looks, which are at least 1."""
        if not self.exponential_backoff:
            return self.poll_interval_s
        least_s = max(self.poll_interval_s * 2.0 ** min(looks - 2, MAX_DOUBLINGS), 1.0)
        wait_s = random.uniform(least_s, 2 * least_s)
        return wait_s if self.max_wait_s is None else min(wait_s, self.max_wait_s)


async def wait_until_met(
    condition: Condition,
    connect: Callable[[], Awaitable[MusterClient]],
    interval: Interval,
    log: Log,
    *,
    wait_for_group: bool,
) -> Json:
    """Look at a group until the condition is met, and return the result.

    Where a token is refused that was accepted before, `connect` is called once more: it may have been replaced. While
    no node answers it is called before each look: the nodes may have other addresses now.

    Raises:
        GroupNotFound: the group does not exist, and is not waited for.
        InvalidConnection: the connection is wrong, as the wait begins or after a token was refused.
        RequestRefused: the request would be refused again.
        NodesUnusable: no node can be used, and none has answered before.
    """
    client, is_fresh = await connect(), True
    looks, previous, was_answered = 0, "", False
    while True:
        try:
            progress = await look_once(condition, client, wait_for_group=wait_for_group, was_answered=was_answered)
        except RequestRefused as refusal:
            if refusal.status != HTTPStatus.UNAUTHORIZED or is_fresh:
                raise
            client, is_fresh = await connect(), True
            continue
        log_progress(log, progress, previous)
        if progress.is_met:
            return progress.result
        is_fresh = False
        looks, previous, was_answered = looks + 1, progress.text, was_answered or progress.is_answered
        await asyncio.sleep(interval.after(looks))
        if not progress.is_answered:
            client = await _newest_client(connect, client, log)


async def _newest_client(
    connect: Callable[[], Awaitable[MusterClient]], client: MusterClient, log: Log
) -> MusterClient:
    """Return a client of the connection as it is now, or `client` if it cannot be used now."""
    try:
        return await connect()
    except Exception as failure:  # noqa: BLE001 - Airflow may not answer either, or a certificate is being replaced
        text = f"The connection cannot be used: {failure}"
        log.warning(text)
        return client
