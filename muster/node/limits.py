"""The limits and the configuration of a node, from the settings."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from api.http.limits import HttpLimits
from api.kafka.limits import KafkaLimits
from api.shared.limits import ListenerLimits
from api.shared.quotas import QuotaLimits
from muster.node.file_descriptors import connection_limit
from muster.settings import Settings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Values = TypeVar("Values", bound="DataclassInstance")


def from_settings(kind: type[Values], settings: Settings, **others: Any) -> Values:  # noqa: ANN401 - fields of any type
    """Return a dataclass whose fields are the settings of the same names.

    Args:
        kind: the dataclass.
        settings: the settings.
        others: fields that are no settings, or follow from several.
    """
    return kind(
        **{each.name: getattr(settings, each.name) for each in fields(kind) if each.name not in others}, **others
    )


def http_limits(settings: Settings) -> HttpLimits:
    """Return the limits of HTTP.

    Raises:
        UserError: too few files may be open.
    """
    waiting = settings.max_waiting_requests_per_client or max(1, settings.max_waiting_requests * 3 // 4)
    quotas = from_settings(QuotaLimits, settings, max_waiting_requests_per_client=waiting)
    return from_settings(HttpLimits, settings, max_connections=connection_limit(settings), quotas=quotas)


def kafka_limits(settings: Settings, shared: ListenerLimits) -> KafkaLimits:
    """Return the limits of the Kafka listener, beside those that all listeners of the node share."""
    return from_settings(
        KafkaLimits,
        settings,
        max_connections=shared.max_connections,
        quotas=shared.quotas,
        max_frame_bytes=settings.max_body_bytes,
        frame_timeout_ms=settings.body_timeout_ms,
        keep_alive_s=settings.kafka_keep_alive_s,
    )
