"""Prepared statements: the server parses and plans them once per connection.

The statement that stores commits is long and its batches are short: for a batch of 32 commits the server spent a third
of its time on parsing and planning. psycopg2 does not prepare statements, so this module writes PREPARE and EXECUTE.
"""

import re
from dataclasses import dataclass
from typing import Final, Self

PARAMETER: Final = re.compile(r"%\((\w+)\)s")


@dataclass(frozen=True, slots=True)
class PreparedStatement:
    """The PREPARE and EXECUTE of a statement; its name is unique."""

    name: str
    prepare: str
    """Sent first on every connection; takes no parameters."""
    execute: str
    """Sent each time, with psycopg2's named parameters."""

    @classmethod
    def of(cls, name: str, text: str) -> Self:
        """Return the prepared form of a statement with named parameters, whose types the server can infer."""
        names = list(dict.fromkeys(PARAMETER.findall(text)))
        numbered = PARAMETER.sub(lambda match: f"${names.index(match[1]) + 1}", text)
        given = ", ".join(f"%({each})s" for each in names)
        return cls(name, f"PREPARE {name} AS {numbered}", f"EXECUTE {name} ({given})")
