-- Import batches, their records and chunks, and the lock of the batch in work.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- Each table is made with the columns of the specification; what was added to it follows, as do defaults and checks,
-- of which a table made by others may have none.

-- Status: 0 Pending, 1 Processing, 2 Scheduled, 3 Completed, 4 CompletedWithErrors, 5 Failed, 6 Cancelled.
-- FileType: 0 JSON, 1 Excel, 2 CSV.
IF OBJECT_ID(N'ImportBatch', N'U') IS NULL
CREATE TABLE ImportBatch (
    Id UNIQUEIDENTIFIER NOT NULL CONSTRAINT PK_ImportBatch PRIMARY KEY CLUSTERED,
    ClientId UNIQUEIDENTIFIER NOT NULL,
    Status TINYINT NOT NULL,
    FileName NVARCHAR(260) NOT NULL,
    FileType TINYINT NOT NULL,
    FileSizeBytes BIGINT NOT NULL,
    Checksum CHAR(64) NULL,
    UploadPath NVARCHAR(400) NULL,
    PolicyDecision NVARCHAR(100) NULL,
    CreatedAt DATETIME2 NOT NULL,
    StartedAt DATETIME2 NULL,
    CompletedAt DATETIME2 NULL,
    TotalRecords INT NULL,
    ProcessedRecords INT NOT NULL,
    ErrorSummary NVARCHAR(MAX) NULL
);

-- Status: 0 Imported, 1 Error, 2 Skipped. One row for each record of the file, written when its chunk is settled.
-- After masking PayloadJson no longer holds the record, IsMasked is 1, and PayloadHash still identifies it.
IF OBJECT_ID(N'ImportItem', N'U') IS NULL
CREATE TABLE ImportItem (
    Id BIGINT IDENTITY(1,1) NOT NULL CONSTRAINT PK_ImportItem PRIMARY KEY CLUSTERED,
    BatchId UNIQUEIDENTIFIER NOT NULL,
    Sequence INT NOT NULL,
    PayloadJson NVARCHAR(MAX) NULL,
    Status TINYINT NOT NULL,
    ErrorMessage NVARCHAR(1000) NULL,
    CreatedAt DATETIME2 NOT NULL
);

-- Row 1 is the lock of the whole installation. FencingToken grows with every owner.
IF OBJECT_ID(N'BatchLocks', N'U') IS NULL
CREATE TABLE BatchLocks (
    Id INT NOT NULL CONSTRAINT PK_BatchLocks PRIMARY KEY CLUSTERED,
    IsLocked BIT NOT NULL,
    LockOwnerBatchId UNIQUEIDENTIFIER NULL,
    LockedAt DATETIME2 NULL
);

-- Status: 0 Pending, 1 Sending, 2 AwaitingAck, 3 Imported, 4 Error, 5 Skipped (no record in it was fit to be sent).
-- The last three are settled: such a chunk is never sent again.
IF OBJECT_ID(N'ImportChunk', N'U') IS NULL
CREATE TABLE ImportChunk (
    Id BIGINT IDENTITY(1,1) NOT NULL CONSTRAINT PK_ImportChunk PRIMARY KEY CLUSTERED,
    BatchId UNIQUEIDENTIFIER NOT NULL
        CONSTRAINT FK_ImportChunk_ImportBatch REFERENCES ImportBatch (Id) ON DELETE CASCADE,
    ChunkId INT NOT NULL,
    RecordOffset INT NOT NULL,
    RecordCount INT NOT NULL,
    ContentHash CHAR(64) NOT NULL CONSTRAINT CK_ImportChunk_ContentHash CHECK (LEN(ContentHash) = 64),
    Status TINYINT NOT NULL CONSTRAINT DF_ImportChunk_Status DEFAULT 0
        CONSTRAINT CK_ImportChunk_Status CHECK (Status BETWEEN 0 AND 5),
    Attempts INT NOT NULL CONSTRAINT DF_ImportChunk_Attempts DEFAULT 0,
    AckId NVARCHAR(200) NULL,
    SentAt DATETIME2 NULL,
    AckedAt DATETIME2 NULL,
    CreatedAt DATETIME2 NOT NULL CONSTRAINT DF_ImportChunk_CreatedAt DEFAULT SYSUTCDATETIME(),
    UpdatedAt DATETIME2 NOT NULL CONSTRAINT DF_ImportChunk_UpdatedAt DEFAULT SYSUTCDATETIME(),
    ErrorMessage NVARCHAR(2000) NULL,
    CONSTRAINT UQ_ImportChunk_BatchId_ChunkId UNIQUE NONCLUSTERED (BatchId, ChunkId)
);
GO

IF COL_LENGTH(N'ImportBatch', N'ProcessingHost') IS NULL
    ALTER TABLE ImportBatch ADD ProcessingHost NVARCHAR(200) NULL;
IF COL_LENGTH(N'ImportBatch', N'ScheduledFor') IS NULL
    ALTER TABLE ImportBatch ADD ScheduledFor DATETIME2 NULL;
IF COL_LENGTH(N'ImportBatch', N'OriginDefault') IS NULL
    ALTER TABLE ImportBatch ADD OriginDefault NVARCHAR(200) NULL;
IF COL_LENGTH(N'ImportBatch', N'RequestedBy') IS NULL
    ALTER TABLE ImportBatch ADD RequestedBy NVARCHAR(200) NULL;
IF COL_LENGTH(N'ImportBatch', N'MetadataJson') IS NULL
    ALTER TABLE ImportBatch ADD MetadataJson NVARCHAR(MAX) NULL;
IF COL_LENGTH(N'ImportBatch', N'Sheet') IS NULL
    ALTER TABLE ImportBatch ADD Sheet NVARCHAR(100) NULL;
IF COL_LENGTH(N'ImportBatch', N'ErrorCount') IS NULL
    ALTER TABLE ImportBatch ADD ErrorCount INT NOT NULL CONSTRAINT DF_ImportBatch_ErrorCount DEFAULT 0;
IF COL_LENGTH(N'ImportBatch', N'SkippedCount') IS NULL
    ALTER TABLE ImportBatch ADD SkippedCount INT NOT NULL CONSTRAINT DF_ImportBatch_SkippedCount DEFAULT 0;
IF COL_LENGTH(N'ImportBatch', N'LastError') IS NULL
    ALTER TABLE ImportBatch ADD LastError NVARCHAR(2000) NULL;
IF COL_LENGTH(N'ImportBatch', N'WebhookNotified') IS NULL
    ALTER TABLE ImportBatch ADD WebhookNotified BIT NOT NULL CONSTRAINT DF_ImportBatch_WebhookNotified DEFAULT 0;
IF COL_LENGTH(N'ImportBatch', N'FencingToken') IS NULL
    ALTER TABLE ImportBatch ADD FencingToken BIGINT NOT NULL CONSTRAINT DF_ImportBatch_FencingToken DEFAULT 0;
IF COL_LENGTH(N'ImportBatch', N'LockedAt') IS NULL
    ALTER TABLE ImportBatch ADD LockedAt DATETIME2 NULL;
IF COL_LENGTH(N'ImportBatch', N'IdempotencyKey') IS NULL
    ALTER TABLE ImportBatch ADD IdempotencyKey VARCHAR(200) NULL;
IF COL_LENGTH(N'ImportBatch', N'RequestChecksum') IS NULL
    ALTER TABLE ImportBatch ADD RequestChecksum CHAR(64) NULL;
IF COL_LENGTH(N'ImportBatch', N'CorrelationId') IS NULL
    ALTER TABLE ImportBatch ADD CorrelationId VARCHAR(128) NULL;
IF COL_LENGTH(N'ImportBatch', N'TraceId') IS NULL
    ALTER TABLE ImportBatch ADD TraceId VARCHAR(32) NULL;
IF COL_LENGTH(N'ImportBatch', N'UpdatedAt') IS NULL
    ALTER TABLE ImportBatch ADD UpdatedAt DATETIME2 NOT NULL
        CONSTRAINT DF_ImportBatch_UpdatedAt DEFAULT SYSUTCDATETIME();

IF COL_LENGTH(N'ImportItem', N'ChunkId') IS NULL
    ALTER TABLE ImportItem ADD ChunkId INT NULL;
IF COL_LENGTH(N'ImportItem', N'PayloadHash') IS NULL
    ALTER TABLE ImportItem ADD PayloadHash CHAR(64) NULL;
IF COL_LENGTH(N'ImportItem', N'IsMasked') IS NULL
    ALTER TABLE ImportItem ADD IsMasked BIT NOT NULL CONSTRAINT DF_ImportItem_IsMasked DEFAULT 0;

IF COL_LENGTH(N'BatchLocks', N'FencingToken') IS NULL
    ALTER TABLE BatchLocks ADD FencingToken BIGINT NOT NULL CONSTRAINT DF_BatchLocks_FencingToken DEFAULT 0;
GO

IF EXISTS (SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(N'ImportBatch')
           AND name = N'Status' AND default_object_id = 0)
    ALTER TABLE ImportBatch ADD CONSTRAINT DF_ImportBatch_Status DEFAULT 0 FOR Status;
IF EXISTS (SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(N'ImportBatch')
           AND name = N'FileSizeBytes' AND default_object_id = 0)
    ALTER TABLE ImportBatch ADD CONSTRAINT DF_ImportBatch_FileSizeBytes DEFAULT 0 FOR FileSizeBytes;
IF EXISTS (SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(N'ImportBatch')
           AND name = N'CreatedAt' AND default_object_id = 0)
    ALTER TABLE ImportBatch ADD CONSTRAINT DF_ImportBatch_CreatedAt DEFAULT SYSUTCDATETIME() FOR CreatedAt;
IF EXISTS (SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(N'ImportBatch')
           AND name = N'ProcessedRecords' AND default_object_id = 0)
    ALTER TABLE ImportBatch ADD CONSTRAINT DF_ImportBatch_ProcessedRecords DEFAULT 0 FOR ProcessedRecords;
IF EXISTS (SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(N'ImportItem')
           AND name = N'CreatedAt' AND default_object_id = 0)
    ALTER TABLE ImportItem ADD CONSTRAINT DF_ImportItem_CreatedAt DEFAULT SYSUTCDATETIME() FOR CreatedAt;
IF EXISTS (SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(N'BatchLocks')
           AND name = N'IsLocked' AND default_object_id = 0)
    ALTER TABLE BatchLocks ADD CONSTRAINT DF_BatchLocks_IsLocked DEFAULT 0 FOR IsLocked;

-- A row that violates one stops the script: somebody numbered the states otherwise, which is better told than misread.
IF OBJECT_ID(N'CK_ImportBatch_Status', N'C') IS NULL
    ALTER TABLE ImportBatch ADD CONSTRAINT CK_ImportBatch_Status CHECK (Status BETWEEN 0 AND 6);
IF OBJECT_ID(N'CK_ImportBatch_FileType', N'C') IS NULL
    ALTER TABLE ImportBatch ADD CONSTRAINT CK_ImportBatch_FileType CHECK (FileType BETWEEN 0 AND 2);
IF OBJECT_ID(N'CK_ImportBatch_Checksum', N'C') IS NULL
    ALTER TABLE ImportBatch ADD CONSTRAINT CK_ImportBatch_Checksum CHECK (LEN(Checksum) = 64);
IF OBJECT_ID(N'CK_ImportBatch_RequestChecksum', N'C') IS NULL
    ALTER TABLE ImportBatch ADD CONSTRAINT CK_ImportBatch_RequestChecksum CHECK (LEN(RequestChecksum) = 64);
IF OBJECT_ID(N'CK_ImportItem_Status', N'C') IS NULL
    ALTER TABLE ImportItem ADD CONSTRAINT CK_ImportItem_Status CHECK (Status BETWEEN 0 AND 2);
IF OBJECT_ID(N'CK_ImportItem_PayloadHash', N'C') IS NULL
    ALTER TABLE ImportItem ADD CONSTRAINT CK_ImportItem_PayloadHash CHECK (LEN(PayloadHash) = 64);

-- Not by their names: a second cascade between the same two tables would be refused. A client with batches cannot be
-- deleted: they have files, purge them first.
IF NOT EXISTS (SELECT 1 FROM sys.foreign_keys WHERE parent_object_id = OBJECT_ID(N'ImportBatch')
               AND referenced_object_id = OBJECT_ID(N'Clients'))
    ALTER TABLE ImportBatch ADD CONSTRAINT FK_ImportBatch_Clients FOREIGN KEY (ClientId) REFERENCES Clients (Id);
IF NOT EXISTS (SELECT 1 FROM sys.foreign_keys WHERE parent_object_id = OBJECT_ID(N'ImportItem')
               AND referenced_object_id = OBJECT_ID(N'ImportBatch'))
    ALTER TABLE ImportItem ADD CONSTRAINT FK_ImportItem_ImportBatch
        FOREIGN KEY (BatchId) REFERENCES ImportBatch (Id) ON DELETE CASCADE;
GO

-- Babelfish shows of an index's name the first 31 characters and an ending of its own; SQL Server the name.
DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF SERVERPROPERTY('Babelfish') = 1
BEGIN
    SET @shown = 31;
    SET @ending = N'%';
END;

IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'ImportBatch')
               AND name LIKE LEFT(N'IX_ImportBatch_ClientId_CreatedAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_ImportBatch_ClientId_CreatedAt ON ImportBatch (ClientId, CreatedAt);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'ImportBatch')
               AND name LIKE LEFT(N'IX_ImportBatch_Status_CreatedAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_ImportBatch_Status_CreatedAt ON ImportBatch (Status, CreatedAt);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'ImportBatch')
               AND name LIKE LEFT(N'UQ_ImportBatch_ClientId_IdempotencyKey', @shown) + @ending)
    CREATE UNIQUE NONCLUSTERED INDEX UQ_ImportBatch_ClientId_IdempotencyKey
        ON ImportBatch (ClientId, IdempotencyKey) WHERE IdempotencyKey IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'ImportItem')
               AND name LIKE LEFT(N'UQ_ImportItem_BatchId_Sequence', @shown) + @ending)
    ALTER TABLE ImportItem ADD CONSTRAINT UQ_ImportItem_BatchId_Sequence UNIQUE NONCLUSTERED (BatchId, Sequence);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'ImportItem')
               AND name LIKE LEFT(N'IX_ImportItem_BatchId_Errors', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_ImportItem_BatchId_Errors ON ImportItem (BatchId, Sequence) WHERE Status = 1;
GO

INSERT INTO BatchLocks (Id)
SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM BatchLocks WITH (UPDLOCK, HOLDLOCK) WHERE Id = 1);
GO
