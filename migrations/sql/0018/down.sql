DROP FUNCTION dashboards.log_end_max_age;
ALTER TABLE versions DROP COLUMN log_end_deletions;
