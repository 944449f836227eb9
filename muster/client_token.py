"""The client's bearer token: read from MUSTER_TOKEN, validated, and never printed."""

import os

from agent.settings import check_token
from muster.errors import USAGE_EXIT_CODE, UserError


def client_token() -> str | None:
    """Return the token that requests are to carry, or None where there is none.

    Raises:
        UserError: what is in the environment cannot stand in a request.
    """
    token = os.environ.get("MUSTER_TOKEN")
    if not token:
        return None
    try:
        return check_token(token)
    except ValueError as refusal:
        raise UserError(f"MUSTER_TOKEN: {refusal}.", USAGE_EXIT_CODE) from None
