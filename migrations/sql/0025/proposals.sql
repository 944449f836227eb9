-- Jobs propose through these functions, which run with the rights of the role that owns the tables. A job cannot write
-- a run, a candidate or an outcome in any other way.
--
-- * A function checks every argument: a member of muster_jobs may call it with anything.
-- * A run is locked before it is changed, so a transaction that began before the run was applied fails.
-- * Only a proposed run of a kind that jobs propose is changed.

-- Insert the run unless it exists, and lock it while it is proposed; return its status and its counts.
CREATE FUNCTION propose_run(
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

-- Replace the candidates of a proposed run by those that an attempt staged, in the order in which nodes process them.
-- A candidate that no longer exists is left out; its shard is the stored one, whatever was staged. Of equal rows one is
-- inserted: a Spark partition that was written twice has staged its rows twice.
CREATE FUNCTION publish_candidates(p_run_id uuid, p_attempt_id uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    run_kind text := lock_proposed_run(p_run_id);
BEGIN
    CASE run_kind
    WHEN 'offset_retention' THEN
        DELETE FROM expiry_candidates WHERE run_id = p_run_id;
        INSERT INTO expiry_candidates (
            run_id, group_id, shard_id, generation, state_since, topic, partition, commit_version, committed_at, reason
        )
        SELECT
            p_run_id, staged.group_id, stored.shard_id, staged.generation, staged.state_since, staged.topic,
            staged.partition, staged.commit_version, staged.committed_at, staged.reason
        FROM expiry_candidates_staging AS staged
        JOIN offsets AS stored USING (group_id, topic, partition)
        WHERE staged.attempt_id = p_attempt_id AND isfinite(staged.committed_at)
            AND isfinite(coalesce(staged.state_since, staged.committed_at))
        ORDER BY stored.shard_id, staged.group_id, staged.topic, staged.partition
        ON CONFLICT DO NOTHING;
    WHEN 'group_cleanup' THEN
        DELETE FROM cleanup_candidates WHERE run_id = p_run_id;
        INSERT INTO cleanup_candidates (run_id, group_id, shard_id, generation, state_since, reason)
        SELECT p_run_id, staged.group_id, stored.shard_id, staged.generation, staged.state_since, staged.reason
        FROM cleanup_candidates_staging AS staged
        JOIN groups AS stored USING (group_id)
        WHERE staged.attempt_id = p_attempt_id AND isfinite(staged.state_since)
        ORDER BY stored.shard_id, staged.group_id
        ON CONFLICT DO NOTHING;
    ELSE
        RAISE EXCEPTION 'the candidates of a run of kind % are not staged', run_kind;
    END CASE;
END
$$;

-- Set the interval and the counts of a proposed run. The number of candidates is counted here.
CREATE FUNCTION describe_run(
    p_run_id uuid, p_as_of timestamptz, p_interval_start timestamptz, p_interval_end timestamptz, p_dry_run boolean,
    p_counts jsonb
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    run_kind text := lock_proposed_run(p_run_id);
    candidates bigint;
BEGIN
    PERFORM check_run_instants(p_as_of, p_interval_start, p_interval_end);
    IF jsonb_typeof(p_counts) IS DISTINCT FROM 'object' OR EXISTS (
        SELECT FROM jsonb_each(p_counts) WHERE jsonb_typeof(value) <> 'number' OR value::text !~ '^[0-9]{1,18}$'
    ) THEN
        RAISE EXCEPTION 'the counts of run % are not whole numbers by name', p_run_id
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    CASE run_kind
    WHEN 'offset_retention' THEN
        SELECT count(*) INTO candidates FROM expiry_candidates WHERE run_id = p_run_id;
    WHEN 'group_cleanup' THEN
        SELECT count(*) INTO candidates FROM cleanup_candidates WHERE run_id = p_run_id;
    ELSE
        SELECT count(*) INTO candidates FROM archive_candidates WHERE run_id = p_run_id;
    END CASE;
    UPDATE maintenance_runs
    SET as_of = p_as_of, interval_start = p_interval_start, interval_end = p_interval_end, dry_run = p_dry_run,
        counts = p_counts || jsonb_build_object('candidates', candidates)
    WHERE run_id = p_run_id;
END
$$;

-- Propose to drop a partition of history that was copied. False: it was dropped or restored since p_began_at, and its
-- copy may be incomplete. Nothing is proposed if the run was applied or rejected meanwhile.
CREATE FUNCTION propose_partition_drop(
    p_run_id uuid, p_table_name text, p_day date, p_source text, p_path text, p_row_count bigint, p_checksum text,
    p_began_at timestamptz
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    checked_at timestamptz := now_between_partition_moves();
BEGIN
    IF p_row_count < 0 OR NOT isfinite(p_day) THEN
        RAISE EXCEPTION '% rows of % are no copy of a day', p_row_count, p_day USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF EXISTS (
        SELECT FROM archived_partitions
        WHERE table_name = p_table_name AND day = p_day AND greatest(dropped_at, restored_at) >= p_began_at
    ) THEN
        RETURN false;
    END IF;
    INSERT INTO archive_candidates (run_id, table_name, day, source, path, row_count, checksum, verified_at)
    SELECT run_id, p_table_name, p_day, p_source, p_path, p_row_count, p_checksum, checked_at
    FROM maintenance_runs WHERE run_id = p_run_id AND kind = 'history_archive' AND status = 'proposed' FOR UPDATE
    ON CONFLICT (run_id, table_name, day) DO UPDATE SET source = excluded.source, path = excluded.path,
        row_count = excluded.row_count, checksum = excluded.checksum, verified_at = excluded.verified_at;
    RETURN true;
END
$$;

-- Withdraw the partitions that only an earlier attempt of a proposed run proposed, before p_began_at.
CREATE FUNCTION withdraw_partition_drops(p_run_id uuid, p_began_at timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM FROM maintenance_runs
    WHERE run_id = p_run_id AND kind = 'history_archive' AND status = 'proposed' FOR UPDATE;
    IF FOUND THEN
        DELETE FROM archive_candidates WHERE run_id = p_run_id AND verified_at < p_began_at;
    END IF;
END
$$;

-- Delete the candidates of at most p_runs runs that were rejected more than p_keep_days ago.
CREATE FUNCTION delete_rejected_candidates(p_kind text, p_keep_days integer, p_runs integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    kept interval := greatest(p_keep_days, 1) * interval '1 day';
BEGIN
    CASE p_kind
    WHEN 'offset_retention' THEN
        DELETE FROM expiry_candidates WHERE run_id IN (
            SELECT run_id FROM maintenance_runs AS run
            WHERE kind = p_kind AND status = 'rejected' AND finished_at < now() - kept
                AND EXISTS (SELECT FROM expiry_candidates AS candidate WHERE candidate.run_id = run.run_id)
            ORDER BY finished_at
            LIMIT p_runs
        );
    WHEN 'group_cleanup' THEN
        DELETE FROM cleanup_candidates WHERE run_id IN (
            SELECT run_id FROM maintenance_runs AS run
            WHERE kind = p_kind AND status = 'rejected' AND finished_at < now() - kept
                AND EXISTS (SELECT FROM cleanup_candidates AS candidate WHERE candidate.run_id = run.run_id)
            ORDER BY finished_at
            LIMIT p_runs
        );
    ELSE
        RAISE EXCEPTION 'runs of kind % have no candidates that were staged', p_kind;
    END CASE;
END
$$;

-- Return a time at which no partition of history is being dropped or restored. A drop that was recorded earlier is
-- visible to the next statement, and any other is recorded later. The exception releases the lock at once.
CREATE FUNCTION now_between_partition_moves() RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    moment timestamptz;
BEGIN
    LOCK TABLE archived_partitions IN SHARE MODE;
    moment := clock_timestamp();
    RAISE EXCEPTION USING ERRCODE = 'MU001', MESSAGE = 'the lock is released';
EXCEPTION
    WHEN SQLSTATE 'MU001' THEN
        RETURN moment;
END
$$;

-- Lock a run that is still proposed, and return its kind.
CREATE FUNCTION lock_proposed_run(p_run_id uuid) RETURNS text
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    run_kind text;
BEGIN
    SELECT kind INTO run_kind FROM maintenance_runs
    WHERE run_id = p_run_id AND status = 'proposed' AND kind IN ('offset_retention', 'group_cleanup', 'history_archive')
    FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'run % is not a proposal of a job', p_run_id USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN run_kind;
END
$$;

-- Reject times that Python cannot represent.
CREATE FUNCTION check_run_instants(VARIADIC p_instants timestamptz[]) RETURNS void
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF p_instants[1] IS NULL OR EXISTS (
        SELECT FROM unnest(p_instants) AS instant
        WHERE instant NOT BETWEEN '1970-01-01 00:00:00+00' AND '9999-01-01 00:00:00+00'
    ) THEN
        RAISE EXCEPTION 'a run is as of an instant between the years 1970 and 9999, and so is its interval'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;

REVOKE EXECUTE ON FUNCTION
    propose_run, publish_candidates, describe_run, propose_partition_drop, withdraw_partition_drops,
    delete_rejected_candidates, now_between_partition_moves, lock_proposed_run, check_run_instants
FROM PUBLIC;
