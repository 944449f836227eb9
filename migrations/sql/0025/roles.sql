-- Jobs read everything, write what they stage and what they report, and propose through functions; readers read. Nobody
-- logs in as either: login roles are made members. Roles belong to the whole cluster, so they may exist already, and
-- this role may not be allowed to create them. Objects are created by the owner's role only.
DO $$
DECLARE
    wanted text;
BEGIN
    REVOKE CREATE ON SCHEMA public, dashboards FROM PUBLIC;
    FOREACH wanted IN ARRAY ARRAY['muster_jobs', 'muster_reader'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
            END IF;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN
                NULL;  -- The migration of another database of the cluster was faster.
            WHEN insufficient_privilege THEN
                RAISE NOTICE 'role % is not created: this role may not create roles', wanted;
                CONTINUE;
        END;
        EXECUTE format('GRANT USAGE ON SCHEMA public, dashboards TO %I', wanted);
        EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA public, dashboards TO %I', wanted);
        -- Partitions and views that are created later.
        EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA public, dashboards GRANT SELECT ON TABLES TO %I', wanted);
    END LOOP;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'muster_jobs') THEN
        GRANT INSERT, DELETE
            ON expiry_candidates_staging, cleanup_candidates_staging,
                offset_expiry_forecasts, offset_expiry_forecasts_staging,
                assignment_balance_audits, assignment_balance_audits_staging,
                assignment_balance_topics, assignment_balance_topics_staging,
                rebalance_frequency_reports, rebalance_frequency_reports_staging,
                timeout_advice, timeout_advice_staging
            TO muster_jobs;
        GRANT EXECUTE ON FUNCTION
            propose_run, publish_candidates, describe_run, propose_partition_drop, withdraw_partition_drops,
            delete_rejected_candidates, now_between_partition_moves
            TO muster_jobs;
    END IF;
END
$$;
