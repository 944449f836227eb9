-- One row: which life of the database this is, and the identity under which nodes serve it; null: none has yet.
CREATE TABLE incarnation (
    only_row           boolean PRIMARY KEY DEFAULT true CONSTRAINT incarnation_only_row CHECK (only_row),
    number             bigint NOT NULL DEFAULT 1,
    started_at         timestamptz NOT NULL,
    system_identifier  bigint,
    timeline           bigint,
    database_oid       bigint,
    table_oid          bigint
);
INSERT INTO incarnation (started_at) VALUES (date_trunc('milliseconds', clock_timestamp()));

-- Only grows, so a node that remembers more notices that the database was rolled back.
ALTER TABLE nodes ADD COLUMN renewals bigint NOT NULL DEFAULT 0;
