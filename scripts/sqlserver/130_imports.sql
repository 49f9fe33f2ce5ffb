-- Imports: rules of cutting, runs of empty records, turns of clients, limits of records, acks that are early.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- CutRules: by which rules the file is cut into chunks; NULL or 1: every empty record is an item. Set before the first chunk is
-- cut, never changed after it. GaveWayAt: it waits for its next turn since then. TurnAt: when its last turn began.
IF COL_LENGTH(N'ImportBatch', N'CutRules') IS NULL
    ALTER TABLE ImportBatch ADD CutRules INT NULL;
IF COL_LENGTH(N'ImportBatch', N'GaveWayAt') IS NULL
    ALTER TABLE ImportBatch ADD GaveWayAt DATETIME2 NULL;
IF COL_LENGTH(N'ImportBatch', N'TurnAt') IS NULL
    ALTER TABLE ImportBatch ADD TurnAt DATETIME2 NULL;
-- How many records of the file the item stands for, a run of empty ones; NULL: one.
IF COL_LENGTH(N'ImportItem', N'RecordCount') IS NULL
    ALTER TABLE ImportItem ADD RecordCount INT NULL;
-- Items of one batch; NULL: imports.max_records.
IF COL_LENGTH(N'ClientPolicies', N'MaxRecords') IS NULL
    ALTER TABLE ClientPolicies ADD MaxRecords INT NULL;
GO

-- When a batch of the client was last taken up: whose turn was longest ago is next. No foreign key: a row left over is harmless.
IF OBJECT_ID(N'ImportTurn', N'U') IS NULL
CREATE TABLE ImportTurn (
    ClientId UNIQUEIDENTIFIER NOT NULL CONSTRAINT PK_ImportTurn PRIMARY KEY CLUSTERED,
    TurnAt DATETIME2 NOT NULL
);
GO

-- Acks that came before the answer that names their id was stored. One counts when that answer names it, the others never do.
-- AckIdHash: SHA-256 of the ackId, hex. Gone when the batch is over.
IF OBJECT_ID(N'ImportEarlyAck', N'U') IS NULL
CREATE TABLE ImportEarlyAck (
    Id BIGINT IDENTITY(1,1) NOT NULL CONSTRAINT PK_ImportEarlyAck PRIMARY KEY CLUSTERED,
    BatchId UNIQUEIDENTIFIER NOT NULL
        CONSTRAINT FK_ImportEarlyAck_ImportBatch REFERENCES ImportBatch (Id) ON DELETE CASCADE,
    ChunkId INT NOT NULL,
    AckIdHash CHAR(64) NOT NULL CONSTRAINT CK_ImportEarlyAck_AckIdHash CHECK (LEN(AckIdHash) = 64),
    AckJson NVARCHAR(MAX) NOT NULL,
    CreatedAt DATETIME2 NOT NULL CONSTRAINT DF_ImportEarlyAck_CreatedAt DEFAULT SYSUTCDATETIME(),
    CONSTRAINT UQ_ImportEarlyAck_BatchId_ChunkId_AckIdHash UNIQUE NONCLUSTERED (BatchId, ChunkId, AckIdHash)
);
GO
