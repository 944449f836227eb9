-- A mirror's database cannot be used by the release before; its rows are read from Kafka again.
DO $$
BEGIN
    IF EXISTS (SELECT FROM mirrored_cluster) THEN
        RAISE EXCEPTION 'the database mirrors a Kafka cluster, which the release before cannot';
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION propose_run(
    p_run_id uuid, p_kind text, p_as_of timestamptz, p_interval_start timestamptz, p_interval_end timestamptz,
    p_dry_run boolean, OUT run_status text, OUT run_counts jsonb
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    run_kind text;
BEGIN
    IF p_kind IS NULL OR p_kind NOT IN ('offset_retention', 'group_cleanup', 'history_archive') THEN
        RAISE EXCEPTION 'a job cannot propose a run of kind %', coalesce(p_kind, 'NULL')
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM check_run_instants(p_as_of, p_interval_start, p_interval_end);
    INSERT INTO maintenance_runs (run_id, kind, as_of, interval_start, interval_end, status, dry_run)
    VALUES (p_run_id, p_kind, p_as_of, p_interval_start, p_interval_end, 'proposed', p_dry_run)
    ON CONFLICT (run_id) DO NOTHING;
    SELECT kind, status, counts INTO run_kind, run_status, run_counts
    FROM maintenance_runs WHERE run_id = p_run_id AND status = 'proposed' FOR UPDATE;
    IF NOT FOUND THEN
        SELECT kind, status, counts INTO run_kind, run_status, run_counts FROM maintenance_runs WHERE run_id = p_run_id;
    END IF;
    IF run_kind <> p_kind THEN
        RAISE EXCEPTION 'run % is of kind %, not %', p_run_id, run_kind, p_kind USING ERRCODE = 'insufficient_privilege';
    END IF;
END
$$;

ALTER TABLE groups DROP CONSTRAINT groups_rebalance_trigger;
ALTER TABLE groups ADD CONSTRAINT groups_rebalance_trigger CHECK (
    rebalance_trigger IN (
        'member_joined', 'member_left', 'session_expired', 'rebalance_timeout', 'sync_timeout',
        'subscription_changed', 'leader_rejoined', 'static_member_replaced', 'partitions_changed',
        'over_capacity', 'database_restored', 'admin'
    )
);
ALTER TABLE member_sessions
    ALTER COLUMN heartbeat_gap_histogram SET NOT NULL,
    ALTER COLUMN heartbeat_count SET NOT NULL;
ALTER TABLE rebalance_members ALTER COLUMN waited_for_ms SET NOT NULL;
ALTER TABLE rebalances DROP COLUMN is_start_inferred, DROP COLUMN is_trigger_inferred;
DROP TABLE mirror_positions;
DROP TABLE mirrored_cluster;
