-- Which groups lose offsets within a week if nobody commits and they stay as they are, how many, and when first?
-- This is what the newest run of offset_retention found; has_changed: the group is in another state since, or gone.
-- A run as of an instant to come counts from that instant on; of runs of one interval, the last has its rows there.
CREATE OR REPLACE VIEW dashboards.offsets_expiring AS
SELECT
    forecast.group_id,
    forecast.shard_id,
    groups.state,
    groups.state_since,
    forecast.within_a_day,
    forecast.within_a_week,
    forecast.next_at,
    newest.as_of,
    coalesce(groups.state_since > newest.as_of, true) AS has_changed
FROM (
    SELECT as_of, coalesce(interval_end, as_of) AS interval_end
    FROM maintenance_runs
    WHERE kind = 'offset_retention' AND as_of <= now()
    ORDER BY as_of DESC
    LIMIT 1
) AS newest
JOIN offset_expiry_forecasts AS forecast USING (interval_end)
LEFT JOIN groups USING (group_id);
