-- Positions in the log are in the order of commits, so no session may draw any ahead.
ALTER SEQUENCE commit_version CACHE 1;

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
INSERT INTO shard_checkpoints (shard_id) SELECT shard_id FROM shard_leases;

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
