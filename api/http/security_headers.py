"""Security headers of every response, errors included.

One policy serves the whole origin. It allows scripts, styles and data of the same origin for the console, and the
inline style of `/docs`; API responses need less, and are not rendered.

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
