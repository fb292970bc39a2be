ALTER TABLE requests RENAME TO requests_of_anybody;

CREATE TABLE requests (
    -- Empty where an older version wrote the row: it didn't note who asked.
    caller TEXT NOT NULL,
    request_key TEXT NOT NULL,
    digest {bytes} NOT NULL CHECK (length(digest) = 32),
    run BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    http_status BIGINT,
    body {bytes},
    PRIMARY KEY (caller, request_key),
    CONSTRAINT check_answer_pair CHECK (
        (http_status IS NULL AND body IS NULL) OR
        (http_status IS NOT NULL AND body IS NOT NULL)
    )
);

INSERT INTO requests (caller, request_key, digest, run, created_at, http_status, body)
    SELECT '', request_key, digest, run, created_at, http_status, body FROM requests_of_anybody;

DROP TABLE requests_of_anybody;

CREATE INDEX idx_requests_created_at ON requests (created_at);

CREATE INDEX idx_requests_caller ON requests (caller, created_at);

-- How many rows each caller has: counting them would read them all.
CREATE TABLE request_callers (
    caller TEXT NOT NULL PRIMARY KEY,
    kept BIGINT NOT NULL CHECK (kept >= 0)
);

ALTER TABLE counter DROP COLUMN last_request;
