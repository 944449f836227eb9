"""Quotas: requests a second and bytes a second of each client and of each group, on this node.

A token bucket each, which a quiet window fills. A request that finds the bucket empty is refused with the time after
which to retry; a larger one than the bucket has runs into debt, as in Kafka, so that every request can be sent at last.
Heartbeats may overdraw a bucket by another window's worth: a member should not be evicted for its commits.

Source: Kafka's client quotas (KIP-13, KIP-124, KIP-599).
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
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
    """The buckets of one client or group, each as the time at which it is full again.

    A bucket that is full a window later than now is empty; what it lacks is that time by its rate.
    """

    __slots__ = ("bytes_full_at_s", "own", "rates", "requests_full_at_s", "s_per_byte", "s_per_request")

    def __init__(self) -> None:
        self.requests_full_at_s = self.bytes_full_at_s = 0.0
        self.s_per_request = self.s_per_byte = 0.0
        """How much later a request or a byte makes it full; 0: there is no quota."""
        self.rates: Mapping[str, int | None] = NO_RATES
        """Limit → rate, of requests and of bytes, from which these were computed."""
        self.own: Mapping[str, int] | None = None
        """The rates in place of the defaults among them; None: not yet."""


class _Buckets:
    """The buckets of all clients, or of all groups."""

    def __init__(self, limits: Mapping[str, int | None]) -> None:
        self._limits = limits
        self.has_defaults = any(per_s is not None for per_s in limits.values())
        self.by_key: dict[str, _Bucket] = {}

    def find(self, key: str, own: Mapping[str, int]) -> _Bucket:
        """Return the bucket of a client or a group, with its own rates."""
        bucket = self.by_key.get(key)
        if bucket is None:
            bucket = self.by_key[key] = _Bucket()
        if bucket.own is not own:
            bucket.own = own
            bucket.rates = {limit: own.get(limit, rate) for limit, rate in self._limits.items()}
            bucket.s_per_request, bucket.s_per_byte = [1 / rate if rate else 0.0 for rate in bucket.rates.values()]
        return bucket

    def forget_full(self, now_s: float) -> bool:
        """Forget full buckets if there are many: a new one is as full. Return whether there are many."""
        if len(self.by_key) <= BUCKETS_KEPT:
            return False
        for key, bucket in list(self.by_key.items()):
            if max(bucket.requests_full_at_s, bucket.bytes_full_at_s) <= now_s:
                del self.by_key[key]
        return True


class Quota:
    """The quotas from which requests of one client to one group take; found once, and taken from many times."""

    __slots__ = ("buckets", "client", "forgotten", "group_id", "groups", "own")

    def __init__(
        self,
        client: str,
        group_id: str | None,
        own: Mapping[str, int] = NO_RATES,
        groups: Collection[str] | None = None,
    ) -> None:
        """Find no bucket yet.

        Args:
            client: the client.
            group_id: the group; None: the requests name none, or several.
            own: limit → the client's own rate, in place of the default.
            groups: the groups whose quotas the requests take from, too; None: that of the group.
        """
        self.client = client
        self.group_id = group_id
        self.own = own
        self.groups = groups if groups is not None else () if group_id is None else (group_id,)
        self.buckets: tuple[_Bucket, ...] = ()
        self.forgotten = -1
        """How often buckets had been forgotten when these were found."""


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
        of_client = {CLIENT_REQUESTS: limits.client_quota_requests_per_s, CLIENT_BYTES: limits.client_quota_bytes_per_s}
        of_group = {GROUP_REQUESTS: limits.group_quota_requests_per_s, GROUP_BYTES: limits.group_quota_bytes_per_s}
        self._clients = _Buckets(of_client)
        self._groups = _Buckets(of_group)
        self.has_defaults = self._clients.has_defaults or self._groups.has_defaults
        self._now_s = now_s
        self._forget_at_s = 0.0
        self._forgotten = 0
        """How often buckets were forgotten."""
        self._waiting: Counter[str] = Counter()
        """Client → its parked requests."""
        self._refused = refused

    def take(self, quota: Quota, requests: int, size: int, *, is_heartbeat: bool = False) -> None:
        """Count requests against the quotas of their client and their group.

        Args:
            quota: the quotas; it may be that of an earlier request.
            requests: how many; 0 to count only bytes.
            size: the bytes of their bodies.
            is_heartbeat: whether it may overdraw the bucket.

        Raises:
            ThrottlingQuotaExceeded: a bucket is empty; the request counts in none.
        """
        if quota.forgotten != self._forgotten:
            self._find(quota)
        if not quota.buckets:
            return
        now_s = self._now_s()
        empty_at_s = now_s + (2 * self._window_s if is_heartbeat else self._window_s)
        for bucket in quota.buckets:
            if bucket.requests_full_at_s >= empty_at_s or bucket.bytes_full_at_s >= empty_at_s:
                self._check(bucket, empty_at_s)
        for bucket in quota.buckets:
            at_s = bucket.requests_full_at_s
            at_s = at_s if at_s > now_s else now_s  # noqa: FURB136  # a call, which every heartbeat would make four times
            bucket.requests_full_at_s = at_s + requests * bucket.s_per_request
            at_s = bucket.bytes_full_at_s
            at_s = at_s if at_s > now_s else now_s  # noqa: FURB136  # likewise
            bucket.bytes_full_at_s = at_s + size * bucket.s_per_byte
        if now_s >= self._forget_at_s:
            self._forget_at_s = now_s + self._window_s
            self._forgotten += self._clients.forget_full(now_s) + self._groups.forget_full(now_s)

    def _find(self, quota: Quota) -> None:
        buckets: list[_Bucket] = []
        if quota.own or self._clients.has_defaults:
            buckets.append(self._clients.find(quota.client, quota.own))
        if self._groups.has_defaults:
            buckets += [self._groups.find(group_id, NO_RATES) for group_id in quota.groups]
        quota.buckets, quota.forgotten = tuple(buckets), self._forgotten

    def _check(self, bucket: _Bucket, empty_at_s: float) -> None:
        full_at_s = (bucket.requests_full_at_s, bucket.bytes_full_at_s)
        for (limit, rate), at_s in zip(bucket.rates.items(), full_at_s, strict=True):
            if rate is not None and at_s >= empty_at_s:
                self._refused[limit] += 1
                raise ThrottlingQuotaExceeded(limit, rate, at_s - empty_at_s)

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
