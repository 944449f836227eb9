-- What was the lag of each partition of a group, minute by minute?
-- One row for each minute in which the partition was committed, its present offset, and one for each minute in which a
-- trusted reporter reported its log end, so that a group that commits nothing has rows as well. A log end that had not
-- been reported for log_end_max_age is stale, as in partition_lag. Log ends from before a deletion do not count. Name a
-- range of at.
CREATE OR REPLACE VIEW dashboards.lag_history AS
SELECT
    past.group_id, past.shard_id, past.topic, past.partition, past.at, past.committed_offset, past.log_end_offset,
    CASE WHEN past.log_end_offset > past.committed_offset
            OR past.log_end_at >= past.at - (SELECT dashboards.log_end_max_age())
        THEN greatest(past.log_end_offset - past.committed_offset, 0) END AS lag_records,
    past.member_id, past.log_end_at,
    past.log_end_at < past.at - (SELECT dashboards.log_end_max_age()) AS is_lag_lower_bound
FROM (
    SELECT
        stood.group_id, stood.shard_id, stood.topic, stood.partition, stood.at, stood.committed_offset,
        greatest(stood.own_end, known.log_end_offset) AS log_end_offset, stood.member_id,
        CASE
            WHEN stood.own_end > known.log_end_offset THEN stood.own_at
            WHEN stood.own_end < known.log_end_offset THEN known.at
            ELSE greatest(stood.own_at, known.at)
        END AS log_end_at
    FROM (
        SELECT
            group_id, shard_id, topic, partition, at, committed_offset, member_id,
            CASE WHEN log_end_offset IS NOT NULL THEN greatest(log_end_offset, committed_offset) END AS own_end,
            CASE WHEN log_end_offset IS NOT NULL THEN at END AS own_at
        FROM offset_history
        UNION ALL
        SELECT
            group_id, shard_id, topic, partition, committed_at, committed_offset, member_id,
            CASE WHEN log_end_offset IS NOT NULL THEN greatest(log_end_offset, committed_offset) END,
            CASE WHEN log_end_offset IS NOT NULL THEN coalesce(log_end_at, committed_at) END
        FROM offsets
    ) AS stood
    LEFT JOIN LATERAL (
        SELECT ends.at, ends.log_end_offset
        FROM (
            SELECT ended.at, ended.log_end_offset
            FROM log_end_history AS ended JOIN log_end_offsets AS present USING (topic, partition)
            WHERE ended.topic = stood.topic AND ended.partition = stood.partition
                AND ended.at <= stood.at AND ended.at >= stood.at - interval '1 day'
                AND ended.at >= present.first_reported_at
            UNION ALL
            SELECT reported_at, log_end_offset FROM log_end_offsets
            WHERE log_end_offsets.topic = stood.topic AND log_end_offsets.partition = stood.partition
                AND reported_at <= stood.at
        ) AS ends
        ORDER BY ends.at DESC
        LIMIT 1
    ) AS known ON true
    UNION ALL
    SELECT
        offsets.group_id, offsets.shard_id, topic, partition, ends.at, stood.committed_offset,
        greatest(ends.log_end_offset, stood.own_end), stood.member_id,
        CASE WHEN stood.own_end > ends.log_end_offset THEN stood.own_at ELSE ends.at END
    FROM offsets
    JOIN (
        SELECT topic, partition, ended.at, ended.log_end_offset
        FROM log_end_history AS ended JOIN log_end_offsets AS present USING (topic, partition)
        WHERE ended.at >= present.first_reported_at
        UNION ALL
        SELECT topic, partition, reported_at, log_end_offset FROM log_end_offsets
    ) AS ends USING (topic, partition)
    CROSS JOIN LATERAL (
        SELECT known.*
        FROM (
            SELECT
                offsets.committed_offset, offsets.member_id,
                CASE WHEN offsets.log_end_offset IS NOT NULL
                    THEN greatest(offsets.log_end_offset, offsets.committed_offset) END AS own_end,
                coalesce(offsets.log_end_at, offsets.committed_at) AS own_at,
                offsets.committed_at AS at
            WHERE offsets.committed_at < ends.at
            UNION ALL
            (SELECT
                committed_offset, member_id,
                CASE WHEN log_end_offset IS NOT NULL THEN greatest(log_end_offset, committed_offset) END,
                at, at
            FROM offset_history
            WHERE offset_history.group_id = offsets.group_id AND offset_history.topic = offsets.topic
                AND offset_history.partition = offsets.partition
                AND at < ends.at AND at >= ends.at - interval '1 day'
            ORDER BY at DESC
            LIMIT 1)
        ) AS known
        ORDER BY known.at DESC
        LIMIT 1
    ) AS stood
) AS past;
