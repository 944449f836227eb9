"""The Kafka listener: clients and tools of Kafka are members and operators of this node's groups.

A request goes from `connection` (frames, order) over `apis` (which APIs, in which versions) to a handler in
`membership`, `offsets`, `groups`, `brokers` or `records`, and back as bytes of `messages` or `hot_responses`. Muster
has no records: `records` answers what a consumer needs in order to be a member. A node that does not own a group
answers NOT_COORDINATOR, and clients look its owner up again; nothing is forwarded.
"""

from typing import Final

LISTENER: Final = "kafka"
"""The name of this listener among the addresses of a node."""
