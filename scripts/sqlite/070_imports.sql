-- What the processing of batches needs beyond 030: how a batch is cut, its attempts, and acks that came.

-- BatchSize: records in a chunk, fixed when the work begins, so that the file is cut the same way every time. Attempt counts
-- from 1; with a later one only items that failed are sent, in chunks from RetryFromChunk on.
-- add column if missing: ImportBatch BatchSize
ALTER TABLE ImportBatch ADD COLUMN BatchSize INT NULL;
-- add column if missing: ImportBatch Attempt
ALTER TABLE ImportBatch ADD COLUMN Attempt INT NOT NULL DEFAULT 1;
-- add column if missing: ImportBatch RetryFromChunk
ALTER TABLE ImportBatch ADD COLUMN RetryFromChunk INT NULL;
-- An ack as it was sent, until the batch's owner has settled the chunk, and afterwards to know the same ack again.
-- add column if missing: ImportChunk AckJson
ALTER TABLE ImportChunk ADD COLUMN AckJson TEXT NULL;
