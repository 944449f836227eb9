"""Short member names for the terminal: the client id at the start of a member id."""

import re

MEMBER_ID_TAIL = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def client_id_of(member_id: str | None) -> str | None:
    """Return the client id that a member id begins with."""
    return None if member_id is None else MEMBER_ID_TAIL.sub("", member_id)
