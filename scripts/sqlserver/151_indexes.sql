-- No query needs this index: lists go by key, and what was not replayed has an index of its own.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- Babelfish shows the beginning of an index's name only, and makes up the rest.
DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF SERVERPROPERTY('Babelfish') = 1
BEGIN
    SET @shown = 31;
    SET @ending = N'%';
END;

IF EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookDeliveryFailures')
           AND name LIKE LEFT(N'IX_WebhookDeliveryFailures_CreatedAt', @shown) + @ending)
    DROP INDEX IX_WebhookDeliveryFailures_CreatedAt ON WebhookDeliveryFailures;
