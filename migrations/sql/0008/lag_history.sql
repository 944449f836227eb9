-- How far was each partition of a group behind, minute by minute, while it ran, rebalanced or stood still?
-- One row a minute in which the partition was committed, and its present position. Name a range of at.
CREATE VIEW dashboards.lag_history AS
SELECT
    group_id, shard_id, topic, partition, at, committed_offset, log_end_offset,
    CASE WHEN log_end_offset IS NOT NULL THEN greatest(log_end_offset - committed_offset, 0) END AS lag_records,
    member_id
FROM offset_history
UNION ALL
SELECT
    group_id, shard_id, topic, partition, committed_at, committed_offset, log_end_offset,
    CASE WHEN log_end_offset IS NOT NULL THEN greatest(log_end_offset - committed_offset, 0) END,
    member_id
FROM offsets;
