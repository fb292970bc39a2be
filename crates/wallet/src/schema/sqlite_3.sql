-- A wallet whose data can't take a block is stopped by itself; see stopped.rs.
ALTER TABLE wallets ADD COLUMN stopped_height BIGINT;
ALTER TABLE wallets ADD COLUMN stopped_reason TEXT;
ALTER TABLE wallets ADD COLUMN stopped_at BIGINT;
ALTER TABLE wallets ADD COLUMN archived_at BIGINT;

-- What a prune took away: balances as of a lower height are no longer known.
ALTER TABLE wallets ADD COLUMN history_from BIGINT;
-- What an input spent, kept when the coin itself is pruned.
ALTER TABLE tx_inputs ADD COLUMN pruned_amount BIGINT;

-- Coins that are not to be spent until somebody says so, whether or not they exist yet.
CREATE TABLE frozen_outputs (
    wallet_id BIGINT NOT NULL REFERENCES wallets (id) ON DELETE RESTRICT,
    tx_hash BLOB NOT NULL CHECK (length(tx_hash) = 32),
    output_index BIGINT NOT NULL CHECK (output_index BETWEEN 0 AND 4294967295),
    frozen_at BIGINT NOT NULL,
    CONSTRAINT pidx_frozen_outputs PRIMARY KEY (wallet_id, tx_hash, output_index)
) WITHOUT ROWID;

-- Where a labelled thing comes from, as BIP 329 has it; it may have an origin and no label.
CREATE TABLE label_origins (
    wallet_id BIGINT NOT NULL REFERENCES wallets (id) ON DELETE RESTRICT,
    kind TEXT NOT NULL,
    ref TEXT NOT NULL CHECK (length(ref) BETWEEN 1 AND 1000),
    origin TEXT NOT NULL CHECK (length(origin) BETWEEN 1 AND 1000),
    CONSTRAINT pidx_label_origins PRIMARY KEY (wallet_id, kind, ref)
) WITHOUT ROWID;

-- Scripts that came with a past: blocks from next_height to end_height are still to be read.
CREATE TABLE backfills (
    wallet_id BIGINT NOT NULL REFERENCES wallets (id) ON DELETE RESTRICT,
    id BIGINT NOT NULL,
    from_height BIGINT NOT NULL CHECK (from_height >= 0),
    next_height BIGINT NOT NULL CHECK (next_height >= from_height),
    end_height BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT pidx_backfills PRIMARY KEY (wallet_id, id)
) WITHOUT ROWID;

-- Unconfirmed transactions by page, live and dead.
CREATE INDEX idx_transactions_in_no_block ON transactions (wallet_id, id)
    WHERE block_height IS NULL;
