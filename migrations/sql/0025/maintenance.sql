-- Maintenance: runs, the candidates that they propose, and changes that can be undone.

CREATE TABLE maintenance_runs (
    run_id          uuid PRIMARY KEY,
    kind            text NOT NULL,
    as_of           timestamptz NOT NULL,
    interval_start  timestamptz,
    interval_end    timestamptz,
    status          text NOT NULL,
    dry_run         boolean NOT NULL DEFAULT false,
    counts          jsonb NOT NULL DEFAULT '{}',
    created_at      timestamptz NOT NULL DEFAULT now(),
    applied_by      text,
    change_id       uuid,
    finished_at     timestamptz,
    undoes          uuid,
    CONSTRAINT maintenance_runs_status CHECK (status IN ('proposed', 'applying', 'applied', 'rejected', 'failed')),
    CONSTRAINT maintenance_runs_counts CHECK (jsonb_typeof(counts) = 'object')
);
CREATE INDEX maintenance_runs_applying ON maintenance_runs (run_id) WHERE status = 'applying';
CREATE INDEX maintenance_runs_kind_as_of ON maintenance_runs (kind, as_of DESC);

CREATE TABLE expiry_candidates (
    run_id          uuid NOT NULL,
    group_id        text COLLATE "C" NOT NULL,
    shard_id        smallint NOT NULL,
    generation      integer,
    state_since     timestamptz,
    topic           text COLLATE "C" NOT NULL,
    partition       integer NOT NULL,
    commit_version  bigint NOT NULL,
    committed_at    timestamptz NOT NULL,
    reason          text NOT NULL,
    outcome         text,
    PRIMARY KEY (run_id, group_id, topic, partition),
    CONSTRAINT expiry_candidates_times CHECK (
        committed_at >= '1970-01-01 00:00:00+00' AND committed_at < '10000-01-01 00:00:00+00'
        AND state_since >= '1970-01-01 00:00:00+00' AND state_since < '10000-01-01 00:00:00+00'
    )
);
-- In the order in which nodes process candidates.
CREATE INDEX expiry_candidates_undecided
    ON expiry_candidates (run_id, shard_id, group_id, topic, partition) WHERE outcome IS NULL;

-- A job writes to staging tables over several connections, which is not atomic; one INSERT … SELECT then publishes.
CREATE UNLOGGED TABLE expiry_candidates_staging (
    attempt_id      uuid NOT NULL,
    group_id        text COLLATE "C" NOT NULL,
    shard_id        smallint NOT NULL,
    generation      integer,
    state_since     timestamptz,
    topic           text COLLATE "C" NOT NULL,
    partition       integer NOT NULL,
    commit_version  bigint NOT NULL,
    committed_at    timestamptz NOT NULL,
    reason          text NOT NULL
);
CREATE INDEX expiry_candidates_staging_attempt_id ON expiry_candidates_staging (attempt_id);

CREATE TABLE cleanup_candidates (
    run_id       uuid NOT NULL,
    group_id     text COLLATE "C" NOT NULL,
    shard_id     smallint NOT NULL,
    generation   integer NOT NULL,
    state_since  timestamptz NOT NULL,
    reason       text NOT NULL,
    outcome      text,
    PRIMARY KEY (run_id, group_id),
    CONSTRAINT cleanup_candidates_times CHECK (
        state_since >= '1970-01-01 00:00:00+00' AND state_since < '10000-01-01 00:00:00+00'
    )
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

CREATE TABLE archive_candidates (
    run_id       uuid NOT NULL,
    table_name   text COLLATE "C" NOT NULL,
    day          date NOT NULL,
    source       text COLLATE "C" NOT NULL,
    path         text NOT NULL,
    row_count    bigint NOT NULL,
    checksum     text NOT NULL,
    verified_at  timestamptz NOT NULL,
    outcome      text,
    PRIMARY KEY (run_id, table_name, day),
    CONSTRAINT archive_candidates_day CHECK (day >= '1970-01-01' AND day < '9999-12-31')
);
CREATE INDEX archive_candidates_table_name_day ON archive_candidates (table_name, day);
CREATE INDEX archive_candidates_undecided ON archive_candidates (run_id) WHERE outcome IS NULL;

CREATE TABLE archived_partitions (
    table_name   text COLLATE "C" NOT NULL,
    day          date NOT NULL,
    run_id       uuid NOT NULL,
    change_id    uuid NOT NULL,
    source       text COLLATE "C" NOT NULL,
    path         text NOT NULL,
    row_count    bigint NOT NULL,
    checksum     text NOT NULL,
    verified_at  timestamptz NOT NULL,
    dropped_at   timestamptz NOT NULL,
    restored_at  timestamptz,
    PRIMARY KEY (table_name, day, run_id)
);

CREATE TABLE archived_offsets (
    change_id         uuid NOT NULL,
    group_id          text COLLATE "C" NOT NULL,
    shard_id          smallint NOT NULL,
    topic             text COLLATE "C" NOT NULL,
    partition         integer NOT NULL,
    committed_offset  bigint NOT NULL,
    leader_epoch      integer NOT NULL,
    metadata          text NOT NULL,
    log_end_offset    bigint,
    committed_at      timestamptz NOT NULL,
    archived_at       timestamptz NOT NULL,
    cause             text NOT NULL,
    log_end_at        timestamptz,
    PRIMARY KEY (change_id, group_id, topic, partition)
);
CREATE INDEX archived_offsets_group_id ON archived_offsets (group_id, archived_at);

CREATE TABLE changes (
    change_id            uuid PRIMARY KEY,
    at                   timestamptz NOT NULL,
    actor                text NOT NULL,
    action               text NOT NULL,
    group_id             text COLLATE "C",
    before               jsonb,
    after                jsonb,
    reason               text,
    undone_at            timestamptz,
    undone_by_change_id  uuid,
    CONSTRAINT changes_times CHECK (
        at >= '1970-01-01 00:00:00+00' AND at < '10000-01-01 00:00:00+00'
        AND undone_at >= '1970-01-01 00:00:00+00' AND undone_at < '10000-01-01 00:00:00+00'
    )
);
CREATE INDEX changes_group_id_at ON changes (group_id, at);
