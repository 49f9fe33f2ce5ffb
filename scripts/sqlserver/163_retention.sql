-- What is over is removed after a while (docs/retention.md).
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE
--
-- DismissedAt: a person looked at what was given up and wants no more of it. It no longer counts as given up, and is removed
-- as what was sent is. A failure after that, and a retry, clear it.
-- RemovingAt: the batch is being removed, in steps; nobody sees it any more, and whoever finds it goes on.

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

IF COL_LENGTH(N'TB_FUNCTIONAL_ACK_OUTBOX', N'DismissedAt') IS NULL
    ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD DismissedAt DATETIME2 NULL;
IF COL_LENGTH(N'TB_TICKET_RETURN_OUTBOX', N'DismissedAt') IS NULL
    ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD DismissedAt DATETIME2 NULL;
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'DismissedAt') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD DismissedAt DATETIME2 NULL;
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'GatewaySendDismissedAt') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD GatewaySendDismissedAt DATETIME2 NULL;
IF COL_LENGTH(N'IntegrationCalls', N'DismissedAt') IS NULL
    ALTER TABLE IntegrationCalls ADD DismissedAt DATETIME2 NULL;
IF COL_LENGTH(N'AlertDeliveries', N'DismissedAt') IS NULL
    ALTER TABLE AlertDeliveries ADD DismissedAt DATETIME2 NULL;
IF COL_LENGTH(N'WebhookDeliveries', N'DismissedAt') IS NULL
    ALTER TABLE WebhookDeliveries ADD DismissedAt DATETIME2 NULL;
IF COL_LENGTH(N'WebhookDeliveryFailures', N'DismissedAt') IS NULL
    ALTER TABLE WebhookDeliveryFailures ADD DismissedAt DATETIME2 NULL;
IF COL_LENGTH(N'ImportBatch', N'RemovingAt') IS NULL
    ALTER TABLE ImportBatch ADD RemovingAt DATETIME2 NULL;
GO

-- When a piece of work that one process does for all is next due; who takes it moves the time on.
IF OBJECT_ID(N'MaintenanceRuns', N'U') IS NULL
CREATE TABLE MaintenanceRuns (
    Name VARCHAR(50) NOT NULL CONSTRAINT PK_MaintenanceRuns PRIMARY KEY CLUSTERED,
    DueAt DATETIME2 NOT NULL
);
GO

-- What was given up and waits for a person: what was dismissed does not. Babelfish shows the beginning of an index's name only, and makes up the rest.
DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF SERVERPROPERTY('Babelfish') = 1
BEGIN
    SET @shown = 31;
    SET @ending = N'%';
END;

IF EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_FUNCTIONAL_ACK_OUTBOX')
           AND name LIKE LEFT(N'IX_TB_FUNCTIONAL_ACK_OUTBOX_GivenUp', @shown) + @ending)
    DROP INDEX IX_TB_FUNCTIONAL_ACK_OUTBOX_GivenUp ON TB_FUNCTIONAL_ACK_OUTBOX;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_FUNCTIONAL_ACK_OUTBOX')
               AND name LIKE LEFT(N'IX_TB_FUNCTIONAL_ACK_OUTBOX_AwaitsPerson', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_FUNCTIONAL_ACK_OUTBOX_AwaitsPerson
        ON TB_FUNCTIONAL_ACK_OUTBOX (LastAttemptAt)
    WHERE Status = 'Error' AND NextAttemptAt IS NULL AND DismissedAt IS NULL;
IF EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_RETURN_OUTBOX')
           AND name LIKE LEFT(N'IX_TB_TICKET_RETURN_OUTBOX_GivenUp', @shown) + @ending)
    DROP INDEX IX_TB_TICKET_RETURN_OUTBOX_GivenUp ON TB_TICKET_RETURN_OUTBOX;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_RETURN_OUTBOX')
               AND name LIKE LEFT(N'IX_TB_TICKET_RETURN_OUTBOX_AwaitsPerson', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_TICKET_RETURN_OUTBOX_AwaitsPerson
        ON TB_TICKET_RETURN_OUTBOX (LastAttemptAt)
    WHERE Status = 'Error' AND NextAttemptAt IS NULL AND DismissedAt IS NULL;
IF EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_INTERFACE')
           AND name LIKE LEFT(N'IX_TB_TICKET_INTERFACE_GivenUp', @shown) + @ending)
    DROP INDEX IX_TB_TICKET_INTERFACE_GivenUp ON TB_TICKET_INTERFACE;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_INTERFACE')
               AND name LIKE LEFT(N'IX_TB_TICKET_INTERFACE_AwaitsPerson', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_TICKET_INTERFACE_AwaitsPerson
        ON TB_TICKET_INTERFACE (GatewaySendLastAttemptAt)
    WHERE GatewaySendStatus = 'Error' AND GatewaySendNextAttemptAt IS NULL AND GatewaySendDismissedAt IS NULL;
IF EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_INTERFACE')
           AND name LIKE LEFT(N'IX_TB_TICKET_INTERFACE_NotProcessed', @shown) + @ending)
    DROP INDEX IX_TB_TICKET_INTERFACE_NotProcessed ON TB_TICKET_INTERFACE;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'TB_TICKET_INTERFACE')
               AND name LIKE LEFT(N'IX_TB_TICKET_INTERFACE_ProcessingAwaitsPerson', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_TB_TICKET_INTERFACE_ProcessingAwaitsPerson
        ON TB_TICKET_INTERFACE (FirstFailedAt)
    WHERE Status = 'Error' AND NextAttemptAt IS NULL AND FirstFailedAt IS NOT NULL AND DismissedAt IS NULL;
IF EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'IntegrationCalls')
           AND name LIKE LEFT(N'IX_IntegrationCalls_GivenUp', @shown) + @ending)
    DROP INDEX IX_IntegrationCalls_GivenUp ON IntegrationCalls;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'IntegrationCalls')
               AND name LIKE LEFT(N'IX_IntegrationCalls_AwaitsPerson', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_IntegrationCalls_AwaitsPerson
        ON IntegrationCalls (LastAttemptAt)
    WHERE Status = 'Error' AND NextAttemptAt IS NULL AND DismissedAt IS NULL;
IF EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'AlertDeliveries')
           AND name LIKE LEFT(N'IX_AlertDeliveries_GivenUp', @shown) + @ending)
    DROP INDEX IX_AlertDeliveries_GivenUp ON AlertDeliveries;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'AlertDeliveries')
               AND name LIKE LEFT(N'IX_AlertDeliveries_AwaitsPerson', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_AlertDeliveries_AwaitsPerson
        ON AlertDeliveries (LastAttemptAt)
    WHERE Status = 'Error' AND NextAttemptAt IS NULL AND DismissedAt IS NULL;
IF EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookDeliveries')
           AND name LIKE LEFT(N'IX_WebhookDeliveries_GivenUp', @shown) + @ending)
    DROP INDEX IX_WebhookDeliveries_GivenUp ON WebhookDeliveries;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookDeliveries')
               AND name LIKE LEFT(N'IX_WebhookDeliveries_AwaitsPerson', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_WebhookDeliveries_AwaitsPerson
        ON WebhookDeliveries (LastAttemptAt)
    WHERE Status = 'Error' AND NextAttemptAt IS NULL AND DismissedAt IS NULL;
IF EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookDeliveryFailures')
           AND name LIKE LEFT(N'IX_WebhookDeliveryFailures_NotReplayed', @shown) + @ending)
    DROP INDEX IX_WebhookDeliveryFailures_NotReplayed ON WebhookDeliveryFailures;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookDeliveryFailures')
               AND name LIKE LEFT(N'IX_WebhookDeliveryFailures_AwaitsPerson', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_WebhookDeliveryFailures_AwaitsPerson
        ON WebhookDeliveryFailures (CreatedAt, SubscriptionId)
    WHERE ReplayedAt IS NULL AND DismissedAt IS NULL;

-- Events that are over, the oldest first; batches whose removal did not end.
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'outbox_events')
               AND name LIKE LEFT(N'IX_outbox_events_over', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_outbox_events_over
        ON outbox_events (created_at, id) WHERE status IN ('PROCESSED', 'DISMISSED');
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'ImportBatch')
               AND name LIKE LEFT(N'IX_ImportBatch_Removing', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_ImportBatch_Removing
        ON ImportBatch (RemovingAt) WHERE RemovingAt IS NOT NULL;
GO
