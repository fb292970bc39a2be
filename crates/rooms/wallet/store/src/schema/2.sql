CREATE TABLE pruned_txs (
    wallet_id BIGINT NOT NULL REFERENCES wallets (id) ON DELETE RESTRICT,
    tx_hash {bytes} NOT NULL CHECK (length(tx_hash) = 32),
    settled_height BIGINT NOT NULL CHECK (settled_height >= 0),
    CONSTRAINT pidx_pruned_txs PRIMARY KEY (wallet_id, tx_hash)
){without_rowid};

CREATE INDEX idx_pruned_txs_by_height ON pruned_txs (wallet_id, settled_height);
