-- What the processing of batches needs beyond 030: how a batch is cut, its attempts, and acks that came.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- BatchSize: records in a chunk, fixed when the work begins, so that the file is cut the same way every time. Attempt counts
-- from 1; with a later one only items that failed are sent, in chunks from RetryFromChunk on.
IF COL_LENGTH(N'ImportBatch', N'BatchSize') IS NULL
    ALTER TABLE ImportBatch ADD BatchSize INT NULL;
IF COL_LENGTH(N'ImportBatch', N'Attempt') IS NULL
    ALTER TABLE ImportBatch ADD Attempt INT NOT NULL CONSTRAINT DF_ImportBatch_Attempt DEFAULT 1;
IF COL_LENGTH(N'ImportBatch', N'RetryFromChunk') IS NULL
    ALTER TABLE ImportBatch ADD RetryFromChunk INT NULL;
-- An ack as it was sent, until the batch's owner has settled the chunk, and afterwards to know the same ack again.
IF COL_LENGTH(N'ImportChunk', N'AckJson') IS NULL
    ALTER TABLE ImportChunk ADD AckJson NVARCHAR(MAX) NULL;
GO
