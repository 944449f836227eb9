"""Quotas of clients and groups are token buckets; heartbeats may overdraw them."""

from collections import Counter

import pytest

from api.shared.errors import ThrottlingQuotaExceeded
from api.shared.quotas import BUCKETS_KEPT, Quota, QuotaLimits, Quotas
from api.shared.request_metrics import CLIENT_BYTES, CLIENT_REQUESTS, GROUP_BYTES, GROUP_REQUESTS, WAITING


class ManualClock:
    """A clock that a test sets."""

    now_s = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


def quotas(clock: ManualClock, refused: Counter[str] | None = None, **limits: int) -> Quotas:
    return Quotas(QuotaLimits(**limits, quota_window_s=10), Counter() if refused is None else refused, clock)


def test_a_client_may_use_a_window_at_once_and_then_its_rate() -> None:
    clock, refused = ManualClock(), Counter[str]()
    node = quotas(clock, refused, client_quota_requests_per_s=2)
    for _ in range(20):
        node.take(Quota("a", None), 1, 0)
    with pytest.raises(ThrottlingQuotaExceeded, match="client_quota_requests_per_s of 2"):
        node.take(Quota("a", None), 1, 0)
    node.take(Quota("b", None), 1, 0)
    clock.now_s += 1
    node.take(Quota("a", None), 1, 0)
    node.take(Quota("a", None), 1, 0)
    with pytest.raises(ThrottlingQuotaExceeded):
        node.take(Quota("a", None), 1, 0)
    assert refused == {CLIENT_REQUESTS: 2}


def test_a_large_body_leaves_a_debt_and_the_refusal_says_how_long_it_lasts() -> None:
    clock = ManualClock()
    node = quotas(clock, client_quota_bytes_per_s=100)
    node.take(Quota("a", None), 1, 1_500)
    with pytest.raises(ThrottlingQuotaExceeded) as refused:
        node.take(Quota("a", None), 1, 10)
    assert (refused.value.limit, refused.value.value, refused.value.retry_after_s) == (CLIENT_BYTES, 100, 5.0)
    clock.now_s += 5.01
    node.take(Quota("a", None), 1, 10)


@pytest.mark.parametrize(
    ("limit", "requests", "size"), [(GROUP_REQUESTS, 1, 0), (GROUP_BYTES, 0, 1)], ids=["requests", "bytes"]
)
def test_clients_of_one_group_share_its_quota(limit: str, requests: int, size: int) -> None:
    node = quotas(ManualClock(), Counter(), **{limit: 1})
    for number in range(10):
        node.take(Quota(f"client-{number}", "g"), requests, size)
    with pytest.raises(ThrottlingQuotaExceeded, match=limit):
        node.take(Quota("another", "g"), requests, size)
    node.take(Quota("another", "h"), requests, size)
    node.take(Quota("another", None), requests, size)


def test_a_refused_request_counts_in_no_bucket() -> None:
    node = quotas(ManualClock(), client_quota_requests_per_s=1, group_quota_requests_per_s=1)
    for _ in range(10):
        node.take(Quota("a", "g"), 1, 0)
    for _ in range(10):
        with pytest.raises(ThrottlingQuotaExceeded):
            node.take(Quota("b", "g"), 1, 0)
    node.take(Quota("b", "h"), 1, 0)


def test_heartbeats_are_refused_at_a_window_of_debt() -> None:
    node = quotas(ManualClock(), client_quota_requests_per_s=1)
    for _ in range(10):
        node.take(Quota("a", "g"), 1, 0)
    for _ in range(10):
        with pytest.raises(ThrottlingQuotaExceeded):
            node.take(Quota("a", "g"), 1, 0)
        node.take(Quota("a", "g"), 1, 0, is_heartbeat=True)
    with pytest.raises(ThrottlingQuotaExceeded):
        node.take(Quota("a", "g"), 1, 0, is_heartbeat=True)


def test_an_actor_may_have_a_quota_of_its_own() -> None:
    node = quotas(ManualClock(), client_quota_requests_per_s=1)
    for _ in range(20):
        node.take(Quota("a", None, {CLIENT_REQUESTS: 2}), 1, 0)
    with pytest.raises(ThrottlingQuotaExceeded, match="of 2"):
        node.take(Quota("a", None, {CLIENT_REQUESTS: 2}), 1, 0)


def test_an_actor_whose_quota_is_taken_back_has_no_debt() -> None:
    node = quotas(ManualClock(), group_quota_requests_per_s=1_000)
    node.take(Quota("a", "g", {CLIENT_BYTES: 100}), 1, 1_500)
    with pytest.raises(ThrottlingQuotaExceeded, match=CLIENT_BYTES):
        node.take(Quota("a", "g", {CLIENT_BYTES: 100}), 1, 1)
    node.take(Quota("a", "g"), 1, 1)


def test_buckets_that_are_full_again_are_forgotten() -> None:
    clock = ManualClock()
    node = quotas(clock, group_quota_requests_per_s=1)
    for number in range(BUCKETS_KEPT + 1):
        node.take(Quota("a", f"g-{number}"), 1, 0)
    clock.now_s += 10
    node.take(Quota("a", "last"), 1, 0)
    assert list(node._groups.by_key) == ["last"]


def test_a_forgotten_bucket_is_found_again() -> None:
    clock = ManualClock()
    node = quotas(clock, group_quota_requests_per_s=1)
    kept = Quota("a", "kept")
    node.take(kept, 1, 0)
    for number in range(BUCKETS_KEPT):
        node.take(Quota("a", f"g-{number}"), 1, 0)
    clock.now_s += 10
    node.take(Quota("a", "last"), 1, 0)
    for quota in (kept, Quota("another", "kept")) * 5:
        node.take(quota, 1, 0)
    for quota in (kept, Quota("another", "kept")):
        with pytest.raises(ThrottlingQuotaExceeded):
            node.take(quota, 1, 0)


def test_parked_requests_of_a_client_are_limited() -> None:
    node = quotas(ManualClock(), max_waiting_requests_per_client=2)
    node.begin_waiting("a")
    node.begin_waiting("a")
    with pytest.raises(ThrottlingQuotaExceeded, match=WAITING):
        node.begin_waiting("a")
    node.begin_waiting("b")
    node.end_waiting("a")
    node.begin_waiting("a")
