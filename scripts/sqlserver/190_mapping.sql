-- Which columns of a file mean what, as the client says; why an item failed, as a code; and where its record stands in the
-- file.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- The mapping that a client keeps for its uploads: {"<column or path>": "<canonical name>"}.
IF OBJECT_ID(N'ClientMapping', N'U') IS NULL
CREATE TABLE ClientMapping (
    ClientId UNIQUEIDENTIFIER NOT NULL CONSTRAINT PK_ClientMapping PRIMARY KEY
        CONSTRAINT FK_ClientMapping_Clients REFERENCES Clients (Id) ON DELETE CASCADE,
    MappingJson NVARCHAR(MAX) NOT NULL,
    UpdatedAt DATETIME2 NOT NULL CONSTRAINT DF_ClientMapping_UpdatedAt DEFAULT SYSUTCDATETIME()
);
GO

-- MappingJson: the mapping by which the batch is read, in every attempt. RowsPerSecond: of its owner's last minute, written
-- with the progress. RetryableCount: failed items that a retry would send, counted at the batch's end; -1: its records are
-- no longer kept.
IF COL_LENGTH(N'ImportBatch', N'MappingJson') IS NULL
    ALTER TABLE ImportBatch ADD MappingJson NVARCHAR(MAX) NULL;
IF COL_LENGTH(N'ImportBatch', N'RowsPerSecond') IS NULL
    ALTER TABLE ImportBatch ADD RowsPerSecond INT NULL;
IF COL_LENGTH(N'ImportBatch', N'RetryableCount') IS NULL
    ALTER TABLE ImportBatch ADD RetryableCount INT NULL;
GO

-- Reason: the code of ErrorMessage. SourceRow: the row of the sheet or CSV file, or the number of the JSON record, from 1.
-- Both are NULL for items of an earlier release.
IF COL_LENGTH(N'ImportItem', N'Reason') IS NULL
    ALTER TABLE ImportItem ADD Reason VARCHAR(50) NULL;
IF COL_LENGTH(N'ImportItem', N'SourceRow') IS NULL
    ALTER TABLE ImportItem ADD SourceRow INT NULL;
GO

-- Babelfish shows the beginning of an index's name only, and makes up the rest.
DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF SERVERPROPERTY('Babelfish') = 1
BEGIN
    SET @shown = 31;
    SET @ending = N'%';
END;

IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'ImportBatch')
               AND name LIKE LEFT(N'IX_ImportBatch_ClientId_Checksum', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_ImportBatch_ClientId_Checksum ON ImportBatch (ClientId, Checksum, CreatedAt) WHERE Checksum IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'ImportItem')
               AND name LIKE LEFT(N'IX_ImportItem_BatchId_Reason', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_ImportItem_BatchId_Reason ON ImportItem (BatchId, Reason, Sequence) WHERE Reason IS NOT NULL;
GO
