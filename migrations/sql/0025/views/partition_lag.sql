-- What is the lag of each partition of a group, in records and in seconds, and which member owns it?
-- The log end is that of known_log_ends. A log end that was not reported for log_end_max_age is stale: the lag is then
-- a lower bound, and NULL where that is 0. Seconds are counted from when the log end passed the committed offset,
-- between two reports as if it had grown evenly; reports older than a day are not read, so lag_seconds may be more
-- where is_lag_lower_bound. Name a group: of all groups at once this reads much history.
CREATE VIEW dashboards.partition_lag AS
SELECT
    known.group_id,
    known.shard_id,
    known.topic,
    known.partition,
    owner.member_id,
    owner.client_id,
    known.committed_offset,
    known.log_end_offset,
    CASE WHEN known.log_end_offset > known.committed_offset OR NOT state.is_stale
        THEN greatest(known.log_end_offset - known.committed_offset, 0) END AS lag_records,
    CASE
        WHEN known.log_end_offset > known.committed_offset THEN greatest(0, extract(epoch FROM now() - CASE
            WHEN before.at IS NULL THEN after.at
            ELSE before.at + (after.at - before.at)
                * ((known.committed_offset - before.log_end_offset)::double precision
                    / (after.log_end_offset::double precision - before.log_end_offset))
            END))
        WHEN NOT state.is_stale THEN 0
    END::double precision AS lag_seconds,
    state.is_stale OR (known.log_end_offset > known.committed_offset AND before.at IS NULL) AS is_lag_lower_bound,
    known.committed_at,
    known.log_end_at,
    state.is_stale AS is_log_end_stale
FROM dashboards.known_log_ends AS known
CROSS JOIN LATERAL (SELECT known.log_end_at < now() - (SELECT dashboards.log_end_max_age()) AS is_stale) AS state
LEFT JOIN LATERAL (
    SELECT ends.at, ends.log_end_offset
    FROM dashboards.log_ends_around(
        known.group_id, known.topic, known.partition, now() - interval '1 day') AS ends
    WHERE ends.log_end_offset > known.committed_offset
    ORDER BY ends.at, ends.log_end_offset
    LIMIT 1
) AS after ON true
LEFT JOIN LATERAL (
    SELECT ends.at, ends.log_end_offset
    FROM dashboards.log_ends_around(
        known.group_id, known.topic, known.partition, now() - interval '1 day') AS ends
    WHERE ends.log_end_offset <= known.committed_offset AND ends.at <= after.at
    ORDER BY ends.log_end_offset DESC, ends.at DESC
    LIMIT 1
) AS before ON true
LEFT JOIN LATERAL (
    SELECT members.member_id, members.client_id
    FROM members
    WHERE members.group_id = known.group_id
        AND members.ownership @> jsonb_build_array(jsonb_build_object(
            'topic', known.topic, 'partitions', jsonb_build_array(known.partition)))
    ORDER BY members.member_id
    LIMIT 1
) AS owner ON true;
