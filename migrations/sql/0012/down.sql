DROP VIEW dashboards.group_overview, dashboards.lag_history, dashboards.partition_lag, dashboards.known_log_ends;
DROP FUNCTION dashboards.log_ends_around;
DROP TABLE log_end_history, log_end_offsets;
ALTER TABLE offsets DROP COLUMN log_end_at;
ALTER TABLE archived_offsets DROP COLUMN log_end_at;
