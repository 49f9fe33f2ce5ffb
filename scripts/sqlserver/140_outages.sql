-- An outage is not a failed delivery: what a row went through, and how the targets are.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE
--
-- TryCount: all tries; AttemptCount: the failures that counted, and the success. FirstFailedAt, CountedAt: of the first
-- failure, and of the last one that counted. TargetMark: how many rows had arrived at the target then
-- (DeliveryTargets.Arrived). HeldFor: the target (DeliveryTargets.Id) that the row waits for since HeldAt; its due time is
-- only the backstop then.

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

IF COL_LENGTH(N'TB_FUNCTIONAL_ACK_OUTBOX', N'TryCount') IS NULL
    ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD TryCount INT NOT NULL
        CONSTRAINT DF_TB_FUNCTIONAL_ACK_OUTBOX_TryCount DEFAULT 0;
IF COL_LENGTH(N'TB_FUNCTIONAL_ACK_OUTBOX', N'FirstFailedAt') IS NULL
    ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD FirstFailedAt DATETIME2 NULL;
IF COL_LENGTH(N'TB_FUNCTIONAL_ACK_OUTBOX', N'CountedAt') IS NULL
    ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD CountedAt DATETIME2 NULL;
IF COL_LENGTH(N'TB_FUNCTIONAL_ACK_OUTBOX', N'TargetMark') IS NULL
    ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD TargetMark BIGINT NULL;
IF COL_LENGTH(N'TB_FUNCTIONAL_ACK_OUTBOX', N'HeldFor') IS NULL
    ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD HeldFor BIGINT NULL;
IF COL_LENGTH(N'TB_FUNCTIONAL_ACK_OUTBOX', N'HeldAt') IS NULL
    ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD HeldAt DATETIME2 NULL;
IF COL_LENGTH(N'TB_TICKET_RETURN_OUTBOX', N'TryCount') IS NULL
    ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD TryCount INT NOT NULL
        CONSTRAINT DF_TB_TICKET_RETURN_OUTBOX_TryCount DEFAULT 0;
IF COL_LENGTH(N'TB_TICKET_RETURN_OUTBOX', N'FirstFailedAt') IS NULL
    ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD FirstFailedAt DATETIME2 NULL;
IF COL_LENGTH(N'TB_TICKET_RETURN_OUTBOX', N'CountedAt') IS NULL
    ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD CountedAt DATETIME2 NULL;
IF COL_LENGTH(N'TB_TICKET_RETURN_OUTBOX', N'TargetMark') IS NULL
    ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD TargetMark BIGINT NULL;
IF COL_LENGTH(N'TB_TICKET_RETURN_OUTBOX', N'HeldFor') IS NULL
    ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD HeldFor BIGINT NULL;
IF COL_LENGTH(N'TB_TICKET_RETURN_OUTBOX', N'HeldAt') IS NULL
    ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD HeldAt DATETIME2 NULL;
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'GatewaySendTryCount') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD GatewaySendTryCount INT NOT NULL
        CONSTRAINT DF_TB_TICKET_INTERFACE_GatewaySendTryCount DEFAULT 0;
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'GatewaySendFirstFailedAt') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD GatewaySendFirstFailedAt DATETIME2 NULL;
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'GatewaySendCountedAt') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD GatewaySendCountedAt DATETIME2 NULL;
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'GatewaySendTargetMark') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD GatewaySendTargetMark BIGINT NULL;
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'GatewaySendHeldFor') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD GatewaySendHeldFor BIGINT NULL;
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'GatewaySendHeldAt') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD GatewaySendHeldAt DATETIME2 NULL;
IF COL_LENGTH(N'IntegrationCalls', N'TryCount') IS NULL
    ALTER TABLE IntegrationCalls ADD TryCount INT NOT NULL
        CONSTRAINT DF_IntegrationCalls_TryCount DEFAULT 0;
IF COL_LENGTH(N'IntegrationCalls', N'FirstFailedAt') IS NULL
    ALTER TABLE IntegrationCalls ADD FirstFailedAt DATETIME2 NULL;
IF COL_LENGTH(N'IntegrationCalls', N'CountedAt') IS NULL
    ALTER TABLE IntegrationCalls ADD CountedAt DATETIME2 NULL;
IF COL_LENGTH(N'IntegrationCalls', N'TargetMark') IS NULL
    ALTER TABLE IntegrationCalls ADD TargetMark BIGINT NULL;
IF COL_LENGTH(N'IntegrationCalls', N'HeldFor') IS NULL
    ALTER TABLE IntegrationCalls ADD HeldFor BIGINT NULL;
IF COL_LENGTH(N'IntegrationCalls', N'HeldAt') IS NULL
    ALTER TABLE IntegrationCalls ADD HeldAt DATETIME2 NULL;
IF COL_LENGTH(N'AlertDeliveries', N'TryCount') IS NULL
    ALTER TABLE AlertDeliveries ADD TryCount INT NOT NULL
        CONSTRAINT DF_AlertDeliveries_TryCount DEFAULT 0;
IF COL_LENGTH(N'AlertDeliveries', N'FirstFailedAt') IS NULL
    ALTER TABLE AlertDeliveries ADD FirstFailedAt DATETIME2 NULL;
IF COL_LENGTH(N'AlertDeliveries', N'CountedAt') IS NULL
    ALTER TABLE AlertDeliveries ADD CountedAt DATETIME2 NULL;
IF COL_LENGTH(N'AlertDeliveries', N'TargetMark') IS NULL
    ALTER TABLE AlertDeliveries ADD TargetMark BIGINT NULL;
IF COL_LENGTH(N'AlertDeliveries', N'HeldFor') IS NULL
    ALTER TABLE AlertDeliveries ADD HeldFor BIGINT NULL;
IF COL_LENGTH(N'AlertDeliveries', N'HeldAt') IS NULL
    ALTER TABLE AlertDeliveries ADD HeldAt DATETIME2 NULL;
IF COL_LENGTH(N'WebhookDeliveries', N'TryCount') IS NULL
    ALTER TABLE WebhookDeliveries ADD TryCount INT NOT NULL
        CONSTRAINT DF_WebhookDeliveries_TryCount DEFAULT 0;
IF COL_LENGTH(N'WebhookDeliveries', N'FirstFailedAt') IS NULL
    ALTER TABLE WebhookDeliveries ADD FirstFailedAt DATETIME2 NULL;
IF COL_LENGTH(N'WebhookDeliveries', N'CountedAt') IS NULL
    ALTER TABLE WebhookDeliveries ADD CountedAt DATETIME2 NULL;
IF COL_LENGTH(N'WebhookDeliveries', N'TargetMark') IS NULL
    ALTER TABLE WebhookDeliveries ADD TargetMark BIGINT NULL;
IF COL_LENGTH(N'WebhookDeliveries', N'HeldFor') IS NULL
    ALTER TABLE WebhookDeliveries ADD HeldFor BIGINT NULL;
IF COL_LENGTH(N'WebhookDeliveries', N'HeldAt') IS NULL
    ALTER TABLE WebhookDeliveries ADD HeldAt DATETIME2 NULL;
-- Whether the failure counted (1); NULL: an older version wrote the attempt.
IF COL_LENGTH(N'DeliveryAttempts', N'Counted') IS NULL
    ALTER TABLE DeliveryAttempts ADD Counted INT NULL;
-- When the ticket's processing first failed, last failed so that it counted, and how many tickets were processed then.
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'FirstFailedAt') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD FirstFailedAt DATETIME2 NULL;
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'CountedAt') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD CountedAt DATETIME2 NULL;
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'TargetMark') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD TargetMark BIGINT NULL;
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'TryCount') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD TryCount INT NOT NULL
        CONSTRAINT DF_TB_TICKET_INTERFACE_TryCount DEFAULT 0;
-- How many documents the last message about the alert told of; NULL: its rule counts none.
IF COL_LENGTH(N'Alerts', N'Reported') IS NULL
    ALTER TABLE Alerts ADD Reported BIGINT NULL;
GO

-- How targets are, shared by all processes and kept over restarts. Channel: a channel of the delivery engine, "relay",
-- or "tickets" for their processing. Target: the URL without its query, or a name; empty: the whole channel, for PausedAt.
-- Arrived: rows that arrived, ever. DownSince: since when the breaker has not been closed, as the process saw it that
-- wrote last; NULL: well. PausedAt: a person stopped it, PausedBy.
-- GivenUp: events of a relay that wait for a person, given up from GivenUpSince to GivenUpAt, the last one for
-- GivenUpError. Tables of the server's own have rows for that.
IF OBJECT_ID(N'DeliveryTargets', N'U') IS NULL
CREATE TABLE DeliveryTargets (
    Id BIGINT IDENTITY(1,1) NOT NULL CONSTRAINT PK_DeliveryTargets PRIMARY KEY CLUSTERED,
    Channel VARCHAR(50) NOT NULL,
    Target VARCHAR(1000) NOT NULL,
    Arrived BIGINT NOT NULL CONSTRAINT DF_DeliveryTargets_Arrived DEFAULT 0,
    LastArrivedAt DATETIME2 NULL,
    LastFailedAt DATETIME2 NULL,
    LastError NVARCHAR(2000) NULL,
    DownSince DATETIME2 NULL,
    PausedAt DATETIME2 NULL,
    PausedBy NVARCHAR(200) NULL,
    GivenUp BIGINT NOT NULL CONSTRAINT DF_DeliveryTargets_GivenUp DEFAULT 0,
    GivenUpSince DATETIME2 NULL,
    GivenUpAt DATETIME2 NULL,
    GivenUpError NVARCHAR(200) NULL,
    CreatedAt DATETIME2 NOT NULL CONSTRAINT DF_DeliveryTargets_CreatedAt DEFAULT SYSUTCDATETIME(),
    UpdatedAt DATETIME2 NOT NULL CONSTRAINT DF_DeliveryTargets_UpdatedAt DEFAULT SYSUTCDATETIME()
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
               AND name LIKE LEFT(N'IX_TB_FUNCTIONAL_ACK_OUTBOX_Held', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_FUNCTIONAL_ACK_OUTBOX_Held
        ON TB_FUNCTIONAL_ACK_OUTBOX (HeldFor, CreatedAt) WHERE HeldFor IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_FUNCTIONAL_ACK_OUTBOX')
               AND name LIKE LEFT(N'IX_TB_FUNCTIONAL_ACK_OUTBOX_Probe', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_FUNCTIONAL_ACK_OUTBOX_Probe
        ON TB_FUNCTIONAL_ACK_OUTBOX (HeldFor, HeldAt) WHERE HeldFor IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_FUNCTIONAL_ACK_OUTBOX')
               AND name LIKE LEFT(N'IX_TB_FUNCTIONAL_ACK_OUTBOX_GivenUp', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_FUNCTIONAL_ACK_OUTBOX_GivenUp
        ON TB_FUNCTIONAL_ACK_OUTBOX (LastAttemptAt) WHERE Status = 'Error' AND NextAttemptAt IS NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_RETURN_OUTBOX')
               AND name LIKE LEFT(N'IX_TB_TICKET_RETURN_OUTBOX_Held', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_TICKET_RETURN_OUTBOX_Held
        ON TB_TICKET_RETURN_OUTBOX (HeldFor, CreatedAt) WHERE HeldFor IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_RETURN_OUTBOX')
               AND name LIKE LEFT(N'IX_TB_TICKET_RETURN_OUTBOX_Probe', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_TICKET_RETURN_OUTBOX_Probe
        ON TB_TICKET_RETURN_OUTBOX (HeldFor, HeldAt) WHERE HeldFor IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_RETURN_OUTBOX')
               AND name LIKE LEFT(N'IX_TB_TICKET_RETURN_OUTBOX_GivenUp', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_TICKET_RETURN_OUTBOX_GivenUp
        ON TB_TICKET_RETURN_OUTBOX (LastAttemptAt) WHERE Status = 'Error' AND NextAttemptAt IS NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_INTERFACE')
               AND name LIKE LEFT(N'IX_TB_TICKET_INTERFACE_Held', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_TICKET_INTERFACE_Held
        ON TB_TICKET_INTERFACE (GatewaySendHeldFor, CreatedAt) WHERE GatewaySendHeldFor IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_INTERFACE')
               AND name LIKE LEFT(N'IX_TB_TICKET_INTERFACE_Probe', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_TICKET_INTERFACE_Probe
        ON TB_TICKET_INTERFACE (GatewaySendHeldFor, GatewaySendHeldAt) WHERE GatewaySendHeldFor IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_INTERFACE')
               AND name LIKE LEFT(N'IX_TB_TICKET_INTERFACE_GivenUp', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_TICKET_INTERFACE_GivenUp
        ON TB_TICKET_INTERFACE (GatewaySendLastAttemptAt)
    WHERE GatewaySendStatus = 'Error' AND GatewaySendNextAttemptAt IS NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'IntegrationCalls')
               AND name LIKE LEFT(N'IX_IntegrationCalls_Held', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_IntegrationCalls_Held
        ON IntegrationCalls (HeldFor, CreatedAt) WHERE HeldFor IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'IntegrationCalls')
               AND name LIKE LEFT(N'IX_IntegrationCalls_Probe', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_IntegrationCalls_Probe
        ON IntegrationCalls (HeldFor, HeldAt) WHERE HeldFor IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'IntegrationCalls')
               AND name LIKE LEFT(N'IX_IntegrationCalls_GivenUp', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_IntegrationCalls_GivenUp
        ON IntegrationCalls (LastAttemptAt) WHERE Status = 'Error' AND NextAttemptAt IS NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'AlertDeliveries')
               AND name LIKE LEFT(N'IX_AlertDeliveries_Held', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_AlertDeliveries_Held
        ON AlertDeliveries (HeldFor, CreatedAt) WHERE HeldFor IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'AlertDeliveries')
               AND name LIKE LEFT(N'IX_AlertDeliveries_Probe', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_AlertDeliveries_Probe
        ON AlertDeliveries (HeldFor, HeldAt) WHERE HeldFor IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'AlertDeliveries')
               AND name LIKE LEFT(N'IX_AlertDeliveries_GivenUp', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_AlertDeliveries_GivenUp
        ON AlertDeliveries (LastAttemptAt) WHERE Status = 'Error' AND NextAttemptAt IS NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookDeliveries')
               AND name LIKE LEFT(N'IX_WebhookDeliveries_Held', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_WebhookDeliveries_Held
        ON WebhookDeliveries (HeldFor, CreatedAt) WHERE HeldFor IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookDeliveries')
               AND name LIKE LEFT(N'IX_WebhookDeliveries_Probe', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_WebhookDeliveries_Probe
        ON WebhookDeliveries (HeldFor, HeldAt) WHERE HeldFor IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookDeliveries')
               AND name LIKE LEFT(N'IX_WebhookDeliveries_GivenUp', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_WebhookDeliveries_GivenUp
        ON WebhookDeliveries (LastAttemptAt) WHERE Status = 'Error' AND NextAttemptAt IS NULL;
-- Tickets whose processing was given up (a ticket that can never be valid has no FirstFailedAt), and webhooks that were
-- given up and not replayed.
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_INTERFACE')
               AND name LIKE LEFT(N'IX_TB_TICKET_INTERFACE_NotProcessed', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_TICKET_INTERFACE_NotProcessed
        ON TB_TICKET_INTERFACE (FirstFailedAt)
        WHERE Status = 'Error' AND NextAttemptAt IS NULL AND FirstFailedAt IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookDeliveryFailures')
               AND name LIKE LEFT(N'IX_WebhookDeliveryFailures_NotReplayed', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_WebhookDeliveryFailures_NotReplayed
        ON WebhookDeliveryFailures (CreatedAt, SubscriptionId) WHERE ReplayedAt IS NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'DeliveryTargets')
               AND name LIKE LEFT(N'UQ_DeliveryTargets_Channel_Target', @shown) + @ending)
    CREATE UNIQUE NONCLUSTERED INDEX UQ_DeliveryTargets_Channel_Target
        ON DeliveryTargets (Channel, Target);
GO
