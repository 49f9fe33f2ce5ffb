-- The index of people: which stored document names whom, by keyed hashes.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- Hash: the first eight bytes of the hash of a phone, a CPF or CNPJ, or an e-mail address. Place and RowKey: the kind of
-- the document and its id.
IF OBJECT_ID(N'SubjectIndex', N'U') IS NULL
CREATE TABLE SubjectIndex (
    Id BIGINT IDENTITY(1,1) NOT NULL CONSTRAINT PK_SubjectIndex PRIMARY KEY CLUSTERED,
    Hash BIGINT NOT NULL,
    Place VARCHAR(20) NOT NULL,
    RowKey VARCHAR(64) NOT NULL
);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'SubjectIndex') AND name = N'IX_SubjectIndex_Hash')
    CREATE NONCLUSTERED INDEX IX_SubjectIndex_Hash ON SubjectIndex (Hash, Id);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'SubjectIndex') AND name = N'IX_SubjectIndex_Place_RowKey')
    CREATE NONCLUSTERED INDEX IX_SubjectIndex_Place_RowKey ON SubjectIndex (Place, RowKey);
GO

-- The items of a chunk that name somebody, written when the chunk is settled. Entries: for each of them 13 bytes, eight
-- of the hash, one for its kind, four for the item's sequence. ChunkId is NULL for items of an earlier release.
IF OBJECT_ID(N'ImportSubjects', N'U') IS NULL
CREATE TABLE ImportSubjects (
    Id BIGINT IDENTITY(1,1) NOT NULL CONSTRAINT PK_ImportSubjects PRIMARY KEY CLUSTERED,
    BatchId UNIQUEIDENTIFIER NOT NULL
        CONSTRAINT FK_ImportSubjects_ImportBatch REFERENCES ImportBatch (Id) ON DELETE CASCADE,
    ChunkId INT NULL,
    Entries VARBINARY(MAX) NOT NULL
);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'ImportSubjects') AND name = N'IX_ImportSubjects_BatchId')
    CREATE NONCLUSTERED INDEX IX_ImportSubjects_BatchId ON ImportSubjects (BatchId);
GO

-- How far the rows of an earlier release have got their entries: one row for each table that is walked. Position: the last
-- key; DoneAt: when its end was reached.
IF OBJECT_ID(N'SubjectFill', N'U') IS NULL
CREATE TABLE SubjectFill (
    Source VARCHAR(20) NOT NULL CONSTRAINT PK_SubjectFill PRIMARY KEY CLUSTERED,
    Position VARCHAR(64) NOT NULL,
    DoneAt DATETIME2 NULL
);
GO
