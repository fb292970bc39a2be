-- A wallet whose data can't take a block is stopped by itself; see stopped.rs.
ALTER TABLE wallets ADD COLUMN stopped_height BIGINT;
ALTER TABLE wallets ADD COLUMN stopped_reason TEXT;
ALTER TABLE wallets ADD COLUMN stopped_at BIGINT;
ALTER TABLE wallets ADD COLUMN archived_at BIGINT;

-- A wallet of which only a date is known: the time in seconds, and whether it is still to be
-- turned into birthday_height, which is 0 until then.
ALTER TABLE wallets ADD COLUMN birthday_time BIGINT;
ALTER TABLE wallets ADD COLUMN birthday_open BOOLEAN NOT NULL DEFAULT FALSE;
-- The first block that is read again after a rewind, to tell how far that has come.
ALTER TABLE wallets ADD COLUMN rescan_from BIGINT;

-- Most wallets stand at the room's tip. They say only that they do, so that a block moves ten
-- thousand of them without writing to one; scanned_height and scanned_hash are for the others.
ALTER TABLE room ADD COLUMN tip_height BIGINT;
ALTER TABLE room ADD COLUMN tip_hash {bytes};
ALTER TABLE wallets ADD COLUMN follows_tip BOOLEAN NOT NULL DEFAULT FALSE;
UPDATE room SET tip_height = (SELECT MAX(scanned_height) FROM wallets);
UPDATE room SET tip_hash = (SELECT scanned_hash FROM wallets WHERE scanned_height = tip_height
    ORDER BY scanned_hash LIMIT 1);
UPDATE wallets SET follows_tip = TRUE, scanned_height = NULL, scanned_hash = NULL
    WHERE EXISTS (SELECT 1 FROM room r
        WHERE r.tip_height = wallets.scanned_height AND r.tip_hash = wallets.scanned_hash);

-- What a prune took away: balances as of a lower height are no longer known.
ALTER TABLE wallets ADD COLUMN history_from BIGINT;
-- What an input spent, kept when the coin itself is pruned.
ALTER TABLE tx_inputs ADD COLUMN pruned_amount BIGINT;

-- Coins that are not to be spent until somebody says so, whether or not they exist yet.
CREATE TABLE frozen_outputs (
    wallet_id BIGINT NOT NULL REFERENCES wallets (id) ON DELETE RESTRICT,
    tx_hash {bytes} NOT NULL CHECK (length(tx_hash) = 32),
    output_index BIGINT NOT NULL CHECK (output_index BETWEEN 0 AND 4294967295),
    frozen_at BIGINT NOT NULL,
    CONSTRAINT pidx_frozen_outputs PRIMARY KEY (wallet_id, tx_hash, output_index)
){without_rowid};

-- Where a labelled thing comes from, as BIP 329 has it; it may have an origin and no label.
CREATE TABLE label_origins (
    wallet_id BIGINT NOT NULL REFERENCES wallets (id) ON DELETE RESTRICT,
    kind TEXT NOT NULL,
    ref TEXT NOT NULL CHECK (length(ref) BETWEEN 1 AND 1000),
    origin TEXT NOT NULL CHECK (length(origin) BETWEEN 1 AND 1000),
    CONSTRAINT pidx_label_origins PRIMARY KEY (wallet_id, kind, ref)
){without_rowid};

-- Scripts that came with a past: blocks from next_height to end_height are still to be read, of
-- those from first_height on.
CREATE TABLE backfills (
    wallet_id BIGINT NOT NULL PRIMARY KEY REFERENCES wallets (id) ON DELETE RESTRICT,
    first_height BIGINT NOT NULL CHECK (first_height >= 0),
    next_height BIGINT NOT NULL CHECK (next_height >= first_height),
    end_height BIGINT NOT NULL CHECK (end_height >= next_height)
){without_rowid};

CREATE INDEX idx_transactions_waiting ON transactions (wallet_id, id)
    WHERE block_height IS NULL AND status IN ('pending', 'published');
CREATE INDEX idx_wallets_unborn ON wallets (birthday_height)
    WHERE scanned_height IS NULL AND NOT follows_tip;
CREATE INDEX idx_wallets_following ON wallets (id) WHERE follows_tip;

CREATE INDEX idx_pruned_txs_settled ON pruned_txs (settled_height);

-- Where each wallet stands.
CREATE VIEW wallet_places AS
SELECT
    w.id AS wallet_id,
    CASE WHEN w.follows_tip THEN r.tip_height ELSE w.scanned_height END AS scanned_height,
    CASE WHEN w.follows_tip THEN r.tip_hash ELSE w.scanned_hash END AS scanned_hash
FROM wallets w CROSS JOIN room r;
-- Unconfirmed transactions by page, live and dead.
CREATE INDEX idx_transactions_in_no_block ON transactions (wallet_id, id)
    WHERE block_height IS NULL;
