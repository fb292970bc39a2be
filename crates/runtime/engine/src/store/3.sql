ALTER TABLE counter ADD COLUMN last_webhook BIGINT NOT NULL DEFAULT 0;

ALTER TABLE events ADD COLUMN wallet_id BIGINT;

CREATE TABLE webhooks (
    id BIGINT NOT NULL PRIMARY KEY,
    wallet_id BIGINT NOT NULL,
    wallet TEXT NOT NULL,
    url TEXT NOT NULL,
    secret {bytes} NOT NULL CHECK (length(secret) = 32),
    created_at BIGINT NOT NULL,
    cursor BIGINT NOT NULL CHECK (cursor >= 0),
    delivered BIGINT NOT NULL,
    delivered_at BIGINT,
    attempts BIGINT NOT NULL,
    failing_since BIGINT,
    next_attempt_at BIGINT NOT NULL,
    last_error TEXT,
    missed BIGINT NOT NULL,
    paused_at BIGINT
);
