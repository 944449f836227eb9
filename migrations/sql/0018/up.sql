-- How often ends of logs were deleted: a node discards the reports that it gathered before the last deletion.
ALTER TABLE versions ADD COLUMN log_end_deletions bigint NOT NULL DEFAULT 0;

-- How long ago may the end of a log have been reported, before it is stale?
-- The cluster's setting log_end_max_age_ms, by which nodes go too; its default and its bounds are theirs.
CREATE FUNCTION dashboards.log_end_max_age()
RETURNS interval
LANGUAGE sql STABLE
AS $$
SELECT make_interval(secs => coalesce(
    (SELECT least(greatest(value::bigint, 1000), 2147483647)
    FROM public.cluster_config
    WHERE key = 'log_end_max_age_ms' AND value ~ '^-?[0-9]{1,18}$'),
    300000) / 1000.0)
$$;
