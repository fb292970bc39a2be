-- Everything is keyed by txid, without surrogate ids, foreign keys or triggers: on Citus
-- `transactions`, `parts`, `due` and `awaited` are distributed by `txid`, the rest stays local.

CREATE TABLE store (
    one BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    network TEXT NOT NULL,
    tip_height BIGINT,
    tip_hash {bytes} CHECK (length(tip_hash) = 32),
    -- No block at or below it can be undone.
    horizon BIGINT NOT NULL DEFAULT 0,
    absent_inputs BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE tallies (
    name TEXT NOT NULL PRIMARY KEY,
    total BIGINT NOT NULL
);

-- The blocks that can still be undone, each with its transactions.
CREATE TABLE blocks (
    height BIGINT NOT NULL PRIMARY KEY,
    hash {bytes} NOT NULL CHECK (length(hash) = 32),
    txids {bytes} NOT NULL
);

-- What a statement looks for has a column; the rest of a record is packed into `state`.
CREATE TABLE transactions (
    txid {bytes} NOT NULL PRIMARY KEY CHECK (length(txid) = 32),
    version BIGINT NOT NULL,
    mined_height BIGINT,
    unmined_since BIGINT,
    due_at BIGINT,
    is_conflicting BOOLEAN NOT NULL,
    state {bytes} NOT NULL,
    body {bytes}
){fillfactor_80};
CREATE INDEX idx_transactions_unmined ON transactions (unmined_since, txid)
    WHERE unmined_since IS NOT NULL;

-- What doesn't fit into the row: part 0 is a long body, part n the n-th further page of slots.
CREATE TABLE parts (
    txid {bytes} NOT NULL,
    part BIGINT NOT NULL,
    bytes {bytes} NOT NULL,
    PRIMARY KEY (txid, part)
);

-- When to look at a record again: `due_at` of its row says under which height it stands here.
CREATE TABLE due (
    height BIGINT NOT NULL,
    txid {bytes} NOT NULL,
    PRIMARY KEY (height, txid)
){without_rowid};

-- Parents that wait for a child (`txid`) to be mined, out of the queue until then.
CREATE TABLE awaited (
    txid {bytes} NOT NULL,
    parent {bytes} NOT NULL,
    is_known BOOLEAN NOT NULL,
    PRIMARY KEY (txid, parent)
){without_rowid};
