-- Cancelling a batch, another attempt at its failed items, and taking it from its owner.

-- name: import_action_find
SELECT Status, UploadPath, LockedAt, Attempt, ProcessedRecords, ProcessingHost, KeptUntil,
       (SELECT c.ClientIdentifier FROM Clients AS c WHERE c.Id = ImportBatch.ClientId) AS ClientIdentifier
FROM ImportBatch WHERE Id = :id AND ClientId = :client_id AND RemovingAt IS NULL;
-- dialect: postgres
SELECT Status, UploadPath, LockedAt, Attempt, ProcessedRecords, ProcessingHost, KeptUntil,
       (SELECT c.ClientIdentifier FROM Clients AS c WHERE c.Id = ImportBatch.ClientId) AS ClientIdentifier
FROM ImportBatch
WHERE Id = :id AND ClientId = :client_id AND RemovingAt IS NULL FOR UPDATE;
-- dialect: sqlserver
SELECT Status, UploadPath, LockedAt, Attempt, ProcessedRecords, ProcessingHost, KeptUntil,
       (SELECT c.ClientIdentifier FROM Clients AS c WHERE c.Id = ImportBatch.ClientId) AS ClientIdentifier
FROM ImportBatch WITH (UPDLOCK, ROWLOCK)
WHERE Id = :id AND ClientId = :client_id AND RemovingAt IS NULL;

-- Both repeat the conditions: where a read cannot lock rows (Babelfish), another call may have been faster.

-- name: import_cancel
UPDATE ImportBatch SET Status = 6, CompletedAt = :now, UpdatedAt = :now
WHERE Id = :id AND Status IN (0, 2) AND LockedAt IS NULL AND Attempt = 1 AND ProcessedRecords = 0
  AND NOT EXISTS (SELECT 1 FROM ImportChunk AS c WHERE c.BatchId = :id AND (c.Status >= 2 OR c.AckId IS NOT NULL));

-- Chunks that OmniFlow has accepted: their ack is awaited, or was when they were last sent, or they are settled.
-- name: import_accepted
SELECT COUNT(*) FROM ImportChunk WHERE BatchId = :id AND (Status >= 2 OR AckId IS NOT NULL);

-- Items without a chunk could never be sent. Of masked ones the item as it was sent is kept, as long as its time is not
-- over.
-- name: import_retry_items
SELECT COUNT(*) FROM ImportItem AS i
LEFT JOIN ImportKept AS k ON k.BatchId = i.BatchId AND k.Sequence = i.Sequence AND 0 = :expired
WHERE i.BatchId = :id AND i.Status = 1 AND i.ChunkId IS NOT NULL
  AND (k.Sequence IS NOT NULL OR (i.PayloadJson IS NOT NULL AND i.IsMasked = :masked));

-- name: import_retry_sent
SELECT COUNT(*) FROM ImportItem WHERE BatchId = :id AND Status = 1 AND ChunkId IS NOT NULL;

-- Items of people that were erased (retention/erase.h).
-- name: import_retry_erased
SELECT COUNT(*) FROM ImportItem WHERE BatchId = :id AND Status = 1 AND ChunkId IS NOT NULL AND PayloadJson = :erased;

-- name: import_retry_from
SELECT COALESCE(MAX(ChunkId), -1) + 1 FROM ImportChunk WHERE BatchId = :id;

-- name: import_retry
UPDATE ImportBatch
SET Status = 0, Attempt = Attempt + 1, RetryFromChunk = :from_chunk, CompletedAt = NULL, ErrorSummary = NULL,
    OutageSince = NULL, WaitingSince = NULL, OutageTries = NULL, KeptUntil = NULL, KeptLeftMs = :kept_left, UpdatedAt = :now
WHERE Id = :id AND Status IN (4, 5) AND Attempt = :attempt AND RemovingAt IS NULL;

-- The owner's token is no longer the batch's, so that it can write nothing more. LockedAt as in owner_give_back.
-- name: import_release
UPDATE ImportBatch
SET FencingToken = 0, ProcessingHost = NULL, LockedAt = CASE WHEN CutRules > 1 THEN LockedAt END, UpdatedAt = :now
WHERE Id = :id AND Status = 1 AND LockedAt IS NOT NULL AND ProcessingHost IS NOT NULL;

-- name: import_release_lock
UPDATE BatchLocks SET IsLocked = :locked, LockOwnerBatchId = NULL, LockedAt = NULL WHERE Id = 1 AND LockOwnerBatchId = :id;
