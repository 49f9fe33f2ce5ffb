-- Alerts: what is wrong now, what was, and the messages about it on their way to people.

-- RuleName: BatchStuck, WebhookFailing, ErrorRate, DeliveryStuck, Test. Subject: the batch, subscription, client or channel.
-- DedupKey: rule and subject; no two alerts that fire share one. Severity: critical, error, warning, info.
-- Status: firing, resolved.
CREATE TABLE IF NOT EXISTS Alerts (
    Id TEXT NOT NULL CONSTRAINT PK_Alerts PRIMARY KEY CHECK (length(Id) = 36),
    RuleName VARCHAR(50) NOT NULL CHECK (length(RuleName) <= 50),
    Subject VARCHAR(100) NOT NULL CHECK (length(Subject) <= 100),
    DedupKey VARCHAR(160) NOT NULL CHECK (length(DedupKey) <= 160),
    Severity VARCHAR(20) NOT NULL CHECK (length(Severity) <= 20),
    Summary NVARCHAR(1000) NOT NULL CHECK (length(Summary) <= 1000),
    DetailsJson TEXT NOT NULL,
    Status VARCHAR(20) NOT NULL DEFAULT 'firing' CHECK (length(Status) <= 20),
    FiredAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    ResolvedAt TEXT NULL
);
CREATE INDEX IF NOT EXISTS IX_Alerts_FiredAt ON Alerts (FiredAt, Id);
CREATE UNIQUE INDEX IF NOT EXISTS UQ_Alerts_DedupKey_Firing ON Alerts (DedupKey) WHERE ResolvedAt IS NULL;

-- One row for each sink (pagerduty, teams) and event (trigger, resolve). Status: Pending, Sending, Sent, Error.
-- NextAttemptAt: when the row may be taken; NULL: there is nothing to do. PayloadJson is without the sink's key.
CREATE TABLE IF NOT EXISTS AlertDeliveries (
    Id TEXT NOT NULL CONSTRAINT PK_AlertDeliveries PRIMARY KEY CHECK (length(Id) = 36),
    AlertId TEXT NOT NULL CHECK (length(AlertId) = 36)
        CONSTRAINT FK_AlertDeliveries_Alerts REFERENCES Alerts (Id) ON DELETE CASCADE,
    Sink VARCHAR(20) NOT NULL CHECK (length(Sink) <= 20),
    EventAction VARCHAR(20) NOT NULL CHECK (length(EventAction) <= 20),
    PayloadJson TEXT NOT NULL,
    Status VARCHAR(20) NOT NULL DEFAULT 'Pending' CHECK (length(Status) <= 20),
    AttemptCount INT NOT NULL DEFAULT 0,
    CreatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    LastAttemptAt TEXT NULL,
    SentAt TEXT NULL,
    NextAttemptAt TEXT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    LastError NVARCHAR(2000) NULL CHECK (length(LastError) <= 2000)
);
CREATE INDEX IF NOT EXISTS IX_AlertDeliveries_AlertId ON AlertDeliveries (AlertId, Sink);
CREATE INDEX IF NOT EXISTS IX_AlertDeliveries_CreatedAt ON AlertDeliveries (CreatedAt, Id);
CREATE INDEX IF NOT EXISTS IX_AlertDeliveries_NextAttemptAt
    ON AlertDeliveries (NextAttemptAt) WHERE NextAttemptAt IS NOT NULL;

-- Row 1 is held by whoever evaluates the rules: one process at a time.
CREATE TABLE IF NOT EXISTS AlertEvaluation (
    Id INT NOT NULL CONSTRAINT PK_AlertEvaluation PRIMARY KEY,
    EvaluatedAt TEXT NULL
);
INSERT INTO AlertEvaluation (Id) VALUES (1) ON CONFLICT (Id) DO NOTHING;

-- The error rate looks at batches that ended lately, however many there are.
CREATE INDEX IF NOT EXISTS IX_ImportBatch_CompletedAt ON ImportBatch (CompletedAt) WHERE CompletedAt IS NOT NULL;
