-- What happened to blocks, in order: the outbox from which a daemon writes events. Whoever adds a
-- line holds the tip's row, so numbers have no gaps and appear in their order.
CREATE TABLE changes (
    number BIGINT NOT NULL PRIMARY KEY,
    is_undone BOOLEAN NOT NULL,
    blocks BIGINT NOT NULL,
    height BIGINT NOT NULL,
    hash {bytes} NOT NULL CHECK (length(hash) = 32),
    created BIGINT NOT NULL,
    mined BIGINT NOT NULL,
    unmined BIGINT NOT NULL,
    spent BIGINT NOT NULL,
    absent BIGINT NOT NULL,
    losers BIGINT NOT NULL
);
