-- The server's own outbox of events, in the form that the relay reads from other applications too.

-- status: PENDING, PROCESSED, FAILED. client_id, idempotency_key and request_checksum: who posted the event, under
-- which Idempotency-Key, with what content.
CREATE TABLE IF NOT EXISTS outbox_events (
    id uuid NOT NULL CONSTRAINT PK_outbox_events PRIMARY KEY,
    event_type varchar(200) NOT NULL,
    payload text NOT NULL,
    status varchar(20) NOT NULL DEFAULT 'PENDING',
    attempts int NOT NULL DEFAULT 0,
    created_at timestamptz(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    aggregate_type varchar(200) NULL,
    aggregate_id varchar(200) NULL,
    next_attempt_at timestamptz(3) NULL,
    processed_at timestamptz(3) NULL,
    last_error varchar(2000) NULL,
    correlation_id varchar(128) NULL,
    trace_id varchar(32) NULL,
    span_id varchar(16) NULL,
    client_id uuid NULL,
    idempotency_key varchar(200) NULL,
    request_checksum char(64) NULL CHECK (length(request_checksum) = 64)
);
-- Only what waits is indexed: the cost of a claim does not grow with what was processed.
CREATE INDEX IF NOT EXISTS IX_outbox_events_pending
    ON outbox_events (created_at, id) WHERE status = 'PENDING';
CREATE INDEX IF NOT EXISTS IX_outbox_events_pending_aggregate
    ON outbox_events (aggregate_type, aggregate_id, created_at) WHERE status = 'PENDING';
CREATE UNIQUE INDEX IF NOT EXISTS UQ_outbox_events_client_id_idempotency_key
    ON outbox_events (client_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
