-- Tokens that are issued by command; changes name the token and the client's address.

CREATE TABLE tokens (
    token_id     text PRIMARY KEY,
    sha256       text NOT NULL,
    actor        text NOT NULL,
    permissions  jsonb NOT NULL,
    issued_at    timestamptz NOT NULL,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    version      integer NOT NULL DEFAULT 1,
    CONSTRAINT tokens_sha256_key UNIQUE (sha256),
    CONSTRAINT tokens_token_id CHECK (sha256 ~ '^[0-9a-f]{64}$' AND token_id = left(sha256, 16)),
    CONSTRAINT tokens_times CHECK (
        issued_at >= '1970-01-01 00:00:00+00' AND issued_at < '10000-01-01 00:00:00+00'
        AND expires_at >= '1970-01-01 00:00:00+00' AND expires_at < '10000-01-01 00:00:00+00'
        AND revoked_at >= '1970-01-01 00:00:00+00' AND revoked_at < '10000-01-01 00:00:00+00'
    )
);

ALTER TABLE changes ADD COLUMN token_id text, ADD COLUMN client_address text;
