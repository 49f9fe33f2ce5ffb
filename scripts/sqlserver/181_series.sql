-- Figures that the server keeps itself (docs/series.md), by minute for a day and by hour for 90 days, and the moments that are
-- shown with them. None of it is about a person.

-- Grain: seconds, 60 or 3600. PointAt: where the minute or the hour begins. ClientId: '' is everybody together, 'other' those
-- beyond the limit. Ack100Ms and so on: acks that took no longer than that, and longer than the one before. Waiting and
-- OldestSeconds: NULL where nobody looked.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

IF OBJECT_ID(N'SeriesPoints', N'U') IS NULL
CREATE TABLE SeriesPoints (
    Grain INT NOT NULL,
    PointAt DATETIME2 NOT NULL,
    ClientId VARCHAR(36) NOT NULL,
    Channel VARCHAR(50) NOT NULL,
    Accepted BIGINT NOT NULL CONSTRAINT DF_SeriesPoints_Accepted DEFAULT 0,
    Processed BIGINT NOT NULL CONSTRAINT DF_SeriesPoints_Processed DEFAULT 0,
    Delivered BIGINT NOT NULL CONSTRAINT DF_SeriesPoints_Delivered DEFAULT 0,
    Failed BIGINT NOT NULL CONSTRAINT DF_SeriesPoints_Failed DEFAULT 0,
    Acks BIGINT NOT NULL CONSTRAINT DF_SeriesPoints_Acks DEFAULT 0,
    AckMs BIGINT NOT NULL CONSTRAINT DF_SeriesPoints_AckMs DEFAULT 0,
    AckMostMs BIGINT NOT NULL CONSTRAINT DF_SeriesPoints_AckMostMs DEFAULT 0,
    Ack100Ms BIGINT NOT NULL CONSTRAINT DF_SeriesPoints_Ack100Ms DEFAULT 0,
    Ack500Ms BIGINT NOT NULL CONSTRAINT DF_SeriesPoints_Ack500Ms DEFAULT 0,
    Ack1000Ms BIGINT NOT NULL CONSTRAINT DF_SeriesPoints_Ack1000Ms DEFAULT 0,
    Ack5000Ms BIGINT NOT NULL CONSTRAINT DF_SeriesPoints_Ack5000Ms DEFAULT 0,
    Ack30000Ms BIGINT NOT NULL CONSTRAINT DF_SeriesPoints_Ack30000Ms DEFAULT 0,
    Ack300000Ms BIGINT NOT NULL CONSTRAINT DF_SeriesPoints_Ack300000Ms DEFAULT 0,
    Waiting BIGINT NULL,
    OldestSeconds BIGINT NULL,
    CONSTRAINT PK_SeriesPoints PRIMARY KEY CLUSTERED (Grain, ClientId, PointAt, Channel)
);
GO

-- What happened: a breaker, an alert, a replica.
IF OBJECT_ID(N'SeriesMarks', N'U') IS NULL
CREATE TABLE SeriesMarks (
    Id BIGINT IDENTITY(1,1) NOT NULL CONSTRAINT PK_SeriesMarks PRIMARY KEY CLUSTERED,
    MarkedAt DATETIME2 NOT NULL,
    Kind VARCHAR(30) NOT NULL,
    Subject VARCHAR(160) NOT NULL,
    Instance VARCHAR(200) NOT NULL
);
GO

-- Babelfish shows of an index's name the first 31 characters and an ending of its own; SQL Server the name.
DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF SERVERPROPERTY('Babelfish') = 1
BEGIN
    SET @shown = 31;
    SET @ending = N'%';
END;

IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'SeriesPoints')
               AND name LIKE LEFT(N'IX_SeriesPoints_PointAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_SeriesPoints_PointAt ON SeriesPoints (Grain, PointAt);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'SeriesMarks')
               AND name LIKE LEFT(N'IX_SeriesMarks_MarkedAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_SeriesMarks_MarkedAt ON SeriesMarks (MarkedAt, Id);
-- GET /admin/timeline: who touched a document.
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'AuditLog')
               AND name LIKE LEFT(N'IX_AuditLog_Target', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_AuditLog_Target ON AuditLog (Target, Id) WHERE Target IS NOT NULL;
GO
