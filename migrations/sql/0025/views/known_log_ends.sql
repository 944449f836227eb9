-- What is the known log end of each committed partition, and when was it last reported?
-- The highest log end counts: of those that trusted reporters of any group reported, and of the group's own.
CREATE VIEW dashboards.known_log_ends AS
SELECT
    offsets.group_id,
    offsets.shard_id,
    topic,
    partition,
    offsets.committed_offset,
    offsets.committed_at,
    offsets.member_id,
    greatest(own.log_end_offset, log_ends.log_end_offset) AS log_end_offset,
    CASE
        WHEN own.log_end_offset > log_ends.log_end_offset THEN own.at
        WHEN own.log_end_offset < log_ends.log_end_offset THEN log_ends.reported_at
        ELSE greatest(own.at, log_ends.reported_at)
    END AS log_end_at
FROM offsets
LEFT JOIN log_end_offsets AS log_ends USING (topic, partition)
CROSS JOIN LATERAL (
    SELECT
        CASE WHEN offsets.log_end_offset IS NOT NULL
            THEN greatest(offsets.log_end_offset, offsets.committed_offset) END AS log_end_offset,
        CASE WHEN offsets.log_end_offset IS NOT NULL
            THEN coalesce(offsets.log_end_at, offsets.committed_at) END AS at
) AS own;
