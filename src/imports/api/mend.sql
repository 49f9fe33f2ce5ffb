-- New values for the records of failed items.

-- name: mend_batch
SELECT MappingJson, OriginDefault, ColumnsJson FROM ImportBatch WHERE Id = :id;

-- name: mend_items
SELECT i.Sequence, i.Status, i.PayloadJson, i.IsMasked, i.OriginalJson, k.Sealed FROM ImportItem AS i
LEFT JOIN ImportKept AS k ON k.BatchId = i.BatchId AND k.Sequence = i.Sequence AND 0 = :expired
WHERE i.BatchId = :id AND i.Sequence IN EACH_INT(:ids)
ORDER BY i.Sequence;

-- An item that was never sent has no chunk. Chunk 0 is none either, but comes before those of the retry, which takes it.
-- name: mend_item
UPDATE ImportItem
SET PayloadJson = :payload, PayloadHash = :hash, IsMasked = :masked, OriginalJson = :original, ChunkId = COALESCE(ChunkId, 0)
WHERE BatchId = :id AND Sequence = :sequence AND Status = 1;

-- name: mend_drop_kept
DELETE FROM ImportKept WHERE BatchId = :id AND Sequence = :sequence;

-- name: mend_keep
INSERT INTO ImportKept (BatchId, Sequence, KeyId, Sealed, CreatedAt) VALUES (:id, :sequence, :key, :sealed, :now);
