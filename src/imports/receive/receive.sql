-- Receiving: a client's usage, and the row of a batch.

-- The batch of an Idempotency-Key. PolicyDecision and ScheduledFor do not change: they give the first call's answer
-- again.
-- name: receive_find_key
SELECT Id, RequestChecksum, PolicyDecision, ScheduledFor
FROM ImportBatch
WHERE ClientId = :client_id AND IdempotencyKey = CAST(:idempotency_key AS VARCHAR(201));

-- What the client says of its files' columns, unless the upload says otherwise.
-- name: receive_mapping
SELECT MappingJson FROM ClientMapping WHERE ClientId = :client_id;

-- The last batch with the same file, for a preview.
-- name: receive_same_file
SELECT Id, FileName, CreatedAt, Status FROM ImportBatch
WHERE ClientId = :client_id AND Checksum = CAST(:checksum AS CHAR(65)) AND RemovingAt IS NULL
ORDER BY CreatedAt DESC LIMIT 1;
-- dialect: sqlserver
SELECT TOP (1) Id, FileName, CreatedAt, Status FROM ImportBatch
WHERE ClientId = :client_id AND Checksum = CAST(:checksum AS CHAR(65)) AND RemovingAt IS NULL
ORDER BY CreatedAt DESC;

-- name: receive_count_since
SELECT COUNT(*) FROM ImportBatch
WHERE ClientId = :client_id AND CreatedAt >= :since AND (PolicyDecision IS NULL OR PolicyDecision <> 'Rejected');

-- Bytes of files whose batches are not over (Pending, Processing, Scheduled). A later attempt has no file.
-- name: receive_stored_bytes
SELECT COALESCE(CAST(SUM(FileSizeBytes) AS BIGINT), 0)
FROM ImportBatch
WHERE ClientId = :client_id AND Status IN (0, 1, 2) AND Attempt = 1;

-- Locks the client, so that its uploads are counted one after the other. (Babelfish has no UPDLOCK.)
-- name: receive_lock_client
SELECT Id FROM Clients WHERE Id = :client_id;
-- dialect: postgres
SELECT Id FROM Clients WHERE Id = :client_id FOR NO KEY UPDATE;
-- dialect: sqlserver
UPDATE Clients SET Status = Status OUTPUT inserted.Id WHERE Id = :client_id;

-- name: receive_insert
INSERT INTO ImportBatch (Id, ClientId, Status, FileName, FileType, FileSizeBytes, Checksum, UploadPath, PolicyDecision,
                         CreatedAt, UpdatedAt, ScheduledFor, OriginDefault, RequestedBy, MetadataJson, Sheet,
                         IdempotencyKey, RequestChecksum, CorrelationId, MetadataCorrelationId, TraceId, TraceParent,
                         MappingJson, CutRules)
VALUES (:id, :client_id, :status, :file_name, :file_type, :file_size_bytes, :checksum, :upload_path, :policy_decision,
        :now, :now, :scheduled_for, :origin_default, :requested_by, :metadata, :sheet,
        :idempotency_key, :request_checksum, :correlation_id, :metadata_correlation_id, :trace_id, :trace_parent,
        :mapping, :rules);

-- A refused upload: one row for a client, rule and minute. It has no CompletedAt, since nothing was worked on.
-- name: refusal_count
UPDATE ImportBatch SET RefusalCount = RefusalCount + 1, LastError = :error, UpdatedAt = :now
WHERE ClientId = :client_id AND CreatedAt >= :since AND RefusedRule = CAST(:rule AS VARCHAR(51));

-- name: refusal_insert
INSERT INTO ImportBatch (Id, ClientId, Status, FileName, FileType, FileSizeBytes, PolicyDecision, CreatedAt, UpdatedAt,
                         LastError, RefusedRule, RefusalCount, CorrelationId, TraceId)
VALUES (:id, :client_id, :status, :file_name, 0, :file_size_bytes, 'Rejected', :now, :now, :error, :rule, 1,
        :correlation_id, :trace_id);
