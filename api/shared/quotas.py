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
from typing import Final

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


class _Bucket:
    """What is left of a rate at a time."""

    __slots__ = ("at_s", "left")

    def __init__(self, left: float, at_s: float) -> None:
        self.left = left
        self.at_s = at_s


class Quotas:
    """The buckets of one node."""

    def __init__(self, limits: QuotaLimits, refused: Counter[str], now_s: Callable[[], float] = time.monotonic) -> None:
        """Start with full buckets.

        Args:
            limits: the default quotas.
            refused: where requests that a limit refuses are counted, by limit.
            now_s: a monotonic clock, in seconds.
        """
        self._window_s = limits.quota_window_s
        self._max_waiting = limits.max_waiting_requests_per_client
        self._rates = (
            (CLIENT_REQUESTS, limits.client_quota_requests_per_s, True, False),
            (CLIENT_BYTES, limits.client_quota_bytes_per_s, True, True),
            (GROUP_REQUESTS, limits.group_quota_requests_per_s, False, False),
            (GROUP_BYTES, limits.group_quota_bytes_per_s, False, True),
        )
        """Limit, default rate, whether it is of clients (else of groups), whether it is of bytes (else of requests)."""
        self.has_defaults = any(per_s is not None for _, per_s, _, _ in self._rates)
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
        if not own and not self.has_defaults:
            return
        now_s = self._now_s()
        taken: list[tuple[_Bucket, int]] = []
        for limit, per_s, is_of_client, is_of_bytes in self._rates:
            key = client if is_of_client else group_id
            rate = own.get(limit, per_s) if own and is_of_client else per_s
            if rate is None or key is None:
                continue
            bucket = self._refilled(limit, key, rate, now_s)
            allowed = bucket.left + rate * self._window_s if is_heartbeat else bucket.left
            if allowed <= 0:
                self._refused[limit] += 1
                raise ThrottlingQuotaExceeded(limit, rate, -allowed / rate)
            taken.append((bucket, size if is_of_bytes else requests))
        for bucket, amount in taken:
            bucket.left -= amount
        if now_s >= self._forget_at_s:
            self._forget_full_buckets(now_s)

    def begin_waiting(self, client: str) -> None:
        """Count a request that may be parked; `end_waiting` must follow.

        Raises:
            ThrottlingQuotaExceeded: as many of the client are; this one does not count.
        """
        if self._waiting[client] >= self._max_waiting:
            self._refused[WAITING] += 1
            raise ThrottlingQuotaExceeded(WAITING, self._max_waiting, 1.0)
        self._waiting[client] += 1

    def end_waiting(self, client: str) -> None:
        """Count a parked request no longer."""
        self._waiting[client] -= 1
        if not self._waiting[client]:
            del self._waiting[client]

    def _refilled(self, limit: str, key: str, per_s: int, now_s: float) -> _Bucket:
        buckets = self._buckets[limit]
        full = per_s * self._window_s
        bucket = buckets.get(key)
        if bucket is None:
            bucket = buckets[key] = _Bucket(full, now_s)
        left = bucket.left + per_s * (now_s - bucket.at_s)
        bucket.left = min(full, left)
        bucket.at_s = now_s
        return bucket

    def _forget_full_buckets(self, now_s: float) -> None:
        """Forget buckets that were not used for a window and have no debt: a new one is as full."""
        self._forget_at_s = now_s + self._window_s
        for buckets in self._buckets.values():
            if len(buckets) > BUCKETS_KEPT:
                for key, bucket in list(buckets.items()):
                    if bucket.left >= 0 and now_s - bucket.at_s >= self._window_s:
                        del buckets[key]
