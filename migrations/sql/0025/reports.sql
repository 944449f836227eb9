-- Reports of jobs, each with the staging table that its job writes first.

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

CREATE TABLE assignment_balance_audits (
    group_id             text COLLATE "C" NOT NULL,
    shard_id             smallint NOT NULL,
    interval_start       timestamptz NOT NULL,
    interval_end         timestamptz NOT NULL,
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
    PRIMARY KEY (interval_end, interval_start, group_id),
    CONSTRAINT assignment_balance_audits_times CHECK (
        interval_start >= '1970-01-01 00:00:00+00' AND interval_start < '10000-01-01 00:00:00+00'
        AND interval_end >= '1970-01-01 00:00:00+00' AND interval_end < '10000-01-01 00:00:00+00'
        AND as_of >= '1970-01-01 00:00:00+00' AND as_of < '10000-01-01 00:00:00+00'
    )
);
CREATE INDEX assignment_balance_audits_group_id ON assignment_balance_audits (group_id, interval_end);

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

CREATE TABLE assignment_balance_topics (
    group_id             text COLLATE "C" NOT NULL,
    shard_id             smallint NOT NULL,
    interval_start       timestamptz NOT NULL,
    interval_end         timestamptz NOT NULL,
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
    PRIMARY KEY (interval_end, interval_start, group_id, topic),
    CONSTRAINT assignment_balance_topics_times CHECK (
        interval_start >= '1970-01-01 00:00:00+00' AND interval_start < '10000-01-01 00:00:00+00'
        AND interval_end >= '1970-01-01 00:00:00+00' AND interval_end < '10000-01-01 00:00:00+00'
        AND as_of >= '1970-01-01 00:00:00+00' AND as_of < '10000-01-01 00:00:00+00'
    )
);
CREATE INDEX assignment_balance_topics_group_id ON assignment_balance_topics (group_id, interval_end);

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
    took_p50_ms             bigint,
    took_p95_ms             bigint,
    took_max_ms             bigint,
    took_total_ms           bigint NOT NULL,
    rebalancing_ms          bigint NOT NULL,
    existed_ms              bigint NOT NULL,
    rebalancing_share       double precision NOT NULL,
    evicted                 integer NOT NULL,
    spuriously_evicted      integer NOT NULL,
    waited_for_member_id    text,
    waited_for_instance_id  text,
    waited_for_client_id    text,
    waited_for_client_host  text,
    waited_for_members      integer,
    waited_for_ms           bigint,
    churn_periods           integer NOT NULL,
    churn_rebalances        integer NOT NULL,
    rebalancing_since       timestamptz,
    is_churning             boolean NOT NULL
);
CREATE INDEX rebalance_frequency_reports_staging_attempt_id ON rebalance_frequency_reports_staging (attempt_id);

CREATE TABLE rebalance_frequency_reports (
    group_id                text COLLATE "C" NOT NULL,
    shard_id                smallint NOT NULL,
    interval_start          timestamptz NOT NULL,
    interval_end            timestamptz NOT NULL,
    run_id                  uuid NOT NULL,
    as_of                   timestamptz NOT NULL,
    rebalances              integer NOT NULL,
    completed               integer NOT NULL,
    emptied                 integer NOT NULL,
    abandoned               integer NOT NULL,
    by_trigger              jsonb NOT NULL,
    restarts                bigint NOT NULL,
    took_p50_ms             bigint,
    took_p95_ms             bigint,
    took_max_ms             bigint,
    took_total_ms           bigint NOT NULL,
    rebalancing_ms          bigint NOT NULL,
    existed_ms              bigint NOT NULL,
    rebalancing_share       double precision NOT NULL,
    evicted                 integer NOT NULL,
    spuriously_evicted      integer NOT NULL,
    waited_for_member_id    text,
    waited_for_instance_id  text,
    waited_for_client_id    text,
    waited_for_client_host  text,
    waited_for_members      integer,
    waited_for_ms           bigint,
    churn_periods           integer NOT NULL,
    churn_rebalances        integer NOT NULL,
    rebalancing_since       timestamptz,
    is_churning             boolean NOT NULL,
    PRIMARY KEY (interval_end, interval_start, group_id),
    CONSTRAINT rebalance_frequency_reports_times CHECK (
        interval_start >= '1970-01-01 00:00:00+00' AND interval_start < '10000-01-01 00:00:00+00'
        AND interval_end >= '1970-01-01 00:00:00+00' AND interval_end < '10000-01-01 00:00:00+00'
        AND as_of >= '1970-01-01 00:00:00+00' AND as_of < '10000-01-01 00:00:00+00'
        AND rebalancing_since >= '1970-01-01 00:00:00+00' AND rebalancing_since < '10000-01-01 00:00:00+00'
    )
);
CREATE INDEX rebalance_frequency_reports_group_id ON rebalance_frequency_reports (group_id, interval_end);

CREATE UNLOGGED TABLE offset_expiry_forecasts_staging (
    attempt_id      uuid NOT NULL,
    group_id        text COLLATE "C" NOT NULL,
    shard_id        smallint NOT NULL,
    within_a_day    bigint NOT NULL,
    within_a_week   bigint NOT NULL,
    next_expiry_at  timestamptz NOT NULL
);
CREATE INDEX offset_expiry_forecasts_staging_attempt_id ON offset_expiry_forecasts_staging (attempt_id);

CREATE TABLE offset_expiry_forecasts (
    group_id        text COLLATE "C" NOT NULL,
    shard_id        smallint NOT NULL,
    interval_start  timestamptz NOT NULL,
    interval_end    timestamptz NOT NULL,
    run_id          uuid NOT NULL,
    as_of           timestamptz NOT NULL,
    within_a_day    bigint NOT NULL,
    within_a_week   bigint NOT NULL,
    next_expiry_at  timestamptz NOT NULL,
    PRIMARY KEY (interval_end, interval_start, group_id),
    CONSTRAINT offset_expiry_forecasts_times CHECK (
        interval_start >= '1970-01-01 00:00:00+00' AND interval_start < '10000-01-01 00:00:00+00'
        AND interval_end >= '1970-01-01 00:00:00+00' AND interval_end < '10000-01-01 00:00:00+00'
        AND as_of >= '1970-01-01 00:00:00+00' AND as_of < '10000-01-01 00:00:00+00'
        AND next_expiry_at >= '1970-01-01 00:00:00+00' AND next_expiry_at < '10000-01-01 00:00:00+00'
    )
);
CREATE INDEX offset_expiry_forecasts_run_id ON offset_expiry_forecasts (run_id);

CREATE UNLOGGED TABLE timeout_advice_staging (
    attempt_id                uuid NOT NULL,
    group_id                  text COLLATE "C" NOT NULL,
    shard_id                  smallint NOT NULL,
    window_start              timestamptz NOT NULL,
    heartbeats                bigint NOT NULL,
    session_present_ms        integer,
    session_advised_ms        integer,
    session_verdict           text NOT NULL,
    session_confidence        text NOT NULL,
    session_reason            text NOT NULL,
    session_effect            jsonb NOT NULL,
    rebalance_present_ms      integer,
    rebalance_advised_ms      integer,
    rebalance_verdict         text NOT NULL,
    rebalance_confidence      text NOT NULL,
    rebalance_reason          text NOT NULL,
    rebalance_effect          jsonb NOT NULL,
    initial_delay_present_ms  integer NOT NULL,
    initial_delay_advised_ms  integer,
    initial_delay_verdict     text NOT NULL,
    initial_delay_confidence  text NOT NULL,
    initial_delay_reason      text NOT NULL,
    initial_delay_effect      jsonb NOT NULL,
    back_test                 jsonb,
    recommendations           jsonb NOT NULL
);
CREATE INDEX timeout_advice_staging_attempt_id ON timeout_advice_staging (attempt_id);

CREATE TABLE timeout_advice (
    group_id                  text COLLATE "C" NOT NULL,
    shard_id                  smallint NOT NULL,
    interval_start            timestamptz NOT NULL,
    interval_end              timestamptz NOT NULL,
    run_id                    uuid NOT NULL,
    as_of                     timestamptz NOT NULL,
    window_start              timestamptz NOT NULL,
    heartbeats                bigint NOT NULL,
    session_present_ms        integer,
    session_advised_ms        integer,
    session_verdict           text NOT NULL,
    session_confidence        text NOT NULL,
    session_reason            text NOT NULL,
    session_effect            jsonb NOT NULL,
    rebalance_present_ms      integer,
    rebalance_advised_ms      integer,
    rebalance_verdict         text NOT NULL,
    rebalance_confidence      text NOT NULL,
    rebalance_reason          text NOT NULL,
    rebalance_effect          jsonb NOT NULL,
    initial_delay_present_ms  integer NOT NULL,
    initial_delay_advised_ms  integer,
    initial_delay_verdict     text NOT NULL,
    initial_delay_confidence  text NOT NULL,
    initial_delay_reason      text NOT NULL,
    initial_delay_effect      jsonb NOT NULL,
    back_test                 jsonb,
    recommendations           jsonb NOT NULL,
    PRIMARY KEY (group_id, interval_start, interval_end, run_id),
    CONSTRAINT timeout_advice_times CHECK (
        interval_start >= '1970-01-01 00:00:00+00' AND interval_start < '10000-01-01 00:00:00+00'
        AND interval_end >= '1970-01-01 00:00:00+00' AND interval_end < '10000-01-01 00:00:00+00'
        AND as_of >= '1970-01-01 00:00:00+00' AND as_of < '10000-01-01 00:00:00+00'
        AND window_start >= '1970-01-01 00:00:00+00' AND window_start < '10000-01-01 00:00:00+00'
    )
);
CREATE INDEX timeout_advice_interval_end ON timeout_advice (interval_end);
