-- What is over is removed after a while (docs/retention.md).

-- DismissedAt: a person looked at what was given up and wants no more of it. It no longer counts as given up, and is removed
-- as what was sent is. A failure after that, and a retry, clear it.
-- RemovingAt: the batch is being removed, in steps; nobody sees it any more, and whoever finds it goes on.
-- add column if missing: TB_FUNCTIONAL_ACK_OUTBOX DismissedAt
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN DismissedAt TEXT NULL;
-- add column if missing: TB_TICKET_RETURN_OUTBOX DismissedAt
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN DismissedAt TEXT NULL;
-- add column if missing: TB_TICKET_INTERFACE DismissedAt
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN DismissedAt TEXT NULL;
-- add column if missing: TB_TICKET_INTERFACE GatewaySendDismissedAt
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN GatewaySendDismissedAt TEXT NULL;
-- add column if missing: IntegrationCalls DismissedAt
ALTER TABLE IntegrationCalls ADD COLUMN DismissedAt TEXT NULL;
-- add column if missing: AlertDeliveries DismissedAt
ALTER TABLE AlertDeliveries ADD COLUMN DismissedAt TEXT NULL;
-- add column if missing: WebhookDeliveries DismissedAt
ALTER TABLE WebhookDeliveries ADD COLUMN DismissedAt TEXT NULL;
-- add column if missing: WebhookDeliveryFailures DismissedAt
ALTER TABLE WebhookDeliveryFailures ADD COLUMN DismissedAt TEXT NULL;
-- add column if missing: ImportBatch RemovingAt
ALTER TABLE ImportBatch ADD COLUMN RemovingAt TEXT NULL;

-- What was given up and waits for a person: what was dismissed does not.
DROP INDEX IF EXISTS IX_TB_FUNCTIONAL_ACK_OUTBOX_GivenUp;
CREATE INDEX IF NOT EXISTS IX_TB_FUNCTIONAL_ACK_OUTBOX_AwaitsPerson ON TB_FUNCTIONAL_ACK_OUTBOX (LastAttemptAt)
    WHERE Status = 'Error' AND NextAttemptAt IS NULL AND DismissedAt IS NULL;
DROP INDEX IF EXISTS IX_TB_TICKET_RETURN_OUTBOX_GivenUp;
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_RETURN_OUTBOX_AwaitsPerson ON TB_TICKET_RETURN_OUTBOX (LastAttemptAt)
    WHERE Status = 'Error' AND NextAttemptAt IS NULL AND DismissedAt IS NULL;
DROP INDEX IF EXISTS IX_TB_TICKET_INTERFACE_GivenUp;
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_INTERFACE_AwaitsPerson ON TB_TICKET_INTERFACE (GatewaySendLastAttemptAt)
    WHERE GatewaySendStatus = 'Error' AND GatewaySendNextAttemptAt IS NULL AND GatewaySendDismissedAt IS NULL;
DROP INDEX IF EXISTS IX_TB_TICKET_INTERFACE_NotProcessed;
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_INTERFACE_ProcessingAwaitsPerson ON TB_TICKET_INTERFACE (FirstFailedAt)
    WHERE Status = 'Error' AND NextAttemptAt IS NULL AND FirstFailedAt IS NOT NULL AND DismissedAt IS NULL;
DROP INDEX IF EXISTS IX_IntegrationCalls_GivenUp;
CREATE INDEX IF NOT EXISTS IX_IntegrationCalls_AwaitsPerson ON IntegrationCalls (LastAttemptAt)
    WHERE Status = 'Error' AND NextAttemptAt IS NULL AND DismissedAt IS NULL;
DROP INDEX IF EXISTS IX_AlertDeliveries_GivenUp;
CREATE INDEX IF NOT EXISTS IX_AlertDeliveries_AwaitsPerson ON AlertDeliveries (LastAttemptAt)
    WHERE Status = 'Error' AND NextAttemptAt IS NULL AND DismissedAt IS NULL;
DROP INDEX IF EXISTS IX_WebhookDeliveries_GivenUp;
CREATE INDEX IF NOT EXISTS IX_WebhookDeliveries_AwaitsPerson ON WebhookDeliveries (LastAttemptAt)
    WHERE Status = 'Error' AND NextAttemptAt IS NULL AND DismissedAt IS NULL;
DROP INDEX IF EXISTS IX_WebhookDeliveryFailures_NotReplayed;
CREATE INDEX IF NOT EXISTS IX_WebhookDeliveryFailures_AwaitsPerson ON WebhookDeliveryFailures (CreatedAt, SubscriptionId)
    WHERE ReplayedAt IS NULL AND DismissedAt IS NULL;

-- Events that are over, the oldest first; batches whose removal did not end.
CREATE INDEX IF NOT EXISTS IX_outbox_events_over ON outbox_events (created_at, id) WHERE status IN ('PROCESSED', 'DISMISSED');
CREATE INDEX IF NOT EXISTS IX_ImportBatch_Removing ON ImportBatch (RemovingAt) WHERE RemovingAt IS NOT NULL;

-- When a piece of work that one process does for all is next due; who takes it moves the time on.
CREATE TABLE IF NOT EXISTS MaintenanceRuns (
    Name VARCHAR(50) NOT NULL CONSTRAINT PK_MaintenanceRuns PRIMARY KEY CHECK (length(Name) <= 50),
    DueAt TEXT NOT NULL
);
