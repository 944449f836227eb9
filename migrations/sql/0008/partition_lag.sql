-- How far is each partition of a group behind, in records and in seconds, and who holds it?
-- Seconds are counted from when the log went past the committed offset, between two reports of its end as if it had
-- grown evenly; of reports older than a day nothing is known, so lag_seconds may be more where is_lag_at_least.
-- Name a group: of all groups at once this looks at a lot of history.
CREATE VIEW dashboards.partition_lag AS
SELECT
    offsets.group_id,
    offsets.shard_id,
    offsets.topic,
    offsets.partition,
    owner.member_id,
    owner.client_id,
    offsets.committed_offset,
    offsets.log_end_offset,
    CASE WHEN offsets.log_end_offset IS NOT NULL
        THEN greatest(offsets.log_end_offset - offsets.committed_offset, 0) END AS lag_records,
    CASE
        WHEN offsets.log_end_offset <= offsets.committed_offset THEN 0
        WHEN offsets.log_end_offset IS NOT NULL THEN greatest(0, extract(epoch FROM now() - CASE
            WHEN before.at IS NULL THEN least(after.at, offsets.committed_at)
            ELSE before.at + (coalesce(after.at, offsets.committed_at) - before.at)
                * ((offsets.committed_offset - before.log_end)::double precision
                    / (coalesce(after.log_end, offsets.log_end_offset) - before.log_end))
            END))
    END::double precision AS lag_seconds,
    offsets.log_end_offset > offsets.committed_offset AND before.at IS NULL AS is_lag_at_least,
    offsets.committed_at
FROM offsets
LEFT JOIN LATERAL (
    SELECT at, greatest(log_end_offset, committed_offset) AS log_end
    FROM offset_history AS past
    WHERE past.group_id = offsets.group_id AND past.topic = offsets.topic AND past.partition = offsets.partition
        AND past.at >= now() - interval '1 day' AND past.log_end_offset IS NOT NULL
        AND offsets.log_end_offset > offsets.committed_offset
        AND greatest(past.log_end_offset, past.committed_offset) <= offsets.committed_offset
    ORDER BY past.at DESC
    LIMIT 1
) AS before ON true
LEFT JOIN LATERAL (
    SELECT at, greatest(log_end_offset, committed_offset) AS log_end
    FROM offset_history AS past
    WHERE past.group_id = offsets.group_id AND past.topic = offsets.topic AND past.partition = offsets.partition
        AND past.at >= now() - interval '1 day' AND past.log_end_offset IS NOT NULL
        AND offsets.log_end_offset > offsets.committed_offset
        AND past.at > coalesce(before.at, '-infinity')
    ORDER BY past.at
    LIMIT 1
) AS after ON true
LEFT JOIN LATERAL (
    SELECT members.member_id, members.client_id
    FROM members
    WHERE members.group_id = offsets.group_id
        AND members.held @> jsonb_build_array(jsonb_build_object(
            'topic', offsets.topic, 'partitions', jsonb_build_array(offsets.partition)))
    ORDER BY members.member_id
    LIMIT 1
) AS owner ON true;
