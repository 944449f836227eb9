-- History: rows are inserted once. Nodes create a partition for each day ahead of time; rows without one go to the
-- default partition.

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

CREATE TABLE rebalance_members (
    rebalance_id       uuid NOT NULL,
    group_id           text COLLATE "C" NOT NULL,
    shard_id           smallint NOT NULL,
    group_created_at   timestamptz NOT NULL,
    completed_at       timestamptz NOT NULL,
    member_id          text COLLATE "C" NOT NULL,
    group_instance_id  text,
    client_id          text NOT NULL,
    client_host        text NOT NULL,
    joined_after_ms    bigint,
    synced_after_ms    bigint,
    waited_for_ms      bigint NOT NULL,
    outcome            text NOT NULL,
    PRIMARY KEY (rebalance_id, completed_at, member_id)
) PARTITION BY RANGE (completed_at);
CREATE TABLE rebalance_members_default PARTITION OF rebalance_members DEFAULT;

CREATE TABLE member_sessions (
    group_id                 text COLLATE "C" NOT NULL,
    shard_id                 smallint NOT NULL,
    group_created_at         timestamptz NOT NULL,
    member_id                text NOT NULL,
    group_instance_id        text,
    client_id                text NOT NULL,
    client_host              text NOT NULL,
    generation               integer NOT NULL,
    session_timeout_ms       integer NOT NULL,
    joined_at                timestamptz NOT NULL,
    started_at               timestamptz NOT NULL,
    ended_at                 timestamptz NOT NULL,
    end_reason               text NOT NULL,
    last_heartbeat_at        timestamptz,
    heartbeat_count          integer NOT NULL,
    heartbeat_gap_ms_max     integer,
    heartbeat_gap_histogram  integer[] NOT NULL
) PARTITION BY RANGE (ended_at);
CREATE INDEX member_sessions_group_id_ended_at ON member_sessions (group_id, ended_at);
CREATE TABLE member_sessions_default PARTITION OF member_sessions DEFAULT;

CREATE TABLE partition_ownership (
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
CREATE INDEX partition_ownership_group_id_valid_to ON partition_ownership (group_id, valid_to);
CREATE TABLE partition_ownership_default PARTITION OF partition_ownership DEFAULT;

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

CREATE TABLE log_end_history (
    topic           text COLLATE "C" NOT NULL,
    partition       integer NOT NULL,
    at              timestamptz NOT NULL,
    log_end_offset  bigint NOT NULL,
    PRIMARY KEY (topic, partition, at)
) PARTITION BY RANGE (at);
CREATE INDEX log_end_history_topic_partition_log_end_offset ON log_end_history (topic, partition, log_end_offset, at);
CREATE TABLE log_end_history_default PARTITION OF log_end_history DEFAULT;
