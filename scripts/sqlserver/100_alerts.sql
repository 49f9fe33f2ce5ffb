-- Alerts: what is wrong now, what was, and the messages about it on their way to people.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- RuleName: BatchStuck, WebhookFailing, ErrorRate, DeliveryStuck, Test. Subject: the batch, subscription, client or channel.
-- DedupKey: rule and subject; no two alerts that fire share one. Severity: critical, error, warning, info.
-- Status: firing, resolved.
IF OBJECT_ID(N'Alerts', N'U') IS NULL
CREATE TABLE Alerts (
    Id UNIQUEIDENTIFIER NOT NULL CONSTRAINT PK_Alerts PRIMARY KEY CLUSTERED,
    RuleName VARCHAR(50) NOT NULL,
    Subject VARCHAR(100) NOT NULL,
    DedupKey VARCHAR(160) NOT NULL,
    Severity VARCHAR(20) NOT NULL,
    Summary NVARCHAR(1000) NOT NULL,
    DetailsJson NVARCHAR(MAX) NOT NULL,
    Status VARCHAR(20) NOT NULL CONSTRAINT DF_Alerts_Status DEFAULT 'firing',
    FiredAt DATETIME2 NOT NULL CONSTRAINT DF_Alerts_FiredAt DEFAULT SYSUTCDATETIME(),
    ResolvedAt DATETIME2 NULL
);

-- One row for each sink (pagerduty, teams) and event (trigger, resolve). Status: Pending, Sending, Sent, Error.
-- NextAttemptAt: when the row may be taken; NULL: there is nothing to do. PayloadJson is without the sink's key.
IF OBJECT_ID(N'AlertDeliveries', N'U') IS NULL
CREATE TABLE AlertDeliveries (
    Id UNIQUEIDENTIFIER NOT NULL CONSTRAINT PK_AlertDeliveries PRIMARY KEY CLUSTERED,
    AlertId UNIQUEIDENTIFIER NOT NULL
        CONSTRAINT FK_AlertDeliveries_Alerts REFERENCES Alerts (Id) ON DELETE CASCADE,
    Sink VARCHAR(20) NOT NULL,
    EventAction VARCHAR(20) NOT NULL,
    PayloadJson NVARCHAR(MAX) NOT NULL,
    Status VARCHAR(20) NOT NULL CONSTRAINT DF_AlertDeliveries_Status DEFAULT 'Pending',
    AttemptCount INT NOT NULL CONSTRAINT DF_AlertDeliveries_AttemptCount DEFAULT 0,
    CreatedAt DATETIME2 NOT NULL CONSTRAINT DF_AlertDeliveries_CreatedAt DEFAULT SYSUTCDATETIME(),
    LastAttemptAt DATETIME2 NULL,
    SentAt DATETIME2 NULL,
    NextAttemptAt DATETIME2 NULL CONSTRAINT DF_AlertDeliveries_NextAttemptAt DEFAULT SYSUTCDATETIME(),
    LastError NVARCHAR(2000) NULL
);

-- Row 1 is held by whoever evaluates the rules: one process at a time.
IF OBJECT_ID(N'AlertEvaluation', N'U') IS NULL
CREATE TABLE AlertEvaluation (
    Id INT NOT NULL CONSTRAINT PK_AlertEvaluation PRIMARY KEY CLUSTERED,
    EvaluatedAt DATETIME2 NULL
);
GO

IF NOT EXISTS (SELECT 1 FROM AlertEvaluation WHERE Id = 1)
    INSERT INTO AlertEvaluation (Id) VALUES (1);
GO

-- Babelfish shows the beginning of an index's name only, and makes up the rest.
DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF SERVERPROPERTY('Babelfish') = 1
BEGIN
    SET @shown = 31;
    SET @ending = N'%';
END;

IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'Alerts')
               AND name LIKE LEFT(N'IX_Alerts_FiredAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_Alerts_FiredAt
        ON Alerts (FiredAt, Id);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'Alerts')
               AND name LIKE LEFT(N'UQ_Alerts_DedupKey_Firing', @shown) + @ending)
    CREATE UNIQUE NONCLUSTERED INDEX UQ_Alerts_DedupKey_Firing
        ON Alerts (DedupKey) WHERE ResolvedAt IS NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'AlertDeliveries')
               AND name LIKE LEFT(N'IX_AlertDeliveries_AlertId', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_AlertDeliveries_AlertId
        ON AlertDeliveries (AlertId, Sink);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'AlertDeliveries')
               AND name LIKE LEFT(N'IX_AlertDeliveries_CreatedAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_AlertDeliveries_CreatedAt
        ON AlertDeliveries (CreatedAt, Id);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'AlertDeliveries')
               AND name LIKE LEFT(N'IX_AlertDeliveries_NextAttemptAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_AlertDeliveries_NextAttemptAt
        ON AlertDeliveries (NextAttemptAt) WHERE NextAttemptAt IS NOT NULL;
-- The error rate looks at batches that ended lately, however many there are.
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'ImportBatch')
               AND name LIKE LEFT(N'IX_ImportBatch_CompletedAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_ImportBatch_CompletedAt
        ON ImportBatch (CompletedAt) WHERE CompletedAt IS NOT NULL;
GO
