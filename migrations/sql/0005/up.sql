-- How evenly a group's partitions were spread over its members when it was looked at, and whether that could be better.
CREATE TABLE assignment_balance_audits (
    interval_start       timestamptz NOT NULL,
    interval_end         timestamptz NOT NULL,
    group_id             text COLLATE "C" NOT NULL,
    shard_id             smallint NOT NULL,
    run_id               uuid NOT NULL,
    as_of                timestamptz NOT NULL,
    generation           integer NOT NULL,
    topics               integer NOT NULL,
    members              integer NOT NULL,
    idle_members         integer NOT NULL,
    partitions           integer NOT NULL,
    unassigned           integer NOT NULL,
    partitions_max       integer NOT NULL,
    partitions_mean      double precision NOT NULL,
    lag_max              bigint,
    lag_mean             double precision,
    best_partitions_max  integer NOT NULL,
    misplaced            integer NOT NULL,
    has_better           boolean NOT NULL,
    score                smallint NOT NULL,
    moved                integer NOT NULL,
    moves_needed         integer NOT NULL,
    score_before         smallint,
    trend                text NOT NULL,
    PRIMARY KEY (interval_end, interval_start, group_id)
);
CREATE INDEX assignment_balance_audits_group_id ON assignment_balance_audits (group_id, interval_end);

CREATE UNLOGGED TABLE assignment_balance_audits_staging (
    attempt_id           uuid NOT NULL,
    group_id             text COLLATE "C" NOT NULL,
    shard_id             smallint NOT NULL,
    generation           integer NOT NULL,
    topics               integer NOT NULL,
    members              integer NOT NULL,
    idle_members         integer NOT NULL,
    partitions           integer NOT NULL,
    unassigned           integer NOT NULL,
    partitions_max       integer NOT NULL,
    partitions_mean      double precision NOT NULL,
    lag_max              bigint,
    lag_mean             double precision,
    best_partitions_max  integer NOT NULL,
    misplaced            integer NOT NULL,
    has_better           boolean NOT NULL,
    score                smallint NOT NULL,
    moved                integer NOT NULL,
    moves_needed         integer NOT NULL,
    score_before         smallint,
    trend                text NOT NULL
);
CREATE INDEX assignment_balance_audits_staging_attempt_id ON assignment_balance_audits_staging (attempt_id);

-- The same of one topic of the group.
CREATE TABLE assignment_balance_topics (
    interval_start       timestamptz NOT NULL,
    interval_end         timestamptz NOT NULL,
    group_id             text COLLATE "C" NOT NULL,
    shard_id             smallint NOT NULL,
    run_id               uuid NOT NULL,
    as_of                timestamptz NOT NULL,
    topic                text COLLATE "C" NOT NULL,
    members              integer NOT NULL,
    idle_members         integer NOT NULL,
    partitions           integer NOT NULL,
    unassigned           integer NOT NULL,
    partitions_max       integer NOT NULL,
    partitions_mean      double precision NOT NULL,
    lag_max              bigint,
    lag_mean             double precision,
    best_partitions_max  integer NOT NULL,
    misplaced            integer NOT NULL,
    has_better           boolean NOT NULL,
    score                smallint NOT NULL,
    moved                integer NOT NULL,
    moves_needed         integer NOT NULL,
    PRIMARY KEY (interval_end, interval_start, group_id, topic)
);
CREATE INDEX assignment_balance_topics_group_id ON assignment_balance_topics (group_id, interval_end);

CREATE UNLOGGED TABLE assignment_balance_topics_staging (
    attempt_id           uuid NOT NULL,
    group_id             text COLLATE "C" NOT NULL,
    shard_id             smallint NOT NULL,
    topic                text COLLATE "C" NOT NULL,
    members              integer NOT NULL,
    idle_members         integer NOT NULL,
    partitions           integer NOT NULL,
    unassigned           integer NOT NULL,
    partitions_max       integer NOT NULL,
    partitions_mean      double precision NOT NULL,
    lag_max              bigint,
    lag_mean             double precision,
    best_partitions_max  integer NOT NULL,
    misplaced            integer NOT NULL,
    has_better           boolean NOT NULL,
    score                smallint NOT NULL,
    moved                integer NOT NULL,
    moves_needed         integer NOT NULL
);
CREATE INDEX assignment_balance_topics_staging_attempt_id ON assignment_balance_topics_staging (attempt_id);

-- How often, how long and why a group rebalanced within an interval.
CREATE TABLE rebalance_frequency_reports (
    interval_start          timestamptz NOT NULL,
    interval_end            timestamptz NOT NULL,
    group_id                text COLLATE "C" NOT NULL,
    shard_id                smallint NOT NULL,
    run_id                  uuid NOT NULL,
    as_of                   timestamptz NOT NULL,
    rebalances              integer NOT NULL,
    completed               integer NOT NULL,
    emptied                 integer NOT NULL,
    abandoned               integer NOT NULL,
    by_trigger              jsonb NOT NULL,
    restarts                bigint NOT NULL,
    took_ms_p50          bigint,
    took_ms_p95            bigint,
    took_ms_max             bigint,
    took_ms_total           bigint NOT NULL,
    rebalancing_ms          bigint NOT NULL,
    rebalancing_share       double precision NOT NULL,
    evicted                 integer NOT NULL,
    spuriously_evicted      integer NOT NULL,
    waited_for_member_id    text,
    waited_for_instance_id  text,
    waited_for_client_id    text,
    waited_for_ms           bigint,
    storms                  integer NOT NULL,
    stormy_rebalances       integer NOT NULL,
    unsettled_since         timestamptz,
    never_settles           boolean NOT NULL,
    PRIMARY KEY (interval_end, interval_start, group_id)
);
CREATE INDEX rebalance_frequency_reports_group_id ON rebalance_frequency_reports (group_id, interval_end);

CREATE UNLOGGED TABLE rebalance_frequency_reports_staging (
    attempt_id              uuid NOT NULL,
    group_id                text COLLATE "C" NOT NULL,
    shard_id                smallint NOT NULL,
    rebalances              integer NOT NULL,
    completed               integer NOT NULL,
    emptied                 integer NOT NULL,
    abandoned               integer NOT NULL,
    by_trigger              jsonb NOT NULL,
    restarts                bigint NOT NULL,
    took_ms_p50          bigint,
    took_ms_p95            bigint,
    took_ms_max             bigint,
    took_ms_total           bigint NOT NULL,
    rebalancing_ms          bigint NOT NULL,
    rebalancing_share       double precision NOT NULL,
    evicted                 integer NOT NULL,
    spuriously_evicted      integer NOT NULL,
    waited_for_member_id    text,
    waited_for_instance_id  text,
    waited_for_client_id    text,
    waited_for_ms           bigint,
    storms                  integer NOT NULL,
    stormy_rebalances       integer NOT NULL,
    unsettled_since         timestamptz,
    never_settles           boolean NOT NULL
);
CREATE INDEX rebalance_frequency_reports_staging_attempt_id ON rebalance_frequency_reports_staging (attempt_id);

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'muster_jobs') THEN
        GRANT INSERT, UPDATE, DELETE
            ON assignment_balance_audits, assignment_balance_audits_staging,
                assignment_balance_topics, assignment_balance_topics_staging,
                rebalance_frequency_reports, rebalance_frequency_reports_staging
            TO muster_jobs;
    END IF;
END
$$;
