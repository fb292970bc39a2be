CREATE TABLE room (
    one BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    network TEXT NOT NULL,
    next_wallet_id BIGINT NOT NULL
);

CREATE TABLE blocks (
    block_height BIGINT NOT NULL PRIMARY KEY CHECK (block_height >= 0),
    header_hash {bytes} NOT NULL CHECK (length(header_hash) = 32),
    block_time BIGINT NOT NULL
);

CREATE TABLE wallets (
    id BIGINT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    created_at BIGINT NOT NULL,
    birthday_height BIGINT NOT NULL CHECK (birthday_height >= 0),
    scanned_height BIGINT,
    scanned_hash {bytes} CHECK (scanned_hash IS NULL OR length(scanned_hash) = 32),
    gap_limit BIGINT NOT NULL CHECK (gap_limit BETWEEN 1 AND 10000),
    next_id BIGINT NOT NULL,
    next_line BIGINT NOT NULL,
    confirmed_amount BIGINT NOT NULL CHECK (confirmed_amount >= 0),
    confirmed_coins BIGINT NOT NULL CHECK (confirmed_coins >= 0),
    CONSTRAINT uidx_wallets_name UNIQUE (name),
    CONSTRAINT check_scanned_pair CHECK (
        (scanned_height IS NULL AND scanned_hash IS NULL) OR
        (scanned_height IS NOT NULL AND scanned_hash IS NOT NULL)
    )
);

CREATE INDEX idx_wallets_scanned ON wallets (scanned_height, scanned_hash);

CREATE TABLE accounts (
    wallet_id BIGINT NOT NULL REFERENCES wallets (id) ON DELETE RESTRICT,
    id BIGINT NOT NULL,
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    CONSTRAINT pidx_accounts PRIMARY KEY (wallet_id, id),
    CONSTRAINT uidx_accounts_name UNIQUE (wallet_id, name)
){without_rowid};

CREATE TABLE keychains (
    wallet_id BIGINT NOT NULL,
    id BIGINT NOT NULL,
    account_id BIGINT NOT NULL,
    purpose TEXT NOT NULL,
    descriptor TEXT NOT NULL,
    input_weight BIGINT NOT NULL CHECK (input_weight > 0),
    next_index BIGINT NOT NULL CHECK (next_index >= 0),
    last_used BIGINT,
    derived_to BIGINT NOT NULL CHECK (derived_to >= 0),
    CONSTRAINT pidx_keychains PRIMARY KEY (wallet_id, id),
    CONSTRAINT fkey_keychains_account FOREIGN KEY (wallet_id, account_id)
        REFERENCES accounts (wallet_id, id) ON DELETE RESTRICT,
    CONSTRAINT uidx_keychains_descriptor UNIQUE (wallet_id, descriptor),
    CONSTRAINT valid_purpose CHECK (purpose IN ('receive', 'change', 'imported'))
){without_rowid};

CREATE TABLE addresses (
    wallet_id BIGINT NOT NULL,
    id BIGINT NOT NULL,
    keychain_id BIGINT NOT NULL,
    address_index BIGINT NOT NULL CHECK (address_index >= 0),
    script_hash {bytes} NOT NULL CHECK (length(script_hash) = 32),
    is_used BOOLEAN NOT NULL,
    script_pub_key {bytes} NOT NULL,
    CONSTRAINT pidx_addresses PRIMARY KEY (wallet_id, id),
    CONSTRAINT fkey_addresses_keychain FOREIGN KEY (wallet_id, keychain_id)
        REFERENCES keychains (wallet_id, id) ON DELETE RESTRICT,
    CONSTRAINT uidx_addresses_index UNIQUE (wallet_id, keychain_id, address_index)
){without_rowid};

CREATE UNIQUE INDEX uidx_addresses_script ON addresses (script_hash, wallet_id);

CREATE TABLE transactions (
    wallet_id BIGINT NOT NULL REFERENCES wallets (id) ON DELETE RESTRICT,
    id BIGINT NOT NULL,
    tx_hash {bytes} NOT NULL CHECK (length(tx_hash) = 32),
    block_height BIGINT REFERENCES blocks (block_height) ON DELETE RESTRICT,
    block_position BIGINT,
    status TEXT NOT NULL,
    is_coinbase BOOLEAN NOT NULL,
    ever_published BOOLEAN NOT NULL,
    withdrawn BOOLEAN NOT NULL,
    is_own BOOLEAN NOT NULL,
    fee BIGINT CHECK (fee IS NULL OR fee >= 0),
    output_total BIGINT NOT NULL CHECK (output_total >= 0),
    received_time BIGINT NOT NULL,
    evicted_at BIGINT,
    raw_tx {bytes} NOT NULL,
    CONSTRAINT pidx_transactions PRIMARY KEY (wallet_id, id),
    CONSTRAINT valid_status CHECK (
        status IN ('pending', 'published', 'replaced', 'failed', 'orphaned')
    ),
    CONSTRAINT check_block_pair CHECK (
        (block_height IS NULL AND block_position IS NULL) OR
        (block_height IS NOT NULL AND block_position IS NOT NULL)
    ),
    CONSTRAINT check_confirmed_published CHECK (block_height IS NULL OR status = 'published'),
    CONSTRAINT check_coinbase_not_pending CHECK (NOT (is_coinbase AND status = 'pending')),
    CONSTRAINT check_orphaned_is_coinbase CHECK (is_coinbase OR status <> 'orphaned'),
    CONSTRAINT check_coinbase_confirmation_state CHECK (
        NOT is_coinbase OR
        (block_height IS NOT NULL AND status = 'published') OR
        (block_height IS NULL AND status = 'orphaned')
    )
);

CREATE UNIQUE INDEX uidx_transactions_hash ON transactions (tx_hash, wallet_id);

CREATE INDEX idx_transactions_unconfirmed ON transactions (wallet_id, status, id)
    WHERE block_height IS NULL;

CREATE INDEX idx_transactions_by_block ON transactions (wallet_id, block_height, block_position)
    WHERE block_height IS NOT NULL;

CREATE INDEX idx_transactions_by_height ON transactions (block_height)
    WHERE block_height IS NOT NULL;

CREATE INDEX idx_transactions_coinbase ON transactions (wallet_id, block_height, id)
    WHERE is_coinbase;

CREATE INDEX idx_transactions_by_received_time
    ON transactions (wallet_id, received_time DESC, id DESC);

CREATE TABLE tx_inputs (
    wallet_id BIGINT NOT NULL,
    tx_id BIGINT NOT NULL,
    input_index BIGINT NOT NULL CHECK (input_index >= 0),
    prev_tx_hash {bytes} NOT NULL CHECK (length(prev_tx_hash) = 32),
    prev_output_index BIGINT NOT NULL CHECK (prev_output_index BETWEEN 0 AND 4294967295),
    CONSTRAINT pidx_tx_inputs PRIMARY KEY (wallet_id, tx_id, input_index),
    CONSTRAINT fkey_tx_inputs_tx FOREIGN KEY (wallet_id, tx_id)
        REFERENCES transactions (wallet_id, id) ON DELETE RESTRICT
){without_rowid};

CREATE INDEX idx_tx_inputs_prevout ON tx_inputs (prev_tx_hash, prev_output_index, wallet_id, tx_id);

CREATE TABLE utxos (
    wallet_id BIGINT NOT NULL,
    id BIGINT NOT NULL,
    tx_id BIGINT NOT NULL,
    output_index BIGINT NOT NULL CHECK (output_index BETWEEN 0 AND 4294967295),
    amount BIGINT NOT NULL CHECK (amount BETWEEN 0 AND 2100000000000000),
    address_id BIGINT NOT NULL,
    spent_by_tx_id BIGINT,
    spent_input_index BIGINT CHECK (spent_input_index IS NULL OR spent_input_index >= 0),
    CONSTRAINT pidx_utxos PRIMARY KEY (wallet_id, id),
    CONSTRAINT fkey_utxos_tx FOREIGN KEY (wallet_id, tx_id)
        REFERENCES transactions (wallet_id, id) ON DELETE RESTRICT,
    CONSTRAINT fkey_utxos_spent_by FOREIGN KEY (wallet_id, spent_by_tx_id)
        REFERENCES transactions (wallet_id, id) ON DELETE RESTRICT,
    CONSTRAINT fkey_utxos_address FOREIGN KEY (wallet_id, address_id)
        REFERENCES addresses (wallet_id, id) ON DELETE RESTRICT,
    CONSTRAINT check_spent_tx_and_index_pair CHECK (
        (spent_by_tx_id IS NULL AND spent_input_index IS NULL) OR
        (spent_by_tx_id IS NOT NULL AND spent_input_index IS NOT NULL)
    ),
    CONSTRAINT uidx_utxos_outpoint UNIQUE (wallet_id, tx_id, output_index)
){without_rowid};

CREATE INDEX idx_utxos_unspent ON utxos (wallet_id, amount, id, tx_id, address_id)
    WHERE spent_by_tx_id IS NULL;

CREATE INDEX idx_utxos_by_address ON utxos (wallet_id, address_id, id);

CREATE INDEX idx_utxos_spent_by ON utxos (wallet_id, spent_by_tx_id)
    WHERE spent_by_tx_id IS NOT NULL;

CREATE TABLE tx_replacements (
    wallet_id BIGINT NOT NULL,
    replaced_tx_id BIGINT NOT NULL,
    replacement_tx_id BIGINT NOT NULL,
    cause TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT uidx_tx_replacements_edge
        PRIMARY KEY (wallet_id, replaced_tx_id, replacement_tx_id),
    CONSTRAINT fkey_tx_replacements_replaced FOREIGN KEY (wallet_id, replaced_tx_id)
        REFERENCES transactions (wallet_id, id) ON DELETE RESTRICT,
    CONSTRAINT fkey_tx_replacements_replacement FOREIGN KEY (wallet_id, replacement_tx_id)
        REFERENCES transactions (wallet_id, id) ON DELETE RESTRICT,
    CONSTRAINT check_not_self_replacement CHECK (replaced_tx_id <> replacement_tx_id),
    CONSTRAINT valid_edge_cause CHECK (cause IN ('replaced', 'double_spent', 'undecided'))
){without_rowid};

CREATE INDEX idx_tx_replacements_winner ON tx_replacements (wallet_id, replacement_tx_id);

CREATE TABLE utxo_leases (
    wallet_id BIGINT NOT NULL,
    utxo_id BIGINT NOT NULL,
    external_lock_id {bytes} NOT NULL CHECK (length(external_lock_id) = 32),
    expires_at BIGINT NOT NULL,
    leased_at BIGINT NOT NULL,
    hold_confirmations BIGINT CHECK (hold_confirmations IS NULL OR hold_confirmations > 0),
    CONSTRAINT pidx_utxo_leases PRIMARY KEY (wallet_id, utxo_id),
    CONSTRAINT fkey_utxo_leases_utxo FOREIGN KEY (wallet_id, utxo_id)
        REFERENCES utxos (wallet_id, id) ON DELETE RESTRICT
){without_rowid};

CREATE INDEX idx_utxo_leases_expires_at ON utxo_leases (expires_at);

CREATE TABLE labels (
    wallet_id BIGINT NOT NULL REFERENCES wallets (id) ON DELETE RESTRICT,
    kind TEXT NOT NULL,
    ref TEXT NOT NULL CHECK (length(ref) BETWEEN 1 AND 1000),
    label TEXT NOT NULL CHECK (length(label) BETWEEN 1 AND 500),
    CONSTRAINT pidx_labels PRIMARY KEY (wallet_id, kind, ref),
    CONSTRAINT valid_label_kind CHECK (
        kind IN ('tx', 'addr', 'pubkey', 'input', 'output', 'xpub')
    )
){without_rowid};

CREATE TABLE journal (
    wallet_id BIGINT NOT NULL REFERENCES wallets (id) ON DELETE RESTRICT,
    id BIGINT NOT NULL,
    at BIGINT NOT NULL,
    cause TEXT NOT NULL,
    tx_hash {bytes} NOT NULL CHECK (length(tx_hash) = 32),
    output_tx_hash {bytes},
    output_index BIGINT,
    from_status TEXT,
    to_status TEXT,
    other_tx_hash {bytes},
    block_height BIGINT,
    lock_id {bytes},
    CONSTRAINT pidx_journal PRIMARY KEY (wallet_id, id),
    CONSTRAINT valid_cause CHECK (cause IN (
        'created', 'relayed', 'mempool', 'broadcast', 'confirmed', 'disconnected', 'replaced',
        'double_spent', 'parent_invalid', 'revived', 'child_confirmed', 'withdrawn', 'evicted',
        'forced_spend', 'pruned', 'pruned_edge'
    ))
){without_rowid};

CREATE INDEX idx_journal_by_tx ON journal (wallet_id, tx_hash, id);

CREATE VIEW spendable_utxos AS
SELECT
    u.wallet_id, u.id, u.tx_id, u.output_index, u.amount, u.address_id,
    t.block_height, t.is_coinbase, t.status AS tx_status
FROM utxos u
JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
WHERE u.spent_by_tx_id IS NULL AND t.status IN ('published', 'pending');
