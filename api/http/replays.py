"""A change that is asked for again under the same idempotency key is answered as it was, and not made again.

A node remembers the latest answers to such changes; the change itself, under the key as its id, is in the database.
Only the very same request, to the last byte of its body, is answered from memory: any other is read and judged.
"""

from hashlib import sha256

from api.http.call import Call
from api.http.forward_mark import IDEMPOTENCY_HEADER
from api.http.limits import REPLAYS_MAX
from api.http.reply import Reply
from api.http.tokens import Identity

Key = tuple[bytes, str, bytes, bytes, bytes, Identity | None]


class Replays:
    """Answers to changes that carried a key, the latest of them."""

    def __init__(self, limit: int = REPLAYS_MAX) -> None:
        self._limit = limit
        self._answers: dict[Key, tuple[str, Reply]] = {}

    def find(self, call: Call) -> Reply | None:
        """Return the answer that the same call has had, or None; the call then has its change id too."""
        key = _key(call)
        if key is None or key not in self._answers:
            return None
        call.change_id, reply = self._answers[key]
        return reply

    def keep(self, call: Call, reply: Reply) -> None:
        """Remember the answer, no refusal, to a call; if it made a change and had a key."""
        key = _key(call)
        if key is None or call.change_id is None:
            return
        self._answers[key] = (call.change_id, reply)
        if len(self._answers) > self._limit:
            del self._answers[next(iter(self._answers))]


def _key(call: Call) -> Key | None:
    given = call.header(IDEMPOTENCY_HEADER)
    if given is None:
        return None
    scope, body = call.scope, sha256(call.body).digest()
    return given.lower(), scope["method"], scope["raw_path"], scope["query_string"], body, call.identity
