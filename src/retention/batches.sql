-- The removal of a batch (batches.h), in steps of :limit rows.

-- name: remove_batch_find
SELECT Status, UploadPath, RemovingAt FROM ImportBatch WHERE Id = :id;

-- A delivery that was given up waits for a person, unless it was dismissed or its failure was replayed.
-- name: remove_batch_mark
UPDATE ImportBatch SET RemovingAt = :now, IdempotencyKey = NULL
WHERE Id = :id AND Status >= 3 AND RemovingAt IS NULL
  AND NOT EXISTS (SELECT 1 FROM WebhookDeliveries AS d
                  WHERE d.BatchId = :id
                    AND (d.NextAttemptAt IS NOT NULL
                         OR (CAST(:keep_given_up AS INT) = 1 AND d.Status = 'Error' AND d.DismissedAt IS NULL
                             AND NOT EXISTS (SELECT 1 FROM WebhookDeliveryFailures AS f
                                             WHERE f.DeliveryId = d.Id AND (f.ReplayedAt IS NOT NULL OR f.DismissedAt IS NOT NULL)))));

-- How large the rows are that a step would take.
-- name: remove_batch_item_sizes
-- row: remove_batch_sizes
-- dialect: sqlite
SELECT COALESCE(LENGTH(CAST(i.PayloadJson AS BLOB)), 0) + COALESCE(LENGTH(CAST(i.OriginalJson AS BLOB)), 0) AS Bytes
FROM ImportItem AS i
WHERE i.BatchId = :id
ORDER BY i.Sequence
LIMIT :limit;
-- dialect: postgres
SELECT COALESCE(OCTET_LENGTH(i.PayloadJson), 0) + COALESCE(OCTET_LENGTH(i.OriginalJson), 0) AS Bytes
FROM ImportItem AS i
WHERE i.BatchId = :id
ORDER BY i.Sequence
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) COALESCE(DATALENGTH(i.PayloadJson), 0) + COALESCE(DATALENGTH(i.OriginalJson), 0) AS Bytes
FROM ImportItem AS i
WHERE i.BatchId = :id
ORDER BY i.Sequence;

-- name: remove_batch_kept_sizes
-- row: remove_batch_sizes
-- dialect: sqlite
SELECT LENGTH(k.Sealed) AS Bytes FROM ImportKept AS k WHERE k.BatchId = :id ORDER BY k.Sequence LIMIT :limit;
-- dialect: postgres
SELECT OCTET_LENGTH(k.Sealed) AS Bytes FROM ImportKept AS k WHERE k.BatchId = :id ORDER BY k.Sequence LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) DATALENGTH(k.Sealed) AS Bytes FROM ImportKept AS k WHERE k.BatchId = :id ORDER BY k.Sequence;

-- PostgreSQL collects the keys in an array first; otherwise it might go through the whole table for each step.
-- name: remove_batch_items
DELETE FROM ImportItem WHERE Id IN (SELECT i.Id FROM ImportItem AS i WHERE i.BatchId = :id ORDER BY i.Sequence LIMIT :limit);
-- dialect: postgres
DELETE FROM ImportItem
WHERE Id = ANY(ARRAY(SELECT i.Id FROM ImportItem AS i WHERE i.BatchId = :id ORDER BY i.Sequence LIMIT :limit));
-- dialect: sqlserver
DELETE FROM ImportItem
WHERE Id IN (SELECT TOP (:limit) i.Id FROM ImportItem AS i WHERE i.BatchId = :id ORDER BY i.Sequence);

-- name: remove_batch_chunks
DELETE FROM ImportChunk WHERE Id IN (SELECT c.Id FROM ImportChunk AS c WHERE c.BatchId = :id ORDER BY c.ChunkId LIMIT :limit);
-- dialect: postgres
DELETE FROM ImportChunk
WHERE Id = ANY(ARRAY(SELECT c.Id FROM ImportChunk AS c WHERE c.BatchId = :id ORDER BY c.ChunkId LIMIT :limit));
-- dialect: sqlserver
DELETE FROM ImportChunk
WHERE Id IN (SELECT TOP (:limit) c.Id FROM ImportChunk AS c WHERE c.BatchId = :id ORDER BY c.ChunkId);

-- name: remove_batch_early
DELETE FROM ImportEarlyAck
WHERE Id IN (SELECT e.Id FROM ImportEarlyAck AS e WHERE e.BatchId = :id ORDER BY e.ChunkId LIMIT :limit);
-- dialect: postgres
DELETE FROM ImportEarlyAck
WHERE Id = ANY(ARRAY(SELECT e.Id FROM ImportEarlyAck AS e WHERE e.BatchId = :id ORDER BY e.ChunkId LIMIT :limit));
-- dialect: sqlserver
DELETE FROM ImportEarlyAck
WHERE Id IN (SELECT TOP (:limit) e.Id FROM ImportEarlyAck AS e WHERE e.BatchId = :id ORDER BY e.ChunkId);

-- name: remove_batch_kept
DELETE FROM ImportKept
WHERE BatchId = :id AND Sequence IN (SELECT k.Sequence FROM ImportKept AS k WHERE k.BatchId = :id ORDER BY k.Sequence LIMIT :limit);
-- dialect: postgres
DELETE FROM ImportKept
WHERE BatchId = :id
  AND Sequence = ANY(ARRAY(SELECT k.Sequence FROM ImportKept AS k WHERE k.BatchId = :id ORDER BY k.Sequence LIMIT :limit));
-- dialect: sqlserver
DELETE FROM ImportKept
WHERE BatchId = :id
  AND Sequence IN (SELECT TOP (:limit) k.Sequence FROM ImportKept AS k WHERE k.BatchId = :id ORDER BY k.Sequence);

-- name: remove_batch_subjects
DELETE FROM ImportSubjects
WHERE Id IN (SELECT s.Id FROM ImportSubjects AS s WHERE s.BatchId = :id ORDER BY s.Id LIMIT :limit);
-- dialect: sqlserver
DELETE FROM ImportSubjects
WHERE Id IN (SELECT TOP (:limit) s.Id FROM ImportSubjects AS s WHERE s.BatchId = :id ORDER BY s.Id);

-- name: remove_batch_named
-- dialect: sqlite
DELETE FROM SubjectIndex WHERE Place = 'batch' AND RowKey = :id;
-- dialect: postgres
DELETE FROM SubjectIndex WHERE Place = 'batch' AND RowKey = CAST(CAST(:id AS UUID) AS VARCHAR(64));
-- dialect: sqlserver
DELETE FROM SubjectIndex WHERE Place = 'batch' AND RowKey = LOWER(CAST(CAST(:id AS UNIQUEIDENTIFIER) AS VARCHAR(64)));

-- The three take the same deliveries, by the order of their states and ids.
-- name: remove_batch_attempts
-- dialect: sqlite
DELETE FROM DeliveryAttempts
WHERE Channel = 'webhooks'
  AND RowKey IN (SELECT d.Id FROM WebhookDeliveries AS d WHERE d.BatchId = :id ORDER BY d.Status, d.Id LIMIT :limit);
-- dialect: postgres
DELETE FROM DeliveryAttempts
WHERE Channel = 'webhooks'
  AND RowKey = ANY(ARRAY(SELECT CAST(d.Id AS varchar(64)) FROM WebhookDeliveries AS d WHERE d.BatchId = :id
                         ORDER BY d.Status, d.Id LIMIT :limit));
-- dialect: sqlserver
DELETE FROM DeliveryAttempts
WHERE Channel = 'webhooks'
  AND RowKey IN (SELECT TOP (:limit) LOWER(CAST(d.Id AS VARCHAR(64))) FROM WebhookDeliveries AS d WHERE d.BatchId = :id
                 ORDER BY d.Status, d.Id);

-- name: remove_batch_failures
-- dialect: sqlite
DELETE FROM WebhookDeliveryFailures
WHERE DeliveryId IN (SELECT d.Id FROM WebhookDeliveries AS d WHERE d.BatchId = :id ORDER BY d.Status, d.Id LIMIT :limit);
-- dialect: postgres
DELETE FROM WebhookDeliveryFailures
WHERE DeliveryId = ANY(ARRAY(SELECT d.Id FROM WebhookDeliveries AS d WHERE d.BatchId = :id
                             ORDER BY d.Status, d.Id LIMIT :limit));
-- dialect: sqlserver
DELETE FROM WebhookDeliveryFailures
WHERE DeliveryId IN (SELECT TOP (:limit) d.Id FROM WebhookDeliveries AS d WHERE d.BatchId = :id ORDER BY d.Status, d.Id);

-- name: remove_batch_deliveries
-- dialect: sqlite
DELETE FROM WebhookDeliveries
WHERE Id IN (SELECT d.Id FROM WebhookDeliveries AS d WHERE d.BatchId = :id ORDER BY d.Status, d.Id LIMIT :limit);
-- dialect: postgres
DELETE FROM WebhookDeliveries
WHERE Id = ANY(ARRAY(SELECT d.Id FROM WebhookDeliveries AS d WHERE d.BatchId = :id
                     ORDER BY d.Status, d.Id LIMIT :limit));
-- dialect: sqlserver
DELETE FROM WebhookDeliveries
WHERE Id IN (SELECT TOP (:limit) d.Id FROM WebhookDeliveries AS d WHERE d.BatchId = :id ORDER BY d.Status, d.Id);

-- name: remove_batch_row
DELETE FROM ImportBatch WHERE Id = :id AND RemovingAt IS NOT NULL;
