-- Deliveries of webhooks, one for each event and subscription that wants it; whose tickets are, and which delivery a failure was.

-- Status: Pending, Sending, Sent, Error. NextAttemptAt: when the row may be taken; NULL: there is nothing to do. Id is what the
-- receiver knows the delivery by (webhook-id); EventId is the same for all subscriptions of one event. PayloadJson: the body
-- without its signature. Reference: the batch, or the ticket's BusinessDocId.
CREATE TABLE IF NOT EXISTS WebhookDeliveries (
    Id TEXT NOT NULL CONSTRAINT PK_WebhookDeliveries PRIMARY KEY CHECK (length(Id) = 36),
    SubscriptionId TEXT NOT NULL
        CONSTRAINT FK_WebhookDeliveries_WebhookSubscriptions
        REFERENCES WebhookSubscriptions (Id) ON DELETE CASCADE,
    EventId TEXT NOT NULL CHECK (length(EventId) = 36),
    Event VARCHAR(50) NOT NULL CHECK (length(Event) <= 50),
    Reference NVARCHAR(100) NULL CHECK (length(Reference) <= 100),
    BatchId TEXT NULL CHECK (length(BatchId) = 36),
    PayloadJson TEXT NOT NULL,
    CorrelationId VARCHAR(128) NULL CHECK (length(CorrelationId) <= 128),
    Status VARCHAR(20) NOT NULL DEFAULT 'Pending' CHECK (length(Status) <= 20),
    AttemptCount INT NOT NULL DEFAULT 0,
    CreatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    LastAttemptAt TEXT NULL,
    SentAt TEXT NULL,
    NextAttemptAt TEXT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    LastStatus INT NULL,
    LastError NVARCHAR(2000) NULL CHECK (length(LastError) <= 2000)
);

-- The delivery that was given up; NULL: its row is gone, or others wrote the failure.
-- add column if missing: WebhookDeliveryFailures DeliveryId
ALTER TABLE WebhookDeliveryFailures ADD COLUMN DeliveryId TEXT NULL CHECK (length(DeliveryId) = 36);
-- Who posted the ticket last: the client whose subscriptions hear of it.
-- add column if missing: TB_TICKET_INTERFACE ClientId
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN ClientId TEXT NULL CHECK (length(ClientId) = 36);

CREATE INDEX IF NOT EXISTS IX_WebhookDeliveries_SubscriptionId_CreatedAt
    ON WebhookDeliveries (SubscriptionId, CreatedAt);
CREATE INDEX IF NOT EXISTS IX_WebhookDeliveries_CreatedAt ON WebhookDeliveries (CreatedAt, Id);
CREATE INDEX IF NOT EXISTS IX_WebhookDeliveries_Status_CreatedAt ON WebhookDeliveries (Status, CreatedAt);
CREATE INDEX IF NOT EXISTS IX_WebhookDeliveries_BatchId_Status
    ON WebhookDeliveries (BatchId, Status) WHERE BatchId IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_WebhookDeliveries_NextAttemptAt
    ON WebhookDeliveries (NextAttemptAt) WHERE NextAttemptAt IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_WebhookDeliveryFailures_DeliveryId
    ON WebhookDeliveryFailures (DeliveryId) WHERE DeliveryId IS NOT NULL;
