-- NULL in rows that are older than these columns.
ALTER TABLE rebalance_members ADD COLUMN client_host text;
ALTER TABLE rebalance_frequency_reports
    ADD COLUMN lived_ms bigint,
    ADD COLUMN waited_for_client_host text,
    ADD COLUMN waited_for_members integer;
ALTER TABLE rebalance_frequency_reports_staging
    ADD COLUMN lived_ms bigint,
    ADD COLUMN waited_for_client_host text,
    ADD COLUMN waited_for_members integer;
ALTER TABLE timeout_advice ADD COLUMN recommendations jsonb;
ALTER TABLE timeout_advice_staging ADD COLUMN recommendations jsonb;
