-- One row: what the key is made from, the sealed seed, and the number of the journal's last line.
CREATE TABLE store (
    one BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    salt {bytes} NOT NULL,
    sealed_seed {bytes} NOT NULL,
    journal_number BIGINT NOT NULL
);

CREATE TABLE accounts (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('CASHU', 'SPARK')),
    name TEXT NOT NULL,
    mint_url TEXT,
    unit TEXT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX idx_accounts_mint ON accounts (mint_url, unit) WHERE mint_url IS NOT NULL;

-- A keyset belongs to one account: outputs derive from the seed, the keyset and the counter alone,
-- so that two counters for one keyset would make the same outputs twice.
CREATE TABLE keysets (
    keyset_id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL,
    is_active BOOLEAN NOT NULL,
    fee_ppk BIGINT NOT NULL,
    counter BIGINT NOT NULL
);
CREATE INDEX idx_keysets_account ON keysets (account_id, keyset_id);

CREATE TABLE proofs (
    account_id TEXT NOT NULL,
    y {bytes} NOT NULL CHECK (length(y) = 33),
    keyset_id TEXT NOT NULL,
    amount BIGINT NOT NULL CHECK (amount > 0),
    state TEXT NOT NULL CHECK (state IN ('UNSPENT', 'RESERVED', 'SPENT')),
    version BIGINT NOT NULL,
    -- Secret, signature and DLEQ.
    sealed {bytes} NOT NULL,
    added_by TEXT NOT NULL,
    -- Who reserved it last; kept after a release.
    held_by TEXT,
    added_at BIGINT NOT NULL,
    reserved_at BIGINT,
    spent_at BIGINT,
    PRIMARY KEY (account_id, y)
);
CREATE INDEX idx_proofs_amount ON proofs (account_id, state, amount, y);
CREATE INDEX idx_proofs_held ON proofs (held_by, state) WHERE held_by IS NOT NULL;
CREATE INDEX idx_proofs_added ON proofs (added_by);

CREATE TABLE entities (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    variant TEXT NOT NULL,
    state TEXT NOT NULL,
    version BIGINT NOT NULL,
    account_id TEXT NOT NULL,
    transaction_id TEXT NOT NULL,
    -- What may be used once (a quote, a token, a payment), as a keyed hash.
    claim TEXT NOT NULL,
    idempotency_key TEXT,
    is_open BOOLEAN NOT NULL,
    melt_initiated BOOLEAN NOT NULL,
    alarm BOOLEAN NOT NULL,
    -- The send swap whose token it takes back.
    reverses TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    expires_at BIGINT,
    -- Ranges of counters, so that an audit needs no key.
    outputs TEXT NOT NULL,
    -- Quotes, invoices, preimages, amounts, outputs.
    sealed_details {bytes} NOT NULL,
    -- Proofs of a token in flight.
    sealed {bytes}
);
CREATE UNIQUE INDEX idx_entities_key ON entities (idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE UNIQUE INDEX idx_entities_claim ON entities (kind, account_id, claim)
    WHERE state <> 'FAILED';
CREATE INDEX idx_entities_claims ON entities (kind, account_id, claim);
CREATE INDEX idx_entities_open ON entities (id) WHERE is_open;
CREATE INDEX idx_entities_reverses ON entities (reverses) WHERE reverses IS NOT NULL;
CREATE INDEX idx_entities_kind ON entities (kind, created_at, id);

CREATE TABLE transactions (
    id TEXT NOT NULL PRIMARY KEY,
    entity_id TEXT NOT NULL,
    account_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    direction TEXT NOT NULL,
    state TEXT NOT NULL,
    version BIGINT NOT NULL,
    amount BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    pending_at BIGINT,
    completed_at BIGINT,
    failed_at BIGINT,
    reversed_at BIGINT
);
CREATE INDEX idx_transactions_time ON transactions (created_at, id);

-- Every real change, in the order of commits: whoever adds a line holds the store's row.
CREATE TABLE journal (
    number BIGINT NOT NULL PRIMARY KEY,
    entity_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    event TEXT NOT NULL,
    from_state TEXT,
    to_state TEXT NOT NULL,
    version BIGINT NOT NULL,
    account_id TEXT NOT NULL,
    transaction_state TEXT NOT NULL,
    at BIGINT NOT NULL,
    note TEXT
);
CREATE INDEX idx_journal_entity ON journal (entity_id, number);

-- Who works, and until when nobody else may.
CREATE TABLE lease (
    one BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    holder TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);
