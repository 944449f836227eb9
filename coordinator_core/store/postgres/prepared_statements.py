"""A prepared statement is read and planned by the server once a connection, and then only run.

The statement that stores commits is long and its batches are short: of a batch of 32 commits the server spent a third
of its time on reading and planning. psycopg2 prepares nothing by itself, so PREPARE and EXECUTE are said here.
"""

import re
from dataclasses import dataclass
from typing import Final, Self

PARAMETER: Final = re.compile(r"%\((\w+)\)s")


@dataclass(frozen=True, slots=True)
class PreparedStatement:
    """A statement in two parts; what connections remember it by is its name, which no other has."""

    name: str
    prepare: str
    """Sent first on every connection; takes no parameters."""
    execute: str
    """Sent each time, with psycopg2's named parameters."""

    @classmethod
    def of(cls, name: str, text: str) -> Self:
        """Make one of a text with psycopg2's named parameters, each of which says its type or stands where one fits."""
        names = list(dict.fromkeys(PARAMETER.findall(text)))
        numbered = PARAMETER.sub(lambda match: f"${names.index(match[1]) + 1}", text)
        given = ", ".join(f"%({each})s" for each in names)
        return cls(name, f"PREPARE {name} AS {numbered}", f"EXECUTE {name} ({given})")
