-- Who took part in each rebalance and who was waited for, and how each member kept in touch while it stayed.

CREATE TABLE rebalance_members (
    rebalance_id       uuid NOT NULL,
    group_id           text COLLATE "C" NOT NULL,
    shard_id           smallint NOT NULL,
    group_created_at   timestamptz NOT NULL,
    completed_at       timestamptz NOT NULL,
    member_id          text COLLATE "C" NOT NULL,
    group_instance_id  text,
    client_id          text NOT NULL,
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
