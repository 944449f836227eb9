"""Who set the stored settings, and when."""

from typing import NamedTuple

from sqlalchemy import select

from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.timestamps import as_ms
from coordinator_core.state_store.tables import cluster_configs, group_configs


class SettingOrigin(NamedTuple):
    """The actor and time of a stored setting."""

    set_by: str
    set_at_ms: int


def read_setting_origins(transaction: Transaction, group_id: str) -> dict[str, SettingOrigin]:
    """Return the actor and time of each stored setting; the group's setting overrides the cluster's."""
    origins: dict[str, SettingOrigin] = {}
    of_group = select(group_configs).where(group_configs.c.group_id == group_id).subquery()
    for table in (cluster_configs, of_group):
        rows = transaction.execute(select(table.c.key, table.c.set_by, as_ms(table.c.set_at)))
        origins |= {key: SettingOrigin(set_by, set_at_ms) for key, set_by, set_at_ms in rows}
    return origins
