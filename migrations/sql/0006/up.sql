-- What a group's own history says of its timeouts, over a window that ends with the interval.
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
    session_because           text NOT NULL,
    session_effect            jsonb NOT NULL,
    rebalance_present_ms      integer,
    rebalance_advised_ms      integer,
    rebalance_verdict         text NOT NULL,
    rebalance_confidence      text NOT NULL,
    rebalance_because         text NOT NULL,
    rebalance_effect          jsonb NOT NULL,
    initial_delay_present_ms  integer NOT NULL,
    initial_delay_advised_ms  integer,
    initial_delay_verdict     text NOT NULL,
    initial_delay_confidence  text NOT NULL,
    initial_delay_because     text NOT NULL,
    initial_delay_effect      jsonb NOT NULL,
    back_test                 jsonb,
    PRIMARY KEY (group_id, interval_start, interval_end, run_id)
);
CREATE INDEX timeout_advice_interval_end ON timeout_advice (interval_end);

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
    session_because           text NOT NULL,
    session_effect            jsonb NOT NULL,
    rebalance_present_ms      integer,
    rebalance_advised_ms      integer,
    rebalance_verdict         text NOT NULL,
    rebalance_confidence      text NOT NULL,
    rebalance_because         text NOT NULL,
    rebalance_effect          jsonb NOT NULL,
    initial_delay_present_ms  integer NOT NULL,
    initial_delay_advised_ms  integer,
    initial_delay_verdict     text NOT NULL,
    initial_delay_confidence  text NOT NULL,
    initial_delay_because     text NOT NULL,
    initial_delay_effect      jsonb NOT NULL,
    back_test                 jsonb
);
CREATE INDEX timeout_advice_staging_attempt_id ON timeout_advice_staging (attempt_id);

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'muster_jobs') THEN
        GRANT INSERT, UPDATE, DELETE ON timeout_advice, timeout_advice_staging TO muster_jobs;
    END IF;
END
$$;
