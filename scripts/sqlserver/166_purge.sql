-- Purge and erasure: jobs that remove documents, the persons that were erased, and when a document was.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- A job that removes documents. Kind: batch, client, older, subject. Target: the batch, the client, the days, or the
-- person's keyed hash in hex. Cutoff: documents after it stay. State: Running, Done, Cancelled, Failed. Phase, CursorKey
-- and GroupJson say how far it is: GroupJson has the batches in hand with their counts. Who works on it has the row until
-- LeaseUntil, under Fence; from then on others may take it.
IF OBJECT_ID(N'PurgeJobs', N'U') IS NULL
CREATE TABLE PurgeJobs (
    Id UNIQUEIDENTIFIER NOT NULL CONSTRAINT PK_PurgeJobs PRIMARY KEY CLUSTERED,
    Kind VARCHAR(20) NOT NULL,
    Target VARCHAR(100) NOT NULL,
    Cutoff DATETIME2 NULL,
    State VARCHAR(20) NOT NULL CONSTRAINT DF_PurgeJobs_State DEFAULT 'Running',
    Phase INT NOT NULL CONSTRAINT DF_PurgeJobs_Phase DEFAULT 0,
    CursorKey VARCHAR(64) NULL,
    GroupJson NVARCHAR(MAX) NULL,
    CountsJson NVARCHAR(MAX) NOT NULL,
    SkippedJson NVARCHAR(MAX) NOT NULL,
    CreatedBy NVARCHAR(200) NOT NULL,
    CreatedAt DATETIME2 NOT NULL CONSTRAINT DF_PurgeJobs_CreatedAt DEFAULT SYSUTCDATETIME(),
    UpdatedAt DATETIME2 NOT NULL CONSTRAINT DF_PurgeJobs_UpdatedAt DEFAULT SYSUTCDATETIME(),
    EndedAt DATETIME2 NULL,
    LastError NVARCHAR(2000) NULL,
    Fence BIGINT NOT NULL CONSTRAINT DF_PurgeJobs_Fence DEFAULT 0,
    LeaseUntil DATETIME2 NOT NULL CONSTRAINT DF_PurgeJobs_LeaseUntil DEFAULT SYSUTCDATETIME()
);

-- Persons that were erased: SubjectKind 1 phone, 2 document, 3 e-mail; the keyed hash. data_dir/erasures has the same.
IF OBJECT_ID(N'Erasures', N'U') IS NULL
CREATE TABLE Erasures (
    Id UNIQUEIDENTIFIER NOT NULL CONSTRAINT PK_Erasures PRIMARY KEY CLUSTERED,
    SubjectKind INT NOT NULL,
    SubjectHash VARBINARY(MAX) NOT NULL,
    ErasedAt DATETIME2 NOT NULL,
    CreatedBy NVARCHAR(200) NOT NULL
);
GO

-- When the document's personal data were erased: {"erased":true} stands in their place.
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'ErasedAt') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD ErasedAt DATETIME2 NULL;
IF COL_LENGTH(N'TB_COUNTERPARTIES', N'ErasedAt') IS NULL
    ALTER TABLE TB_COUNTERPARTIES ADD ErasedAt DATETIME2 NULL;
IF COL_LENGTH(N'TB_FUNCTIONAL_ACK_OUTBOX', N'ErasedAt') IS NULL
    ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD ErasedAt DATETIME2 NULL;
IF COL_LENGTH(N'TB_TICKET_RETURN_OUTBOX', N'ErasedAt') IS NULL
    ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD ErasedAt DATETIME2 NULL;
IF COL_LENGTH(N'IntegrationCalls', N'ErasedAt') IS NULL
    ALTER TABLE IntegrationCalls ADD ErasedAt DATETIME2 NULL;
IF COL_LENGTH(N'outbox_events', N'erased_at') IS NULL
    ALTER TABLE outbox_events ADD erased_at DATETIME2 NULL;
-- When the content came that it has: CreatedAt stays when a document comes again. NULL: with CreatedAt.
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'PayloadAt') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD PayloadAt DATETIME2 NULL;
IF COL_LENGTH(N'TB_COUNTERPARTIES', N'PayloadAt') IS NULL
    ALTER TABLE TB_COUNTERPARTIES ADD PayloadAt DATETIME2 NULL;
GO

-- Babelfish shows the beginning of an index's name only, and makes up the rest.
DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF SERVERPROPERTY('Babelfish') = 1
BEGIN
    SET @shown = 31;
    SET @ending = N'%';
END;

IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'PurgeJobs')
               AND name LIKE LEFT(N'IX_PurgeJobs_CreatedAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_PurgeJobs_CreatedAt ON PurgeJobs (CreatedAt, Id);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'PurgeJobs')
               AND name LIKE LEFT(N'IX_PurgeJobs_Running', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_PurgeJobs_Running ON PurgeJobs (LeaseUntil, Id) WHERE EndedAt IS NULL;
GO
