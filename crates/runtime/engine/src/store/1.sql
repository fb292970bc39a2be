CREATE TABLE counter (
    one BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    last_event BIGINT NOT NULL CHECK (last_event >= 0),
    last_request BIGINT NOT NULL CHECK (last_request >= 0)
);

INSERT INTO counter (one, last_event, last_request) VALUES (1, 0, 0);

CREATE TABLE events (
    id BIGINT NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    room TEXT NOT NULL,
    kind TEXT NOT NULL,
    wallet TEXT,
    subject TEXT,
    body TEXT NOT NULL
);

CREATE TABLE told_points (
    height BIGINT NOT NULL PRIMARY KEY,
    slot BIGINT NOT NULL,
    hash {bytes} NOT NULL CHECK (length(hash) = 32)
);

CREATE TABLE told_wallets (
    wallet_id BIGINT NOT NULL PRIMARY KEY,
    line BIGINT NOT NULL
);

CREATE TABLE requests (
    request_key TEXT NOT NULL PRIMARY KEY,
    seq BIGINT NOT NULL,
    digest {bytes} NOT NULL CHECK (length(digest) = 32),
    run BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    http_status BIGINT,
    body {bytes},
    CONSTRAINT check_answer_pair CHECK (
        (http_status IS NULL AND body IS NULL) OR
        (http_status IS NOT NULL AND body IS NOT NULL)
    )
);

CREATE UNIQUE INDEX uidx_requests_seq ON requests (seq);

CREATE INDEX idx_requests_created_at ON requests (created_at);
