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


class ThrottlingQuotaExceeded(RetryError):
    """A limit of requests, of which each client or group has its own, is reached."""

    code, kafka_code = "THROTTLING_QUOTA_EXCEEDED", 89

    def __init__(self, limit: str, value: int, retry_after_s: float) -> None:
        """Describe the limit.

        Args:
            limit: the name of its setting, in lower case.
            value: its value for this client or group.
            retry_after_s: after how many seconds the request may succeed.
        """
        super().__init__(f"the limit {limit} of {value} is reached")
        self.limit = limit
        self.value = value
        self.retry_after_s = retry_after_s


class UnknownServerError(RetryError):
    """An unexpected error, logged with the request id."""

    code, kafka_code = "UNKNOWN_SERVER_ERROR", -1
