-- Calls to integrations that were kept for later because the other side was not there.

-- Status: Pending, Sending, Sent, Error. NextAttemptAt: when the row may be taken; NULL: there is nothing to do. Path is what
-- stands behind base_url, with the query; HeadersJson the caller's headers that are passed on, [["Name","value"],…].
-- IdempotencyKey: the caller's; without one the row is sent as integrations:<Id>.
CREATE TABLE IF NOT EXISTS IntegrationCalls (
    Id TEXT NOT NULL CONSTRAINT PK_IntegrationCalls PRIMARY KEY CHECK (length(Id) = 36),
    ClientId TEXT NOT NULL CHECK (length(ClientId) = 36),
    IntegrationName VARCHAR(64) NOT NULL CHECK (length(IntegrationName) <= 64),
    Method VARCHAR(16) NOT NULL CHECK (length(Method) <= 16),
    Path VARCHAR(2048) NOT NULL CHECK (length(Path) <= 2048),
    HeadersJson TEXT NOT NULL,
    Body BLOB NULL,
    CorrelationId VARCHAR(128) NULL CHECK (length(CorrelationId) <= 128),
    TraceId VARCHAR(32) NULL CHECK (length(TraceId) <= 32),
    IdempotencyKey NVARCHAR(255) NULL CHECK (length(IdempotencyKey) <= 255),
    Status VARCHAR(20) NOT NULL DEFAULT 'Pending' CHECK (length(Status) <= 20),
    AttemptCount INT NOT NULL DEFAULT 0,
    CreatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    LastAttemptAt TEXT NULL,
    SentAt TEXT NULL,
    NextAttemptAt TEXT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    LastError NVARCHAR(2000) NULL CHECK (length(LastError) <= 2000)
);
CREATE INDEX IF NOT EXISTS IX_IntegrationCalls_CreatedAt ON IntegrationCalls (CreatedAt, Id);
CREATE INDEX IF NOT EXISTS IX_IntegrationCalls_Status_CreatedAt ON IntegrationCalls (Status, CreatedAt);
CREATE INDEX IF NOT EXISTS IX_IntegrationCalls_NextAttemptAt
    ON IntegrationCalls (NextAttemptAt) WHERE NextAttemptAt IS NOT NULL;
