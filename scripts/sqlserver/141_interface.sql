-- Tickets that are processed again, and counterparties that another system takes.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- The PayloadVersion that a person had processed again: its return is sent even if an earlier one was.
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'ReturnAgain') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD ReturnAgain INT NULL;

-- Version: grows with every payload and every change of the status; the ETag is made of it. StatusMessage: what the
-- system said that set the status.
IF COL_LENGTH(N'TB_COUNTERPARTIES', N'Version') IS NULL
    ALTER TABLE TB_COUNTERPARTIES ADD Version INT NOT NULL
        CONSTRAINT DF_TB_COUNTERPARTIES_Version DEFAULT 1;
IF COL_LENGTH(N'TB_COUNTERPARTIES', N'StatusMessage') IS NULL
    ALTER TABLE TB_COUNTERPARTIES ADD StatusMessage NVARCHAR(2000) NULL;
GO

-- Babelfish shows the beginning of an index's name only, and makes up the rest.
DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF SERVERPROPERTY('Babelfish') = 1
BEGIN
    SET @shown = 31;
    SET @ending = N'%';
END;

IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_COUNTERPARTIES')
               AND name LIKE LEFT(N'IX_TB_COUNTERPARTIES_Status', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_COUNTERPARTIES_Status ON TB_COUNTERPARTIES (Status, Id);
GO
