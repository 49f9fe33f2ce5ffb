-- Work that a process owns by shard, and what a delivery that went well says of itself.

-- SendingSince: since when the row has been on its way; written after a second. Status 'Sending' needs it, and no later
-- attempt: so a process of an older release, which wrote state and attempt with every claim, delivers nothing beside
-- processes of this one. SentStatus, SentMs: the answer's status and the duration of the try that arrived, which has no row
-- in DeliveryAttempts if it was the first.
UPDATE TB_FUNCTIONAL_ACK_OUTBOX SET Status = 'Pending', NextAttemptAt = COALESCE(NextAttemptAt, CreatedAt) WHERE Status = 'Sending';
-- add column if missing: TB_FUNCTIONAL_ACK_OUTBOX SendingSince
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN SendingSince TEXT NULL
    CHECK (Status <> 'Sending' OR (SendingSince IS NOT NULL
           AND (LastAttemptAt IS NULL OR LastAttemptAt <= SendingSince)));
-- add column if missing: TB_FUNCTIONAL_ACK_OUTBOX SentStatus
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN SentStatus INT NULL;
-- add column if missing: TB_FUNCTIONAL_ACK_OUTBOX SentMs
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN SentMs BIGINT NULL;
UPDATE TB_TICKET_RETURN_OUTBOX SET Status = 'Pending', NextAttemptAt = COALESCE(NextAttemptAt, CreatedAt) WHERE Status = 'Sending';
-- add column if missing: TB_TICKET_RETURN_OUTBOX SendingSince
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN SendingSince TEXT NULL
    CHECK (Status <> 'Sending' OR (SendingSince IS NOT NULL
           AND (LastAttemptAt IS NULL OR LastAttemptAt <= SendingSince)));
-- add column if missing: TB_TICKET_RETURN_OUTBOX SentStatus
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN SentStatus INT NULL;
-- add column if missing: TB_TICKET_RETURN_OUTBOX SentMs
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN SentMs BIGINT NULL;
UPDATE TB_TICKET_INTERFACE SET GatewaySendStatus = 'Pending', GatewaySendNextAttemptAt = COALESCE(GatewaySendNextAttemptAt, CreatedAt) WHERE GatewaySendStatus = 'Sending';
-- add column if missing: TB_TICKET_INTERFACE GatewaySendSendingSince
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN GatewaySendSendingSince TEXT NULL
    CHECK (GatewaySendStatus <> 'Sending' OR (GatewaySendSendingSince IS NOT NULL
           AND (GatewaySendLastAttemptAt IS NULL OR GatewaySendLastAttemptAt <= GatewaySendSendingSince)));
-- add column if missing: TB_TICKET_INTERFACE GatewaySendSentStatus
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN GatewaySendSentStatus INT NULL;
-- add column if missing: TB_TICKET_INTERFACE GatewaySendSentMs
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN GatewaySendSentMs BIGINT NULL;
UPDATE IntegrationCalls SET Status = 'Pending', NextAttemptAt = COALESCE(NextAttemptAt, CreatedAt) WHERE Status = 'Sending';
-- add column if missing: IntegrationCalls SendingSince
ALTER TABLE IntegrationCalls ADD COLUMN SendingSince TEXT NULL
    CHECK (Status <> 'Sending' OR (SendingSince IS NOT NULL
           AND (LastAttemptAt IS NULL OR LastAttemptAt <= SendingSince)));
-- add column if missing: IntegrationCalls SentStatus
ALTER TABLE IntegrationCalls ADD COLUMN SentStatus INT NULL;
-- add column if missing: IntegrationCalls SentMs
ALTER TABLE IntegrationCalls ADD COLUMN SentMs BIGINT NULL;
UPDATE AlertDeliveries SET Status = 'Pending', NextAttemptAt = COALESCE(NextAttemptAt, CreatedAt) WHERE Status = 'Sending';
-- add column if missing: AlertDeliveries SendingSince
ALTER TABLE AlertDeliveries ADD COLUMN SendingSince TEXT NULL
    CHECK (Status <> 'Sending' OR (SendingSince IS NOT NULL
           AND (LastAttemptAt IS NULL OR LastAttemptAt <= SendingSince)));
-- add column if missing: AlertDeliveries SentStatus
ALTER TABLE AlertDeliveries ADD COLUMN SentStatus INT NULL;
-- add column if missing: AlertDeliveries SentMs
ALTER TABLE AlertDeliveries ADD COLUMN SentMs BIGINT NULL;
UPDATE WebhookDeliveries SET Status = 'Pending', NextAttemptAt = COALESCE(NextAttemptAt, CreatedAt) WHERE Status = 'Sending';
-- add column if missing: WebhookDeliveries SendingSince
ALTER TABLE WebhookDeliveries ADD COLUMN SendingSince TEXT NULL
    CHECK (Status <> 'Sending' OR (SendingSince IS NOT NULL
           AND (LastAttemptAt IS NULL OR LastAttemptAt <= SendingSince)));
-- add column if missing: WebhookDeliveries SentStatus
ALTER TABLE WebhookDeliveries ADD COLUMN SentStatus INT NULL;
-- add column if missing: WebhookDeliveries SentMs
ALTER TABLE WebhookDeliveries ADD COLUMN SentMs BIGINT NULL;
-- The same for the processing of a ticket.
UPDATE TB_TICKET_INTERFACE SET Status = 'Awaiting', NextAttemptAt = COALESCE(NextAttemptAt, CreatedAt) WHERE Status = 'Processing';
-- add column if missing: TB_TICKET_INTERFACE ProcessingSince
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN ProcessingSince TEXT NULL
    CHECK (Status <> 'Processing' OR (ProcessingSince IS NOT NULL
           AND (NextAttemptAt IS NULL OR NextAttemptAt <= ProcessingSince)));

-- Claims go through rows by due time and id.
DROP INDEX IF EXISTS IX_TB_FUNCTIONAL_ACK_OUTBOX_NextAttemptAt;
CREATE INDEX IF NOT EXISTS IX_TB_FUNCTIONAL_ACK_OUTBOX_Due
    ON TB_FUNCTIONAL_ACK_OUTBOX (NextAttemptAt, Id) WHERE NextAttemptAt IS NOT NULL;
DROP INDEX IF EXISTS IX_TB_TICKET_RETURN_OUTBOX_NextAttemptAt;
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_RETURN_OUTBOX_Due
    ON TB_TICKET_RETURN_OUTBOX (NextAttemptAt, Id) WHERE NextAttemptAt IS NOT NULL;
DROP INDEX IF EXISTS IX_TB_TICKET_INTERFACE_NextGatewaySend;
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_INTERFACE_GatewayDue
    ON TB_TICKET_INTERFACE (GatewaySendNextAttemptAt, Id) WHERE GatewaySendNextAttemptAt IS NOT NULL;
DROP INDEX IF EXISTS IX_IntegrationCalls_NextAttemptAt;
CREATE INDEX IF NOT EXISTS IX_IntegrationCalls_Due
    ON IntegrationCalls (NextAttemptAt, Id) WHERE NextAttemptAt IS NOT NULL;
DROP INDEX IF EXISTS IX_AlertDeliveries_NextAttemptAt;
CREATE INDEX IF NOT EXISTS IX_AlertDeliveries_Due
    ON AlertDeliveries (NextAttemptAt, Id) WHERE NextAttemptAt IS NOT NULL;
DROP INDEX IF EXISTS IX_WebhookDeliveries_NextAttemptAt;
CREATE INDEX IF NOT EXISTS IX_WebhookDeliveries_Due
    ON WebhookDeliveries (NextAttemptAt, Id) WHERE NextAttemptAt IS NOT NULL;
DROP INDEX IF EXISTS IX_TB_TICKET_INTERFACE_NextAttemptAt;
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_INTERFACE_Due
    ON TB_TICKET_INTERFACE (NextAttemptAt, Id) WHERE NextAttemptAt IS NOT NULL;

-- Who does which work. A row belongs to a shard of its channel by its id: the number modulo 16, or the last digit of a UUID.
-- A process owns shards as long as it renews its lease; LeaseUntil is a time of the database's clock. Epoch grows with each
-- change of the owner, and every settlement names it. WorkMarks: rows that were taken after a process had ended in the middle
-- of its work, and how often; one that is taken too often without an end is set aside.
CREATE TABLE IF NOT EXISTS WorkOwners (
    Id TEXT NOT NULL CONSTRAINT PK_WorkOwners PRIMARY KEY CHECK (length(Id) = 36),
    Name NVARCHAR(200) NOT NULL CHECK (length(Name) <= 200),
    Version VARCHAR(50) NOT NULL CHECK (length(Version) <= 50),
    Channels TEXT NOT NULL,
    StartedAt TEXT NOT NULL,
    RenewedAt TEXT NOT NULL,
    LeaseUntil TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS WorkShards (
    Channel VARCHAR(50) NOT NULL CHECK (length(Channel) <= 50),
    Shard INT NOT NULL,
    OwnerId TEXT NULL CHECK (length(OwnerId) = 36),
    Epoch BIGINT NOT NULL DEFAULT 0,
    TakenAt TEXT NULL,
    CONSTRAINT PK_WorkShards PRIMARY KEY (Channel, Shard)
);
CREATE TABLE IF NOT EXISTS WorkMarks (
    Channel VARCHAR(50) NOT NULL CHECK (length(Channel) <= 50),
    RowKey VARCHAR(64) NOT NULL CHECK (length(RowKey) <= 64),
    Taken INT NOT NULL,
    MarkedAt TEXT NOT NULL,
    CONSTRAINT PK_WorkMarks PRIMARY KEY (Channel, RowKey)
);
