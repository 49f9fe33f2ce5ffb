-- Batches and their items as clients look at them. The columns of a batch stand in the order of the table in batch_view.c.

-- name: batch_get
SELECT Id, Status, FileName, CreatedAt, StartedAt, CompletedAt, TotalRecords, ProcessedRecords, LastError, WebhookNotified,
       FileType, FileSizeBytes, Checksum, PolicyDecision, ScheduledFor, OriginDefault, RequestedBy, MetadataJson, ErrorCount,
       SkippedCount, ErrorSummary, Attempt, CorrelationId, GaveWayAt
FROM ImportBatch
WHERE Id = :id AND ClientId = :client;

-- The streams of events, whoever they belong to.
-- name: batch_watch
SELECT Id, Status, FileName, CreatedAt, StartedAt, CompletedAt, TotalRecords, ProcessedRecords, LastError, WebhookNotified,
       FileType, FileSizeBytes, Checksum, PolicyDecision, ScheduledFor, OriginDefault, RequestedBy, MetadataJson, ErrorCount,
       SkippedCount, ErrorSummary, Attempt, CorrelationId, GaveWayAt
FROM ImportBatch
WHERE Id IN EACH_UUID(:ids);

-- name: batch_page
SELECT Id, Status, FileName, CreatedAt, StartedAt, CompletedAt, TotalRecords, ProcessedRecords, LastError, WebhookNotified,
       FileType, FileSizeBytes, Checksum, PolicyDecision, ScheduledFor, OriginDefault, RequestedBy, MetadataJson, ErrorCount,
       SkippedCount, ErrorSummary, Attempt, CorrelationId, GaveWayAt
FROM ImportBatch
WHERE ClientId = :client AND (CAST(:status AS INT) IS NULL OR Status = CAST(:status AS INT))
ORDER BY CreatedAt DESC, Id DESC
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT Id, Status, FileName, CreatedAt, StartedAt, CompletedAt, TotalRecords, ProcessedRecords, LastError, WebhookNotified,
       FileType, FileSizeBytes, Checksum, PolicyDecision, ScheduledFor, OriginDefault, RequestedBy, MetadataJson, ErrorCount,
       SkippedCount, ErrorSummary, Attempt, CorrelationId, GaveWayAt
FROM ImportBatch
WHERE ClientId = :client AND (CAST(:status AS INT) IS NULL OR Status = CAST(:status AS INT))
ORDER BY CreatedAt DESC, Id DESC
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- name: batch_page_total
SELECT COUNT(*)
FROM ImportBatch
WHERE ClientId = :client AND (CAST(:status AS INT) IS NULL OR Status = CAST(:status AS INT));

-- name: batch_name
SELECT FileName FROM ImportBatch WHERE Id = :id AND ClientId = :client;
