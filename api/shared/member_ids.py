"""Member ids, which the coordinator hands out to members without one."""

from uuid import uuid4


def new_member_id(client_id: str, group_instance_id: str | None) -> str:
    """Return a new member id: the instance id of a static member, else the client id, and a UUID.

    Source: Kafka's GroupMetadataManager, `generateMemberId`.
    """
    return f"{group_instance_id or client_id}-{uuid4()}"
