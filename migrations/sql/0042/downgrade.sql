-- When did each job last run, and as of when?
-- Of a job that proposes, the newest proposal; of a job that reports, the newest report of any group. A run as of a
-- future time counts from that time on.
CREATE OR REPLACE VIEW dashboards.newest_runs AS
SELECT kind, as_of, run_id, status
FROM (VALUES ('offset_retention'), ('group_cleanup'), ('history_archive')) AS job (kind)
CROSS JOIN LATERAL (
    SELECT as_of, run_id, status
    FROM maintenance_runs
    WHERE maintenance_runs.kind = job.kind AND as_of <= now()
    ORDER BY as_of DESC
    LIMIT 1
) AS newest
UNION ALL
(SELECT 'assignment_balance_audit', as_of, run_id, NULL
FROM assignment_balance_audits WHERE as_of <= now() ORDER BY interval_end DESC, interval_start DESC LIMIT 1)
UNION ALL
(SELECT 'rebalance_frequency_report', as_of, run_id, NULL
FROM rebalance_frequency_reports WHERE as_of <= now() ORDER BY interval_end DESC, interval_start DESC LIMIT 1)
UNION ALL
(SELECT 'timeout_advice', as_of, run_id, NULL
FROM timeout_advice WHERE as_of <= now() ORDER BY interval_end DESC LIMIT 1);
