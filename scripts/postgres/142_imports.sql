-- Imports: batches that wait for OmniFlow, refused uploads, records as they were uploaded, lists for operators.

-- OutageSince: OmniFlow has taken no chunk of the batch since then. WaitingSince: the batch waits for OmniFlow since then.
-- OutageTries: how often it was given back while OmniFlow took other batches' chunks.
ALTER TABLE ImportBatch ADD COLUMN IF NOT EXISTS OutageSince timestamptz(3) NULL;
ALTER TABLE ImportBatch ADD COLUMN IF NOT EXISTS WaitingSince timestamptz(3) NULL;
ALTER TABLE ImportBatch ADD COLUMN IF NOT EXISTS OutageTries int NULL;
-- The correlationId of the upload's metadata; CorrelationId is that of the request.
ALTER TABLE ImportBatch ADD COLUMN IF NOT EXISTS MetadataCorrelationId varchar(128) NULL;
-- An upload that the policy refused has PolicyDecision 'Rejected', the rule, and how often it happened in that minute.
ALTER TABLE ImportBatch ADD COLUMN IF NOT EXISTS RefusedRule varchar(50) NULL;
ALTER TABLE ImportBatch ADD COLUMN IF NOT EXISTS RefusalCount int NULL;
-- The names of the file's columns, a JSON array in the file's order; NULL: JSON, or too long.
ALTER TABLE ImportBatch ADD COLUMN IF NOT EXISTS ColumnsJson text NULL;
-- The record as it was uploaded, a JSON object; only of items in error, for the report.
ALTER TABLE ImportItem ADD COLUMN IF NOT EXISTS OriginalJson text NULL;

CREATE INDEX IF NOT EXISTS IX_ImportBatch_CreatedAt ON ImportBatch (CreatedAt);
