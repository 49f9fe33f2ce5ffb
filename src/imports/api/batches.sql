-- Batches and their items as clients see them.

-- name: batch_get
-- row: batch
SELECT Id, Status, FileName, CreatedAt, StartedAt, CompletedAt, TotalRecords, ProcessedRecords, LastError, WebhookNotified,
       FileType, FileSizeBytes, Checksum, PolicyDecision, ScheduledFor, OriginDefault, RequestedBy, MetadataJson, ErrorCount,
       SkippedCount, ErrorSummary, Attempt, CorrelationId, GaveWayAt
FROM ImportBatch
WHERE Id = :id AND ClientId = :client;

-- The batches of event streams of all clients, except suspended ones. UpdatedAt changes with the client's status,
-- secret and scopes.
-- name: batch_watch
-- row: batch, …
SELECT b.Id, b.Status, b.FileName, b.CreatedAt, b.StartedAt, b.CompletedAt, b.TotalRecords, b.ProcessedRecords, b.LastError,
       b.WebhookNotified, b.FileType, b.FileSizeBytes, b.Checksum, b.PolicyDecision, b.ScheduledFor, b.OriginDefault,
       b.RequestedBy, b.MetadataJson, b.ErrorCount, b.SkippedCount, b.ErrorSummary, b.Attempt, b.CorrelationId, b.GaveWayAt,
       c.UpdatedAt
FROM ImportBatch AS b JOIN Clients AS c ON c.Id = b.ClientId
WHERE b.Id IN EACH_UUID(:ids) AND c.Status = 0;

-- name: batch_client
SELECT UpdatedAt FROM Clients WHERE Id = :client AND Status = 0;

-- name: batch_page
-- row: batch
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
SELECT FileName, ColumnsJson FROM ImportBatch WHERE Id = :id AND ClientId = :client;
