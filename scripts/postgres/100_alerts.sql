-- Alerts: what is wrong now, what was, and the messages about it on their way to people.

-- RuleName: BatchStuck, WebhookFailing, ErrorRate, DeliveryStuck, Test. Subject: the batch, subscription, client or channel.
-- DedupKey: rule and subject; no two alerts that fire share one. Severity: critical, error, warning, info.
-- Status: firing, resolved.
CREATE TABLE IF NOT EXISTS Alerts (
    Id uuid NOT NULL CONSTRAINT PK_Alerts PRIMARY KEY,
    RuleName varchar(50) NOT NULL,
    Subject varchar(100) NOT NULL,
    DedupKey varchar(160) NOT NULL,
    Severity varchar(20) NOT NULL,
    Summary varchar(1000) NOT NULL,
    DetailsJson text NOT NULL,
    Status varchar(20) NOT NULL DEFAULT 'firing',
    FiredAt timestamptz(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    ResolvedAt timestamptz(3) NULL
);
CREATE INDEX IF NOT EXISTS IX_Alerts_FiredAt ON Alerts (FiredAt, Id);
CREATE UNIQUE INDEX IF NOT EXISTS UQ_Alerts_DedupKey_Firing ON Alerts (DedupKey) WHERE ResolvedAt IS NULL;

-- One row for each sink (pagerduty, teams) and event (trigger, resolve). Status: Pending, Sending, Sent, Error.
-- NextAttemptAt: when the row may be taken; NULL: there is nothing to do. PayloadJson is without the sink's key.
CREATE TABLE IF NOT EXISTS AlertDeliveries (
    Id uuid NOT NULL CONSTRAINT PK_AlertDeliveries PRIMARY KEY,
    AlertId uuid NOT NULL
        CONSTRAINT FK_AlertDeliveries_Alerts REFERENCES Alerts (Id) ON DELETE CASCADE,
    Sink varchar(20) NOT NULL,
    EventAction varchar(20) NOT NULL,
    PayloadJson text NOT NULL,
    Status varchar(20) NOT NULL DEFAULT 'Pending',
    AttemptCount int NOT NULL DEFAULT 0,
    CreatedAt timestamptz(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    LastAttemptAt timestamptz(3) NULL,
    SentAt timestamptz(3) NULL,
    NextAttemptAt timestamptz(3) NULL DEFAULT CURRENT_TIMESTAMP,
    LastError varchar(2000) NULL
);
CREATE INDEX IF NOT EXISTS IX_AlertDeliveries_AlertId ON AlertDeliveries (AlertId, Sink);
CREATE INDEX IF NOT EXISTS IX_AlertDeliveries_CreatedAt ON AlertDeliveries (CreatedAt, Id);
CREATE INDEX IF NOT EXISTS IX_AlertDeliveries_NextAttemptAt
    ON AlertDeliveries (NextAttemptAt) WHERE NextAttemptAt IS NOT NULL;

-- Row 1 is held by whoever evaluates the rules: one process at a time.
CREATE TABLE IF NOT EXISTS AlertEvaluation (
    Id int NOT NULL CONSTRAINT PK_AlertEvaluation PRIMARY KEY,
    EvaluatedAt timestamptz(3) NULL
);
INSERT INTO AlertEvaluation (Id) VALUES (1) ON CONFLICT (Id) DO NOTHING;

-- The error rate looks at batches that ended lately, however many there are.
CREATE INDEX IF NOT EXISTS IX_ImportBatch_CompletedAt ON ImportBatch (CompletedAt) WHERE CompletedAt IS NOT NULL;
