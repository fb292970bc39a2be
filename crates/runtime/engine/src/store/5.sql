ALTER TABLE events RENAME COLUMN wallet TO tenant;

ALTER TABLE events ADD COLUMN tenant_room TEXT;

ALTER TABLE events ADD COLUMN tenant_id TEXT;

-- Events of the oldest version know no number of their wallet, and stay without one.
UPDATE events SET tenant_room = 'wallet', tenant_id = CAST(wallet_id AS TEXT)
    WHERE tenant IS NOT NULL;

ALTER TABLE events DROP COLUMN wallet_id;

ALTER TABLE webhooks RENAME TO webhooks_of_wallets;

CREATE TABLE webhooks (
    id BIGINT NOT NULL PRIMARY KEY,
    tenant_room TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
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

INSERT INTO webhooks (id, tenant_room, tenant_id, tenant, url, secret, created_at, cursor,
        delivered, delivered_at, attempts, failing_since, next_attempt_at, last_error, missed,
        paused_at)
    SELECT id, 'wallet', CAST(wallet_id AS TEXT), wallet, url, secret, created_at, cursor,
        delivered, delivered_at, attempts, failing_since, next_attempt_at, last_error, missed,
        paused_at
    FROM webhooks_of_wallets;

DROP TABLE webhooks_of_wallets;

-- How far the events of each wallet have come is a mark as any room's.
INSERT INTO marks (room, subject, mark)
    SELECT 'wallet', 'journal/' || CAST(wallet_id AS TEXT), line FROM told_wallets;

DROP TABLE told_wallets;
