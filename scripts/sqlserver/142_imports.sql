-- Imports: batches that wait for OmniFlow, refused uploads, records as they were uploaded, lists for operators.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- OutageSince: OmniFlow has taken no chunk of the batch since then. WaitingSince: the batch waits for OmniFlow since then.
-- OutageTries: how often it was given back while OmniFlow took other batches' chunks.
IF COL_LENGTH(N'ImportBatch', N'OutageSince') IS NULL
    ALTER TABLE ImportBatch ADD OutageSince DATETIME2 NULL;
IF COL_LENGTH(N'ImportBatch', N'WaitingSince') IS NULL
    ALTER TABLE ImportBatch ADD WaitingSince DATETIME2 NULL;
IF COL_LENGTH(N'ImportBatch', N'OutageTries') IS NULL
    ALTER TABLE ImportBatch ADD OutageTries INT NULL;
-- The correlationId of the upload's metadata; CorrelationId is that of the request.
IF COL_LENGTH(N'ImportBatch', N'MetadataCorrelationId') IS NULL
    ALTER TABLE ImportBatch ADD MetadataCorrelationId VARCHAR(128) NULL;
-- An upload that the policy refused has PolicyDecision 'Rejected', the rule, and how often it happened in that minute.
IF COL_LENGTH(N'ImportBatch', N'RefusedRule') IS NULL
    ALTER TABLE ImportBatch ADD RefusedRule VARCHAR(50) NULL;
IF COL_LENGTH(N'ImportBatch', N'RefusalCount') IS NULL
    ALTER TABLE ImportBatch ADD RefusalCount INT NULL;
-- The names of the file's columns, a JSON array in the file's order; NULL: JSON, or too long.
IF COL_LENGTH(N'ImportBatch', N'ColumnsJson') IS NULL
    ALTER TABLE ImportBatch ADD ColumnsJson NVARCHAR(MAX) NULL;
-- The record as it was uploaded, a JSON object; only of items in error, for the report.
IF COL_LENGTH(N'ImportItem', N'OriginalJson') IS NULL
    ALTER TABLE ImportItem ADD OriginalJson NVARCHAR(MAX) NULL;
GO

-- Babelfish shows the beginning of an index's name only, and makes up the rest.
DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF SERVERPROPERTY('Babelfish') = 1
BEGIN
    SET @shown = 31;
    SET @ending = N'%';
END;

IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'ImportBatch')
               AND name LIKE LEFT(N'IX_ImportBatch_CreatedAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_ImportBatch_CreatedAt ON ImportBatch (CreatedAt);
GO
