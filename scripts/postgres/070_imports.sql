-- What the processing of batches needs beyond 030: how a batch is cut, its attempts, and acks that came.

-- BatchSize: records in a chunk, fixed when the work begins, so that the file is cut the same way every time. Attempt counts
-- from 1; with a later one only items that failed are sent, in chunks from RetryFromChunk on.
ALTER TABLE ImportBatch ADD COLUMN IF NOT EXISTS BatchSize int NULL;
ALTER TABLE ImportBatch ADD COLUMN IF NOT EXISTS Attempt int NOT NULL DEFAULT 1;
ALTER TABLE ImportBatch ADD COLUMN IF NOT EXISTS RetryFromChunk int NULL;
-- An ack as it was sent, until the batch's owner has settled the chunk, and afterwards to know the same ack again.
ALTER TABLE ImportChunk ADD COLUMN IF NOT EXISTS AckJson text NULL;
