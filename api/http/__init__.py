"""The HTTP API, version 1.

Read in this order: `asgi` (the path of every request), `paths`, `request_body` and `problems` (parsing and errors),
`fast_path` and `litestar_adapter` (the two dispatchers), `endpoints`, `app` (assembly), `server` (the socket).
"""

from typing import Final

LISTENER: Final = "http"
"""The name under which a node advertises the address of this API."""
