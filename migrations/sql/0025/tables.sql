-- Nodes and leases, the current state of groups, and settings.

-- The version of each commit, and its position in the offset log: no session draws numbers ahead.
CREATE SEQUENCE commit_version;

-- Nodes and leases.

CREATE TABLE nodes (
    node_id          text COLLATE "C" PRIMARY KEY,
    listeners        jsonb NOT NULL,
    version          text NOT NULL,
    started_at       timestamptz NOT NULL,
    expires_at       timestamptz NOT NULL,
    renewals         bigint NOT NULL DEFAULT 0,
    cluster_configs  bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE shard_leases (
    shard_id    smallint PRIMARY KEY,
    node_id     text COLLATE "C",
    epoch       bigint NOT NULL DEFAULT 0,
    expires_at  timestamptz,
    writer_id   bigint
) WITH (fillfactor = 50);

-- A row for each store of a node that has leases, or had until another one acquired them.
-- `shard_leases.writer_id` is no foreign key: the row of a writer without leases may be deleted while it acquires one.
CREATE TABLE writers (
    writer_id  bigint PRIMARY KEY,
    fence      bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- One row: the incarnation of the database, and the identity under which nodes serve it; NULL: no node has yet.
CREATE TABLE incarnation (
    only_row           boolean PRIMARY KEY DEFAULT true CONSTRAINT incarnation_only_row CHECK (only_row),
    number             bigint NOT NULL DEFAULT 1,
    started_at         timestamptz NOT NULL,
    system_identifier  bigint,
    timeline           bigint,
    database_oid       bigint,
    table_oid          bigint
);

-- The current state.

CREATE TABLE groups (
    group_id                 text COLLATE "C" PRIMARY KEY,
    shard_id                 smallint NOT NULL,
    state                    text NOT NULL,
    state_since              timestamptz NOT NULL,
    state_before_join_phase  text NOT NULL DEFAULT 'Empty',
    generation               integer NOT NULL DEFAULT 0,
    protocol_type            text,
    protocol_name            text,
    leader_id                text,
    member_count             integer NOT NULL DEFAULT 0,
    subscribed_topics        text[],
    topics_version           bigint NOT NULL DEFAULT 0,
    must_rebalance           boolean NOT NULL DEFAULT false,
    rebalance_started_at     timestamptz,
    rebalance_trigger        text,
    rebalance                jsonb,
    created_at               timestamptz NOT NULL DEFAULT now(),
    awaited_members          jsonb,
    CONSTRAINT groups_shard_id CHECK (shard_id BETWEEN 0 AND 9999),
    CONSTRAINT groups_state CHECK (state IN ('Empty', 'PreparingRebalance', 'CompletingRebalance', 'Stable')),
    CONSTRAINT groups_state_before_join_phase CHECK (
        state_before_join_phase IN ('Empty', 'CompletingRebalance', 'Stable')
    ),
    CONSTRAINT groups_counts CHECK (generation >= 0 AND member_count >= 0 AND topics_version >= 0),
    CONSTRAINT groups_times CHECK (
        state_since >= '1970-01-01 00:00:00+00' AND state_since < '10000-01-01 00:00:00+00'
        AND created_at >= '1970-01-01 00:00:00+00' AND created_at < '10000-01-01 00:00:00+00'
        AND rebalance_started_at >= '1970-01-01 00:00:00+00' AND rebalance_started_at < '10000-01-01 00:00:00+00'
    ),
    CONSTRAINT groups_subscribed_topics CHECK (array_position(subscribed_topics, NULL) IS NULL),
    CONSTRAINT groups_rebalance_trigger CHECK (
        rebalance_trigger IN (
            'member_joined', 'member_left', 'session_expired', 'rebalance_timeout', 'sync_timeout',
            'subscription_changed', 'leader_rejoined', 'static_member_replaced', 'partitions_changed',
            'over_capacity', 'database_restored', 'admin'
        )
    ),
    CONSTRAINT groups_rebalance CHECK (jsonb_typeof(rebalance) = 'object')
) WITH (fillfactor = 80);
CREATE INDEX groups_shard_id ON groups (shard_id);

CREATE TABLE members (
    group_id              text COLLATE "C" NOT NULL,
    shard_id              smallint NOT NULL,
    member_id             text COLLATE "C" NOT NULL,
    group_instance_id     text,
    client_id             text NOT NULL,
    client_host           text NOT NULL,
    session_timeout_ms    integer NOT NULL,
    rebalance_timeout_ms  integer NOT NULL,
    subscription          jsonb,
    assignment            jsonb,
    assigned_since        timestamptz,
    ownership             jsonb NOT NULL DEFAULT '[]',
    joined_at             timestamptz NOT NULL DEFAULT now(),
    protocol_names        text[] NOT NULL DEFAULT '{}',
    protocol_metadata     bytea[] NOT NULL DEFAULT '{}',
    assignment_bytes      bytea NOT NULL DEFAULT '',
    join_order            integer NOT NULL DEFAULT 0,
    PRIMARY KEY (group_id, member_id),
    CONSTRAINT members_shard_id CHECK (shard_id BETWEEN 0 AND 9999),
    CONSTRAINT members_timeouts CHECK (session_timeout_ms > 0 AND rebalance_timeout_ms >= 0),
    CONSTRAINT members_join_order CHECK (join_order >= 0),
    CONSTRAINT members_joined_at CHECK (
        joined_at >= '1970-01-01 00:00:00+00' AND joined_at < '10000-01-01 00:00:00+00'
    ),
    CONSTRAINT members_protocols CHECK (
        cardinality(protocol_names) = cardinality(protocol_metadata)
        AND array_position(protocol_names, NULL) IS NULL AND array_position(protocol_metadata, NULL) IS NULL
    ),
    CONSTRAINT members_ownership CHECK (jsonb_typeof(ownership) = 'array')
) WITH (fillfactor = 80);
CREATE INDEX members_shard_id ON members (shard_id);

CREATE TABLE offsets (
    group_id          text COLLATE "C" NOT NULL,
    shard_id          smallint NOT NULL,
    topic             text COLLATE "C" NOT NULL,
    partition         integer NOT NULL,
    committed_offset  bigint NOT NULL,
    leader_epoch      integer NOT NULL DEFAULT -1,
    metadata          text NOT NULL DEFAULT '',
    log_end_offset    bigint,
    committed_at      timestamptz NOT NULL,
    expires_at        timestamptz,
    member_id         text NOT NULL DEFAULT '',
    commit_version    bigint NOT NULL DEFAULT nextval('commit_version'),
    log_end_at        timestamptz,
    PRIMARY KEY (group_id, topic, partition),
    CONSTRAINT offsets_numbers CHECK (
        shard_id BETWEEN 0 AND 9999 AND partition >= 0 AND committed_offset >= 0 AND leader_epoch >= -1
        AND log_end_offset >= 0
    ),
    CONSTRAINT offsets_committed_at CHECK (
        committed_at >= '1970-01-01 00:00:00+00' AND committed_at < '10000-01-01 00:00:00+00'
    ),
    CONSTRAINT offsets_times CHECK (
        expires_at >= '1970-01-01 00:00:00+00' AND expires_at < '10000-01-01 00:00:00+00'
        AND log_end_at >= '1970-01-01 00:00:00+00' AND log_end_at < '10000-01-01 00:00:00+00'
    )
) WITH (fillfactor = 70);
CREATE INDEX offsets_shard_id ON offsets (shard_id);

-- Commits that were answered, a row for each batch, until the next checkpoint of their shards.
CREATE TABLE offset_log (
    seq         bigint PRIMARY KEY DEFAULT nextval('commit_version'),
    shard_ids   smallint[] NOT NULL,
    written_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    data        bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
-- Rows live for a second, so compressing them does not pay.
ALTER TABLE offset_log ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE shard_checkpoints (
    shard_id  smallint PRIMARY KEY,
    seq       bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- What a checkpoint could not store in `offsets`, and rows of the offset log that cannot be decoded (without a group).
CREATE TABLE quarantined_offsets (
    quarantine_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    quarantined_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    seq             bigint NOT NULL,
    shard_id        smallint,
    group_id        text COLLATE "C",
    topic           text COLLATE "C",
    partition       integer,
    reason          text NOT NULL,
    data            bytea NOT NULL
);

-- The highest log end of each partition that a trusted reporter has reported, and the time of its last report.
CREATE TABLE log_end_offsets (
    topic              text COLLATE "C" NOT NULL,
    partition          integer NOT NULL,
    log_end_offset     bigint NOT NULL,
    reported_at        timestamptz NOT NULL,
    first_reported_at  timestamptz NOT NULL,
    PRIMARY KEY (topic, partition),
    CONSTRAINT log_end_offsets_times CHECK (
        reported_at >= '1970-01-01 00:00:00+00' AND reported_at < '10000-01-01 00:00:00+00'
        AND first_reported_at >= '1970-01-01 00:00:00+00' AND first_reported_at < '10000-01-01 00:00:00+00'
    )
) WITH (fillfactor = 50);

CREATE TABLE topics (
    topic             text COLLATE "C" PRIMARY KEY,
    partitions        integer NOT NULL,
    log_start_offset  bigint NOT NULL DEFAULT 0,
    version           bigint NOT NULL DEFAULT 0,
    CONSTRAINT topics_numbers CHECK (partitions > 0 AND log_start_offset >= 0)
);

CREATE TABLE group_configs (
    group_id  text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    value     text NOT NULL,
    set_by    text NOT NULL,
    set_at    timestamptz NOT NULL,
    PRIMARY KEY (group_id, key),
    CONSTRAINT group_configs_times CHECK (set_at >= '1970-01-01 00:00:00+00' AND set_at < '10000-01-01 00:00:00+00')
);

CREATE TABLE cluster_configs (
    key     text COLLATE "C" PRIMARY KEY,
    value   text NOT NULL,
    set_by  text NOT NULL,
    set_at  timestamptz NOT NULL,
    CONSTRAINT cluster_configs_times CHECK (set_at >= '1970-01-01 00:00:00+00' AND set_at < '10000-01-01 00:00:00+00')
);

-- One row: counts changes of the three tables above and deletions of log ends.
CREATE TABLE versions (
    only_row                  boolean PRIMARY KEY DEFAULT true CONSTRAINT versions_only_row CHECK (only_row),
    cluster_configs           bigint NOT NULL DEFAULT 0,
    group_configs             bigint NOT NULL DEFAULT 0,
    topics                    bigint NOT NULL DEFAULT 0,
    shard_count               smallint NOT NULL,
    log_end_deletions         bigint NOT NULL DEFAULT 0,
    oldest_compatible_schema  text NOT NULL,
    CONSTRAINT versions_shard_count CHECK (shard_count BETWEEN 1 AND 10000)
);

INSERT INTO incarnation (started_at) VALUES (date_trunc('milliseconds', clock_timestamp()));
