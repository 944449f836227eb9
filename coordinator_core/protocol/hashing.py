"""Kafka's mapping of groups to shards: ``abs(java_hash(group_id)) % shards``.

Source: protocol.md section 4; Java's ``String.hashCode`` over UTF-16 code units.
"""

_INT_MIN = -(2**31)


def java_hash(text: str) -> int:
    """Return Java's 32-bit signed ``hashCode`` of a string."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def shard_of(group_id: str, shard_count: int) -> int:
    """Return the shard of a group; a hash of -2^31, which has no absolute value, counts as 0."""
    value = java_hash(group_id)
    return 0 if value == _INT_MIN else abs(value) % shard_count
