-- Which columns of a file mean what, as the client says; why an item failed, as a code; and where its record stands in the
-- file.

-- The mapping that a client keeps for its uploads: {"<column or path>": "<canonical name>"}.
CREATE TABLE IF NOT EXISTS ClientMapping (
    ClientId uuid NOT NULL CONSTRAINT PK_ClientMapping PRIMARY KEY
        CONSTRAINT FK_ClientMapping_Clients REFERENCES Clients (Id) ON DELETE CASCADE,
    MappingJson text NOT NULL,
    UpdatedAt timestamptz(3) NOT NULL DEFAULT CURRENT_TIMESTAMP
);

-- MappingJson: the mapping by which the batch is read, in every attempt. RowsPerSecond: of its owner's last minute, written
-- with the progress. RetryableCount: failed items that a retry would send, counted at the batch's end; -1: its records are
-- no longer kept.
ALTER TABLE ImportBatch ADD COLUMN IF NOT EXISTS MappingJson text NULL;
ALTER TABLE ImportBatch ADD COLUMN IF NOT EXISTS RowsPerSecond int NULL;
ALTER TABLE ImportBatch ADD COLUMN IF NOT EXISTS RetryableCount int NULL;
CREATE INDEX IF NOT EXISTS IX_ImportBatch_ClientId_Checksum ON ImportBatch (ClientId, Checksum, CreatedAt) WHERE Checksum IS NOT NULL;

-- Reason: the code of ErrorMessage. SourceRow: the row of the sheet or CSV file, or the number of the JSON record, from 1.
-- Both are NULL for items of an earlier release.
ALTER TABLE ImportItem ADD COLUMN IF NOT EXISTS Reason varchar(50) NULL;
ALTER TABLE ImportItem ADD COLUMN IF NOT EXISTS SourceRow int NULL;
CREATE INDEX IF NOT EXISTS IX_ImportItem_BatchId_Reason ON ImportItem (BatchId, Reason, Sequence) WHERE Reason IS NOT NULL;
