-- Cancelling a batch, and another attempt at its failed items.

-- name: import_action_find
SELECT Status, UploadPath, LockedAt, Attempt FROM ImportBatch WHERE Id = :id AND ClientId = :client_id;
-- dialect: postgres
SELECT Status, UploadPath, LockedAt, Attempt FROM ImportBatch WHERE Id = :id AND ClientId = :client_id FOR UPDATE;
-- dialect: sqlserver
SELECT Status, UploadPath, LockedAt, Attempt FROM ImportBatch WITH (UPDLOCK, ROWLOCK)
WHERE Id = :id AND ClientId = :client_id;

-- Both repeat the conditions: where a read cannot lock rows (Babelfish), another call may have been faster.

-- name: import_cancel
UPDATE ImportBatch SET Status = 6, CompletedAt = :now, UpdatedAt = :now
WHERE Id = :id AND Status IN (0, 2) AND LockedAt IS NULL AND Attempt = 1;

-- Items without a chunk could never be sent; masked ones have no payload any more.
-- name: import_retry_items
SELECT COUNT(*) FROM ImportItem
WHERE BatchId = :id AND Status = 1 AND ChunkId IS NOT NULL AND PayloadJson IS NOT NULL AND IsMasked = :masked;

-- name: import_retry_from
SELECT COALESCE(MAX(ChunkId), -1) + 1 FROM ImportChunk WHERE BatchId = :id;

-- name: import_retry
UPDATE ImportBatch
SET Status = 0, Attempt = Attempt + 1, RetryFromChunk = :from_chunk, CompletedAt = NULL, ErrorSummary = NULL,
    UpdatedAt = :now
WHERE Id = :id AND Status IN (4, 5) AND Attempt = :attempt;
