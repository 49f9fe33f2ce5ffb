-- Imports: batches that wait for OmniFlow, refused uploads, records as they were uploaded, lists for operators.

-- OutageSince: OmniFlow has taken no chunk of the batch since then. WaitingSince: the batch waits for OmniFlow since then.
-- OutageTries: how often it was given back while OmniFlow took other batches' chunks.
-- add column if missing: ImportBatch OutageSince
ALTER TABLE ImportBatch ADD COLUMN OutageSince TEXT NULL;
-- add column if missing: ImportBatch WaitingSince
ALTER TABLE ImportBatch ADD COLUMN WaitingSince TEXT NULL;
-- add column if missing: ImportBatch OutageTries
ALTER TABLE ImportBatch ADD COLUMN OutageTries INT NULL;
-- The correlationId of the upload's metadata; CorrelationId is that of the request.
-- add column if missing: ImportBatch MetadataCorrelationId
ALTER TABLE ImportBatch ADD COLUMN MetadataCorrelationId VARCHAR(128) NULL CHECK (length(MetadataCorrelationId) <= 128);
-- An upload that the policy refused has PolicyDecision 'Rejected', the rule, and how often it happened in that minute.
-- add column if missing: ImportBatch RefusedRule
ALTER TABLE ImportBatch ADD COLUMN RefusedRule VARCHAR(50) NULL CHECK (length(RefusedRule) <= 50);
-- add column if missing: ImportBatch RefusalCount
ALTER TABLE ImportBatch ADD COLUMN RefusalCount INT NULL;
-- The names of the file's columns, a JSON array in the file's order; NULL: JSON, or too long.
-- add column if missing: ImportBatch ColumnsJson
ALTER TABLE ImportBatch ADD COLUMN ColumnsJson TEXT NULL;
-- The record as it was uploaded, a JSON object; only of items in error, for the report.
-- add column if missing: ImportItem OriginalJson
ALTER TABLE ImportItem ADD COLUMN OriginalJson TEXT NULL;

CREATE INDEX IF NOT EXISTS IX_ImportBatch_CreatedAt ON ImportBatch (CreatedAt);
