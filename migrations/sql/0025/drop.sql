-- Drop everything but the roles, which other databases of the cluster may use.
DO $$
DECLARE
    granted text;
BEGIN
    FOR granted IN SELECT rolname FROM pg_roles WHERE rolname IN ('muster_jobs', 'muster_reader') LOOP
        EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA public, dashboards REVOKE SELECT ON TABLES FROM %I', granted);
        EXECUTE format('REVOKE SELECT ON alembic_version FROM %I', granted);
        EXECUTE format('REVOKE USAGE ON SCHEMA public FROM %I', granted);
    END LOOP;
END
$$;
DROP SCHEMA dashboards CASCADE;
DROP TABLE
    nodes, shard_leases, writers, incarnation, groups, members, offsets, offset_log, shard_checkpoints,
    quarantined_offsets, log_end_offsets, topics, group_configs, cluster_configs, versions, group_transitions,
    rebalances, rebalance_members, member_sessions, partition_ownership, offset_history, log_end_history,
    maintenance_runs, expiry_candidates, expiry_candidates_staging, cleanup_candidates, cleanup_candidates_staging,
    archive_candidates, archived_partitions, archived_offsets, changes, assignment_balance_audits_staging,
    assignment_balance_audits, assignment_balance_topics_staging, assignment_balance_topics,
    rebalance_frequency_reports_staging, rebalance_frequency_reports, offset_expiry_forecasts_staging,
    offset_expiry_forecasts, timeout_advice_staging, timeout_advice;
DROP FUNCTION
    propose_run, publish_candidates, describe_run, propose_partition_drop, withdraw_partition_drops,
    delete_rejected_candidates, now_between_partition_moves, lock_proposed_run, check_run_instants;
DROP SEQUENCE commit_version;
