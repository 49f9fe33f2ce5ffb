-- Batches in work. Every transaction of an owner has a statement that finds the batch by the owner's token, or else
-- does nothing (src/delivery/README.md, lease and fence). States are numbers: docs/schema.md.

-- Locks the one row that all claims pass through until the transaction ends, and gives a new token. The time in it (:now,
-- in milliseconds) keeps a token from being given twice after a failover that lost the last claims.
-- name: claim_begin
-- dialect: sqlite, postgres
UPDATE BatchLocks SET FencingToken = CASE WHEN FencingToken < :now THEN :now ELSE FencingToken + 1 END
WHERE Id = 1 RETURNING FencingToken;
-- dialect: sqlserver
UPDATE BatchLocks
SET FencingToken = CASE WHEN BatchLocks.FencingToken < :now THEN :now ELSE BatchLocks.FencingToken + 1 END
OUTPUT inserted.FencingToken WHERE BatchLocks.Id = 1;

-- Batches in work come first, since their owner may have died. Then come the clients in turn, the one whose last turn
-- is longest ago first; or, if not fair, the batches in their order. No client's queue hides another's.
-- name: claim_candidates
SELECT b.Id, b.ClientId, b.Status, b.FileName, b.UploadPath, b.LockedAt, b.ProcessingHost, b.Attempt, b.CutRules, b.GaveWayAt,
       b.OutageSince, b.WaitingSince, COALESCE(b.OutageTries, 0) AS OutageTries, b.FencingToken, b.LockToken
FROM (SELECT Id, ClientId, Status, FileName, UploadPath, LockedAt, ProcessingHost, Attempt, CutRules, GaveWayAt, CreatedAt,
             OutageSince, WaitingSince, OutageTries, FencingToken, LockToken,
             ROW_NUMBER() OVER (PARTITION BY ClientId, Status ORDER BY CreatedAt, Id) AS Place
      FROM ImportBatch
      WHERE Status IN (0, 1)) AS b
LEFT JOIN ImportTurn AS t ON t.ClientId = b.ClientId
WHERE b.Status = 1 OR b.Place <= :of_client
ORDER BY CASE WHEN b.Status = 1 AND (b.GaveWayAt IS NULL OR 0 = :fair) THEN 0 ELSE 1 END,
         CASE WHEN 1 = :fair AND t.TurnAt IS NOT NULL THEN 1 ELSE 0 END, CASE WHEN 1 = :fair THEN t.TurnAt END,
         b.CreatedAt, b.Id
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) b.Id, b.ClientId, b.Status, b.FileName, b.UploadPath, b.LockedAt, b.ProcessingHost, b.Attempt, b.CutRules, b.GaveWayAt,
       b.OutageSince, b.WaitingSince, COALESCE(b.OutageTries, 0) AS OutageTries, b.FencingToken, b.LockToken
FROM (SELECT Id, ClientId, Status, FileName, UploadPath, LockedAt, ProcessingHost, Attempt, CutRules, GaveWayAt, CreatedAt,
             OutageSince, WaitingSince, OutageTries, FencingToken, LockToken,
             ROW_NUMBER() OVER (PARTITION BY ClientId, Status ORDER BY CreatedAt, Id) AS Place
      FROM ImportBatch
      WHERE Status IN (0, 1)) AS b
LEFT JOIN ImportTurn AS t ON t.ClientId = b.ClientId
WHERE b.Status = 1 OR b.Place <= :of_client
ORDER BY CASE WHEN b.Status = 1 AND (b.GaveWayAt IS NULL OR 0 = :fair) THEN 0 ELSE 1 END,
         CASE WHEN 1 = :fair AND t.TurnAt IS NOT NULL THEN 1 ELSE 0 END, CASE WHEN 1 = :fair THEN t.TurnAt END,
         b.CreatedAt, b.Id;

-- Whether a claim is worthwhile, and when the next scheduled batch is due. Batches that wait for OmniFlow since :due or
-- later are not tried again yet; NextWaiting is the first of them.
-- name: claim_look
SELECT (SELECT COUNT(*) FROM ImportBatch WHERE Status = 0 AND (WaitingSince IS NULL OR WaitingSince <= :due)) AS Pending,
       (SELECT COUNT(*) FROM ImportBatch WHERE Status = 1) AS Processing,
       (SELECT MIN(ScheduledFor) FROM ImportBatch WHERE Status = 2) AS NextScheduled,
       (SELECT MIN(WaitingSince) FROM ImportBatch WHERE Status = 0 AND WaitingSince > :due) AS NextWaiting;

-- A turn begins, unless that of a dead owner goes on. LockToken tells that the owner holds a lock, too (src/locks).
-- name: claim_take
UPDATE ImportBatch
SET Status = 1, StartedAt = COALESCE(StartedAt, :now), ProcessingHost = :host, FencingToken = :token, LockToken = :token,
    LockedAt = :now, UpdatedAt = :now, BatchSize = COALESCE(BatchSize, :batch_size),
    TurnAt = CASE WHEN Status = 1 AND GaveWayAt IS NULL THEN TurnAt ELSE :now END, GaveWayAt = NULL
WHERE Id = :id AND Status IN (0, 1);

-- name: turn_set
UPDATE ImportTurn SET TurnAt = :now WHERE ClientId = :client;

-- name: turn_add
INSERT INTO ImportTurn (ClientId, TurnAt) VALUES (:client, :now);

-- Whether a batch waits, new or after it gave way, whose client has none in work. A batch that waits for OmniFlow is
-- among them if OmniFlow took something since: at :well, 0 in an outage.
-- name: turn_wanted
SELECT COUNT(*)
FROM ImportBatch AS w
WHERE ((w.Status = 0 AND (w.WaitingSince IS NULL OR w.WaitingSince < :well)) OR (w.Status = 2 AND w.ScheduledFor <= :now)
       OR (w.Status = 1 AND (w.LockedAt IS NULL OR w.ProcessingHost IS NULL)))
  AND w.ClientId <> (SELECT b.ClientId FROM ImportBatch AS b WHERE b.Id = :id)
  AND NOT EXISTS (SELECT 1 FROM ImportBatch AS l
                  WHERE l.Status = 1 AND l.LockedAt IS NOT NULL AND l.ProcessingHost IS NOT NULL AND l.ClientId = w.ClientId);

-- name: claim_hold
UPDATE BatchLocks SET IsLocked = :locked, LockOwnerBatchId = :id, LockedAt = :now WHERE Id = 1;

-- name: claim_release
UPDATE BatchLocks SET IsLocked = :locked, LockOwnerBatchId = NULL, LockedAt = NULL WHERE Id = 1 AND LockOwnerBatchId = :id;

-- name: owner_load
SELECT b.FileName, b.FileType, b.UploadPath, b.Checksum, b.OriginDefault, b.Sheet, b.TotalRecords, b.BatchSize, b.Attempt,
       b.RetryFromChunk, b.CorrelationId, b.MetadataCorrelationId, b.TraceId, b.TraceParent, c.ClientIdentifier, b.CutRules,
       b.OutageSince, b.WaitingSince, COALESCE(b.OutageTries, 0) AS OutageTries, b.KeptLeftMs, b.ClientId, b.MappingJson
FROM ImportBatch AS b
JOIN Clients AS c ON c.Id = b.ClientId
WHERE b.Id = :id;

-- name: owner_renew
UPDATE ImportBatch SET LockedAt = :now WHERE Id = :id AND FencingToken = :token AND Status = 1;

-- name: owner_renew_lock
UPDATE BatchLocks SET LockedAt = :now WHERE Id = 1 AND LockOwnerBatchId = :id;

-- name: owner_total
UPDATE ImportBatch SET TotalRecords = :total, CutRules = :rules, ColumnsJson = :columns, ProcessingHost = :host, UpdatedAt = :now, LockedAt = :now
WHERE Id = :id AND FencingToken = :token AND Status = 1;

-- name: owner_progress
UPDATE ImportBatch
SET ProcessedRecords = ProcessedRecords + :processed, ErrorCount = ErrorCount + :errors,
    SkippedCount = SkippedCount + :skipped,
    LastError = CASE WHEN 1 = :well AND OutageSince IS NOT NULL THEN :error ELSE COALESCE(:error, LastError) END,
    OutageSince = CASE WHEN 1 = :well THEN NULL ELSE OutageSince END,
    WaitingSince = CASE WHEN 1 = :well THEN NULL ELSE WaitingSince END,
    OutageTries = CASE WHEN 1 = :well THEN NULL ELSE OutageTries END, RowsPerSecond = :rate, LockedAt = :now, UpdatedAt = :now
WHERE Id = :id AND FencingToken = :token AND Status = 1;

-- name: owner_finish
UPDATE ImportBatch
SET Status = :status, CompletedAt = :now, ErrorSummary = :summary, KeptUntil = COALESCE(:kept_until, KeptUntil), KeptLeftMs = NULL,
    RetryableCount = (SELECT COUNT(*) FROM ImportItem AS i WHERE i.BatchId = :id AND i.Status = 1 AND i.ChunkId IS NOT NULL),
    LastError = CASE WHEN ErrorCount = 0 THEN :error ELSE COALESCE(:error, LastError) END, LockedAt = NULL, UpdatedAt = :now
WHERE Id = :id AND FencingToken = :token AND Status = 1;

-- The owner stops before the end, and the next claim goes on. A batch is free without LockedAt or without
-- ProcessingHost. A process of the previous release knows only the first, so the second is used for a batch that it
-- must not cut.
-- name: owner_give_back
UPDATE ImportBatch SET LockedAt = :locked, ProcessingHost = :host, GaveWayAt = :gave_way, UpdatedAt = :now
WHERE Id = :id AND FencingToken = :token AND Status = 1;

-- OmniFlow takes nothing: the batch waits until it may be back.
-- name: owner_shelve
UPDATE ImportBatch
SET Status = 0, OutageSince = :since, WaitingSince = :now, OutageTries = :tries, LastError = :error, LockedAt = NULL,
    GaveWayAt = NULL, UpdatedAt = :now
WHERE Id = :id AND FencingToken = :token AND Status = 1;

-- name: owner_postpone
UPDATE ImportBatch
SET Status = 2, ScheduledFor = :due, LastError = :error, LockedAt = NULL, UpdatedAt = :now
WHERE Id = :id AND FencingToken = :token AND Status = 1;

-- name: owner_counts
SELECT ErrorCount, ProcessedRecords, COALESCE(TotalRecords, 0) AS TotalRecords FROM ImportBatch WHERE Id = :id;

-- name: chunk_last
SELECT COALESCE(MAX(ChunkId), 0) FROM ImportChunk WHERE BatchId = :id;

-- Where chunks have no row although a later one has: the later one's id, and how far it is from that of the row before.
-- A chunk with nothing to send gets its row when it is settled, one that the breaker holds back when it is sent.
-- name: chunk_gaps
SELECT k.ChunkId, k.Step
FROM (SELECT ChunkId, ChunkId - LAG(ChunkId, 1, 0) OVER (ORDER BY ChunkId) AS Step FROM ImportChunk WHERE BatchId = :id) AS k
WHERE k.Step > 1
ORDER BY k.ChunkId;

-- name: chunk_open
SELECT ChunkId, RecordOffset, RecordCount, ContentHash, Status, Attempts, AckId, SentAt, AckJson
FROM ImportChunk
WHERE BatchId = :id AND Status < 3
ORDER BY ChunkId;

-- name: chunk_acked
SELECT ChunkId, AckJson FROM ImportChunk
WHERE BatchId = :id AND ChunkId >= :from_chunk AND Status < 3 AND AckJson IS NOT NULL;

-- name: chunk_insert
INSERT INTO ImportChunk (BatchId, ChunkId, RecordOffset, RecordCount, ContentHash, Status, Attempts, SentAt)
VALUES (:id, :chunk, :offset, :count, :hash, :status, :attempts, :sent_at);

-- The ack of the previous attempt may still come, so its id stays until another answer names another ack.
-- name: chunk_attempt
UPDATE ImportChunk
SET Status = 1, Attempts = :attempts, SentAt = :now, UpdatedAt = :now
WHERE BatchId = :id AND ChunkId = :chunk AND Status < 3;

-- A chunk with a stored ack keeps its id.
-- name: chunk_await
UPDATE ImportChunk SET Status = 2, AckId = CASE WHEN AckJson IS NULL THEN :ack_id ELSE AckId END, UpdatedAt = :now
WHERE BatchId = :id AND ChunkId = :chunk AND Status < 3;

-- Takes over an ack that came before its id was known. A statement of its own, so that it sees what chunk_await waited
-- for.
-- name: chunk_early
UPDATE ImportChunk
SET AckJson = (SELECT e.AckJson FROM ImportEarlyAck AS e
               WHERE e.BatchId = :id AND e.ChunkId = :chunk AND e.AckIdHash = CAST(:hash AS VARCHAR(65))),
    AckedAt = :now, UpdatedAt = :now
WHERE BatchId = :id AND ChunkId = :chunk AND Status = 2 AND AckJson IS NULL
  AND EXISTS (SELECT 1 FROM ImportEarlyAck AS e
              WHERE e.BatchId = :id AND e.ChunkId = :chunk AND e.AckIdHash = CAST(:hash AS VARCHAR(65)));

-- name: early_drop
DELETE FROM ImportEarlyAck WHERE BatchId = :id;

-- A chunk with a stored ack is settled by that ack only.
-- name: chunk_settle
UPDATE ImportChunk
SET Status = :status, Attempts = :attempts, ErrorMessage = :error, AckedAt = COALESCE(AckedAt, :now), UpdatedAt = :now
WHERE BatchId = :id AND ChunkId = :chunk AND Status < 3 AND (AckJson IS NULL OR 1 = :by_ack);
-- many: postgres
UPDATE ImportChunk AS c
SET Status = n.status, Attempts = n.attempts, ErrorMessage = n.error, AckedAt = COALESCE(c.AckedAt, n.now), UpdatedAt = n.now
FROM UNNEST(CAST(:status AS SMALLINT[]), CAST(:attempts AS INT[]), CAST(:error AS TEXT[]), CAST(:now AS TIMESTAMPTZ[]),
            CAST(:id AS UUID[]), CAST(:chunk AS INT[]), CAST(:by_ack AS INT[]))
     WITH ORDINALITY AS n (status, attempts, error, now, id, chunk, by_ack, Nth)
WHERE c.BatchId = n.id AND c.ChunkId = n.chunk AND c.Status < 3 AND (c.AckJson IS NULL OR n.by_ack = 1)
RETURNING n.Nth;

-- name: item_insert
INSERT INTO ImportItem (BatchId, Sequence, PayloadJson, Status, ErrorMessage, ChunkId, PayloadHash, IsMasked, RecordCount, OriginalJson,
                        Reason, SourceRow)
VALUES (:id, :sequence, :payload, :status, :error, :chunk, :hash, :masked, :records, :original, :reason, :row);

-- name: kept_insert
INSERT INTO ImportKept (BatchId, Sequence, KeyId, Sealed, CreatedAt) VALUES (:id, :sequence, :key, :sealed, :now);

-- name: kept_drop
DELETE FROM ImportKept WHERE BatchId = :id AND Sequence = :sequence;

-- name: item_reasons
SELECT ErrorMessage, COUNT(*) AS Items FROM ImportItem WHERE BatchId = :id AND Status = 1
GROUP BY ErrorMessage ORDER BY COUNT(*) DESC, ErrorMessage LIMIT 10;
-- dialect: sqlserver
SELECT TOP (10) ErrorMessage, COUNT(*) FROM ImportItem WHERE BatchId = :id AND Status = 1
GROUP BY ErrorMessage ORDER BY COUNT(*) DESC, ErrorMessage;

-- --- a new attempt at failed items ---

-- The items that no chunk of this attempt has yet.
-- name: again_items
-- row: again
SELECT i.Sequence, i.PayloadJson, i.IsMasked, k.Sealed FROM ImportItem AS i
LEFT JOIN ImportKept AS k ON k.BatchId = i.BatchId AND k.Sequence = i.Sequence
WHERE i.BatchId = :id AND i.Status = 1 AND i.ChunkId < :from_chunk AND i.Sequence > :after
      AND (k.Sequence IS NOT NULL OR (i.PayloadJson IS NOT NULL AND i.IsMasked = :masked))
ORDER BY i.Sequence LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) i.Sequence, i.PayloadJson, i.IsMasked, k.Sealed FROM ImportItem AS i
LEFT JOIN ImportKept AS k ON k.BatchId = i.BatchId AND k.Sequence = i.Sequence
WHERE i.BatchId = :id AND i.Status = 1 AND i.ChunkId < :from_chunk AND i.Sequence > :after
      AND (k.Sequence IS NOT NULL OR (i.PayloadJson IS NOT NULL AND i.IsMasked = :masked))
ORDER BY i.Sequence;

-- name: again_chunk_items
-- row: again
SELECT i.Sequence, i.PayloadJson, i.IsMasked, k.Sealed FROM ImportItem AS i
LEFT JOIN ImportKept AS k ON k.BatchId = i.BatchId AND k.Sequence = i.Sequence
WHERE i.BatchId = :id AND i.Status = 1 AND i.ChunkId = :chunk
ORDER BY i.Sequence;

-- name: again_assign
UPDATE ImportItem SET ChunkId = :chunk WHERE BatchId = :id AND Sequence = :sequence;
-- many: postgres
UPDATE ImportItem AS i SET ChunkId = n.chunk
FROM UNNEST(CAST(:chunk AS INT[]), CAST(:id AS UUID[]), CAST(:sequence AS INT[])) AS n (chunk, id, sequence)
WHERE i.BatchId = n.id AND i.Sequence = n.sequence;

-- name: again_settle
UPDATE ImportItem
SET Status = :status, ErrorMessage = :error, Reason = :reason, ChunkId = :chunk,
    OriginalJson = CASE WHEN 1 = :failed THEN OriginalJson END
WHERE BatchId = :id AND Sequence = :sequence;
-- many: postgres
UPDATE ImportItem AS i
SET Status = n.status, ErrorMessage = n.error, Reason = n.reason, ChunkId = n.chunk,
    OriginalJson = CASE WHEN n.failed = 1 THEN i.OriginalJson END
FROM UNNEST(CAST(:status AS SMALLINT[]), CAST(:error AS TEXT[]), CAST(:reason AS TEXT[]), CAST(:chunk AS INT[]), CAST(:failed AS INT[]),
            CAST(:id AS UUID[]), CAST(:sequence AS INT[])) AS n (status, error, reason, chunk, failed, id, sequence)
WHERE i.BatchId = n.id AND i.Sequence = n.sequence;

-- --- the end of what is kept ---

-- A retry that begins meanwhile waits for the lock, or has taken the batch out of this list.
-- name: kept_due
SELECT Id FROM ImportBatch WHERE KeptUntil <= :now ORDER BY KeptUntil LIMIT 1;
-- dialect: postgres
SELECT Id FROM ImportBatch WHERE KeptUntil <= :now ORDER BY KeptUntil LIMIT 1 FOR UPDATE;
-- dialect: sqlserver
SELECT TOP (1) Id FROM ImportBatch WITH (UPDLOCK, ROWLOCK) WHERE KeptUntil <= :now ORDER BY KeptUntil;

-- name: kept_sizes
-- dialect: sqlite
SELECT LENGTH(Sealed) AS Bytes FROM ImportKept WHERE BatchId = :id ORDER BY Sequence LIMIT :limit;
-- dialect: postgres
SELECT OCTET_LENGTH(Sealed) AS Bytes FROM ImportKept WHERE BatchId = :id ORDER BY Sequence LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) DATALENGTH(Sealed) AS Bytes FROM ImportKept WHERE BatchId = :id ORDER BY Sequence;

-- name: kept_last
SELECT COALESCE(MAX(n.Sequence), -1) FROM (SELECT Sequence FROM ImportKept WHERE BatchId = :id ORDER BY Sequence LIMIT :limit) AS n;
-- dialect: sqlserver
SELECT COALESCE(MAX(n.Sequence), -1) FROM (SELECT TOP (:limit) Sequence FROM ImportKept WHERE BatchId = :id ORDER BY Sequence) AS n;

-- name: kept_delete
DELETE FROM ImportKept
WHERE BatchId = :id AND Sequence <= :until
  AND EXISTS (SELECT 1 FROM ImportBatch AS b WHERE b.Id = :id AND b.KeptUntil <= :now);

-- name: kept_over
UPDATE ImportBatch SET KeptUntil = NULL, RetryableCount = -1 WHERE Id = :id AND KeptUntil <= :now;

-- --- the watchdog ---

-- name: watchdog_lock
UPDATE BatchLocks SET IsLocked = :locked, LockOwnerBatchId = NULL, LockedAt = NULL WHERE Id = 1 AND LockedAt < :before;

-- name: watchdog_batches
UPDATE ImportBatch SET LockedAt = NULL, UpdatedAt = :now WHERE Status = 1 AND LockedAt < :before;

-- name: scheduled_next
SELECT MIN(ScheduledFor) AS ScheduledFor FROM ImportBatch WHERE Status = 2;

-- What waits to be worked on, and roughly how many chunks that and what is in work are. A file that was not read yet has
-- a record for every 200 bytes; a later attempt has as many as failed.
-- name: backlog
SELECT COALESCE(CAST(SUM(n.Waits) AS BIGINT), 0) AS Batches, COALESCE(CAST(SUM(n.Records / n.BatchSize + 1) AS BIGINT), 0) AS Chunks,
       MIN(CASE WHEN n.Waits = 1 THEN n.UpdatedAt END) AS Oldest
FROM (SELECT CASE WHEN Status <> 1 OR LockedAt IS NULL OR ProcessingHost IS NULL THEN 1 ELSE 0 END AS Waits,
             CASE WHEN Attempt > 1 THEN ErrorCount WHEN TotalRecords IS NULL THEN FileSizeBytes / 200
                  ELSE TotalRecords - ProcessedRecords END AS Records,
             COALESCE(BatchSize, :batch_size) AS BatchSize, UpdatedAt
      FROM ImportBatch
      WHERE Status IN (0, 1) OR (Status = 2 AND ScheduledFor <= :now)) AS n;

-- How many batches of each client are not over. Those that are over are too many to count each time.
-- name: backlog_clients
SELECT c.ClientIdentifier, n.Status, n.Batches
FROM (SELECT ClientId, Status, COUNT(*) AS Batches FROM ImportBatch WHERE Status IN (0, 1, 2) GROUP BY ClientId, Status) AS n
JOIN Clients AS c ON c.Id = n.ClientId;

-- name: housekeeping_instance
SELECT (SELECT COUNT(*) FROM ImportBatch WHERE Status = 1 AND ProcessingHost LIKE :pattern)
     + (SELECT COUNT(*) FROM WorkOwners WHERE Id = :id) AS Remaining;

-- name: housekeeping_batch
SELECT Status, UploadPath FROM ImportBatch WHERE Id = :id;
