-- Which groups lose offsets within a week if nobody commits and they stay as they are, how many, and when first?
-- This is what the newest run of offset_retention found; has_changed: the group is in another state since, or gone.
CREATE OR REPLACE VIEW dashboards.offsets_expiring AS
SELECT
    forecast.group_id,
    forecast.shard_id,
    groups.state,
    groups.state_since,
    forecast.within_a_day,
    forecast.within_a_week,
    forecast.next_at,
    newest.as_of,
    coalesce(groups.state_since > newest.as_of, true) AS has_changed
FROM (
    SELECT run_id, as_of
    FROM maintenance_runs
    WHERE kind = 'offset_retention'
    ORDER BY as_of DESC
    LIMIT 1
) AS newest
JOIN offset_expiry_forecasts AS forecast USING (run_id)
LEFT JOIN groups USING (group_id);
-- When did each job last run, and as of when?
-- Of a job that proposes, the newest proposal; of a job that reports, the newest report of any group.
CREATE OR REPLACE VIEW dashboards.newest_runs AS
SELECT DISTINCT ON (kind) kind, as_of, run_id, status
FROM (
    SELECT kind, as_of, run_id, status
    FROM maintenance_runs
    WHERE kind NOT IN ('undo', 'topic_deletion')
    UNION ALL
    (SELECT 'assignment_balance_audit', as_of, run_id, NULL
    FROM assignment_balance_audits ORDER BY interval_end DESC, interval_start DESC LIMIT 1)
    UNION ALL
    (SELECT 'rebalance_frequency_report', as_of, run_id, NULL
    FROM rebalance_frequency_reports ORDER BY interval_end DESC, interval_start DESC LIMIT 1)
    UNION ALL
    (SELECT 'timeout_advice', as_of, run_id, NULL
    FROM timeout_advice ORDER BY interval_end DESC LIMIT 1)
) AS runs
ORDER BY kind, as_of DESC;
DROP INDEX maintenance_runs_kind_as_of, maintenance_runs_applying;
