-- An outage is not a failed delivery: what a row went through, and how the targets are.

-- TryCount: all tries; AttemptCount: the failures that counted, and the success. FirstFailedAt, CountedAt: of the first
-- failure, and of the last one that counted. TargetMark: how many rows had arrived at the target then
-- (DeliveryTargets.Arrived). HeldFor: the target (DeliveryTargets.Id) that the row waits for since HeldAt; its due time is
-- only the backstop then.
-- add column if missing: TB_FUNCTIONAL_ACK_OUTBOX TryCount
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN TryCount INT NOT NULL DEFAULT 0;
-- add column if missing: TB_FUNCTIONAL_ACK_OUTBOX FirstFailedAt
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN FirstFailedAt TEXT NULL;
-- add column if missing: TB_FUNCTIONAL_ACK_OUTBOX CountedAt
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN CountedAt TEXT NULL;
-- add column if missing: TB_FUNCTIONAL_ACK_OUTBOX TargetMark
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN TargetMark BIGINT NULL;
-- add column if missing: TB_FUNCTIONAL_ACK_OUTBOX HeldFor
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN HeldFor BIGINT NULL;
-- add column if missing: TB_FUNCTIONAL_ACK_OUTBOX HeldAt
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN HeldAt TEXT NULL;
-- add column if missing: TB_TICKET_RETURN_OUTBOX TryCount
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN TryCount INT NOT NULL DEFAULT 0;
-- add column if missing: TB_TICKET_RETURN_OUTBOX FirstFailedAt
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN FirstFailedAt TEXT NULL;
-- add column if missing: TB_TICKET_RETURN_OUTBOX CountedAt
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN CountedAt TEXT NULL;
-- add column if missing: TB_TICKET_RETURN_OUTBOX TargetMark
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN TargetMark BIGINT NULL;
-- add column if missing: TB_TICKET_RETURN_OUTBOX HeldFor
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN HeldFor BIGINT NULL;
-- add column if missing: TB_TICKET_RETURN_OUTBOX HeldAt
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN HeldAt TEXT NULL;
-- add column if missing: TB_TICKET_INTERFACE GatewaySendTryCount
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN GatewaySendTryCount INT NOT NULL DEFAULT 0;
-- add column if missing: TB_TICKET_INTERFACE GatewaySendFirstFailedAt
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN GatewaySendFirstFailedAt TEXT NULL;
-- add column if missing: TB_TICKET_INTERFACE GatewaySendCountedAt
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN GatewaySendCountedAt TEXT NULL;
-- add column if missing: TB_TICKET_INTERFACE GatewaySendTargetMark
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN GatewaySendTargetMark BIGINT NULL;
-- add column if missing: TB_TICKET_INTERFACE GatewaySendHeldFor
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN GatewaySendHeldFor BIGINT NULL;
-- add column if missing: TB_TICKET_INTERFACE GatewaySendHeldAt
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN GatewaySendHeldAt TEXT NULL;
-- add column if missing: IntegrationCalls TryCount
ALTER TABLE IntegrationCalls ADD COLUMN TryCount INT NOT NULL DEFAULT 0;
-- add column if missing: IntegrationCalls FirstFailedAt
ALTER TABLE IntegrationCalls ADD COLUMN FirstFailedAt TEXT NULL;
-- add column if missing: IntegrationCalls CountedAt
ALTER TABLE IntegrationCalls ADD COLUMN CountedAt TEXT NULL;
-- add column if missing: IntegrationCalls TargetMark
ALTER TABLE IntegrationCalls ADD COLUMN TargetMark BIGINT NULL;
-- add column if missing: IntegrationCalls HeldFor
ALTER TABLE IntegrationCalls ADD COLUMN HeldFor BIGINT NULL;
-- add column if missing: IntegrationCalls HeldAt
ALTER TABLE IntegrationCalls ADD COLUMN HeldAt TEXT NULL;
-- add column if missing: AlertDeliveries TryCount
ALTER TABLE AlertDeliveries ADD COLUMN TryCount INT NOT NULL DEFAULT 0;
-- add column if missing: AlertDeliveries FirstFailedAt
ALTER TABLE AlertDeliveries ADD COLUMN FirstFailedAt TEXT NULL;
-- add column if missing: AlertDeliveries CountedAt
ALTER TABLE AlertDeliveries ADD COLUMN CountedAt TEXT NULL;
-- add column if missing: AlertDeliveries TargetMark
ALTER TABLE AlertDeliveries ADD COLUMN TargetMark BIGINT NULL;
-- add column if missing: AlertDeliveries HeldFor
ALTER TABLE AlertDeliveries ADD COLUMN HeldFor BIGINT NULL;
-- add column if missing: AlertDeliveries HeldAt
ALTER TABLE AlertDeliveries ADD COLUMN HeldAt TEXT NULL;
-- add column if missing: WebhookDeliveries TryCount
ALTER TABLE WebhookDeliveries ADD COLUMN TryCount INT NOT NULL DEFAULT 0;
-- add column if missing: WebhookDeliveries FirstFailedAt
ALTER TABLE WebhookDeliveries ADD COLUMN FirstFailedAt TEXT NULL;
-- add column if missing: WebhookDeliveries CountedAt
ALTER TABLE WebhookDeliveries ADD COLUMN CountedAt TEXT NULL;
-- add column if missing: WebhookDeliveries TargetMark
ALTER TABLE WebhookDeliveries ADD COLUMN TargetMark BIGINT NULL;
-- add column if missing: WebhookDeliveries HeldFor
ALTER TABLE WebhookDeliveries ADD COLUMN HeldFor BIGINT NULL;
-- add column if missing: WebhookDeliveries HeldAt
ALTER TABLE WebhookDeliveries ADD COLUMN HeldAt TEXT NULL;
-- Whether the failure counted (1); NULL: an older version wrote the attempt.
-- add column if missing: DeliveryAttempts Counted
ALTER TABLE DeliveryAttempts ADD COLUMN Counted INT NULL;
-- When the ticket's processing first failed, last failed so that it counted, and how many tickets were processed then.
-- add column if missing: TB_TICKET_INTERFACE FirstFailedAt
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN FirstFailedAt TEXT NULL;
-- add column if missing: TB_TICKET_INTERFACE CountedAt
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN CountedAt TEXT NULL;
-- add column if missing: TB_TICKET_INTERFACE TargetMark
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN TargetMark BIGINT NULL;
-- add column if missing: TB_TICKET_INTERFACE TryCount
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN TryCount INT NOT NULL DEFAULT 0;
-- How many documents the last message about the alert told of; NULL: its rule counts none.
-- add column if missing: Alerts Reported
ALTER TABLE Alerts ADD COLUMN Reported BIGINT NULL;

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
    Id INTEGER PRIMARY KEY AUTOINCREMENT,
    Channel VARCHAR(50) NOT NULL CHECK (length(Channel) <= 50),
    Target VARCHAR(1000) NOT NULL CHECK (length(Target) <= 1000),
    Arrived BIGINT NOT NULL DEFAULT 0,
    LastArrivedAt TEXT NULL,
    LastFailedAt TEXT NULL,
    LastError NVARCHAR(2000) NULL CHECK (length(LastError) <= 2000),
    DownSince TEXT NULL,
    PausedAt TEXT NULL,
    PausedBy NVARCHAR(200) NULL CHECK (length(PausedBy) <= 200),
    GivenUp BIGINT NOT NULL DEFAULT 0,
    GivenUpSince TEXT NULL,
    GivenUpAt TEXT NULL,
    GivenUpError NVARCHAR(200) NULL CHECK (length(GivenUpError) <= 200),
    CreatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    UpdatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
CREATE UNIQUE INDEX IF NOT EXISTS UQ_DeliveryTargets_Channel_Target ON DeliveryTargets (Channel, Target);
