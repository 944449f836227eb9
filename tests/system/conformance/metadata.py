"""Member metadata as scenarios write it: `{topics, user_data?}`, or `{raw}` if it cannot be read."""

from typing import Any

from coordinator_core.protocol.consumer_protocol import Subscription, Unreadable, read_subscription, write_subscription

Metadata = dict[str, Any]


def to_bytes(metadata: Metadata) -> bytes:
    """Return the bytes that a member would send."""
    if "raw" in metadata:
        return str(metadata["raw"]).encode()
    user_data = metadata.get("user_data")
    return write_subscription(
        Subscription(tuple(metadata["topics"]), user_data=None if user_data is None else str(user_data).encode())
    )


def from_bytes(data: bytes) -> Metadata:
    """Return the metadata in these bytes."""
    try:
        read = read_subscription(data)
    except Unreadable:
        return {"raw": data.decode()}
    user_data = {} if read.user_data is None else {"user_data": read.user_data.decode()}
    return {"topics": list(read.topics)} | user_data


def comparable(metadata: Metadata) -> Metadata:
    """Return metadata in a canonical form; the order of topics does not matter."""
    if "raw" in metadata:
        return metadata
    return {key: value for key, value in metadata.items() if value is not None} | {"topics": sorted(metadata["topics"])}
