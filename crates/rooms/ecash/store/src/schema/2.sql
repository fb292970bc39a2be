-- The counter belongs to the keyset's id over all accounts. Outputs derive from the seed, the keyset
-- and the counter alone (NUT-13), and whoever runs a mint may list the public keysets of another.
CREATE TABLE counters (
    keyset_id TEXT NOT NULL PRIMARY KEY,
    counter BIGINT NOT NULL,
    -- From here on another copy of this database has used counters; NULL: nobody knows of one. An
    -- account that lists the keyset later is scanned from here.
    copied_from BIGINT
);
INSERT INTO counters (keyset_id, counter) SELECT keyset_id, counter FROM keysets;

CREATE TABLE account_keysets (
    account_id TEXT NOT NULL,
    keyset_id TEXT NOT NULL,
    is_active BOOLEAN NOT NULL,
    fee_ppk BIGINT NOT NULL,
    -- From here on the mint is asked what it has signed for another copy; NULL: nothing to ask.
    scan_from BIGINT,
    PRIMARY KEY (account_id, keyset_id)
);
INSERT INTO account_keysets (account_id, keyset_id, is_active, fee_ppk)
    SELECT account_id, keyset_id, is_active, fee_ppk FROM keysets;
DROP TABLE keysets;

-- What a scan has found: the origin of proofs that no payment of this database brought.
CREATE TABLE scans (
    id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL,
    keyset_id TEXT NOT NULL,
    first_counter BIGINT NOT NULL,
    next_counter BIGINT NOT NULL,
    proofs BIGINT NOT NULL,
    amount BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT
);
CREATE INDEX idx_scans_time ON scans (started_at, id);

-- A removed account keeps its payments; its mint may be added anew.
ALTER TABLE accounts ADD COLUMN removed_at BIGINT;
DROP INDEX idx_accounts_mint;
CREATE UNIQUE INDEX idx_accounts_place ON accounts (mint_url, unit)
    WHERE mint_url IS NOT NULL AND removed_at IS NULL;
