-- Failed records of imports, encrypted until their time is over; items are stored masked.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- One row for each item that failed: the record as it was uploaded and the item as it was sent, encrypted under the data
-- key KeyId for the place "batch:sequence".
IF OBJECT_ID(N'ImportKept', N'U') IS NULL
CREATE TABLE ImportKept (
    BatchId UNIQUEIDENTIFIER NOT NULL
        CONSTRAINT FK_ImportKept_ImportBatch REFERENCES ImportBatch (Id) ON DELETE CASCADE,
    Sequence INT NOT NULL,
    KeyId INT NOT NULL,
    Sealed VARBINARY(MAX) NOT NULL,
    CreatedAt DATETIME2 NOT NULL CONSTRAINT DF_ImportKept_CreatedAt DEFAULT SYSUTCDATETIME(),
    CONSTRAINT PK_ImportKept PRIMARY KEY CLUSTERED (BatchId, Sequence)
);
GO

-- KeptUntil: when the batch's rows in ImportKept go; NULL: it has none, or it is in work. KeptLeftMs: what was left of that
-- time when a retry was asked for; NULL: all of it.
IF COL_LENGTH(N'ImportBatch', N'KeptUntil') IS NULL
    ALTER TABLE ImportBatch ADD KeptUntil DATETIME2 NULL;
IF COL_LENGTH(N'ImportBatch', N'KeptLeftMs') IS NULL
    ALTER TABLE ImportBatch ADD KeptLeftMs BIGINT NULL;
GO

-- The keyed hash of the callback as it came: the same callback again changes nothing.
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'CallbackHash') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD CallbackHash CHAR(64) NULL;
GO
IF OBJECT_ID(N'CK_TB_TICKET_INTERFACE_CallbackHash', N'C') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD CONSTRAINT CK_TB_TICKET_INTERFACE_CallbackHash CHECK (LEN(CallbackHash) = 64);
GO

-- Babelfish shows the beginning of an index's name only, and makes up the rest.
DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF SERVERPROPERTY('Babelfish') = 1
BEGIN
    SET @shown = 31;
    SET @ending = N'%';
END;

IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'ImportBatch')
               AND name LIKE LEFT(N'IX_ImportBatch_KeptUntil', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_ImportBatch_KeptUntil ON ImportBatch (KeptUntil) WHERE KeptUntil IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'ImportKept')
               AND name LIKE LEFT(N'IX_ImportKept_KeyId', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_ImportKept_KeyId ON ImportKept (KeyId, BatchId, Sequence);
GO
