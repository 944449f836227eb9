DROP VIEW
    dashboards.rebalances_per_hour, dashboards.unsettled_groups, dashboards.offsets_expiring, dashboards.idle_members,
    dashboards.recent_changes, dashboards.partition_lag, dashboards.lag_history, dashboards.newest_runs;
