DO $$
DECLARE
    granted text;
BEGIN
    FOR granted IN SELECT rolname FROM pg_roles WHERE rolname IN ('muster_jobs', 'muster_reader') LOOP
        EXECUTE format('REVOKE SELECT ON alembic_version FROM %I', granted);
    END LOOP;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'muster_jobs') THEN
        GRANT INSERT, UPDATE, DELETE
            ON maintenance_runs, expiry_candidates, cleanup_candidates, archive_candidates
            TO muster_jobs;
        GRANT UPDATE
            ON expiry_candidates_staging, cleanup_candidates_staging,
                offset_expiry_forecasts, offset_expiry_forecasts_staging,
                assignment_balance_audits, assignment_balance_audits_staging,
                assignment_balance_topics, assignment_balance_topics_staging,
                rebalance_frequency_reports, rebalance_frequency_reports_staging,
                timeout_advice, timeout_advice_staging
            TO muster_jobs;
    END IF;
END
$$;
DROP FUNCTION
    propose_run, publish_candidates, describe_run, propose_day, withdraw_days, forget_rejected_candidates,
    now_between_moves, lock_proposed_run, check_run_instants;
