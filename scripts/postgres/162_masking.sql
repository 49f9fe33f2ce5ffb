-- Failed records of imports, encrypted until their time is over; items are stored masked.

-- One row for each item that failed: the record as it was uploaded and the item as it was sent, encrypted under the data
-- key KeyId for the place "batch:sequence".
CREATE TABLE IF NOT EXISTS ImportKept (
    BatchId uuid NOT NULL
        CONSTRAINT FK_ImportKept_ImportBatch REFERENCES ImportBatch (Id) ON DELETE CASCADE,
    Sequence int NOT NULL,
    KeyId int NOT NULL,
    Sealed bytea NOT NULL,
    CreatedAt timestamptz(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT PK_ImportKept PRIMARY KEY (BatchId, Sequence)
);
CREATE INDEX IF NOT EXISTS IX_ImportKept_KeyId ON ImportKept (KeyId, BatchId, Sequence);

-- KeptUntil: when the batch's rows in ImportKept go; NULL: it has none, or it is in work. KeptLeftMs: what was left of that
-- time when a retry was asked for; NULL: all of it.
ALTER TABLE ImportBatch ADD COLUMN IF NOT EXISTS KeptUntil timestamptz(3) NULL;
ALTER TABLE ImportBatch ADD COLUMN IF NOT EXISTS KeptLeftMs bigint NULL;
CREATE INDEX IF NOT EXISTS IX_ImportBatch_KeptUntil ON ImportBatch (KeptUntil) WHERE KeptUntil IS NOT NULL;

-- The keyed hash of the callback as it came: the same callback again changes nothing.
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN IF NOT EXISTS CallbackHash char(64) NULL CHECK (length(CallbackHash) = 64);
