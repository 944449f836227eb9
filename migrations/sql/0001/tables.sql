-- Who serves what, what stands now, what was, and what maintenance proposes.

-- Drawn at every write of an offset and never repeated, so that a row seen is a row named.
-- Each session takes a thousand numbers at once: order says nothing, gaps mean nothing.
CREATE SEQUENCE commit_version CACHE 1000;

-- Who serves what.

CREATE TABLE nodes (
    node_id     text COLLATE "C" PRIMARY KEY,
    url         text NOT NULL,
    version     text NOT NULL,
    started_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE shard_leases (
    shard_id    smallint PRIMARY KEY,
    node_id     text COLLATE "C",
    epoch       bigint NOT NULL DEFAULT 0,
    expires_at  timestamptz
) WITH (fillfactor = 50);

-- The present.

CREATE TABLE groups (
    group_id              text COLLATE "C" PRIMARY KEY,
    shard_id              smallint NOT NULL,
    state                 text NOT NULL,
    state_since           timestamptz NOT NULL,
    settled_state         text NOT NULL DEFAULT 'Empty',
    generation            integer NOT NULL DEFAULT 0,
    protocol_type         text,
    protocol_name         text,
    leader_id             text,
    member_count          integer NOT NULL DEFAULT 0,
    subscribed_topics     text[],
    topics_version        bigint NOT NULL DEFAULT 0,
    must_rebalance        boolean NOT NULL DEFAULT false,
    rebalance_started_at  timestamptz,
    rebalance_trigger     text,
    rebalance             jsonb,
    created_at            timestamptz NOT NULL DEFAULT now()
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
    held                  jsonb NOT NULL DEFAULT '[]',
    joined_at             timestamptz NOT NULL DEFAULT now(),
    protocol_names        text[] NOT NULL DEFAULT '{}',
    protocol_metadata     bytea[] NOT NULL DEFAULT '{}',
    assignment_bytes      bytea NOT NULL DEFAULT '',
    position              integer NOT NULL DEFAULT 0,
    PRIMARY KEY (group_id, member_id)
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
    PRIMARY KEY (group_id, topic, partition)
) WITH (fillfactor = 70);
CREATE INDEX offsets_shard_id ON offsets (shard_id);

CREATE TABLE topics (
    topic             text COLLATE "C" PRIMARY KEY,
    partitions        integer NOT NULL,
    log_start_offset  bigint NOT NULL DEFAULT 0,
    version           bigint NOT NULL DEFAULT 0
);

CREATE TABLE group_configs (
    group_id  text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    value     text NOT NULL,
    set_by    text NOT NULL,
    set_at    timestamptz NOT NULL,
    PRIMARY KEY (group_id, key)
);

CREATE TABLE cluster_config (
    key     text COLLATE "C" PRIMARY KEY,
    value   text NOT NULL,
    set_by  text NOT NULL,
    set_at  timestamptz NOT NULL
);

-- One row: how often each of the three tables above was changed.
CREATE TABLE versions (
    only_row        boolean PRIMARY KEY DEFAULT true CONSTRAINT versions_only_row CHECK (only_row),
    cluster_config  bigint NOT NULL DEFAULT 0,
    group_configs   bigint NOT NULL DEFAULT 0,
    topics          bigint NOT NULL DEFAULT 0,
    shard_count     smallint NOT NULL
);

-- History: inserted once. Nodes create a partition a day, ahead of time; what finds none falls into the default one.

CREATE TABLE group_transitions (
    group_id          text COLLATE "C" NOT NULL,
    shard_id          smallint NOT NULL,
    group_created_at  timestamptz NOT NULL,
    at                timestamptz NOT NULL,
    generation        integer NOT NULL,
    from_state        text,
    to_state          text NOT NULL,
    reason            text NOT NULL,
    member_id         text
) PARTITION BY RANGE (at);
CREATE INDEX group_transitions_group_id_at ON group_transitions (group_id, at);
CREATE TABLE group_transitions_default PARTITION OF group_transitions DEFAULT;

CREATE TABLE rebalances (
    rebalance_id         uuid NOT NULL,
    group_id             text COLLATE "C" NOT NULL,
    shard_id             smallint NOT NULL,
    group_created_at     timestamptz NOT NULL,
    generation           integer NOT NULL,
    trigger              text NOT NULL,
    trigger_member_id    text,
    client_reason        text,
    started_at           timestamptz NOT NULL,
    joined_at            timestamptz,
    completed_at         timestamptz NOT NULL,
    outcome              text NOT NULL,
    restarts             integer NOT NULL,
    member_count_before  integer NOT NULL,
    member_count_after   integer NOT NULL,
    partitions_moved     integer NOT NULL,
    PRIMARY KEY (rebalance_id, completed_at)
) PARTITION BY RANGE (completed_at);
CREATE INDEX rebalances_group_id_completed_at ON rebalances (group_id, completed_at);
CREATE TABLE rebalances_default PARTITION OF rebalances DEFAULT;

CREATE TABLE assignments (
    group_id          text COLLATE "C" NOT NULL,
    shard_id          smallint NOT NULL,
    group_created_at  timestamptz NOT NULL,
    rebalance_id      uuid NOT NULL,
    generation        integer NOT NULL,
    member_id         text NOT NULL,
    topic             text NOT NULL,
    partitions        integer[] NOT NULL,
    valid_from        timestamptz NOT NULL,
    valid_to          timestamptz NOT NULL
) PARTITION BY RANGE (valid_to);
CREATE INDEX assignments_group_id_valid_to ON assignments (group_id, valid_to);
CREATE TABLE assignments_default PARTITION OF assignments DEFAULT;

CREATE TABLE offset_history (
    group_id          text COLLATE "C" NOT NULL,
    shard_id          smallint NOT NULL,
    topic             text COLLATE "C" NOT NULL,
    partition         integer NOT NULL,
    at                timestamptz NOT NULL,
    committed_offset  bigint NOT NULL,
    log_end_offset    bigint,
    member_id         text NOT NULL
) PARTITION BY RANGE (at);
CREATE INDEX offset_history_group_topic_partition_at ON offset_history (group_id, topic, partition, at);
CREATE TABLE offset_history_default PARTITION OF offset_history DEFAULT;

-- Maintenance: proposals, what came of them, and what can be undone.

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
    finished_at     timestamptz
);

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
    PRIMARY KEY (run_id, group_id, topic, partition)
);
-- In the order in which candidates are worked off.
CREATE INDEX expiry_candidates_undecided
    ON expiry_candidates (run_id, shard_id, group_id, topic, partition) WHERE outcome IS NULL;

-- A job writes here first, over several connections; one INSERT … SELECT then publishes all of it.
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
    PRIMARY KEY (change_id, group_id, topic, partition)
);
CREATE INDEX archived_offsets_group_id ON archived_offsets (group_id, archived_at);

CREATE TABLE changes (
    change_id  uuid PRIMARY KEY,
    at         timestamptz NOT NULL,
    actor      text NOT NULL,
    action     text NOT NULL,
    group_id   text COLLATE "C",
    before     jsonb,
    after      jsonb,
    reason     text,
    undone_at  timestamptz
);
CREATE INDEX changes_group_id_at ON changes (group_id, at);
