-- A group that a run proposes to retire.
CREATE TABLE cleanup_candidates (
    run_id       uuid NOT NULL,
    group_id     text COLLATE "C" NOT NULL,
    shard_id     smallint NOT NULL,
    generation   integer NOT NULL,
    state_since  timestamptz NOT NULL,
    reason       text NOT NULL,
    outcome      text,
    PRIMARY KEY (run_id, group_id)
);
CREATE INDEX cleanup_candidates_undecided ON cleanup_candidates (run_id, shard_id, group_id) WHERE outcome IS NULL;

CREATE UNLOGGED TABLE cleanup_candidates_staging (
    attempt_id   uuid NOT NULL,
    group_id     text COLLATE "C" NOT NULL,
    shard_id     smallint NOT NULL,
    generation   integer NOT NULL,
    state_since  timestamptz NOT NULL,
    reason       text NOT NULL
);
CREATE INDEX cleanup_candidates_staging_attempt_id ON cleanup_candidates_staging (attempt_id);

-- What of a group will expire soon, if nobody commits and the group stays as it is.
CREATE TABLE offset_expiry_forecasts (
    interval_start   timestamptz NOT NULL,
    interval_end     timestamptz NOT NULL,
    group_id         text COLLATE "C" NOT NULL,
    shard_id         smallint NOT NULL,
    run_id           uuid NOT NULL,
    as_of            timestamptz NOT NULL,
    within_a_day     bigint NOT NULL,
    within_a_week    bigint NOT NULL,
    next_at          timestamptz NOT NULL,
    PRIMARY KEY (interval_end, interval_start, group_id)
);
CREATE INDEX offset_expiry_forecasts_run_id ON offset_expiry_forecasts (run_id);

CREATE UNLOGGED TABLE offset_expiry_forecasts_staging (
    attempt_id       uuid NOT NULL,
    group_id         text COLLATE "C" NOT NULL,
    shard_id         smallint NOT NULL,
    within_a_day     bigint NOT NULL,
    within_a_week    bigint NOT NULL,
    next_at          timestamptz NOT NULL
);
CREATE INDEX offset_expiry_forecasts_staging_attempt_id ON offset_expiry_forecasts_staging (attempt_id);

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'muster_jobs') THEN
        GRANT INSERT, UPDATE, DELETE
            ON cleanup_candidates, cleanup_candidates_staging,
                offset_expiry_forecasts, offset_expiry_forecasts_staging
            TO muster_jobs;
    END IF;
END
$$;
