-- Deliveries of webhooks, one for each event and subscription that wants it; whose tickets are, and which delivery a failure was.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- Status: Pending, Sending, Sent, Error. NextAttemptAt: when the row may be taken; NULL: there is nothing to do. Id is what the
-- receiver knows the delivery by (webhook-id); EventId is the same for all subscriptions of one event. PayloadJson: the body
-- without its signature. Reference: the batch, or the ticket's BusinessDocId.
IF OBJECT_ID(N'WebhookDeliveries', N'U') IS NULL
CREATE TABLE WebhookDeliveries (
    Id UNIQUEIDENTIFIER NOT NULL CONSTRAINT PK_WebhookDeliveries PRIMARY KEY CLUSTERED,
    SubscriptionId UNIQUEIDENTIFIER NOT NULL
        CONSTRAINT FK_WebhookDeliveries_WebhookSubscriptions
        REFERENCES WebhookSubscriptions (Id) ON DELETE CASCADE,
    EventId UNIQUEIDENTIFIER NOT NULL,
    Event VARCHAR(50) NOT NULL,
    Reference NVARCHAR(100) NULL,
    BatchId UNIQUEIDENTIFIER NULL,
    PayloadJson NVARCHAR(MAX) NOT NULL,
    CorrelationId VARCHAR(128) NULL,
    Status VARCHAR(20) NOT NULL CONSTRAINT DF_WebhookDeliveries_Status DEFAULT 'Pending',
    AttemptCount INT NOT NULL CONSTRAINT DF_WebhookDeliveries_AttemptCount DEFAULT 0,
    CreatedAt DATETIME2 NOT NULL CONSTRAINT DF_WebhookDeliveries_CreatedAt DEFAULT SYSUTCDATETIME(),
    LastAttemptAt DATETIME2 NULL,
    SentAt DATETIME2 NULL,
    NextAttemptAt DATETIME2 NULL CONSTRAINT DF_WebhookDeliveries_NextAttemptAt DEFAULT SYSUTCDATETIME(),
    LastStatus INT NULL,
    LastError NVARCHAR(2000) NULL
);

-- The delivery that was given up; NULL: its row is gone, or others wrote the failure.
IF COL_LENGTH(N'WebhookDeliveryFailures', N'DeliveryId') IS NULL
    ALTER TABLE WebhookDeliveryFailures ADD DeliveryId UNIQUEIDENTIFIER NULL;
-- Who posted the ticket last: the client whose subscriptions hear of it.
IF COL_LENGTH(N'TB_TICKET_INTERFACE', N'ClientId') IS NULL
    ALTER TABLE TB_TICKET_INTERFACE ADD ClientId UNIQUEIDENTIFIER NULL;
GO

-- Babelfish shows the beginning of an index's name only, and makes up the rest.
DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF SERVERPROPERTY('Babelfish') = 1
BEGIN
    SET @shown = 31;
    SET @ending = N'%';
END;

IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookDeliveries')
               AND name LIKE LEFT(N'IX_WebhookDeliveries_SubscriptionId_CreatedAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_WebhookDeliveries_SubscriptionId_CreatedAt
        ON WebhookDeliveries (SubscriptionId, CreatedAt);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookDeliveries')
               AND name LIKE LEFT(N'IX_WebhookDeliveries_CreatedAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_WebhookDeliveries_CreatedAt
        ON WebhookDeliveries (CreatedAt, Id);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookDeliveries')
               AND name LIKE LEFT(N'IX_WebhookDeliveries_Status_CreatedAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_WebhookDeliveries_Status_CreatedAt
        ON WebhookDeliveries (Status, CreatedAt);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookDeliveries')
               AND name LIKE LEFT(N'IX_WebhookDeliveries_BatchId_Status', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_WebhookDeliveries_BatchId_Status
        ON WebhookDeliveries (BatchId, Status) WHERE BatchId IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookDeliveries')
               AND name LIKE LEFT(N'IX_WebhookDeliveries_NextAttemptAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_WebhookDeliveries_NextAttemptAt
        ON WebhookDeliveries (NextAttemptAt) WHERE NextAttemptAt IS NOT NULL;
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookDeliveryFailures')
               AND name LIKE LEFT(N'IX_WebhookDeliveryFailures_DeliveryId', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_WebhookDeliveryFailures_DeliveryId
        ON WebhookDeliveryFailures (DeliveryId) WHERE DeliveryId IS NOT NULL;
GO
