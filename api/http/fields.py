"""The kinds of fields that requests are made of; whatever is outside of them is refused with the field's name.

Source: http-api.md "Limits", for lengths and ranges.
"""

from typing import Annotated, Final, TypeAlias

from litestar.params import FromPath, QueryParameter
from msgspec import Meta

from api.http.limits import (
    CLIENT_ID_MAX_CHARS,
    INSTANCE_ID_MAX_CHARS,
    MEMBER_ID_MAX_CHARS,
    PAGE_MAX,
    PROTOCOL_NAME_MAX_CHARS,
    REASON_MAX_CHARS,
    TOPIC_MAX_CHARS,
)

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

GroupId: TypeAlias = FromPath[str]
"""Read by the edge from the raw path; `~` and base64url name any."""

MemberId = Annotated[str, Meta(max_length=MEMBER_ID_MAX_CHARS, description='"" is no member id')]
InstanceId = Annotated[str, Meta(min_length=1, max_length=INSTANCE_ID_MAX_CHARS)]
ClientId = Annotated[str, Meta(max_length=CLIENT_ID_MAX_CHARS)]
ProtocolName = Annotated[str, Meta(max_length=PROTOCOL_NAME_MAX_CHARS)]
Topic = Annotated[str, Meta(min_length=1, max_length=TOPIC_MAX_CHARS)]
Reason = Annotated[str, Meta(max_length=REASON_MAX_CHARS)]
GivenReason = Annotated[str, Meta(min_length=1, max_length=REASON_MAX_CHARS)]

Partition = Annotated[int, Meta(ge=0, le=INT32_MAX)]
CandidateCount = Annotated[int, Meta(ge=0, le=INT64_MAX, description="as many as were looked at")]
PartitionCount = Annotated[int, Meta(ge=1, le=INT32_MAX)]
Offset = Annotated[int, Meta(ge=0, le=INT64_MAX)]
LeaderEpoch = Annotated[int, Meta(ge=-1, le=INT32_MAX, description="-1: not known")]
Generation = Annotated[int, Meta(ge=-1, le=INT32_MAX, description="-1: in no generation")]

SessionTimeoutMs = Annotated[int, Meta(ge=-INT64_MAX, le=INT64_MAX)]
"""Judged by the group's own bounds, which name the error as Kafka does."""
RebalanceTimeoutMs = Annotated[int, Meta(ge=0, le=INT32_MAX)]
WaitMs = Annotated[int, Meta(ge=0, le=INT32_MAX, description="past it: 409 with action retry")]
RetentionMs = Annotated[int, Meta(ge=-1, le=INT64_MAX // 2, description="-1: the configured retention")]

# In a query the framework reads its own constraints, and no others.
PageLimit: TypeAlias = Annotated[int, QueryParameter(ge=1, le=PAGE_MAX)]
TopicAsked: TypeAlias = Annotated[str, QueryParameter(name="topic", min_length=1, max_length=TOPIC_MAX_CHARS)]
TopicsAsked: TypeAlias = Annotated[list[str] | None, QueryParameter(name="topic")]
PartitionAsked: TypeAlias = Annotated[
    int | None, QueryParameter(name="partition", ge=0, le=INT32_MAX, schema_extra={"minimum": 0})
]
"""The framework leaves a bound of 0 out of the document."""
StatesAsked: TypeAlias = Annotated[list[str] | None, QueryParameter(name="state")]
ReasonAsked: TypeAlias = Annotated[str | None, QueryParameter(name="reason", max_length=REASON_MAX_CHARS)]
ReasonNeeded: TypeAlias = Annotated[str, QueryParameter(name="reason", min_length=1, max_length=REASON_MAX_CHARS)]
