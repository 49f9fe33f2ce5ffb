-- When a row may be taken by the delivery engine or the ticket processing, and what every attempt came to.
--
-- NextAttemptAt: waiting rows are due when they were written, claimed ones when the lease is over, failed ones when it is
-- time to try again; NULL: there is nothing to do. The indexes hold only what there is to do, so that a claim does not become
-- dearer with what is done.

-- add column if missing: TB_FUNCTIONAL_ACK_OUTBOX NextAttemptAt
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX ADD COLUMN NextAttemptAt TEXT NULL;
-- add column if missing: TB_TICKET_RETURN_OUTBOX NextAttemptAt
ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD COLUMN NextAttemptAt TEXT NULL;
-- add column if missing: TB_TICKET_INTERFACE NextAttemptAt
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN NextAttemptAt TEXT NULL;
-- add column if missing: TB_TICKET_INTERFACE GatewaySendNextAttemptAt
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN GatewaySendNextAttemptAt TEXT NULL;
-- PayloadHash tells the same payload again from another one; PayloadVersion counts the others, so that the result of
-- work on an older one is not taken for the newer's.
-- add column if missing: TB_TICKET_INTERFACE PayloadHash
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN PayloadHash CHAR(64) NULL CHECK (length(PayloadHash) = 64);
-- add column if missing: TB_TICKET_INTERFACE PayloadVersion
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN PayloadVersion INT NOT NULL DEFAULT 1;

-- Rows from before these columns, and those that others write.
UPDATE TB_FUNCTIONAL_ACK_OUTBOX SET NextAttemptAt = CreatedAt
    WHERE NextAttemptAt IS NULL AND Status IN ('Pending', 'Sending');
UPDATE TB_TICKET_RETURN_OUTBOX SET NextAttemptAt = CreatedAt
    WHERE NextAttemptAt IS NULL AND Status IN ('Pending', 'Sending');
UPDATE TB_TICKET_INTERFACE SET NextAttemptAt = CreatedAt
    WHERE NextAttemptAt IS NULL AND Status IN ('Awaiting', 'Processing');
UPDATE TB_TICKET_INTERFACE SET GatewaySendNextAttemptAt = CreatedAt
    WHERE GatewaySendNextAttemptAt IS NULL AND Status = 'Processed' AND GatewaySendStatus IN ('Pending', 'Sending');

CREATE INDEX IF NOT EXISTS IX_TB_FUNCTIONAL_ACK_OUTBOX_NextAttemptAt
    ON TB_FUNCTIONAL_ACK_OUTBOX (NextAttemptAt) WHERE NextAttemptAt IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_RETURN_OUTBOX_NextAttemptAt
    ON TB_TICKET_RETURN_OUTBOX (NextAttemptAt) WHERE NextAttemptAt IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_INTERFACE_NextAttemptAt
    ON TB_TICKET_INTERFACE (NextAttemptAt) WHERE NextAttemptAt IS NOT NULL;
CREATE INDEX IF NOT EXISTS IX_TB_TICKET_INTERFACE_NextGatewaySend
    ON TB_TICKET_INTERFACE (GatewaySendNextAttemptAt) WHERE GatewaySendNextAttemptAt IS NOT NULL;

-- Outcome: Sent, Retry, Error, or Stale (it came too late: somebody else had the row). RowKey: the row's id as text. Answer: its first 500 characters.
CREATE TABLE IF NOT EXISTS DeliveryAttempts (
    Id INTEGER PRIMARY KEY AUTOINCREMENT,
    Channel VARCHAR(50) NOT NULL CHECK (length(Channel) <= 50),
    RowKey VARCHAR(64) NOT NULL CHECK (length(RowKey) <= 64),
    Attempt INT NOT NULL,
    AttemptedAt TEXT NOT NULL,
    Outcome VARCHAR(20) NOT NULL CHECK (length(Outcome) <= 20),
    HttpStatus INT NULL,
    DurationMs BIGINT NOT NULL DEFAULT 0,
    Answer NVARCHAR(500) NULL CHECK (length(Answer) <= 500),
    Error NVARCHAR(2000) NULL CHECK (length(Error) <= 2000)
);
CREATE INDEX IF NOT EXISTS IX_DeliveryAttempts_Channel_RowKey ON DeliveryAttempts (Channel, RowKey, Id);
