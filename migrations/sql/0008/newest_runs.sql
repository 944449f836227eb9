-- When did each job last run, and as of when?
-- Of a job that proposes, the newest proposal; of a job that reports, the newest report of any group.
CREATE VIEW dashboards.newest_runs AS
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
