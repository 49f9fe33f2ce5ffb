-- Deliveries of webhooks, one for each event and subscription that wants it; whose tickets are, and which delivery a failure was.

-- Status: Pending, Sending, Sent, Error. NextAttemptAt: when the row may be taken; NULL: there is nothing to do. Id is what the
-- receiver knows the delivery by (webhook-id); EventId is the same for all subscriptions of one event. PayloadJson: the body
-- without its signature. Reference: the batch, or the ticket's BusinessDocId.
CREATE TABLE IF NOT EXISTS WebhookDeliveries (
    Id uuid NOT NULL CONSTRAINT PK_WebhookDeliveries PRIMARY KEY,
    SubscriptionId uuid NOT NULL
        CONSTRAINT FK_WebhookDeliveries_WebhookSubscriptions
        REFERENCES WebhookSubscriptions (Id) ON DELETE CASCADE,
    EventId uuid NOT NULL,
    Event varchar(50) NOT NULL,
    Reference varchar(100) NULL,
    BatchId uuid NULL,
    PayloadJson text NOT NULL,
    CorrelationId varchar(128) NULL,
    Status varchar(20) NOT NULL DEFAULT 'Pending',
    AttemptCount int NOT NULL DEFAULT 0,
    CreatedAt timestamptz(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    LastAttemptAt timestamptz(3) NULL,
    SentAt timestamptz(3) NULL,
    NextAttemptAt timestamptz(3) NULL DEFAULT CURRENT_TIMESTAMP,
    LastStatus int NULL,
    LastError varchar(2000) NULL
);

-- The delivery that was given up; NULL: its row is gone, or others wrote the failure.
ALTER TABLE WebhookDeliveryFailures ADD COLUMN IF NOT EXISTS DeliveryId uuid NULL;
-- Who posted the ticket last: the client whose subscriptions hear of it.
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN IF NOT EXISTS ClientId uuid NULL;

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
