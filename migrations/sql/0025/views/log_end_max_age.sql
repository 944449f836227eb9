-- How old may the last report of a log end be before it is stale?
-- The cluster's setting log_end_max_age_ms, which nodes use too; its default and its bounds are theirs.
CREATE FUNCTION dashboards.log_end_max_age()
RETURNS interval
LANGUAGE sql STABLE
AS $$
SELECT make_interval(secs => coalesce(
    (SELECT least(greatest(value::bigint, 1000), 2147483647)
    FROM public.cluster_configs
    WHERE key = 'log_end_max_age_ms' AND value ~ '^-?[0-9]{1,18}$'),
    300000) / 1000.0)
$$;
