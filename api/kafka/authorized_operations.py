"""The operations that a token allows, which clients may ask for with descriptions.

Source: KIP-430; each operation is the bit with its code in Kafka's AclOperation.
"""

from typing import Final

from api.kafka.request import KafkaRequest
from api.shared.access_control import Operation

READ: Final = 1 << 3
DELETE: Final = 1 << 6
DESCRIBE: Final = 1 << 8
OF_READABLE_TOPIC: Final = READ | DESCRIBE
"""Those on a topic that the token may read; there are no records to write."""
OF_CLUSTER: Final = DESCRIBE
"""Those on the cluster: every client may ask for its nodes."""


def of_group(request: KafkaRequest, group_id: str) -> int:
    """Return those on a group; Kafka's READ is to join it and to commit."""
    is_read = request.can_access(group_id, Operation.JOIN) or request.can_access(group_id, Operation.COMMIT)
    is_deleted = request.can_access(group_id, Operation.DELETE)
    is_described = request.can_access(group_id, Operation.DESCRIBE)
    return READ * is_read | DELETE * is_deleted | DESCRIBE * is_described
