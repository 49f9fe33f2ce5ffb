-- An outage is not a failed delivery: what a row went through, and how the targets are.

-- TryCount: all tries; AttemptCount: the failures that counted, and the success. FirstFailedAt, CountedAt: of the first
-- failure, and of the last one that counted. TargetMark: how many rows had arrived at the target then
-- (DeliveryTargets.Arrived). HeldFor: the target (DeliveryTargets.Id) that the row waits for since HeldAt; its due time is
-- only the backstop then.
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN IF NOT EXISTS TryCount int NOT NULL DEFAULT 0;
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN IF NOT EXISTS FirstFailedAt timestamptz(3) NULL;
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN IF NOT EXISTS CountedAt timestamptz(3) NULL;
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN IF NOT EXISTS TargetMark bigint NULL;
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN IF NOT EXISTS HeldFor bigint NULL;
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN IF NOT EXISTS HeldAt timestamptz(3) NULL;
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN IF NOT EXISTS TryCount int NOT NULL DEFAULT 0;
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN IF NOT EXISTS FirstFailedAt timestamptz(3) NULL;
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN IF NOT EXISTS CountedAt timestamptz(3) NULL;
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN IF NOT EXISTS TargetMark bigint NULL;
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN IF NOT EXISTS HeldFor bigint NULL;
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN IF NOT EXISTS HeldAt timestamptz(3) NULL;
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN IF NOT EXISTS GatewaySendTryCount int NOT NULL DEFAULT 0;
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN IF NOT EXISTS GatewaySendFirstFailedAt timestamptz(3) NULL;
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN IF NOT EXISTS GatewaySendCountedAt timestamptz(3) NULL;
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN IF NOT EXISTS GatewaySendTargetMark bigint NULL;
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN IF NOT EXISTS GatewaySendHeldFor bigint NULL;
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN IF NOT EXISTS GatewaySendHeldAt timestamptz(3) NULL;
ALTER TABLE IntegrationCalls ADD COLUMN IF NOT EXISTS TryCount int NOT NULL DEFAULT 0;
ALTER TABLE IntegrationCalls ADD COLUMN IF NOT EXISTS FirstFailedAt timestamptz(3) NULL;
ALTER TABLE IntegrationCalls ADD COLUMN IF NOT EXISTS CountedAt timestamptz(3) NULL;
ALTER TABLE IntegrationCalls ADD COLUMN IF NOT EXISTS TargetMark bigint NULL;
ALTER TABLE IntegrationCalls ADD COLUMN IF NOT EXISTS HeldFor bigint NULL;
ALTER TABLE IntegrationCalls ADD COLUMN IF NOT EXISTS HeldAt timestamptz(3) NULL;
ALTER TABLE AlertDeliveries ADD COLUMN IF NOT EXISTS TryCount int NOT NULL DEFAULT 0;
ALTER TABLE AlertDeliveries ADD COLUMN IF NOT EXISTS FirstFailedAt timestamptz(3) NULL;
ALTER TABLE AlertDeliveries ADD COLUMN IF NOT EXISTS CountedAt timestamptz(3) NULL;
ALTER TABLE AlertDeliveries ADD COLUMN IF NOT EXISTS TargetMark bigint NULL;
ALTER TABLE AlertDeliveries ADD COLUMN IF NOT EXISTS HeldFor bigint NULL;
ALTER TABLE AlertDeliveries ADD COLUMN IF NOT EXISTS HeldAt timestamptz(3) NULL;
ALTER TABLE WebhookDeliveries ADD COLUMN IF NOT EXISTS TryCount int NOT NULL DEFAULT 0;
ALTER TABLE WebhookDeliveries ADD COLUMN IF NOT EXISTS FirstFailedAt timestamptz(3) NULL;
ALTER TABLE WebhookDeliveries ADD COLUMN IF NOT EXISTS CountedAt timestamptz(3) NULL;
ALTER TABLE WebhookDeliveries ADD COLUMN IF NOT EXISTS TargetMark bigint NULL;
ALTER TABLE WebhookDeliveries ADD COLUMN IF NOT EXISTS HeldFor bigint NULL;
ALTER TABLE WebhookDeliveries ADD COLUMN IF NOT EXISTS HeldAt timestamptz(3) NULL;
-- Whether the failure counted (1); NULL: an older version wrote the attempt.
ALTER TABLE DeliveryAttempts ADD COLUMN IF NOT EXISTS Counted int NULL;
-- When the ticket's processing first failed, last failed so that it counted, and how many tickets were processed then.
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN IF NOT EXISTS FirstFailedAt timestamptz(3) NULL;
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN IF NOT EXISTS CountedAt timestamptz(3) NULL;
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN IF NOT EXISTS TargetMark bigint NULL;
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN IF NOT EXISTS TryCount int NOT NULL DEFAULT 0;
-- How many documents the last message about the alert told of; NULL: its rule counts none.
ALTER TABLE Alerts ADD COLUMN IF NOT EXISTS Reported bigint NULL;

CREATE INDEX IF NOT EXISTS IX_TB_FUNCTIONAL_ACK_OUTBOX_Held
    ON TB_FUNCTIONAL_ACK_OUTBOX (HeldFor, CreatedAt) WHERE HeldFor IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_TB_FUNCTIONAL_ACK_OUTBOX_Probe
    ON TB_FUNCTIONAL_ACK_OUTBOX (HeldFor, HeldAt) WHERE HeldFor IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_TB_FUNCTIONAL_ACK_OUTBOX_GivenUp
    ON TB_FUNCTIONAL_ACK_OUTBOX (LastAttemptAt) WHERE Status = 'Error' AND NextAttemptAt IS NULL;
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_RETURN_OUTBOX_Held
    ON TB_TICKET_RETURN_OUTBOX (HeldFor, CreatedAt) WHERE HeldFor IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_RETURN_OUTBOX_Probe
    ON TB_TICKET_RETURN_OUTBOX (HeldFor, HeldAt) WHERE HeldFor IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_RETURN_OUTBOX_GivenUp
    ON TB_TICKET_RETURN_OUTBOX (LastAttemptAt) WHERE Status = 'Error' AND NextAttemptAt IS NULL;
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_INTERFACE_Held
    ON TB_TICKET_INTERFACE (GatewaySendHeldFor, CreatedAt) WHERE GatewaySendHeldFor IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_INTERFACE_Probe
    ON TB_TICKET_INTERFACE (GatewaySendHeldFor, GatewaySendHeldAt) WHERE GatewaySendHeldFor IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_INTERFACE_GivenUp
    ON TB_TICKET_INTERFACE (GatewaySendLastAttemptAt)
    WHERE GatewaySendStatus = 'Error' AND GatewaySendNextAttemptAt IS NULL;
CREATE INDEX IF NOT EXISTS IX_IntegrationCalls_Held
    ON IntegrationCalls (HeldFor, CreatedAt) WHERE HeldFor IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_IntegrationCalls_Probe
    ON IntegrationCalls (HeldFor, HeldAt) WHERE HeldFor IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_IntegrationCalls_GivenUp
    ON IntegrationCalls (LastAttemptAt) WHERE Status = 'Error' AND NextAttemptAt IS NULL;
CREATE INDEX IF NOT EXISTS IX_AlertDeliveries_Held
    ON AlertDeliveries (HeldFor, CreatedAt) WHERE HeldFor IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_AlertDeliveries_Probe
    ON AlertDeliveries (HeldFor, HeldAt) WHERE HeldFor IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_AlertDeliveries_GivenUp
    ON AlertDeliveries (LastAttemptAt) WHERE Status = 'Error' AND NextAttemptAt IS NULL;
CREATE INDEX IF NOT EXISTS IX_WebhookDeliveries_Held
    ON WebhookDeliveries (HeldFor, CreatedAt) WHERE HeldFor IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_WebhookDeliveries_Probe
    ON WebhookDeliveries (HeldFor, HeldAt) WHERE HeldFor IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_WebhookDeliveries_GivenUp
    ON WebhookDeliveries (LastAttemptAt) WHERE Status = 'Error' AND NextAttemptAt IS NULL;

-- Tickets whose processing was given up (a ticket that can never be valid has no FirstFailedAt), and webhooks that were
-- given up and not replayed.
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_INTERFACE_NotProcessed
    ON TB_TICKET_INTERFACE (FirstFailedAt)
    WHERE Status = 'Error' AND NextAttemptAt IS NULL AND FirstFailedAt IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_WebhookDeliveryFailures_NotReplayed
    ON WebhookDeliveryFailures (CreatedAt, SubscriptionId) WHERE ReplayedAt IS NULL;

-- How targets are, shared by all processes and kept over restarts. Channel: a channel of the delivery engine, "relay",
-- or "tickets" for their processing. Target: the URL without its query, or a name; empty: the whole channel, for PausedAt.
-- Arrived: rows that arrived, ever. DownSince: since when the breaker has not been closed, as the process saw it that
-- wrote last; NULL: well. PausedAt: a person stopped it, PausedBy.
-- GivenUp: events of a relay that wait for a person, given up from GivenUpSince to GivenUpAt, the last one for
-- GivenUpError. Tables of the server's own have rows for that.
CREATE TABLE IF NOT EXISTS DeliveryTargets (
    Id bigint GENERATED BY DEFAULT AS IDENTITY CONSTRAINT PK_DeliveryTargets PRIMARY KEY,
    Channel varchar(50) NOT NULL,
    Target varchar(1000) NOT NULL,
    Arrived bigint NOT NULL DEFAULT 0,
    LastArrivedAt timestamptz(3) NULL,
    LastFailedAt timestamptz(3) NULL,
    LastError varchar(2000) NULL,
    DownSince timestamptz(3) NULL,
    PausedAt timestamptz(3) NULL,
    PausedBy varchar(200) NULL,
    GivenUp bigint NOT NULL DEFAULT 0,
    GivenUpSince timestamptz(3) NULL,
    GivenUpAt timestamptz(3) NULL,
    GivenUpError varchar(200) NULL,
    CreatedAt timestamptz(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    UpdatedAt timestamptz(3) NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE UNIQUE INDEX IF NOT EXISTS UQ_DeliveryTargets_Channel_Target ON DeliveryTargets (Channel, Target);
