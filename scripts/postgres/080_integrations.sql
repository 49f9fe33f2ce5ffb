-- Calls to integrations that were kept for later because the other side was not there.

-- Status: Pending, Sending, Sent, Error. NextAttemptAt: when the row may be taken; NULL: there is nothing to do. Path is what
-- stands behind base_url, with the query; HeadersJson the caller's headers that are passed on, [["Name","value"],…].
-- IdempotencyKey: the caller's; without one the row is sent as integrations:<Id>.
CREATE TABLE IF NOT EXISTS IntegrationCalls (
    Id uuid NOT NULL CONSTRAINT PK_IntegrationCalls PRIMARY KEY,
    ClientId uuid NOT NULL,
    IntegrationName varchar(64) NOT NULL,
    Method varchar(16) NOT NULL,
    Path varchar(2048) NOT NULL,
    HeadersJson text NOT NULL,
    Body bytea NULL,
    CorrelationId varchar(128) NULL,
    TraceId varchar(32) NULL,
    IdempotencyKey varchar(255) NULL,
    Status varchar(20) NOT NULL DEFAULT 'Pending',
    AttemptCount int NOT NULL DEFAULT 0,
    CreatedAt timestamptz(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    LastAttemptAt timestamptz(3) NULL,
    SentAt timestamptz(3) NULL,
    NextAttemptAt timestamptz(3) NULL DEFAULT CURRENT_TIMESTAMP,
    LastError varchar(2000) NULL
);
CREATE INDEX IF NOT EXISTS IX_IntegrationCalls_CreatedAt ON IntegrationCalls (CreatedAt, Id);
CREATE INDEX IF NOT EXISTS IX_IntegrationCalls_Status_CreatedAt ON IntegrationCalls (Status, CreatedAt);
CREATE INDEX IF NOT EXISTS IX_IntegrationCalls_NextAttemptAt
    ON IntegrationCalls (NextAttemptAt) WHERE NextAttemptAt IS NOT NULL;
