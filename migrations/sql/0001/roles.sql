-- Jobs read everything and write proposals; readers read. Nobody logs in as either: roles that do are made members.
-- Roles belong to the whole cluster, so they may be there already, and this role may not be allowed to make them.
DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['muster_jobs', 'muster_reader'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
            END IF;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN
                NULL;  -- Another database of the cluster was quicker.
            WHEN insufficient_privilege THEN
                RAISE NOTICE 'role % is not made: this role may not make roles', wanted;
                CONTINUE;
        END;
        EXECUTE format('GRANT USAGE ON SCHEMA public, dashboards TO %I', wanted);
        EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA public, dashboards TO %I', wanted);
        -- The partitions and views to come.
        EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA public, dashboards GRANT SELECT ON TABLES TO %I', wanted);
    END LOOP;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'muster_jobs') THEN
        GRANT INSERT, UPDATE, DELETE
            ON maintenance_runs, expiry_candidates, expiry_candidates_staging TO muster_jobs;
    END IF;
END
$$;
