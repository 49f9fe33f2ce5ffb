-- Batches that became ready, on their way to the broker that tells workers (imports.queue), in the form that the relay
-- reads. A row is a hint: what is lost, repeated or late changes nothing. aggregate_id is the batch; reason says what made
-- it ready.
CREATE TABLE IF NOT EXISTS batch_ready_outbox (
    id INTEGER NOT NULL CONSTRAINT PK_batch_ready_outbox PRIMARY KEY AUTOINCREMENT,
    event_type VARCHAR(20) NOT NULL DEFAULT 'BatchReady' CHECK (length(event_type) <= 20),
    aggregate_id VARCHAR(36) NOT NULL CHECK (length(aggregate_id) <= 36),
    reason VARCHAR(20) NOT NULL CHECK (length(reason) <= 20),
    status VARCHAR(20) NOT NULL DEFAULT 'PENDING' CHECK (length(status) <= 20),
    attempts INT NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    next_attempt_at TEXT NULL,
    processed_at TEXT NULL,
    last_error NVARCHAR(2000) NULL CHECK (length(last_error) <= 2000)
);
CREATE INDEX IF NOT EXISTS IX_batch_ready_outbox_pending
    ON batch_ready_outbox (created_at, id) WHERE status = 'PENDING';
CREATE INDEX IF NOT EXISTS IX_batch_ready_outbox_created_at ON batch_ready_outbox (created_at);
