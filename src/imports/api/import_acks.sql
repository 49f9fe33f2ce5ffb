-- Acks as they arrive; the batch's owner settles the chunk by them.

-- Finds a chunk of any client's batch, since acks come from OmniFlow. The program compares the stored ack with the new
-- one.
-- name: import_ack_find
SELECT c.Id, c.Status, c.AckId, c.AckJson, c.RecordOffset, c.RecordCount, b.Attempt
FROM ImportChunk AS c JOIN ImportBatch AS b ON b.Id = c.BatchId
WHERE c.BatchId = :batch_id AND c.ChunkId = :chunk_id;
-- dialect: postgres
SELECT c.Id, c.Status, c.AckId, c.AckJson, c.RecordOffset, c.RecordCount, b.Attempt
FROM ImportChunk AS c JOIN ImportBatch AS b ON b.Id = c.BatchId
WHERE c.BatchId = :batch_id AND c.ChunkId = :chunk_id
FOR UPDATE OF c;
-- dialect: sqlserver
SELECT c.Id, c.Status, c.AckId, c.AckJson, c.RecordOffset, c.RecordCount, b.Attempt
FROM ImportChunk AS c WITH (UPDLOCK, ROWLOCK) JOIN ImportBatch AS b ON b.Id = c.BatchId
WHERE c.BatchId = :batch_id AND c.ChunkId = :chunk_id;

-- The first ack counts. Where a read cannot lock rows (Babelfish), this condition decides which was first.
-- name: import_ack_store
UPDATE ImportChunk
SET AckJson = :ack_json, AckId = COALESCE(AckId, :ack_id), AckedAt = :now, UpdatedAt = :now
WHERE Id = :id AND AckJson IS NULL AND Status IN (0, 1, 2);

-- How many early acks of the chunk are kept, and whether this one is.
-- name: import_early_look
SELECT (SELECT COUNT(*) FROM ImportEarlyAck WHERE BatchId = :batch_id AND ChunkId = :chunk_id) AS Kept,
       (SELECT COUNT(*) FROM ImportEarlyAck
        WHERE BatchId = :batch_id AND ChunkId = :chunk_id AND AckIdHash = CAST(:hash AS VARCHAR(65))) AS Known;

-- name: import_early_keep
INSERT INTO ImportEarlyAck (BatchId, ChunkId, AckIdHash, AckJson, CreatedAt)
VALUES (:batch_id, :chunk_id, :hash, :ack_json, :now);
