-- When a row may be taken by the delivery engine or the ticket processing, and what every attempt came to.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE
--
-- NextAttemptAt: waiting rows are due when they were written, claimed ones when the lease is over, failed ones when it is
-- time to try again; NULL: there is nothing to do. The indexes hold only what there is to do, so that a claim does not become
-- dearer with what is done. The default is for rows that others write.

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

IF COL_LENGTH(N'TB_FUNCTIONAL_ACK_OUTBOX', N'NextAttemptAt') IS NULL
    ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD NextAttemptAt DATETIME2 NULL
        CONSTRAINT DF_TB_FUNCTIONAL_ACK_OUTBOX_NextAttemptAt DEFAULT SYSUTCDATETIME();
IF COL_LENGTH(N'TB_TICKET_RETURN_OUTBOX', N'NextAttemptAt') IS NULL
    ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD NextAttemptAt DATETIME2 NULL
        CONSTRAINT DF_TB_TICKET_RETURN_OUTBOX_NextAttemptAt DEFAULT SYSUTCDATETIME();
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'NextAttemptAt') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD NextAttemptAt DATETIME2 NULL
        CONSTRAINT DF_TB_TICKET_INTERFACE_NextAttemptAt DEFAULT SYSUTCDATETIME();
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'GatewaySendNextAttemptAt') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD GatewaySendNextAttemptAt DATETIME2 NULL;
-- PayloadHash tells the same payload again from another one; PayloadVersion counts the others, so that the result of
-- work on an older one is not taken for the newer's.
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'PayloadHash') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD PayloadHash CHAR(64) NULL;
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'PayloadVersion') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD PayloadVersion INT NOT NULL
        CONSTRAINT DF_TB_TICKET_INTERFACE_PayloadVersion DEFAULT 1;
GO

IF OBJECT_ID(N'CK_TB_TICKET_INTERFACE_PayloadHash', N'C') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD CONSTRAINT CK_TB_TICKET_INTERFACE_PayloadHash CHECK (LEN(PayloadHash) = 64);

-- Rows from before these columns.
UPDATE TB_FUNCTIONAL_ACK_OUTBOX SET NextAttemptAt = CreatedAt
    WHERE NextAttemptAt IS NULL AND Status IN ('Pending', 'Sending');
UPDATE TB_TICKET_RETURN_OUTBOX SET NextAttemptAt = CreatedAt
    WHERE NextAttemptAt IS NULL AND Status IN ('Pending', 'Sending');
UPDATE TB_TICKET_INTERFACE SET NextAttemptAt = CreatedAt
    WHERE NextAttemptAt IS NULL AND Status IN ('Awaiting', 'Processing');
UPDATE TB_TICKET_INTERFACE SET GatewaySendNextAttemptAt = CreatedAt
    WHERE GatewaySendNextAttemptAt IS NULL AND Status = 'Processed' AND GatewaySendStatus IN ('Pending', 'Sending');
GO

-- Outcome: Sent, Retry, Error, or Stale (it came too late: somebody else had the row). RowKey: the row's id as text. Answer: its first 500 characters.
IF OBJECT_ID(N'DeliveryAttempts', N'U') IS NULL
CREATE TABLE DeliveryAttempts (
    Id BIGINT IDENTITY(1,1) NOT NULL CONSTRAINT PK_DeliveryAttempts PRIMARY KEY CLUSTERED,
    Channel VARCHAR(50) NOT NULL,
    RowKey VARCHAR(64) NOT NULL,
    Attempt INT NOT NULL,
    AttemptedAt DATETIME2 NOT NULL,
    Outcome VARCHAR(20) NOT NULL,
    HttpStatus INT NULL,
    DurationMs BIGINT NOT NULL CONSTRAINT DF_DeliveryAttempts_DurationMs DEFAULT 0,
    Answer NVARCHAR(500) NULL,
    Error NVARCHAR(2000) NULL
);
GO

-- Babelfish shows the beginning of an index's name only, and makes up the rest.
DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF SERVERPROPERTY('Babelfish') = 1
BEGIN
    SET @shown = 31;
    SET @ending = N'%';
END;

IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_FUNCTIONAL_ACK_OUTBOX')
               AND name LIKE LEFT(N'IX_TB_FUNCTIONAL_ACK_OUTBOX_NextAttemptAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_FUNCTIONAL_ACK_OUTBOX_NextAttemptAt
        ON TB_FUNCTIONAL_ACK_OUTBOX (NextAttemptAt) WHERE NextAttemptAt IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_RETURN_OUTBOX')
               AND name LIKE LEFT(N'IX_TB_TICKET_RETURN_OUTBOX_NextAttemptAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_TICKET_RETURN_OUTBOX_NextAttemptAt
        ON TB_TICKET_RETURN_OUTBOX (NextAttemptAt) WHERE NextAttemptAt IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_INTERFACE')
               AND name LIKE LEFT(N'IX_TB_TICKET_INTERFACE_NextAttemptAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_TICKET_INTERFACE_NextAttemptAt
        ON TB_TICKET_INTERFACE (NextAttemptAt) WHERE NextAttemptAt IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_INTERFACE')
               AND name LIKE LEFT(N'IX_TB_TICKET_INTERFACE_NextGatewaySend', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_TICKET_INTERFACE_NextGatewaySend
        ON TB_TICKET_INTERFACE (GatewaySendNextAttemptAt) WHERE GatewaySendNextAttemptAt IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'DeliveryAttempts')
               AND name LIKE LEFT(N'IX_DeliveryAttempts_Channel_RowKey', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_DeliveryAttempts_Channel_RowKey
        ON DeliveryAttempts (Channel, RowKey, Id);
GO
