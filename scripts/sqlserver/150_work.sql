-- Work that a process owns by shard, and what a delivery that went well says of itself.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE
--
-- SendingSince: since when the row has been on its way; written after a second. Status 'Sending' needs it, and no later
-- attempt: so a process of an older release, which wrote state and attempt with every claim, delivers nothing beside
-- processes of this one. SentStatus, SentMs: the answer's status and the duration of the try that arrived, which has no row
-- in DeliveryAttempts if it was the first.

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

IF COL_LENGTH(N'TB_FUNCTIONAL_ACK_OUTBOX', N'SendingSince') IS NULL
    ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD SendingSince DATETIME2 NULL;
IF COL_LENGTH(N'TB_FUNCTIONAL_ACK_OUTBOX', N'SentStatus') IS NULL
    ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD SentStatus INT NULL;
IF COL_LENGTH(N'TB_FUNCTIONAL_ACK_OUTBOX', N'SentMs') IS NULL
    ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD SentMs BIGINT NULL;
IF COL_LENGTH(N'TB_TICKET_RETURN_OUTBOX', N'SendingSince') IS NULL
    ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD SendingSince DATETIME2 NULL;
IF COL_LENGTH(N'TB_TICKET_RETURN_OUTBOX', N'SentStatus') IS NULL
    ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD SentStatus INT NULL;
IF COL_LENGTH(N'TB_TICKET_RETURN_OUTBOX', N'SentMs') IS NULL
    ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD SentMs BIGINT NULL;
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'GatewaySendSendingSince') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD GatewaySendSendingSince DATETIME2 NULL;
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'GatewaySendSentStatus') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD GatewaySendSentStatus INT NULL;
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'GatewaySendSentMs') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD GatewaySendSentMs BIGINT NULL;
IF COL_LENGTH(N'IntegrationCalls', N'SendingSince') IS NULL
    ALTER TABLE IntegrationCalls ADD SendingSince DATETIME2 NULL;
IF COL_LENGTH(N'IntegrationCalls', N'SentStatus') IS NULL
    ALTER TABLE IntegrationCalls ADD SentStatus INT NULL;
IF COL_LENGTH(N'IntegrationCalls', N'SentMs') IS NULL
    ALTER TABLE IntegrationCalls ADD SentMs BIGINT NULL;
IF COL_LENGTH(N'AlertDeliveries', N'SendingSince') IS NULL
    ALTER TABLE AlertDeliveries ADD SendingSince DATETIME2 NULL;
IF COL_LENGTH(N'AlertDeliveries', N'SentStatus') IS NULL
    ALTER TABLE AlertDeliveries ADD SentStatus INT NULL;
IF COL_LENGTH(N'AlertDeliveries', N'SentMs') IS NULL
    ALTER TABLE AlertDeliveries ADD SentMs BIGINT NULL;
IF COL_LENGTH(N'WebhookDeliveries', N'SendingSince') IS NULL
    ALTER TABLE WebhookDeliveries ADD SendingSince DATETIME2 NULL;
IF COL_LENGTH(N'WebhookDeliveries', N'SentStatus') IS NULL
    ALTER TABLE WebhookDeliveries ADD SentStatus INT NULL;
IF COL_LENGTH(N'WebhookDeliveries', N'SentMs') IS NULL
    ALTER TABLE WebhookDeliveries ADD SentMs BIGINT NULL;
-- The same for the processing of a ticket.
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'ProcessingSince') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD ProcessingSince DATETIME2 NULL;
GO
-- The constraints are for all rows: what an older release left on its way waits again, until its lease is over.
IF OBJECT_ID(N'CK_TB_FUNCTIONAL_ACK_OUTBOX_SendingSince', N'C') IS NULL
    UPDATE TB_FUNCTIONAL_ACK_OUTBOX SET Status = 'Pending', NextAttemptAt = COALESCE(NextAttemptAt, CreatedAt) WHERE Status = 'Sending';
IF OBJECT_ID(N'CK_TB_FUNCTIONAL_ACK_OUTBOX_SendingSince', N'C') IS NULL
    ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD CONSTRAINT CK_TB_FUNCTIONAL_ACK_OUTBOX_SendingSince
        CHECK (Status <> 'Sending' OR (SendingSince IS NOT NULL
           AND (LastAttemptAt IS NULL OR LastAttemptAt <= SendingSince)));
IF OBJECT_ID(N'CK_TB_TICKET_RETURN_OUTBOX_SendingSince', N'C') IS NULL
    UPDATE TB_TICKET_RETURN_OUTBOX SET Status = 'Pending', NextAttemptAt = COALESCE(NextAttemptAt, CreatedAt) WHERE Status = 'Sending';
IF OBJECT_ID(N'CK_TB_TICKET_RETURN_OUTBOX_SendingSince', N'C') IS NULL
    ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD CONSTRAINT CK_TB_TICKET_RETURN_OUTBOX_SendingSince
        CHECK (Status <> 'Sending' OR (SendingSince IS NOT NULL
           AND (LastAttemptAt IS NULL OR LastAttemptAt <= SendingSince)));
IF OBJECT_ID(N'CK_TB_TICKET_INTERFACE_SendingSince', N'C') IS NULL
    UPDATE TB_TICKET_INTERFACE SET GatewaySendStatus = 'Pending', GatewaySendNextAttemptAt = COALESCE(GatewaySendNextAttemptAt, CreatedAt) WHERE GatewaySendStatus = 'Sending';
IF OBJECT_ID(N'CK_TB_TICKET_INTERFACE_SendingSince', N'C') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD CONSTRAINT CK_TB_TICKET_INTERFACE_SendingSince
        CHECK (GatewaySendStatus <> 'Sending' OR (GatewaySendSendingSince IS NOT NULL
           AND (GatewaySendLastAttemptAt IS NULL OR GatewaySendLastAttemptAt <= GatewaySendSendingSince)));
IF OBJECT_ID(N'CK_IntegrationCalls_SendingSince', N'C') IS NULL
    UPDATE IntegrationCalls SET Status = 'Pending', NextAttemptAt = COALESCE(NextAttemptAt, CreatedAt) WHERE Status = 'Sending';
IF OBJECT_ID(N'CK_IntegrationCalls_SendingSince', N'C') IS NULL
    ALTER TABLE IntegrationCalls ADD CONSTRAINT CK_IntegrationCalls_SendingSince
        CHECK (Status <> 'Sending' OR (SendingSince IS NOT NULL
           AND (LastAttemptAt IS NULL OR LastAttemptAt <= SendingSince)));
IF OBJECT_ID(N'CK_AlertDeliveries_SendingSince', N'C') IS NULL
    UPDATE AlertDeliveries SET Status = 'Pending', NextAttemptAt = COALESCE(NextAttemptAt, CreatedAt) WHERE Status = 'Sending';
IF OBJECT_ID(N'CK_AlertDeliveries_SendingSince', N'C') IS NULL
    ALTER TABLE AlertDeliveries ADD CONSTRAINT CK_AlertDeliveries_SendingSince
        CHECK (Status <> 'Sending' OR (SendingSince IS NOT NULL
           AND (LastAttemptAt IS NULL OR LastAttemptAt <= SendingSince)));
IF OBJECT_ID(N'CK_WebhookDeliveries_SendingSince', N'C') IS NULL
    UPDATE WebhookDeliveries SET Status = 'Pending', NextAttemptAt = COALESCE(NextAttemptAt, CreatedAt) WHERE Status = 'Sending';
IF OBJECT_ID(N'CK_WebhookDeliveries_SendingSince', N'C') IS NULL
    ALTER TABLE WebhookDeliveries ADD CONSTRAINT CK_WebhookDeliveries_SendingSince
        CHECK (Status <> 'Sending' OR (SendingSince IS NOT NULL
           AND (LastAttemptAt IS NULL OR LastAttemptAt <= SendingSince)));
IF OBJECT_ID(N'CK_TB_TICKET_INTERFACE_ProcessingSince', N'C') IS NULL
    UPDATE TB_TICKET_INTERFACE SET Status = 'Awaiting', NextAttemptAt = COALESCE(NextAttemptAt, CreatedAt) WHERE Status = 'Processing';
IF OBJECT_ID(N'CK_TB_TICKET_INTERFACE_ProcessingSince', N'C') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD CONSTRAINT CK_TB_TICKET_INTERFACE_ProcessingSince
        CHECK (Status <> 'Processing' OR (ProcessingSince IS NOT NULL
           AND (NextAttemptAt IS NULL OR NextAttemptAt <= ProcessingSince)));
GO

-- Claims go through rows by due time and id.
DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_FUNCTIONAL_ACK_OUTBOX')
               AND name LIKE LEFT(N'IX_TB_FUNCTIONAL_ACK_OUTBOX_Due', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_FUNCTIONAL_ACK_OUTBOX_Due
        ON TB_FUNCTIONAL_ACK_OUTBOX (NextAttemptAt, Id) WHERE NextAttemptAt IS NOT NULL;
IF EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_FUNCTIONAL_ACK_OUTBOX')
           AND name LIKE LEFT(N'IX_TB_FUNCTIONAL_ACK_OUTBOX_NextAttemptAt', @shown) + @ending)
    DROP INDEX IX_TB_FUNCTIONAL_ACK_OUTBOX_NextAttemptAt ON TB_FUNCTIONAL_ACK_OUTBOX;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_RETURN_OUTBOX')
               AND name LIKE LEFT(N'IX_TB_TICKET_RETURN_OUTBOX_Due', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_TICKET_RETURN_OUTBOX_Due
        ON TB_TICKET_RETURN_OUTBOX (NextAttemptAt, Id) WHERE NextAttemptAt IS NOT NULL;
IF EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_RETURN_OUTBOX')
           AND name LIKE LEFT(N'IX_TB_TICKET_RETURN_OUTBOX_NextAttemptAt', @shown) + @ending)
    DROP INDEX IX_TB_TICKET_RETURN_OUTBOX_NextAttemptAt ON TB_TICKET_RETURN_OUTBOX;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_INTERFACE')
               AND name LIKE LEFT(N'IX_TB_TICKET_INTERFACE_GatewayDue', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_TICKET_INTERFACE_GatewayDue
        ON TB_TICKET_INTERFACE (GatewaySendNextAttemptAt, Id) WHERE GatewaySendNextAttemptAt IS NOT NULL;
IF EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_INTERFACE')
           AND name LIKE LEFT(N'IX_TB_TICKET_INTERFACE_NextGatewaySend', @shown) + @ending)
    DROP INDEX IX_TB_TICKET_INTERFACE_NextGatewaySend ON TB_TICKET_INTERFACE;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'IntegrationCalls')
               AND name LIKE LEFT(N'IX_IntegrationCalls_Due', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_IntegrationCalls_Due
        ON IntegrationCalls (NextAttemptAt, Id) WHERE NextAttemptAt IS NOT NULL;
IF EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'IntegrationCalls')
           AND name LIKE LEFT(N'IX_IntegrationCalls_NextAttemptAt', @shown) + @ending)
    DROP INDEX IX_IntegrationCalls_NextAttemptAt ON IntegrationCalls;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'AlertDeliveries')
               AND name LIKE LEFT(N'IX_AlertDeliveries_Due', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_AlertDeliveries_Due
        ON AlertDeliveries (NextAttemptAt, Id) WHERE NextAttemptAt IS NOT NULL;
IF EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'AlertDeliveries')
           AND name LIKE LEFT(N'IX_AlertDeliveries_NextAttemptAt', @shown) + @ending)
    DROP INDEX IX_AlertDeliveries_NextAttemptAt ON AlertDeliveries;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookDeliveries')
               AND name LIKE LEFT(N'IX_WebhookDeliveries_Due', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_WebhookDeliveries_Due
        ON WebhookDeliveries (NextAttemptAt, Id) WHERE NextAttemptAt IS NOT NULL;
IF EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookDeliveries')
           AND name LIKE LEFT(N'IX_WebhookDeliveries_NextAttemptAt', @shown) + @ending)
    DROP INDEX IX_WebhookDeliveries_NextAttemptAt ON WebhookDeliveries;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_INTERFACE')
               AND name LIKE LEFT(N'IX_TB_TICKET_INTERFACE_Due', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_TICKET_INTERFACE_Due
        ON TB_TICKET_INTERFACE (NextAttemptAt, Id) WHERE NextAttemptAt IS NOT NULL;
IF EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_INTERFACE')
           AND name LIKE LEFT(N'IX_TB_TICKET_INTERFACE_NextAttemptAt', @shown) + @ending)
    DROP INDEX IX_TB_TICKET_INTERFACE_NextAttemptAt ON TB_TICKET_INTERFACE;
GO

-- Who does which work. A row belongs to a shard of its channel by its id: the number modulo 16, or the last digit of a UUID.
-- A process owns shards as long as it renews its lease; LeaseUntil is a time of the database's clock. Epoch grows with each
-- change of the owner, and every settlement names it. WorkMarks: rows that were taken after a process had ended in the middle
-- of its work, and how often; one that is taken too often without an end is set aside.
IF OBJECT_ID(N'WorkOwners', N'U') IS NULL
CREATE TABLE WorkOwners (
    Id UNIQUEIDENTIFIER NOT NULL CONSTRAINT PK_WorkOwners PRIMARY KEY CLUSTERED,
    Name NVARCHAR(200) NOT NULL,
    Version VARCHAR(50) NOT NULL,
    Channels NVARCHAR(MAX) NOT NULL,
    StartedAt DATETIME2 NOT NULL,
    RenewedAt DATETIME2 NOT NULL,
    LeaseUntil DATETIME2 NOT NULL
);
IF OBJECT_ID(N'WorkShards', N'U') IS NULL
CREATE TABLE WorkShards (
    Channel VARCHAR(50) NOT NULL,
    Shard INT NOT NULL,
    OwnerId UNIQUEIDENTIFIER NULL,
    Epoch BIGINT NOT NULL CONSTRAINT DF_WorkShards_Epoch DEFAULT 0,
    TakenAt DATETIME2 NULL,
    CONSTRAINT PK_WorkShards PRIMARY KEY CLUSTERED (Channel, Shard)
);
IF OBJECT_ID(N'WorkMarks', N'U') IS NULL
CREATE TABLE WorkMarks (
    Channel VARCHAR(50) NOT NULL,
    RowKey VARCHAR(64) NOT NULL,
    Taken INT NOT NULL,
    MarkedAt DATETIME2 NOT NULL,
    CONSTRAINT PK_WorkMarks PRIMARY KEY CLUSTERED (Channel, RowKey)
);
GO
