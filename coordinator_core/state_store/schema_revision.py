"""The revision of a database's schema, and which programs may use it.

Nodes of two releases share a database during an upgrade: the schema is migrated first, and nodes of the earlier release
keep running, and may start again, until they are replaced. A migration that removes what an earlier release uses sets
`versions.oldest_compatible_schema`.
"""

from typing import NamedTuple


class SchemaRevision(NamedTuple):
    """The revision of a database."""

    revision: str
    """The number of the last migration."""
    oldest_compatible: str
    """Programs that were made for an older revision cannot use the database."""


def schema_advice(found: SchemaRevision | None, own: str) -> str | None:
    """Return what to do before a program that was made for the revision `own` can use a database; None: nothing.

    Args:
        found: the database's revision; None if it has no schema.
        own: the newest revision that the program knows; "" accepts any.
    """
    if (found.revision if found else "") < own:
        return "run muster migrate"
    if found and own and found.oldest_compatible > own:
        return "use a newer program"
    return None
