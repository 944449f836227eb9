"""Errors that listeners raise beside those of the coordinator, with Kafka's codes."""

from typing import Final

from coordinator_core.protocol.errors import RequestError, RetryError

NO_ERROR: Final = "NONE"
"""Kafka's name of the code of a response without an error."""


class Unauthenticated(RequestError):
    """A token is needed, and it is absent, unknown or expired."""

    code, kafka_code = "SASL_AUTHENTICATION_FAILED", 58


class GroupAuthorizationFailed(RequestError):
    """The token does not allow the request's operation on the group."""

    code, kafka_code = "GROUP_AUTHORIZATION_FAILED", 30


class TopicAuthorizationFailed(RequestError):
    """The token does not allow the request's operation on the topic."""

    code, kafka_code = "TOPIC_AUTHORIZATION_FAILED", 29


class UnknownServerError(RetryError):
    """An unexpected error, logged with the request id."""

    code, kafka_code = "UNKNOWN_SERVER_ERROR", -1
