"""Seals of the audit log: at most once a minute, a hash over the changes that have none, and over the seal before.

Rules:

* A change belongs to the minute in which it is sealed, which is in its row: changes that were stored late, in whatever
  order, are sealed with the next minute. A minute without changes has no seal.
* After the database's clock was set back, minutes go on after the last seal, for changes that have waited for a minute.
* To alter, remove or insert a sealed change, its seal and all later ones have to be replaced. Nodes log each seal: a
  comparison of the newest with a log that is kept elsewhere shows that.
* The lock of the row of `versions` decides which node seals a minute.
"""

from datetime import datetime
from typing import Final

from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.rows import SealedMinute

SEALED_AT_ONCE_MAX: Final = 10_000
"""The maximum number of changes of one minute; the next minute seals the others."""
SEALED_AT_ONCE_MAX_BYTES: Final = 524_288
"""The same for the stored bytes of their `before` and `after`, which Postgres compresses to a twentieth; one that is
larger is sealed alone. More would take longer than a write of a node may."""


_CONTENT: Final = """jsonb_build_array(changes.change_id, floor(extract(epoch FROM changes.at) * 1000000)::bigint,
    changes.actor, changes.action, changes.group_id, changes.before, changes.after, changes.reason, changes.token_id,
    changes.client_address)::text"""
"""What is sealed of a change: everything but the marks that it was undone and sealed."""

_SEAL: Final = """encode(sha256(convert_to(
    concat_ws(E'\n', {before}, floor(extract(epoch FROM {minute}) * 1000)::bigint, {contents}), 'UTF8')), 'hex')"""

_DUE: Final = """
SELECT greatest(now.minute, last.minute + interval '1 minute')
FROM date_trunc('minute', clock_timestamp(), 'UTC') AS now (minute),
    (SELECT max(minute) FROM change_seals) AS last (minute)
WHERE last.minute IS NULL OR last.minute < now.minute OR (
    last.minute > now.minute AND EXISTS (
        SELECT FROM changes WHERE sealed_minute IS NULL AND at < clock_timestamp() - interval '1 minute'
    )
)
"""

_SEAL_CHANGES: Final = f"""
WITH sealed AS (
    UPDATE changes SET sealed_minute = %(minute)s
    FROM (
        SELECT change_id FROM changes JOIN (
            SELECT change_id, sum(size) OVER (ORDER BY change_id) - size AS size_before FROM (
                SELECT change_id, coalesce(pg_column_size(before), 0) + coalesce(pg_column_size(after), 0) AS size
                FROM changes WHERE sealed_minute IS NULL ORDER BY change_id LIMIT {SEALED_AT_ONCE_MAX}
            ) AS next
        ) AS summed USING (change_id)
        WHERE sealed_minute IS NULL AND size_before < {SEALED_AT_ONCE_MAX_BYTES}
        FOR UPDATE OF changes SKIP LOCKED
    ) AS unsealed
    WHERE changes.change_id = unsealed.change_id
    RETURNING changes.change_id, {_CONTENT} AS content
), contents AS (
    SELECT count(*) AS number, string_agg(content, E'\n' ORDER BY change_id) AS contents FROM sealed
)
INSERT INTO change_seals (minute, change_count, seal)
SELECT %(minute)s, number, {
    _SEAL.format(
        before="(SELECT seal FROM change_seals ORDER BY minute DESC LIMIT 1)",
        minute="%(minute)s::timestamptz",
        contents="contents",
    )
}
FROM contents WHERE number > 0
RETURNING floor(extract(epoch FROM minute) * 1000)::bigint, change_count, seal
"""  # noqa: S608 - all of it is written here

FIRST_BROKEN: Final = f"""
WITH contents AS (
    SELECT sealed_minute AS minute, count(*) AS number, string_agg({_CONTENT}, E'\n' ORDER BY change_id) AS contents
    FROM changes WHERE sealed_minute IS NOT NULL GROUP BY sealed_minute
), seals AS (
    SELECT minute, change_count, seal, lag(seal) OVER (ORDER BY minute) AS before FROM change_seals
)
SELECT to_char(minute AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"'), coalesce(change_count, 0), coalesce(number, 0)
FROM seals FULL JOIN contents USING (minute)
WHERE change_count IS DISTINCT FROM number
    OR seal IS DISTINCT FROM {_SEAL.format(before="before", minute="minute", contents="contents")}
ORDER BY minute LIMIT 1
"""  # noqa: S608 - likewise
"""Selects the first minute whose seal does not match: the minute, its number of changes when sealed and now."""


def seal_changes(transaction: Transaction) -> SealedMinute | None:
    """Seal the changes that are not sealed; None if there are none, or this minute has its seal."""
    transaction.execute("SELECT FROM versions FOR UPDATE")
    minute = transaction.execute(_DUE).scalar_one_or_none()
    return None if minute is None else seal_minute(transaction, minute)


def seal_minute(transaction: Transaction, minute: datetime) -> SealedMinute | None:
    """Seal the changes that are not sealed with a minute, which is later than the last; None if there are none."""
    row = transaction.execute(_SEAL_CHANGES, {"minute": minute}).one_or_none()
    return None if row is None else SealedMinute(*row)
