"""The limits of the listeners, from the settings."""

from dataclasses import fields
from typing import Any

from api.http.limits import HttpLimits
from api.kafka.limits import KafkaLimits
from api.shared.limits import ListenerLimits
from api.shared.quotas import QuotaLimits
from muster.node.file_descriptors import connection_limit
from muster.settings import Settings


def http_limits(settings: Settings) -> HttpLimits:
    """Return the limits of HTTP.

    Raises:
        UserError: too few files may be open.
    """
    return HttpLimits(
        **_shared(settings),
        max_body_bytes=settings.max_body_bytes,
        head_timeout_ms=settings.head_timeout_ms,
        body_timeout_ms=settings.body_timeout_ms,
        keep_alive_s=settings.keep_alive_s,
        max_forward_connections=settings.max_forward_connections,
        forward_max_age_ms=settings.forward_max_age_ms,
    )


def kafka_limits(settings: Settings) -> KafkaLimits:
    """Return the limits of the Kafka listener; raises as `http_limits` does."""
    return KafkaLimits(
        **_shared(settings),
        max_frame_bytes=settings.max_body_bytes,
        frame_timeout_ms=settings.body_timeout_ms,
        keep_alive_s=settings.kafka_keep_alive_s,
    )


def _shared(settings: Settings) -> dict[str, Any]:
    """Return the limits of all listeners; those without a rule of their own have the names of their settings."""
    own = {"max_connections": connection_limit(settings), "quotas": _quotas(settings)}
    names = {each.name for each in fields(ListenerLimits)} - own.keys()
    return own | {name: getattr(settings, name) for name in names}


def _quotas(settings: Settings) -> QuotaLimits:
    return QuotaLimits(
        settings.client_quota_requests_per_s,
        settings.client_quota_bytes_per_s,
        settings.group_quota_requests_per_s,
        settings.group_quota_bytes_per_s,
        settings.quota_window_s,
        settings.max_waiting_requests_per_client or max(1, settings.max_waiting_requests * 3 // 4),
    )
