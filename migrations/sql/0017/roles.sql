-- Jobs read everything, write what they stage and what they report, and propose through functions; readers read.
-- Objects are made by the owner's role only. The default privileges are granted once more because the role that migrates
-- may be another one than at first.
DO $$
DECLARE
    granted text;
BEGIN
    REVOKE CREATE ON SCHEMA public, dashboards FROM PUBLIC;
    FOR granted IN SELECT rolname FROM pg_roles WHERE rolname IN ('muster_jobs', 'muster_reader') LOOP
        EXECUTE format('GRANT SELECT ON alembic_version TO %I', granted);
        EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA public, dashboards GRANT SELECT ON TABLES TO %I', granted);
    END LOOP;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'muster_jobs') THEN
        REVOKE INSERT, UPDATE, DELETE
            ON maintenance_runs, expiry_candidates, cleanup_candidates, archive_candidates
            FROM muster_jobs;
        REVOKE UPDATE
            ON expiry_candidates_staging, cleanup_candidates_staging,
                offset_expiry_forecasts, offset_expiry_forecasts_staging,
                assignment_balance_audits, assignment_balance_audits_staging,
                assignment_balance_topics, assignment_balance_topics_staging,
                rebalance_frequency_reports, rebalance_frequency_reports_staging,
                timeout_advice, timeout_advice_staging
            FROM muster_jobs;
        GRANT EXECUTE ON FUNCTION
            propose_run, publish_candidates, describe_run, propose_day, withdraw_days, forget_rejected_candidates,
            now_between_moves
            TO muster_jobs;
    END IF;
END
$$;
