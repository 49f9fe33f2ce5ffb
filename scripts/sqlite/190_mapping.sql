-- Which columns of a file mean what, as the client says; why an item failed, as a code; and where its record stands in the
-- file.

-- The mapping that a client keeps for its uploads: {"<column or path>": "<canonical name>"}.
CREATE TABLE IF NOT EXISTS ClientMapping (
    ClientId TEXT NOT NULL CONSTRAINT PK_ClientMapping PRIMARY KEY
        CONSTRAINT FK_ClientMapping_Clients REFERENCES Clients (Id) ON DELETE CASCADE,
    MappingJson TEXT NOT NULL,
    UpdatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);

-- MappingJson: the mapping by which the batch is read, in every attempt. RowsPerSecond: of its owner's last minute, written
-- with the progress. RetryableCount: failed items that a retry would send, counted at the batch's end; -1: its records are
-- no longer kept.
-- add column if missing: ImportBatch MappingJson
ALTER TABLE ImportBatch ADD COLUMN MappingJson TEXT NULL;
-- add column if missing: ImportBatch RowsPerSecond
ALTER TABLE ImportBatch ADD COLUMN RowsPerSecond INT NULL;
-- add column if missing: ImportBatch RetryableCount
ALTER TABLE ImportBatch ADD COLUMN RetryableCount INT NULL;
CREATE INDEX IF NOT EXISTS IX_ImportBatch_ClientId_Checksum ON ImportBatch (ClientId, Checksum, CreatedAt) WHERE Checksum IS NOT NULL;

-- Reason: the code of ErrorMessage. SourceRow: the row of the sheet or CSV file, or the number of the JSON record, from 1.
-- Both are NULL for items of an earlier release.
-- add column if missing: ImportItem Reason
ALTER TABLE ImportItem ADD COLUMN Reason VARCHAR(50) NULL CHECK (length(Reason) <= 50);
-- add column if missing: ImportItem SourceRow
ALTER TABLE ImportItem ADD COLUMN SourceRow INT NULL;
CREATE INDEX IF NOT EXISTS IX_ImportItem_BatchId_Reason ON ImportItem (BatchId, Reason, Sequence) WHERE Reason IS NOT NULL;
