DROP VIEW dashboards.group_overview, dashboards.lag_history, dashboards.partition_lag, dashboards.known_log_ends;
DROP FUNCTION dashboards.log_ends_around;
DROP TABLE log_end_history, log_end_offsets;
ALTER TABLE offsets DROP COLUMN log_end_at;
ALTER TABLE archived_offsets DROP COLUMN log_end_at;
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
-- How is each group now, how far is it behind, and when and why did it last rebalance?
-- lag_records is null while no end of a log is known, and at most what a bigint holds, whatever ends were reported.
-- A rebalance under way comes first: its outcome is null.
CREATE VIEW dashboards.group_overview AS
SELECT
    groups.group_id,
    groups.state,
    groups.state_since,
    groups.generation,
    groups.protocol_type,
    groups.protocol_name,
    groups.member_count,
    lag.partitions AS partitions_committed,
    lag.lag_records,
    lag.last_committed_at,
    coalesce(groups.rebalance_started_at, past.started_at) AS last_rebalance_at,
    CASE WHEN groups.rebalance_started_at IS NULL THEN past.trigger ELSE groups.rebalance_trigger END
        AS last_rebalance_trigger,
    CASE WHEN groups.rebalance_started_at IS NULL THEN past.trigger_member_id END AS last_rebalance_trigger_member_id,
    CASE WHEN groups.rebalance_started_at IS NULL THEN past.client_reason END AS last_rebalance_client_reason,
    CASE WHEN groups.rebalance_started_at IS NULL THEN past.outcome END AS last_rebalance_outcome,
    leases.node_id,
    groups.shard_id
FROM groups
JOIN shard_leases AS leases USING (shard_id)
LEFT JOIN (
    SELECT
        group_id,
        count(*) AS partitions,
        CASE WHEN count(log_end_offset) > 0
            THEN least(sum(greatest(log_end_offset - committed_offset, 0)), 9223372036854775807)::bigint
        END AS lag_records,
        max(committed_at) AS last_committed_at
    FROM offsets
    GROUP BY group_id
) AS lag USING (group_id)
LEFT JOIN LATERAL (
    SELECT started_at, trigger, trigger_member_id, client_reason, outcome
    FROM rebalances
    WHERE rebalances.group_id = groups.group_id
    ORDER BY completed_at DESC
    LIMIT 1
) AS past ON true;
