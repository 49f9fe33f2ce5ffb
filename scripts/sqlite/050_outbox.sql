-- The server's own outbox of events, in the form that the relay reads from other applications too.

-- status: PENDING, PROCESSED, FAILED. client_id, idempotency_key and request_checksum: who posted the event, under
-- which Idempotency-Key, with what content.
CREATE TABLE IF NOT EXISTS outbox_events (
    id TEXT NOT NULL CONSTRAINT PK_outbox_events PRIMARY KEY CHECK (length(id) = 36),
    event_type NVARCHAR(200) NOT NULL CHECK (length(event_type) <= 200),
    payload TEXT NOT NULL,
    status VARCHAR(20) NOT NULL DEFAULT 'PENDING' CHECK (length(status) <= 20),
    attempts INT NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    aggregate_type NVARCHAR(200) NULL CHECK (length(aggregate_type) <= 200),
    aggregate_id NVARCHAR(200) NULL CHECK (length(aggregate_id) <= 200),
    next_attempt_at TEXT NULL,
    processed_at TEXT NULL,
    last_error NVARCHAR(2000) NULL CHECK (length(last_error) <= 2000),
    correlation_id VARCHAR(128) NULL CHECK (length(correlation_id) <= 128),
    trace_id VARCHAR(32) NULL CHECK (length(trace_id) <= 32),
    span_id VARCHAR(16) NULL CHECK (length(span_id) <= 16),
    client_id TEXT NULL CHECK (length(client_id) = 36),
    idempotency_key VARCHAR(200) NULL CHECK (length(idempotency_key) <= 200),
    request_checksum CHAR(64) NULL CHECK (length(request_checksum) = 64)
);
-- Only what waits is indexed: the cost of a claim does not grow with what was processed.
CREATE INDEX IF NOT EXISTS IX_outbox_events_pending
    ON outbox_events (created_at, id) WHERE status = 'PENDING';
CREATE INDEX IF NOT EXISTS IX_outbox_events_pending_aggregate
    ON outbox_events (aggregate_type, aggregate_id, created_at) WHERE status = 'PENDING';
CREATE UNIQUE INDEX IF NOT EXISTS UQ_outbox_events_client_id_idempotency_key
    ON outbox_events (client_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
