-- Which groups lose offsets within a week if nobody commits and they stay in their state, how many, and when first?
-- The newest run of offset_retention computed it; has_changed: the group has changed its state since, or is deleted. A
-- run as of a future time counts from that time on; of runs of one interval, the last one has rows.
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
