-- Take back all of it but the roles, which other databases of the cluster may use.
DO $$
DECLARE
    granted text;
BEGIN
    FOR granted IN SELECT rolname FROM pg_roles WHERE rolname IN ('muster_jobs', 'muster_reader') LOOP
        EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA public, dashboards REVOKE SELECT ON TABLES FROM %I', granted);
        EXECUTE format('REVOKE USAGE ON SCHEMA public FROM %I', granted);
    END LOOP;
END
$$;
DROP SCHEMA dashboards CASCADE;
DROP TABLE
    nodes, shard_leases,
    groups, members, offsets, topics, group_configs, cluster_config, versions,
    group_transitions, rebalances, assignments, offset_history,
    maintenance_runs, expiry_candidates, expiry_candidates_staging, archived_offsets, changes;
DROP SEQUENCE commit_version;
