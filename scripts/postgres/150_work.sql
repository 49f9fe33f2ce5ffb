-- Work that a process owns by shard, and what a delivery that went well says of itself.

-- SendingSince: since when the row has been on its way; written after a second. Status 'Sending' needs it, and no later
-- attempt: so a process of an older release, which wrote state and attempt with every claim, delivers nothing beside
-- processes of this one. SentStatus, SentMs: the answer's status and the duration of the try that arrived, which has no row
-- in DeliveryAttempts if it was the first.
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN IF NOT EXISTS SendingSince timestamptz(3) NULL;
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN IF NOT EXISTS SentStatus int NULL;
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN IF NOT EXISTS SentMs bigint NULL;
UPDATE TB_FUNCTIONAL_ACK_OUTBOX SET SendingSince = clock_timestamp() WHERE Status = 'Sending' AND SendingSince IS NULL;
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX DROP CONSTRAINT IF EXISTS CK_TB_FUNCTIONAL_ACK_OUTBOX_SendingSince;
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD CONSTRAINT CK_TB_FUNCTIONAL_ACK_OUTBOX_SendingSince
    CHECK (Status <> 'Sending' OR (SendingSince IS NOT NULL
           AND (LastAttemptAt IS NULL OR LastAttemptAt <= SendingSince))) NOT VALID;
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN IF NOT EXISTS SendingSince timestamptz(3) NULL;
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN IF NOT EXISTS SentStatus int NULL;
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN IF NOT EXISTS SentMs bigint NULL;
UPDATE TB_TICKET_RETURN_OUTBOX SET SendingSince = clock_timestamp() WHERE Status = 'Sending' AND SendingSince IS NULL;
ALTER TABLE TB_TICKET_RETURN_OUTBOX DROP CONSTRAINT IF EXISTS CK_TB_TICKET_RETURN_OUTBOX_SendingSince;
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD CONSTRAINT CK_TB_TICKET_RETURN_OUTBOX_SendingSince
    CHECK (Status <> 'Sending' OR (SendingSince IS NOT NULL
           AND (LastAttemptAt IS NULL OR LastAttemptAt <= SendingSince))) NOT VALID;
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN IF NOT EXISTS GatewaySendSendingSince timestamptz(3) NULL;
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN IF NOT EXISTS GatewaySendSentStatus int NULL;
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN IF NOT EXISTS GatewaySendSentMs bigint NULL;
UPDATE TB_TICKET_INTERFACE SET GatewaySendSendingSince = clock_timestamp() WHERE GatewaySendStatus = 'Sending' AND GatewaySendSendingSince IS NULL;
ALTER TABLE TB_TICKET_INTERFACE DROP CONSTRAINT IF EXISTS CK_TB_TICKET_INTERFACE_SendingSince;
ALTER TABLE TB_TICKET_INTERFACE ADD CONSTRAINT CK_TB_TICKET_INTERFACE_SendingSince
    CHECK (GatewaySendStatus <> 'Sending' OR (GatewaySendSendingSince IS NOT NULL
           AND (GatewaySendLastAttemptAt IS NULL OR GatewaySendLastAttemptAt <= GatewaySendSendingSince))) NOT VALID;
ALTER TABLE IntegrationCalls ADD COLUMN IF NOT EXISTS SendingSince timestamptz(3) NULL;
ALTER TABLE IntegrationCalls ADD COLUMN IF NOT EXISTS SentStatus int NULL;
ALTER TABLE IntegrationCalls ADD COLUMN IF NOT EXISTS SentMs bigint NULL;
UPDATE IntegrationCalls SET SendingSince = clock_timestamp() WHERE Status = 'Sending' AND SendingSince IS NULL;
ALTER TABLE IntegrationCalls DROP CONSTRAINT IF EXISTS CK_IntegrationCalls_SendingSince;
ALTER TABLE IntegrationCalls ADD CONSTRAINT CK_IntegrationCalls_SendingSince
    CHECK (Status <> 'Sending' OR (SendingSince IS NOT NULL
           AND (LastAttemptAt IS NULL OR LastAttemptAt <= SendingSince))) NOT VALID;
ALTER TABLE AlertDeliveries ADD COLUMN IF NOT EXISTS SendingSince timestamptz(3) NULL;
ALTER TABLE AlertDeliveries ADD COLUMN IF NOT EXISTS SentStatus int NULL;
ALTER TABLE AlertDeliveries ADD COLUMN IF NOT EXISTS SentMs bigint NULL;
UPDATE AlertDeliveries SET SendingSince = clock_timestamp() WHERE Status = 'Sending' AND SendingSince IS NULL;
ALTER TABLE AlertDeliveries DROP CONSTRAINT IF EXISTS CK_AlertDeliveries_SendingSince;
ALTER TABLE AlertDeliveries ADD CONSTRAINT CK_AlertDeliveries_SendingSince
    CHECK (Status <> 'Sending' OR (SendingSince IS NOT NULL
           AND (LastAttemptAt IS NULL OR LastAttemptAt <= SendingSince))) NOT VALID;
ALTER TABLE WebhookDeliveries ADD COLUMN IF NOT EXISTS SendingSince timestamptz(3) NULL;
ALTER TABLE WebhookDeliveries ADD COLUMN IF NOT EXISTS SentStatus int NULL;
ALTER TABLE WebhookDeliveries ADD COLUMN IF NOT EXISTS SentMs bigint NULL;
UPDATE WebhookDeliveries SET SendingSince = clock_timestamp() WHERE Status = 'Sending' AND SendingSince IS NULL;
ALTER TABLE WebhookDeliveries DROP CONSTRAINT IF EXISTS CK_WebhookDeliveries_SendingSince;
ALTER TABLE WebhookDeliveries ADD CONSTRAINT CK_WebhookDeliveries_SendingSince
    CHECK (Status <> 'Sending' OR (SendingSince IS NOT NULL
           AND (LastAttemptAt IS NULL OR LastAttemptAt <= SendingSince))) NOT VALID;
-- The same for the processing of a ticket.
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN IF NOT EXISTS ProcessingSince timestamptz(3) NULL;
UPDATE TB_TICKET_INTERFACE SET ProcessingSince = GREATEST(NextAttemptAt, clock_timestamp())
    WHERE Status = 'Processing' AND ProcessingSince IS NULL;
ALTER TABLE TB_TICKET_INTERFACE DROP CONSTRAINT IF EXISTS CK_TB_TICKET_INTERFACE_ProcessingSince;
ALTER TABLE TB_TICKET_INTERFACE ADD CONSTRAINT CK_TB_TICKET_INTERFACE_ProcessingSince
    CHECK (Status <> 'Processing' OR (ProcessingSince IS NOT NULL
           AND (NextAttemptAt IS NULL OR NextAttemptAt <= ProcessingSince))) NOT VALID;

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
    Id uuid NOT NULL CONSTRAINT PK_WorkOwners PRIMARY KEY,
    Name varchar(200) NOT NULL,
    Version varchar(50) NOT NULL,
    Channels text NOT NULL,
    StartedAt timestamptz(3) NOT NULL,
    RenewedAt timestamptz(3) NOT NULL,
    LeaseUntil timestamptz(3) NOT NULL
);
CREATE TABLE IF NOT EXISTS WorkShards (
    Channel varchar(50) NOT NULL,
    Shard int NOT NULL,
    OwnerId uuid NULL,
    Epoch bigint NOT NULL DEFAULT 0,
    TakenAt timestamptz(3) NULL,
    CONSTRAINT PK_WorkShards PRIMARY KEY (Channel, Shard)
);
CREATE TABLE IF NOT EXISTS WorkMarks (
    Channel varchar(50) NOT NULL,
    RowKey varchar(64) NOT NULL,
    Taken int NOT NULL,
    MarkedAt timestamptz(3) NOT NULL,
    CONSTRAINT PK_WorkMarks PRIMARY KEY (Channel, RowKey)
);
