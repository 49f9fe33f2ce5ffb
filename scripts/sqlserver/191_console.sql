-- What operators need in the console: alerts that somebody looks after, alerts that are not sent for a while, and lists.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- Who looks after an alert that fires: its message is not repeated. SilencedBy: the silence that kept its messages back.
IF COL_LENGTH(N'Alerts', N'AcknowledgedBy') IS NULL
    ALTER TABLE Alerts ADD AcknowledgedBy VARCHAR(200) NULL;
IF COL_LENGTH(N'Alerts', N'AcknowledgedAt') IS NULL
    ALTER TABLE Alerts ADD AcknowledgedAt DATETIME2 NULL;
IF COL_LENGTH(N'Alerts', N'AcknowledgedNote') IS NULL
    ALTER TABLE Alerts ADD AcknowledgedNote NVARCHAR(500) NULL;
IF COL_LENGTH(N'Alerts', N'SilencedBy') IS NULL
    ALTER TABLE Alerts ADD SilencedBy UNIQUEIDENTIFIER NULL;

-- An alert that all given members fit is recorded, and not sent, until EndsAt. ClientIdentifier may name a client that is gone.
IF OBJECT_ID(N'AlertSilences', N'U') IS NULL
CREATE TABLE AlertSilences (
    Id UNIQUEIDENTIFIER NOT NULL CONSTRAINT PK_AlertSilences PRIMARY KEY CLUSTERED,
    RuleName VARCHAR(50) NULL,
    ClientIdentifier VARCHAR(64) NULL,
    Target NVARCHAR(1000) NULL,
    Reason NVARCHAR(500) NOT NULL,
    CreatedBy VARCHAR(200) NOT NULL,
    CreatedAt DATETIME2 NOT NULL CONSTRAINT DF_AlertSilences_CreatedAt DEFAULT SYSUTCDATETIME(),
    EndsAt DATETIME2 NOT NULL
);
GO

-- Babelfish shows the beginning of an index's name only, and makes up the rest.
DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF SERVERPROPERTY('Babelfish') = 1
BEGIN
    SET @shown = 31;
    SET @ending = N'%';
END;

-- Events that were given up, in the order of lists. It is empty while all goes well.
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'outbox_events')
               AND name LIKE LEFT(N'IX_outbox_events_failed', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_outbox_events_failed
        ON outbox_events (created_at, id) WHERE status = 'FAILED';
GO
