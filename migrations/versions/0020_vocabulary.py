"""Rename tables, columns, views and functions to the standard words of Kafka and Postgres.

Revision 0020, after 0019. Names change and nothing else: rights, indexes and rows stay with their objects.

* The history table `assignments` becomes `partition_ownership`, with its partitions and their indexes. Days of it that
  are in the archive keep their files; `archived_partitions` has the new name, so that they can be restored.
* Rows of `archive_candidates` and `changes` are not changed. A day of `assignments` that a run proposes to drop is
  kept, and the next run of `history_archive` copies it again.
* The bodies of functions are text, so names in them are replaced.
"""

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

OBJECTS = (
    ("TABLE", "public", "cluster_config", "cluster_configs"),
    ("VIEW", "dashboards", "unsettled_groups", "rebalancing_groups"),
    ("FUNCTION", "public", "propose_day", "propose_partition_drop"),
    ("FUNCTION", "public", "withdraw_days", "withdraw_partition_drops"),
    ("FUNCTION", "public", "forget_rejected_candidates", "delete_rejected_candidates"),
    ("FUNCTION", "public", "now_between_moves", "now_between_partition_moves"),
)

FREQUENCY = (
    ("took_ms_p50", "took_p50_ms"),
    ("took_ms_p95", "took_p95_ms"),
    ("took_ms_max", "took_max_ms"),
    ("took_ms_total", "took_total_ms"),
    ("lived_ms", "existed_ms"),
    ("storms", "churn_periods"),
    ("stormy_rebalances", "churn_rebalances"),
    ("never_settles", "is_churning"),
    ("unsettled_since", "rebalancing_since"),
)
ADVICE = (
    ("session_because", "session_reason"),
    ("rebalance_because", "rebalance_reason"),
    ("initial_delay_because", "initial_delay_reason"),
)
PARTS = {
    "TABLE groups": (
        ("COLUMN", "settled_state", "state_before_join_phase"),
        ("CONSTRAINT", "groups_settled_state", "groups_state_before_join_phase"),
    ),
    "TABLE members": (
        ("COLUMN", "held", "ownership"),
        ("CONSTRAINT", "members_held", "members_ownership"),
        ("COLUMN", "position", "join_order"),
        ("CONSTRAINT", "members_position", "members_join_order"),
    ),
    "TABLE cluster_configs": (
        ("CONSTRAINT", "cluster_config_pkey", "cluster_configs_pkey"),
        ("CONSTRAINT", "cluster_config_times", "cluster_configs_times"),
    ),
    "TABLE versions": (("COLUMN", "cluster_config", "cluster_configs"),),
    "TABLE changes": (("COLUMN", "undone_by", "undone_by_change_id"),),
    "TABLE offset_expiry_forecasts": (("COLUMN", "next_at", "next_expiry_at"),),
    "TABLE offset_expiry_forecasts_staging": (("COLUMN", "next_at", "next_expiry_at"),),
    "TABLE rebalance_frequency_reports": tuple(("COLUMN", *names) for names in FREQUENCY),
    "TABLE rebalance_frequency_reports_staging": tuple(("COLUMN", *names) for names in FREQUENCY),
    "TABLE timeout_advice": tuple(("COLUMN", *names) for names in ADVICE),
    "TABLE timeout_advice_staging": tuple(("COLUMN", *names) for names in ADVICE),
    "VIEW dashboards.rebalancing_groups": (("COLUMN", "settles_by", "phase_deadline_at"),),
    "VIEW dashboards.offsets_expiring": (("COLUMN", "next_at", "next_expiry_at"),),
    "VIEW dashboards.rebalances_per_hour": (
        ("COLUMN", "took_ms_total", "took_total_ms"),
        ("COLUMN", "took_ms_max", "took_max_ms"),
    ),
    "VIEW dashboards.group_overview": (("COLUMN", "is_lag_at_least", "is_lag_lower_bound"),),
    "VIEW dashboards.partition_lag": (("COLUMN", "is_lag_at_least", "is_lag_lower_bound"),),
    "VIEW dashboards.lag_history": (("COLUMN", "is_lag_at_least", "is_lag_lower_bound"),),
    "VIEW dashboards.spurious_evictions": (
        ("COLUMN", "back_at", "reconnected_at"),
        ("COLUMN", "back_as", "reconnected_as"),
    ),
    "VIEW dashboards.recent_changes": (("COLUMN", "undone_because", "undone_reason"),),
}
"""Columns and constraints, by the new name of their table or view."""

RENAME_HISTORY = """
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT relname AS name, CASE WHEN relkind IN ('i', 'I') THEN 'INDEX' ELSE 'TABLE' END AS kind FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'i', 'I')
            AND (relname = '{old}' OR starts_with(relname, '{old}_'))
    LOOP
        EXECUTE 'ALTER ' || found.kind || ' public.' || quote_ident(found.name)
            || ' RENAME TO ' || quote_ident('{new}' || substr(found.name, length('{old}') + 1));
    END LOOP;
END
$$;
UPDATE archived_partitions SET table_name = '{new}', source = '{new}' || substr(source, length('{old}') + 1)
WHERE table_name = '{old}'
"""

REPLACE_IN_FUNCTION = """
DO $$
BEGIN
    EXECUTE replace(pg_get_functiondef('{function}'::regproc), '{old}', '{new}');
END
$$
"""


def upgrade() -> None:
    op.execute(RENAME_HISTORY.format(old="assignments", new="partition_ownership"))
    for kind, schema, old, new in OBJECTS:
        op.execute(f"ALTER {kind} {schema}.{old} RENAME TO {new}")
    for whole, parts in PARTS.items():
        for kind, old, new in parts:
            op.execute(f"ALTER {whole} RENAME {kind} {old} TO {new}")
    _replace_in_function("propose_partition_drop", "now_between_moves", "now_between_partition_moves")
    _replace_in_function("dashboards.log_end_max_age", "cluster_config", "cluster_configs")


def downgrade() -> None:
    _replace_in_function("propose_partition_drop", "now_between_partition_moves", "now_between_moves")
    for whole, parts in PARTS.items():
        for kind, old, new in parts:
            op.execute(f"ALTER {whole} RENAME {kind} {new} TO {old}")
    for kind, schema, old, new in OBJECTS:
        op.execute(f"ALTER {kind} {schema}.{new} RENAME TO {old}")
    _replace_in_function("dashboards.log_end_max_age", "cluster_configs", "cluster_config")
    op.execute(RENAME_HISTORY.format(old="partition_ownership", new="assignments"))


def _replace_in_function(function: str, old: str, new: str) -> None:
    op.execute(REPLACE_IN_FUNCTION.format(function=function, old=old, new=new))
