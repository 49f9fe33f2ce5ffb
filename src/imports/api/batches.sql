-- Batches and their items as clients see them. A batch that is being removed is not seen.

-- name: batch_get
-- row: batch
SELECT Id, Status, FileName, CreatedAt, StartedAt, CompletedAt, TotalRecords, ProcessedRecords, LastError, WebhookNotified,
       RowsPerSecond, RetryableCount, KeptUntil,
       CASE WHEN Status IN (0, 2) AND Attempt = 1
            THEN (SELECT COUNT(*) FROM ImportChunk AS k WHERE k.BatchId = ImportBatch.Id AND (k.Status >= 2 OR k.AckId IS NOT NULL))
            END AS Accepted,
       FileType, FileSizeBytes, Checksum, PolicyDecision, ScheduledFor, OriginDefault, RequestedBy, MetadataJson, ErrorCount,
       SkippedCount, ErrorSummary, Attempt, CorrelationId, GaveWayAt, MetadataCorrelationId, WaitingSince, RefusedRule, RefusalCount,
       LockedAt, ProcessingHost, UpdatedAt
FROM ImportBatch
WHERE Id = :id AND ClientId = :client AND RemovingAt IS NULL;

-- The batches of event streams of all clients. ClientUpdatedAt changes with the client's status, secret and scopes.
-- name: batch_watch
-- row: batch, …
SELECT b.Id, b.Status, b.FileName, b.CreatedAt, b.StartedAt, b.CompletedAt, b.TotalRecords, b.ProcessedRecords, b.LastError,
       b.WebhookNotified, b.RowsPerSecond, b.RetryableCount, b.KeptUntil,
       CASE WHEN b.Status IN (0, 2) AND b.Attempt = 1
            THEN (SELECT COUNT(*) FROM ImportChunk AS k WHERE k.BatchId = b.Id AND (k.Status >= 2 OR k.AckId IS NOT NULL))
            END AS Accepted,
       b.FileType, b.FileSizeBytes, b.Checksum, b.PolicyDecision, b.ScheduledFor, b.OriginDefault,
       b.RequestedBy, b.MetadataJson, b.ErrorCount, b.SkippedCount, b.ErrorSummary, b.Attempt, b.CorrelationId, b.GaveWayAt,
       b.MetadataCorrelationId, b.WaitingSince, b.RefusedRule, b.RefusalCount, b.LockedAt, b.ProcessingHost, b.UpdatedAt,
       c.UpdatedAt AS ClientUpdatedAt, c.Status AS ClientStatus
FROM ImportBatch AS b JOIN Clients AS c ON c.Id = b.ClientId
WHERE b.Id IN EACH_UUID(:ids);

-- name: batch_client
SELECT UpdatedAt FROM Clients WHERE Id = :client AND Status = 0;

-- name: batch_page
-- row: batch
SELECT Id, Status, FileName, CreatedAt, StartedAt, CompletedAt, TotalRecords, ProcessedRecords, LastError, WebhookNotified,
       RowsPerSecond, RetryableCount, KeptUntil,
       CASE WHEN Status IN (0, 2) AND Attempt = 1
            THEN (SELECT COUNT(*) FROM ImportChunk AS k WHERE k.BatchId = ImportBatch.Id AND (k.Status >= 2 OR k.AckId IS NOT NULL))
            END AS Accepted,
       FileType, FileSizeBytes, Checksum, PolicyDecision, ScheduledFor, OriginDefault, RequestedBy, MetadataJson, ErrorCount,
       SkippedCount, ErrorSummary, Attempt, CorrelationId, GaveWayAt, MetadataCorrelationId, WaitingSince, RefusedRule, RefusalCount,
       LockedAt, ProcessingHost, UpdatedAt
FROM ImportBatch
WHERE Id IN EACH_UUID(:ids) AND RemovingAt IS NULL
ORDER BY CASE WHEN CAST(:oldest AS INT) = 1 THEN CreatedAt END, CASE WHEN CAST(:oldest AS INT) = 1 THEN Id END,
         CreatedAt DESC, Id DESC;

-- name: batch_keys
-- row: list_key
SELECT b.Id, b.CreatedAt
FROM ImportBatch AS b
WHERE b.ClientId = :client AND b.RemovingAt IS NULL AND (CAST(:status AS INT) IS NULL OR b.Status = CAST(:status AS INT))
  AND b.CreatedAt {<}= :after_at AND (b.CreatedAt {<} :after_at OR b.Id {<} :after_id)
ORDER BY b.CreatedAt {DESC}, b.Id {DESC}
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT b.Id, b.CreatedAt
FROM ImportBatch AS b
WHERE b.ClientId = :client AND b.RemovingAt IS NULL AND (CAST(:status AS INT) IS NULL OR b.Status = CAST(:status AS INT))
  AND b.CreatedAt {<}= :after_at AND (b.CreatedAt {<} :after_at OR b.Id {<} :after_id)
ORDER BY b.CreatedAt {DESC}, b.Id {DESC}
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- The same of a status that few batches have.
-- name: batch_status_keys
-- row: list_key
-- dialect: sqlite
SELECT b.Id, b.CreatedAt
FROM ImportBatch AS b INDEXED BY IX_ImportBatch_Status_CreatedAt
WHERE b.Status = CAST(:status AS INT) AND b.ClientId = :client AND b.RemovingAt IS NULL
  AND b.CreatedAt {<}= :after_at AND (b.CreatedAt {<} :after_at OR b.Id {<} :after_id)
ORDER BY b.CreatedAt {DESC}, b.Id {DESC}
LIMIT :limit OFFSET :offset;
-- dialect: postgres
SELECT b.Id, b.CreatedAt
FROM ImportBatch AS b
WHERE b.Status = CAST(:status AS INT) AND b.ClientId = :client AND b.RemovingAt IS NULL
  AND b.CreatedAt {<}= :after_at AND (b.CreatedAt {<} :after_at OR b.Id {<} :after_id)
ORDER BY b.CreatedAt {DESC}, b.Id {DESC}
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT b.Id, b.CreatedAt
FROM ImportBatch AS b
WHERE b.Status = CAST(:status AS INT) AND b.ClientId = :client AND b.RemovingAt IS NULL
  AND b.CreatedAt {<}= :after_at AND (b.CreatedAt {<} :after_at OR b.Id {<} :after_id)
ORDER BY b.CreatedAt {DESC}, b.Id {DESC}
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- name: batch_name
SELECT FileName, ColumnsJson, KeptUntil FROM ImportBatch WHERE Id = :id AND ClientId = :client AND RemovingAt IS NULL;

-- --- for operators: batches of all clients ---

-- name: batch_owner
SELECT ClientId FROM ImportBatch WHERE Id = :id AND RemovingAt IS NULL;

-- name: batch_operator_get
-- row: batch, …
SELECT b.Id, b.Status, b.FileName, b.CreatedAt, b.StartedAt, b.CompletedAt, b.TotalRecords, b.ProcessedRecords, b.LastError,
       b.WebhookNotified, b.RowsPerSecond, b.RetryableCount, b.KeptUntil,
       CASE WHEN b.Status IN (0, 2) AND b.Attempt = 1
            THEN (SELECT COUNT(*) FROM ImportChunk AS k WHERE k.BatchId = b.Id AND (k.Status >= 2 OR k.AckId IS NOT NULL))
            END AS Accepted,
       b.FileType, b.FileSizeBytes, b.Checksum, b.PolicyDecision, b.ScheduledFor, b.OriginDefault,
       b.RequestedBy, b.MetadataJson, b.ErrorCount, b.SkippedCount, b.ErrorSummary, b.Attempt, b.CorrelationId, b.GaveWayAt,
       b.MetadataCorrelationId, b.WaitingSince, b.RefusedRule, b.RefusalCount, b.LockedAt, b.ProcessingHost, b.UpdatedAt,
       c.ClientIdentifier,
       CASE WHEN b.Status = 1
            THEN (SELECT MIN(k.SentAt) FROM ImportChunk AS k WHERE k.BatchId = b.Id AND k.Status = 2) END AS AckSince
FROM ImportBatch AS b JOIN Clients AS c ON c.Id = b.ClientId
WHERE b.Id = :id AND b.RemovingAt IS NULL;

-- AckSince: since when it waits for the oldest ack.
-- name: batch_operator_page
-- row: batch, …
SELECT b.Id, b.Status, b.FileName, b.CreatedAt, b.StartedAt, b.CompletedAt, b.TotalRecords, b.ProcessedRecords, b.LastError,
       b.WebhookNotified, b.RowsPerSecond, b.RetryableCount, b.KeptUntil,
       CASE WHEN b.Status IN (0, 2) AND b.Attempt = 1
            THEN (SELECT COUNT(*) FROM ImportChunk AS k WHERE k.BatchId = b.Id AND (k.Status >= 2 OR k.AckId IS NOT NULL))
            END AS Accepted,
       b.FileType, b.FileSizeBytes, b.Checksum, b.PolicyDecision, b.ScheduledFor, b.OriginDefault,
       b.RequestedBy, b.MetadataJson, b.ErrorCount, b.SkippedCount, b.ErrorSummary, b.Attempt, b.CorrelationId, b.GaveWayAt,
       b.MetadataCorrelationId, b.WaitingSince, b.RefusedRule, b.RefusalCount, b.LockedAt, b.ProcessingHost, b.UpdatedAt,
       c.ClientIdentifier,
       CASE WHEN b.Status = 1
            THEN (SELECT MIN(k.SentAt) FROM ImportChunk AS k WHERE k.BatchId = b.Id AND k.Status = 2) END AS AckSince
FROM ImportBatch AS b JOIN Clients AS c ON c.Id = b.ClientId
WHERE b.Id IN EACH_UUID(:ids) AND b.RemovingAt IS NULL
ORDER BY CASE WHEN CAST(:oldest AS INT) = 1 THEN b.CreatedAt END, CASE WHEN CAST(:oldest AS INT) = 1 THEN b.Id END,
         b.CreatedAt DESC, b.Id DESC;

-- The keys of a list for operators, by the index that leaves the fewest to look at. :file is a pattern.
-- name: batch_operator_keys
-- row: list_key
SELECT b.Id, b.CreatedAt
FROM ImportBatch AS b
WHERE b.RemovingAt IS NULL
  AND b.CreatedAt >= :from AND b.CreatedAt < :to AND LOWER(b.FileName) LIKE LOWER(CAST(:file AS VARCHAR(600))) ESCAPE '!'
  AND b.CreatedAt {<}= :after_at AND (b.CreatedAt {<} :after_at OR b.Id {<} :after_id)
ORDER BY b.CreatedAt {DESC}, b.Id {DESC}
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT b.Id, b.CreatedAt
FROM ImportBatch AS b
WHERE b.RemovingAt IS NULL
  AND b.CreatedAt >= :from AND b.CreatedAt < :to AND LOWER(b.FileName) LIKE LOWER(CAST(:file AS NVARCHAR(600))) ESCAPE '!'
  AND b.CreatedAt {<}= :after_at AND (b.CreatedAt {<} :after_at OR b.Id {<} :after_id)
ORDER BY b.CreatedAt {DESC}, b.Id {DESC}
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- name: batch_operator_status_keys
-- row: list_key
SELECT b.Id, b.CreatedAt
FROM ImportBatch AS b
WHERE b.Status = CAST(:status AS INT) AND b.RemovingAt IS NULL
  AND b.CreatedAt >= :from AND b.CreatedAt < :to AND LOWER(b.FileName) LIKE LOWER(CAST(:file AS VARCHAR(600))) ESCAPE '!'
  AND b.CreatedAt {<}= :after_at AND (b.CreatedAt {<} :after_at OR b.Id {<} :after_id)
ORDER BY b.CreatedAt {DESC}, b.Id {DESC}
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT b.Id, b.CreatedAt
FROM ImportBatch AS b
WHERE b.Status = CAST(:status AS INT) AND b.RemovingAt IS NULL
  AND b.CreatedAt >= :from AND b.CreatedAt < :to AND LOWER(b.FileName) LIKE LOWER(CAST(:file AS NVARCHAR(600))) ESCAPE '!'
  AND b.CreatedAt {<}= :after_at AND (b.CreatedAt {<} :after_at OR b.Id {<} :after_id)
ORDER BY b.CreatedAt {DESC}, b.Id {DESC}
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- name: batch_operator_client_keys
-- row: list_key
SELECT b.Id, b.CreatedAt
FROM ImportBatch AS b
WHERE b.ClientId = (SELECT c.Id FROM Clients AS c WHERE c.ClientIdentifier = CAST(:client AS VARCHAR(65)))
  AND (CAST(:status AS INT) IS NULL OR b.Status = CAST(:status AS INT)) AND b.RemovingAt IS NULL
  AND b.CreatedAt >= :from AND b.CreatedAt < :to AND LOWER(b.FileName) LIKE LOWER(CAST(:file AS VARCHAR(600))) ESCAPE '!'
  AND b.CreatedAt {<}= :after_at AND (b.CreatedAt {<} :after_at OR b.Id {<} :after_id)
ORDER BY b.CreatedAt {DESC}, b.Id {DESC}
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT b.Id, b.CreatedAt
FROM ImportBatch AS b
WHERE b.ClientId = (SELECT c.Id FROM Clients AS c WHERE c.ClientIdentifier = CAST(:client AS VARCHAR(65)))
  AND (CAST(:status AS INT) IS NULL OR b.Status = CAST(:status AS INT)) AND b.RemovingAt IS NULL
  AND b.CreatedAt >= :from AND b.CreatedAt < :to AND LOWER(b.FileName) LIKE LOWER(CAST(:file AS NVARCHAR(600))) ESCAPE '!'
  AND b.CreatedAt {<}= :after_at AND (b.CreatedAt {<} :after_at OR b.Id {<} :after_id)
ORDER BY b.CreatedAt {DESC}, b.Id {DESC}
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- Whether the client's download of the report stands in the audit log already.
-- name: report_told
SELECT COUNT(*) FROM AuditLog
WHERE ClientId = :client AND OccurredAt > :since AND Action = 'ImportReportDownloaded'
  AND Actor = CAST(:actor AS VARCHAR(200)) AND Target = CAST(:target AS VARCHAR(100));

-- The batches that are in work or wait for a worker, in the order in which they are taken (process.sql, claim_candidates).
-- :own: only the client's.
-- name: batch_line
SELECT b.Id, b.Status, b.LockedAt, b.ProcessingHost
FROM (SELECT Id, ClientId, Status, LockedAt, ProcessingHost, GaveWayAt, CreatedAt,
             ROW_NUMBER() OVER (PARTITION BY ClientId, Status ORDER BY CreatedAt, Id) AS Place
      FROM ImportBatch
      WHERE Status IN (0, 1) AND (0 = :own OR ClientId = :client)) AS b
LEFT JOIN ImportTurn AS t ON t.ClientId = b.ClientId
ORDER BY CASE WHEN b.Status = 1 AND (b.GaveWayAt IS NULL OR 0 = :fair) THEN 0 ELSE 1 END, CASE WHEN 1 = :fair THEN b.Place ELSE 0 END,
         CASE WHEN 1 = :fair AND t.TurnAt IS NOT NULL THEN 1 ELSE 0 END, CASE WHEN 1 = :fair THEN t.TurnAt END,
         b.CreatedAt, b.Id
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) b.Id, b.Status, b.LockedAt, b.ProcessingHost
FROM (SELECT Id, ClientId, Status, LockedAt, ProcessingHost, GaveWayAt, CreatedAt,
             ROW_NUMBER() OVER (PARTITION BY ClientId, Status ORDER BY CreatedAt, Id) AS Place
      FROM ImportBatch
      WHERE Status IN (0, 1) AND (0 = :own OR ClientId = :client)) AS b
LEFT JOIN ImportTurn AS t ON t.ClientId = b.ClientId
ORDER BY CASE WHEN b.Status = 1 AND (b.GaveWayAt IS NULL OR 0 = :fair) THEN 0 ELSE 1 END, CASE WHEN 1 = :fair THEN b.Place ELSE 0 END,
         CASE WHEN 1 = :fair AND t.TurnAt IS NOT NULL THEN 1 ELSE 0 END, CASE WHEN 1 = :fair THEN t.TurnAt END,
         b.CreatedAt, b.Id;

-- Whether it waits for a worker, and whose it is.
-- name: batch_waits
SELECT ClientId FROM ImportBatch
WHERE Id = :id AND ((Status = 0 AND WaitingSince IS NULL) OR (Status = 1 AND (LockedAt IS NULL OR ProcessingHost IS NULL)));
