"""Quotas: requests a second and bytes a second of each client and of each group, on this node.

A token bucket each, which a quiet window fills. A request that finds the bucket empty is refused with the time after
which to retry; a larger one than the bucket has runs into debt, as in Kafka, so that every request can be sent at last.
Heartbeats may overdraw a bucket by another window's worth: a member should not be evicted for its commits.

Source: Kafka's client quotas (KIP-13, KIP-124, KIP-599).
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from api.shared.errors import ThrottlingQuotaExceeded
from api.shared.request_metrics import CLIENT_BYTES, CLIENT_REQUESTS, GROUP_BYTES, GROUP_REQUESTS, WAITING

BUCKETS_KEPT: Final = 10_000
"""How many buckets of a quota are kept before full ones are forgotten."""
NO_RATES: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """The default quotas; None: no quota."""

    client_quota_requests_per_s: int | None = None
    client_quota_bytes_per_s: int | None = None
    group_quota_requests_per_s: int | None = None
    group_quota_bytes_per_s: int | None = None
    quota_window_s: int = 10
    """The seconds of its rate that a client may use at once after a pause."""
    max_waiting_requests_per_client: int = 15_000
    """Joins and syncs of one client that may be parked."""


class _Bucket(NamedTuple):
    """What was left of a rate at a time."""

    left: float
    at_s: float


class Quotas:
    """The buckets of one node."""

    def __init__(self, limits: QuotaLimits, refused: Counter[str], now_s: Callable[[], float] = time.monotonic) -> None:
        """Start with full buckets.

        Args:
            limits: the default quotas.
            refused: where requests that a limit refuses are counted, by limit.
            now_s: a monotonic clock, in seconds.
        """
        self._limits = limits
        self._now_s = now_s
        self._buckets: defaultdict[str, dict[str, _Bucket]] = defaultdict(dict)
        self._forget_at_s = 0.0
        self._waiting: Counter[str] = Counter()
        """Client → its parked requests."""
        self._refused = refused

    def check(
        self,
        client: str,
        group_id: str | None,
        requests: int,
        size: int,
        own: Mapping[str, int] = NO_RATES,
        *,
        is_heartbeat: bool = False,
    ) -> None:
        """Count requests against the quotas of their client and their group.

        Args:
            client: the client.
            group_id: the group; None: the request names none.
            requests: how many; 0 to count only bytes.
            size: the bytes of their bodies.
            own: limit → the client's own rate, in place of the default.
            is_heartbeat: whether it may overdraw the bucket.

        Raises:
            ThrottlingQuotaExceeded: a bucket is empty; the request counts in none.
        """
        limits = self._limits
        wanted = (
            (CLIENT_REQUESTS, client, own.get(CLIENT_REQUESTS, limits.client_quota_requests_per_s), requests),
            (CLIENT_BYTES, client, own.get(CLIENT_BYTES, limits.client_quota_bytes_per_s), size),
            (GROUP_REQUESTS, group_id, limits.group_quota_requests_per_s, requests),
            (GROUP_BYTES, group_id, limits.group_quota_bytes_per_s, size),
        )
        now_s = self._now_s()
        taken = []
        for limit, key, per_s, amount in wanted:
            if per_s is not None and key is not None:
                left = self._left(limit, key, per_s, now_s)
                overdraft = per_s * limits.quota_window_s if is_heartbeat else 0
                if left + overdraft <= 0:
                    self._refused[limit] += 1
                    raise ThrottlingQuotaExceeded(limit, per_s, -(left + overdraft) / per_s)
                taken.append((limit, key, left - amount))
        for limit, key, left in taken:
            self._buckets[limit][key] = _Bucket(left, now_s)
        if now_s >= self._forget_at_s:
            self._forget_full_buckets(now_s)

    def begin_waiting(self, client: str) -> None:
        """Count a request that may be parked; `end_waiting` must follow.

        Raises:
            ThrottlingQuotaExceeded: as many of the client are; this one does not count.
        """
        if self._waiting[client] >= self._limits.max_waiting_requests_per_client:
            self._refused[WAITING] += 1
            raise ThrottlingQuotaExceeded(WAITING, self._limits.max_waiting_requests_per_client, 1.0)
        self._waiting[client] += 1

    def end_waiting(self, client: str) -> None:
        """Count a parked request no longer."""
        self._waiting[client] -= 1
        if not self._waiting[client]:
            del self._waiting[client]

    def _left(self, limit: str, key: str, per_s: int, now_s: float) -> float:
        full = per_s * self._limits.quota_window_s
        bucket = self._buckets[limit].get(key)
        return full if bucket is None else min(full, bucket.left + per_s * (now_s - bucket.at_s))

    def _forget_full_buckets(self, now_s: float) -> None:
        """Forget buckets that were not used for a window and have no debt: a new one is as full."""
        self._forget_at_s = now_s + self._limits.quota_window_s
        for buckets in self._buckets.values():
            if len(buckets) > BUCKETS_KEPT:
                for key, bucket in list(buckets.items()):
                    if bucket.left >= 0 and now_s - bucket.at_s >= self._limits.quota_window_s:
                        del buckets[key]
