-- Of every partition the furthest end of its log that a trusted reporter of any group named, and when it did so last.
CREATE TABLE log_end_offsets (
    topic              text COLLATE "C" NOT NULL,
    partition          integer NOT NULL,
    log_end_offset     bigint NOT NULL,
    reported_at        timestamptz NOT NULL,
    first_reported_at  timestamptz NOT NULL,
    PRIMARY KEY (topic, partition)
) WITH (fillfactor = 50);

CREATE TABLE log_end_history (
    topic           text COLLATE "C" NOT NULL,
    partition       integer NOT NULL,
    at              timestamptz NOT NULL,
    log_end_offset  bigint NOT NULL,
    PRIMARY KEY (topic, partition, at)
) PARTITION BY RANGE (at);
CREATE INDEX log_end_history_topic_partition_log_end_offset
    ON log_end_history (topic, partition, log_end_offset, at);
CREATE TABLE log_end_history_default PARTITION OF log_end_history DEFAULT;

-- When the log's end was reported, where that was not with the commit: of offsets that a reset or an undo put there.
ALTER TABLE offsets ADD COLUMN log_end_at timestamptz;
ALTER TABLE archived_offsets ADD COLUMN log_end_at timestamptz;
