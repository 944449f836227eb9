"""Security headers: every answer carries them, whichever part of the server writes it.

One policy serves the whole origin. It lets the console take script, style and data from its own origin, and the page
`/docs` its one inline style; an answer of the API needs less, and is not rendered at all.

Source: Content Security Policy Level 3; Fetch, "Cross-Origin-Resource-Policy header".
"""

import base64
import hashlib
from typing import Final

from api.http.pages import STYLE

_DOCS_STYLE: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

POLICY: Final = (
    f"default-src 'none'; script-src 'self'; style-src 'self' 'sha256-{_DOCS_STYLE}'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Final = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
]
