-- Failed records of imports, encrypted until their time is over; items are stored masked.

-- One row for each item that failed: the record as it was uploaded and the item as it was sent, encrypted under the data
-- key KeyId for the place "batch:sequence".
CREATE TABLE IF NOT EXISTS ImportKept (
    BatchId TEXT NOT NULL
        CONSTRAINT FK_ImportKept_ImportBatch REFERENCES ImportBatch (Id) ON DELETE CASCADE,
    Sequence INT NOT NULL,
    KeyId INT NOT NULL,
    Sealed BLOB NOT NULL,
    CreatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    CONSTRAINT PK_ImportKept PRIMARY KEY (BatchId, Sequence)
);
CREATE INDEX IF NOT EXISTS IX_ImportKept_KeyId ON ImportKept (KeyId, BatchId, Sequence);

-- KeptUntil: when the batch's rows in ImportKept go; NULL: it has none, or it is in work. KeptLeftMs: what was left of that
-- time when a retry was asked for; NULL: all of it.
-- add column if missing: ImportBatch KeptUntil
ALTER TABLE ImportBatch ADD COLUMN KeptUntil TEXT NULL;
-- add column if missing: ImportBatch KeptLeftMs
ALTER TABLE ImportBatch ADD COLUMN KeptLeftMs BIGINT NULL;
CREATE INDEX IF NOT EXISTS IX_ImportBatch_KeptUntil ON ImportBatch (KeptUntil) WHERE KeptUntil IS NOT NULL;

-- The keyed hash of the callback as it came: the same callback again changes nothing.
-- add column if missing: TB_TICKET_INTERFACE CallbackHash
ALTER TABLE TB_TICKET_INTERFACE ADD COLUMN CallbackHash CHAR(64) NULL CHECK (length(CallbackHash) = 64);
