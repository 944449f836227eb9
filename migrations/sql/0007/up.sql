-- A day of a history table that a job has copied into the archive, and that a run proposes to take out of Postgres.
CREATE TABLE archive_candidates (
    run_id       uuid NOT NULL,
    table_name   text COLLATE "C" NOT NULL,
    day          date NOT NULL,
    source       text COLLATE "C" NOT NULL,
    path         text NOT NULL,
    row_count    bigint NOT NULL,
    checksum     text NOT NULL,
    verified_at  timestamptz NOT NULL,
    outcome      text,
    PRIMARY KEY (run_id, table_name, day)
);
CREATE INDEX archive_candidates_undecided ON archive_candidates (run_id) WHERE outcome IS NULL;
CREATE INDEX archive_candidates_table_name_day ON archive_candidates (table_name, day);

-- What has left Postgres, and where it lies. A day has several rows when some of its rows came late.
CREATE TABLE archived_partitions (
    table_name   text COLLATE "C" NOT NULL,
    day          date NOT NULL,
    run_id       uuid NOT NULL,
    change_id    uuid NOT NULL,
    source       text COLLATE "C" NOT NULL,
    path         text NOT NULL,
    row_count    bigint NOT NULL,
    checksum     text NOT NULL,
    verified_at  timestamptz NOT NULL,
    dropped_at   timestamptz NOT NULL,
    restored_at  timestamptz,
    PRIMARY KEY (table_name, day, run_id)
);

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'muster_jobs') THEN
        GRANT INSERT, UPDATE, DELETE ON archive_candidates TO muster_jobs;
    END IF;
END
$$;
