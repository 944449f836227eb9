"""Requests that clients repeat: a connection knows them again, and decodes as little as it can.

Between two rebalances a consumer sends the same heartbeat again and again, and commits of the same partitions.
"""

from typing import Final

from api.kafka.apis import ApiKey
from api.kafka.commits import CommitLayout, layout_of
from api.kafka.handlers import SubmittedApi
from api.kafka.messages import CORRELATION_ID, SIZE_BYTES, decode_checked, lists_of
from api.kafka.request import KafkaRequest

KEPT_REQUESTS_MAX: Final = 4
"""So many requests a connection keeps: a heartbeat, and commits of several sizes, each of some 40 KB at most."""
KEPT_BODY_MAX_BYTES: Final = 1_024
"""A connection keeps no larger body, nor a longer beginning of one."""
LAYOUTS_IN_VAIN_MAX: Final = 4
"""After so many layouts that no commit had again, no more are made: one takes as long as decoding the commit twice."""
KIND: Final = slice(0, SIZE_BYTES + CORRELATION_ID.start)
"""Where a frame with its size has the size, the API and the version."""
_HEADER_BEGIN: Final = SIZE_BYTES + CORRELATION_ID.stop
"""Where the rest of the header begins, behind the size of the frame."""


class KeptRequest:
    """A request that a connection keeps to know the next one of its size, which nearly always differs little."""

    __slots__ = (
        "_begin",
        "_body",
        "_header",
        "_is_body_kept",
        "_layout",
        "_layouts_left",
        "_lists",
        "_size",
        "api",
        "request",
    )

    def __init__(self, frame: bytes, request: KafkaRequest, api: SubmittedApi) -> None:
        self.request = request
        self.api = api
        size = request.header.size
        self._size = SIZE_BYTES + len(frame)
        self._begin = SIZE_BYTES + size
        """Where the body begins, behind the size of the frame."""
        self._header = frame[CORRELATION_ID.stop : size]
        self._is_body_kept = len(frame) - size <= KEPT_BODY_MAX_BYTES
        """Whether it is not too long."""
        self._body = frame[size:] if self._is_body_kept else b""
        self._layout: CommitLayout | None = None
        """Of the last commit that was decoded; None: not known yet, or of no use."""
        self._layouts_left = LAYOUTS_IN_VAIN_MAX
        self._lists: bytes | None = None
        """The beginning of the body, as far as it decides how long its lists are; None: not known yet, or too long."""

    def begin(self, data: bytes) -> bool:
        """Begin the next request if it has arrived whole, with the same header but for its correlation id.

        The body is not decoded if it is the same, too, or differs in the offsets of a commit alone.

        Args:
            data: what has arrived, with the same size of the frame, API and version.

        Returns:
            Whether it is such a request.

        Raises:
            MalformedFrame: as `decode`.
        """
        if len(data) != self._size or not data.startswith(self._header, _HEADER_BEGIN):
            return False
        request, layout = self.request, self._layout
        request.begin_again()
        offsets = layout.offsets(data) if layout is not None and request.sent.commit is not None else None
        request.newer_offsets = offsets
        if offsets is not None:
            self._layouts_left = LAYOUTS_IN_VAIN_MAX
        elif not (self._is_body_kept and data.endswith(self._body)):
            self._decode(data)
        return True

    def _decode(self, data: bytes) -> None:
        request = self.request
        key, version, begin = request.header.api_key, request.version, self._begin
        if self._lists is None or not data.startswith(self._lists, begin):
            lists = lists_of(key, version, data, begin, max_items=len(data))  # No item takes less than a byte.
            self._lists = lists if len(lists) <= KEPT_BODY_MAX_BYTES else None
        request.message = message = decode_checked(key, version, data, begin)
        request.group_id = message.group_id
        if self._is_body_kept:
            self._body = data[begin:]
        if key == ApiKey.OFFSET_COMMIT:
            self._layout = layout_of(message, version, data, begin) if self._layouts_left > 0 else None
            self._layouts_left -= 1


def keep(requests: dict[bytes, KeptRequest], frame: bytes, request: KafkaRequest, api: SubmittedApi) -> None:
    """Add a request to those that a connection keeps, by what they have at `KIND`; the oldest makes place for it."""
    if len(requests) == KEPT_REQUESTS_MAX:
        del requests[next(iter(requests))]
    requests[len(frame).to_bytes(SIZE_BYTES) + frame[: CORRELATION_ID.start]] = KeptRequest(frame, request, api)
