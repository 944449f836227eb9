-- Which known log ends of a partition tell when it passed the group's committed offset?
-- Of what the group and trusted reporters of any group reported: the last log end that is not beyond the committed
-- offset, the first one after that, and the newest. Except for the newest, none that was reported before `since`, and
-- none beyond the end in known_log_ends: what the group reported once counts until it reports a lower end. None counts
-- from before the partition's log ends were deleted, as they are with their topic.
CREATE OR REPLACE FUNCTION dashboards.log_ends_around(of_group text, of_topic text, of_partition integer, since timestamptz)
RETURNS TABLE (at timestamptz, log_end_offset bigint)
LANGUAGE sql STABLE
AS $$
SELECT ends.at, ends.log_end_offset
FROM (
    SELECT
        offsets.committed_offset,
        CASE WHEN offsets.log_end_offset IS NOT NULL
            THEN greatest(offsets.log_end_offset, offsets.committed_offset) END AS own_end,
        coalesce(offsets.log_end_at, offsets.committed_at) AS own_at,
        trusted.log_end_offset AS trusted_end,
        trusted.reported_at AS trusted_at,
        greatest(since, trusted.first_reported_at) AS trusted_since,
        CASE WHEN EXISTS (
            SELECT
            FROM public.log_end_history AS past
            WHERE past.topic = of_topic AND past.partition = of_partition AND past.at >= since
                AND past.at < trusted.first_reported_at
        ) THEN trusted.first_reported_at ELSE since END AS own_since
    FROM public.offsets
    LEFT JOIN public.log_end_offsets AS trusted USING (topic, partition)
    WHERE offsets.group_id = of_group AND offsets.topic = of_topic AND offsets.partition = of_partition
) AS present
LEFT JOIN LATERAL (
    SELECT past.at, greatest(past.log_end_offset, past.committed_offset) AS log_end
    FROM public.offset_history AS past
    WHERE past.group_id = of_group AND past.topic = of_topic AND past.partition = of_partition
        AND past.at >= present.own_since AND past.log_end_offset IS NOT NULL
        AND greatest(past.log_end_offset, past.committed_offset) <= present.committed_offset
        AND present.own_end > present.committed_offset
    ORDER BY past.at DESC
    LIMIT 1
) AS own_before ON true
LEFT JOIN LATERAL (
    SELECT past.at, greatest(past.log_end_offset, past.committed_offset) AS log_end
    FROM public.offset_history AS past
    WHERE past.group_id = of_group AND past.topic = of_topic AND past.partition = of_partition
        AND past.at >= present.own_since AND past.log_end_offset IS NOT NULL
        AND greatest(past.log_end_offset, past.committed_offset) > present.committed_offset
        AND greatest(past.log_end_offset, past.committed_offset) <= greatest(present.own_end, present.trusted_end)
        AND past.at > coalesce(own_before.at, '-infinity')
        AND present.own_end > present.committed_offset
    ORDER BY past.at
    LIMIT 1
) AS own_after ON true
LEFT JOIN LATERAL (
    SELECT past.at, past.log_end_offset AS log_end
    FROM public.log_end_history AS past
    WHERE past.topic = of_topic AND past.partition = of_partition
        AND past.at >= present.trusted_since
        AND past.log_end_offset <= present.committed_offset AND present.trusted_end > present.committed_offset
    ORDER BY past.log_end_offset DESC, past.at DESC
    LIMIT 1
) AS trusted_before ON true
LEFT JOIN LATERAL (
    SELECT past.at, past.log_end_offset AS log_end
    FROM public.log_end_history AS past
    WHERE past.topic = of_topic AND past.partition = of_partition
        AND past.at >= present.trusted_since
        AND past.log_end_offset > present.committed_offset AND present.trusted_end > present.committed_offset
    ORDER BY past.log_end_offset, past.at
    LIMIT 1
) AS trusted_after ON true
CROSS JOIN LATERAL (VALUES
    (own_before.at, own_before.log_end),
    (own_after.at, own_after.log_end),
    (present.own_at, present.own_end),
    (trusted_before.at, trusted_before.log_end),
    (trusted_after.at, trusted_after.log_end),
    (present.trusted_at, present.trusted_end)
) AS ends (at, log_end_offset)
WHERE ends.log_end_offset IS NOT NULL
$$;
