-- A time or a day beyond what Python can hold breaks every list that a node reads it for. Jobs write the tables named
-- first; the last five are corrected by hand now and then.
ALTER TABLE expiry_candidates
    DROP CONSTRAINT IF EXISTS expiry_candidates_times,
    ADD CONSTRAINT expiry_candidates_times CHECK (
        committed_at >= '1970-01-01 00:00:00+00' AND committed_at < '10000-01-01 00:00:00+00'
        AND state_since >= '1970-01-01 00:00:00+00' AND state_since < '10000-01-01 00:00:00+00'
    ) NOT VALID;
ALTER TABLE cleanup_candidates
    DROP CONSTRAINT IF EXISTS cleanup_candidates_times,
    ADD CONSTRAINT cleanup_candidates_times CHECK (
        state_since >= '1970-01-01 00:00:00+00' AND state_since < '10000-01-01 00:00:00+00'
    ) NOT VALID;
ALTER TABLE offset_expiry_forecasts
    DROP CONSTRAINT IF EXISTS offset_expiry_forecasts_times,
    ADD CONSTRAINT offset_expiry_forecasts_times CHECK (
        interval_start >= '1970-01-01 00:00:00+00' AND interval_start < '10000-01-01 00:00:00+00'
        AND interval_end >= '1970-01-01 00:00:00+00' AND interval_end < '10000-01-01 00:00:00+00'
        AND as_of >= '1970-01-01 00:00:00+00' AND as_of < '10000-01-01 00:00:00+00'
        AND next_at >= '1970-01-01 00:00:00+00' AND next_at < '10000-01-01 00:00:00+00'
    ) NOT VALID;
ALTER TABLE assignment_balance_audits
    DROP CONSTRAINT IF EXISTS assignment_balance_audits_times,
    ADD CONSTRAINT assignment_balance_audits_times CHECK (
        interval_start >= '1970-01-01 00:00:00+00' AND interval_start < '10000-01-01 00:00:00+00'
        AND interval_end >= '1970-01-01 00:00:00+00' AND interval_end < '10000-01-01 00:00:00+00'
        AND as_of >= '1970-01-01 00:00:00+00' AND as_of < '10000-01-01 00:00:00+00'
    ) NOT VALID;
ALTER TABLE assignment_balance_topics
    DROP CONSTRAINT IF EXISTS assignment_balance_topics_times,
    ADD CONSTRAINT assignment_balance_topics_times CHECK (
        interval_start >= '1970-01-01 00:00:00+00' AND interval_start < '10000-01-01 00:00:00+00'
        AND interval_end >= '1970-01-01 00:00:00+00' AND interval_end < '10000-01-01 00:00:00+00'
        AND as_of >= '1970-01-01 00:00:00+00' AND as_of < '10000-01-01 00:00:00+00'
    ) NOT VALID;
ALTER TABLE rebalance_frequency_reports
    DROP CONSTRAINT IF EXISTS rebalance_frequency_reports_times,
    ADD CONSTRAINT rebalance_frequency_reports_times CHECK (
        interval_start >= '1970-01-01 00:00:00+00' AND interval_start < '10000-01-01 00:00:00+00'
        AND interval_end >= '1970-01-01 00:00:00+00' AND interval_end < '10000-01-01 00:00:00+00'
        AND as_of >= '1970-01-01 00:00:00+00' AND as_of < '10000-01-01 00:00:00+00'
        AND unsettled_since >= '1970-01-01 00:00:00+00' AND unsettled_since < '10000-01-01 00:00:00+00'
    ) NOT VALID;
ALTER TABLE timeout_advice
    DROP CONSTRAINT IF EXISTS timeout_advice_times,
    ADD CONSTRAINT timeout_advice_times CHECK (
        interval_start >= '1970-01-01 00:00:00+00' AND interval_start < '10000-01-01 00:00:00+00'
        AND interval_end >= '1970-01-01 00:00:00+00' AND interval_end < '10000-01-01 00:00:00+00'
        AND as_of >= '1970-01-01 00:00:00+00' AND as_of < '10000-01-01 00:00:00+00'
        AND window_start >= '1970-01-01 00:00:00+00' AND window_start < '10000-01-01 00:00:00+00'
    ) NOT VALID;
-- A day that has one after it.
ALTER TABLE archive_candidates
    DROP CONSTRAINT IF EXISTS archive_candidates_day,
    ADD CONSTRAINT archive_candidates_day CHECK (day >= '1970-01-01' AND day < '9999-12-31') NOT VALID;
ALTER TABLE log_end_offsets
    DROP CONSTRAINT IF EXISTS log_end_offsets_times,
    ADD CONSTRAINT log_end_offsets_times CHECK (
        reported_at >= '1970-01-01 00:00:00+00' AND reported_at < '10000-01-01 00:00:00+00'
        AND first_reported_at >= '1970-01-01 00:00:00+00' AND first_reported_at < '10000-01-01 00:00:00+00'
    ) NOT VALID;
ALTER TABLE group_configs
    DROP CONSTRAINT IF EXISTS group_configs_times,
    ADD CONSTRAINT group_configs_times CHECK (
        set_at >= '1970-01-01 00:00:00+00' AND set_at < '10000-01-01 00:00:00+00'
    ) NOT VALID;
ALTER TABLE cluster_config
    DROP CONSTRAINT IF EXISTS cluster_config_times,
    ADD CONSTRAINT cluster_config_times CHECK (
        set_at >= '1970-01-01 00:00:00+00' AND set_at < '10000-01-01 00:00:00+00'
    ) NOT VALID;
ALTER TABLE changes
    DROP CONSTRAINT IF EXISTS changes_times,
    ADD CONSTRAINT changes_times CHECK (
        at >= '1970-01-01 00:00:00+00' AND at < '10000-01-01 00:00:00+00'
        AND undone_at >= '1970-01-01 00:00:00+00' AND undone_at < '10000-01-01 00:00:00+00'
    ) NOT VALID;
ALTER TABLE offsets
    DROP CONSTRAINT IF EXISTS offsets_times,
    ADD CONSTRAINT offsets_times CHECK (
        expires_at >= '1970-01-01 00:00:00+00' AND expires_at < '10000-01-01 00:00:00+00'
        AND log_end_at >= '1970-01-01 00:00:00+00' AND log_end_at < '10000-01-01 00:00:00+00'
    ) NOT VALID;
