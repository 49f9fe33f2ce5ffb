-- Calls to integrations that were kept for later because the other side was not there.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- Status: Pending, Sending, Sent, Error. NextAttemptAt: when the row may be taken; NULL: there is nothing to do. Path is what
-- stands behind base_url, with the query; HeadersJson the caller's headers that are passed on, [["Name","value"],…].
-- IdempotencyKey: the caller's; without one the row is sent as integrations:<Id>.
IF OBJECT_ID(N'IntegrationCalls', N'U') IS NULL
CREATE TABLE IntegrationCalls (
    Id UNIQUEIDENTIFIER NOT NULL CONSTRAINT PK_IntegrationCalls PRIMARY KEY CLUSTERED,
    ClientId UNIQUEIDENTIFIER NOT NULL,
    IntegrationName VARCHAR(64) NOT NULL,
    Method VARCHAR(16) NOT NULL,
    Path VARCHAR(2048) NOT NULL,
    HeadersJson NVARCHAR(MAX) NOT NULL,
    Body VARBINARY(MAX) NULL,
    CorrelationId VARCHAR(128) NULL,
    TraceId VARCHAR(32) NULL,
    IdempotencyKey NVARCHAR(255) NULL,
    Status VARCHAR(20) NOT NULL CONSTRAINT DF_IntegrationCalls_Status DEFAULT 'Pending',
    AttemptCount INT NOT NULL CONSTRAINT DF_IntegrationCalls_AttemptCount DEFAULT 0,
    CreatedAt DATETIME2 NOT NULL CONSTRAINT DF_IntegrationCalls_CreatedAt DEFAULT SYSUTCDATETIME(),
    LastAttemptAt DATETIME2 NULL,
    SentAt DATETIME2 NULL,
    NextAttemptAt DATETIME2 NULL CONSTRAINT DF_IntegrationCalls_NextAttemptAt DEFAULT SYSUTCDATETIME(),
    LastError NVARCHAR(2000) NULL
);
GO

-- Babelfish shows the beginning of an index's name only, and makes up the rest.
DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF SERVERPROPERTY('Babelfish') = 1
BEGIN
    SET @shown = 31;
    SET @ending = N'%';
END;

IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'IntegrationCalls')
               AND name LIKE LEFT(N'IX_IntegrationCalls_CreatedAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_IntegrationCalls_CreatedAt
        ON IntegrationCalls (CreatedAt, Id);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'IntegrationCalls')
               AND name LIKE LEFT(N'IX_IntegrationCalls_Status_CreatedAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_IntegrationCalls_Status_CreatedAt
        ON IntegrationCalls (Status, CreatedAt);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'IntegrationCalls')
               AND name LIKE LEFT(N'IX_IntegrationCalls_NextAttemptAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_IntegrationCalls_NextAttemptAt
        ON IntegrationCalls (NextAttemptAt) WHERE NextAttemptAt IS NOT NULL;
GO
