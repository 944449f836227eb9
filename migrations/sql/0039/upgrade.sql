-- Which members own no partition while others of their group do, and since when?
-- Stable groups only: their assignment was accepted when they became Stable. A group with more members than partitions
-- must have some. A member whose ownership is not what nodes write does not count.
CREATE OR REPLACE VIEW dashboards.idle_members AS
SELECT
    members.group_id,
    members.shard_id,
    members.member_id,
    members.group_instance_id,
    members.client_id,
    members.client_host,
    groups.state_since AS assigned_since,
    spread.members_with_partitions,
    spread.partitions,
    groups.member_count
FROM groups
JOIN members USING (group_id)
CROSS JOIN LATERAL (
    SELECT
        count(DISTINCT other.member_id) AS members_with_partitions,
        sum(owned.partitions) AS partitions
    FROM members AS other
    CROSS JOIN LATERAL jsonb_array_elements(
        CASE jsonb_typeof(other.ownership) WHEN 'array' THEN other.ownership END
    ) AS span
    CROSS JOIN LATERAL (
        SELECT CASE jsonb_typeof(span -> 'partitions') WHEN 'array' THEN jsonb_array_length(span -> 'partitions') END
            AS partitions
    ) AS owned
    WHERE other.group_id = members.group_id AND owned.partitions > 0
) AS spread
WHERE groups.state = 'Stable' AND members.ownership = '[]' AND spread.members_with_partitions > 0;

-- Which member owns, or owned, which partitions of a group, from when to when?
-- valid_to is NULL while the ownership lasts. Of a present ownership that is not what nodes write, what cannot be read is
-- NULL.
CREATE OR REPLACE VIEW dashboards.ownership AS
SELECT
    group_id, shard_id, group_created_at, rebalance_id, generation, member_id, topic, partitions, valid_from, valid_to
FROM partition_ownership
UNION ALL
SELECT
    members.group_id,
    members.shard_id,
    groups.created_at,
    CASE WHEN span ->> 'rebalance_id' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
        THEN (span ->> 'rebalance_id')::uuid END,
    CASE WHEN span ->> 'generation' ~ '^[0-9]{1,18}$'
        THEN least((span ->> 'generation')::bigint, 2147483647)::integer END,
    members.member_id,
    span ->> 'topic',
    CASE WHEN span ->> 'partitions' ~ '^\[([0-9]{1,9}(, [0-9]{1,9})*)?\]$'
        THEN ARRAY(SELECT value::integer FROM jsonb_array_elements_text(span -> 'partitions')) END,
    CASE WHEN span ->> 'since_ms' ~ '^[0-9]{1,15}$'
        THEN to_timestamp((span ->> 'since_ms')::double precision / 1000) END,
    NULL::timestamptz
FROM members
JOIN groups USING (group_id)
CROSS JOIN LATERAL jsonb_array_elements(
    CASE jsonb_typeof(members.ownership) WHEN 'array' THEN members.ownership END
) AS span;

-- Which groups are rebalancing, since when, why, until when at the latest, and which members are awaited?
-- Awaited members have not joined (awaited_phase join) or not synced (sync). The awaited_ arrays have an entry for each
-- member, in one order; in a sync phase the leader comes first. They are NULL while a rebalance is young
-- (MUSTER_AWAITED_MEMBERS_AFTER_MS) and where no member is awaited. The last_waited_for_ columns are about the previous
-- rebalance, of this group and none of a former one of its name. phase_deadline_at follows from the rebalance timeout of
-- the group's or the cluster's settings, with the bounds of nodes, else from the longest that a member requested. What is not as nodes write it
-- is NULL.
CREATE OR REPLACE VIEW dashboards.rebalancing_groups AS
SELECT
    groups.group_id,
    groups.shard_id,
    groups.state,
    groups.state_since,
    groups.rebalance_started_at,
    groups.rebalance_trigger,
    groups.rebalance -> 'in_progress' ->> 'trigger_member_id' AS trigger_member_id,
    groups.rebalance -> 'in_progress' ->> 'client_reason' AS client_reason,
    CASE WHEN groups.rebalance -> 'in_progress' ->> 'restarts' ~ '^[0-9]{1,9}$'
        THEN (groups.rebalance -> 'in_progress' ->> 'restarts')::integer END AS restarts,
    groups.member_count,
    limits.rebalance_timeout_ms,
    groups.state_since + limits.rebalance_timeout_ms * interval '1 ms' AS phase_deadline_at,
    last.client_id AS last_waited_for_client_id,
    last.group_instance_id AS last_waited_for_instance_id,
    last.waited_for_ms AS last_waited_for_ms,
    leases.node_id,
    nodes.listeners ->> 'http' AS node_url,
    groups.awaited_members ->> 'phase' AS awaited_phase,
    CASE WHEN groups.awaited_members ->> 'since_ms' ~ '^[0-9]{1,15}$'
        THEN to_timestamp((groups.awaited_members ->> 'since_ms')::bigint / 1000.0) END AS awaited_since,
    CASE WHEN groups.awaited_members ->> 'count' ~ '^[0-9]{1,9}$'
        THEN (groups.awaited_members ->> 'count')::integer END AS awaited_count,
    awaited.member_ids AS awaited_member_ids,
    awaited.instance_ids AS awaited_instance_ids,
    awaited.client_ids AS awaited_client_ids,
    awaited.client_hosts AS awaited_client_hosts
FROM groups
JOIN shard_leases AS leases USING (shard_id)
LEFT JOIN nodes USING (node_id)
CROSS JOIN LATERAL (
    SELECT coalesce(
        (SELECT least(greatest(value::bigint, 1000), 2147483647)
        FROM group_configs
        WHERE group_id = groups.group_id AND key = 'rebalance_timeout_ms' AND value ~ '^-?[0-9]{1,18}$'),
        (SELECT least(greatest(value::bigint, 1000), 2147483647)
        FROM cluster_configs
        WHERE key = 'rebalance_timeout_ms' AND value ~ '^-?[0-9]{1,18}$'),
        (SELECT max(rebalance_timeout_ms) FROM members WHERE group_id = groups.group_id)
    ) AS rebalance_timeout_ms
) AS limits
LEFT JOIN LATERAL (
    SELECT part.client_id, part.group_instance_id, part.waited_for_ms
    FROM (
        SELECT rebalance_id, completed_at
        FROM rebalances
        WHERE group_id = groups.group_id AND group_created_at = groups.created_at
        ORDER BY completed_at DESC
        LIMIT 1
    ) AS past
    JOIN rebalance_members AS part USING (rebalance_id, completed_at)
    WHERE part.waited_for_ms > 0
    ORDER BY part.waited_for_ms DESC, part.member_id
    LIMIT 1
) AS last ON true
CROSS JOIN LATERAL (
    SELECT
        array_agg(member ->> 'member_id' ORDER BY place) AS member_ids,
        array_agg(member ->> 'group_instance_id' ORDER BY place) AS instance_ids,
        array_agg(member ->> 'client_id' ORDER BY place) AS client_ids,
        array_agg(member ->> 'client_host' ORDER BY place) AS client_hosts
    FROM jsonb_array_elements(
        CASE jsonb_typeof(groups.awaited_members -> 'members') WHEN 'array' THEN groups.awaited_members -> 'members' END
    ) WITH ORDINALITY AS each (member, place)
) AS awaited
WHERE groups.state IN ('PreparingRebalance', 'CompletingRebalance');

-- Which groups lose offsets within a week unless they commit or change their state, how many, and when first?
-- The newest run of offset_retention computed it; has_changed: the group has changed its state since, or is deleted.
-- Offsets without a group row have no state: they have changed if none is left. A run as of a future time counts from
-- that time on; of runs of one interval, the last one has rows.
CREATE OR REPLACE VIEW dashboards.offsets_expiring AS
SELECT
    forecast.group_id,
    forecast.shard_id,
    groups.state,
    groups.state_since,
    forecast.within_a_day,
    forecast.within_a_week,
    forecast.next_expiry_at,
    newest.as_of,
    coalesce(
        groups.state_since > newest.as_of,
        NOT EXISTS (SELECT FROM offsets WHERE offsets.group_id = forecast.group_id)
    ) AS has_changed
FROM (
    SELECT as_of, coalesce(interval_end, as_of) AS interval_end
    FROM maintenance_runs
    WHERE kind = 'offset_retention' AND as_of <= now()
    ORDER BY as_of DESC
    LIMIT 1
) AS newest
JOIN offset_expiry_forecasts AS forecast USING (interval_end)
LEFT JOIN groups USING (group_id);

-- What was the lag of each partition of a group, minute by minute?
-- One row for each minute in which the partition was committed, its present offset, and one for each minute in which a
-- trusted reporter reported its log end, so that a group that commits nothing has rows as well. A log end that had not
-- been reported for log_end_max_age is stale, as in partition_lag. Log ends from before a deletion do not count. An
-- offset that was reset or deleted counts until then, and no earlier one does afterwards. Name a range of at.
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
        UNION ALL
        SELECT
            group_id, shard_id, topic, partition, committed_at, committed_offset, NULL,
            CASE WHEN log_end_offset IS NOT NULL THEN greatest(log_end_offset, committed_offset) END,
            CASE WHEN log_end_offset IS NOT NULL THEN coalesce(log_end_at, committed_at) END
        FROM archived_offsets
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
    LEFT JOIN (
        SELECT
            group_id, topic, partition, array_agg(committed_offset) AS offsets, array_agg(log_end_offset) AS log_ends,
            array_agg(log_end_at) AS log_end_at, array_agg(committed_at) AS committed_at,
            array_agg(archived_at) AS archived_at
        FROM archived_offsets
        GROUP BY group_id, topic, partition
    ) AS archive USING (group_id, topic, partition)
    CROSS JOIN LATERAL (
        SELECT known.*
        FROM (
            SELECT
                offsets.committed_offset, offsets.member_id,
                CASE WHEN offsets.log_end_offset IS NOT NULL
                    THEN greatest(offsets.log_end_offset, offsets.committed_offset) END AS own_end,
                coalesce(offsets.log_end_at, offsets.committed_at) AS own_at,
                offsets.committed_at AS at,
                'infinity'::timestamptz AS removed_at
            WHERE offsets.committed_at < ends.at
            UNION ALL
            (SELECT
                committed_offset, member_id,
                CASE WHEN log_end_offset IS NOT NULL THEN greatest(log_end_offset, committed_offset) END,
                at, at, 'infinity'
            FROM offset_history
            WHERE offset_history.group_id = offsets.group_id AND offset_history.topic = offsets.topic
                AND offset_history.partition = offsets.partition
                AND at < ends.at AND at >= ends.at - interval '1 day'
            ORDER BY at DESC
            LIMIT 1)
            UNION ALL
            SELECT
                committed_offset, NULL,
                CASE WHEN log_end_offset IS NOT NULL THEN greatest(log_end_offset, committed_offset) END,
                coalesce(log_end_at, committed_at), committed_at, archived_at
            FROM unnest(archive.offsets, archive.log_ends, archive.log_end_at, archive.committed_at, archive.archived_at)
                AS removed (committed_offset, log_end_offset, log_end_at, committed_at, archived_at)
            WHERE committed_at < ends.at
        ) AS known
        ORDER BY known.at DESC, known.removed_at DESC
        LIMIT 1
    ) AS stood
    WHERE stood.removed_at > ends.at
) AS past;

-- When did each job last run, and as of when?
-- Of a job that proposes, the newest proposal, and the last one as of that time; of a job that reports, the newest
-- report of any group. A run as of a future time counts from that time on.
CREATE OR REPLACE VIEW dashboards.newest_runs AS
SELECT kind, as_of, run_id, status
FROM (VALUES ('offset_retention'), ('group_cleanup'), ('history_archive')) AS job (kind)
CROSS JOIN LATERAL (
    SELECT as_of, run_id, status
    FROM maintenance_runs
    WHERE maintenance_runs.kind = job.kind AND as_of <= now()
    ORDER BY as_of DESC, created_at DESC
    LIMIT 1
) AS newest
UNION ALL
(SELECT 'assignment_balance_audit', as_of, run_id, NULL
FROM assignment_balance_audits WHERE as_of <= now() ORDER BY interval_end DESC, interval_start DESC LIMIT 1)
UNION ALL
(SELECT 'rebalance_frequency_report', as_of, run_id, NULL
FROM rebalance_frequency_reports WHERE as_of <= now() ORDER BY interval_end DESC, interval_start DESC LIMIT 1)
UNION ALL
(SELECT 'timeout_advice', as_of, run_id, NULL
FROM timeout_advice WHERE as_of <= now() ORDER BY interval_end DESC LIMIT 1);
