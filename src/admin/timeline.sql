-- GET /admin/timeline: what happened to one document. Every query goes by an index.

-- name: timeline_ticket
SELECT t.BusinessEntity, t.BusinessDocId, t.PhaseCode, t.Status, t.CreatedAt, COALESCE(t.PayloadAt, t.CreatedAt) AS PayloadAt,
       t.PayloadVersion, t.TryCount, t.LastError, t.NextAttemptAt, t.FirstFailedAt, t.DismissedAt, t.UpdatedAt, t.ErasedAt,
       t.CallbackStatus, t.CallbackReceivedAt, t.CallbackCode,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = t.ClientId) AS ClientId
FROM TB_TICKET_INTERFACE AS t
WHERE t.Id = :id;

-- name: timeline_counterparty
SELECT p.BusinessDocId, p.Status, p.StatusMessage, p.CreatedAt, COALESCE(p.PayloadAt, p.CreatedAt) AS PayloadAt, p.UpdatedAt,
       p.ErasedAt, (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = p.ClientId) AS ClientId
FROM TB_COUNTERPARTIES AS p
WHERE p.Id = :id;

-- name: timeline_batch
SELECT b.FileName, b.Status, b.CreatedAt, b.StartedAt, b.CompletedAt, b.ScheduledFor, b.TotalRecords, b.ProcessedRecords,
       b.ErrorCount, b.Attempt, b.ProcessingHost, b.LastError, b.GaveWayAt, b.OutageSince, b.WaitingSince,
       b.CorrelationId, b.TraceId, b.UpdatedAt,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = b.ClientId) AS ClientId
FROM ImportBatch AS b
WHERE b.Id = :uuid AND b.RemovingAt IS NULL;

-- name: timeline_chunks
SELECT COUNT(*) AS Chunks, MIN(SentAt) AS FirstSent, MAX(SentAt) AS LastSent, MIN(AckedAt) AS FirstAcked, MAX(AckedAt) AS LastAcked,
       COUNT(SentAt) AS Sent, COUNT(AckedAt) AS Acked, CAST(COALESCE(SUM(Attempts), 0) AS BIGINT) AS Attempts,
       COALESCE(SUM(CASE WHEN Status = 4 THEN 1 ELSE 0 END), 0) AS Failed,
       COALESCE(SUM(CASE WHEN Status < 3 THEN 1 ELSE 0 END), 0) AS Unsettled,
       MAX(CASE WHEN Status = 4 THEN UpdatedAt END) AS LastFailed
FROM ImportChunk
WHERE BatchId = :uuid;

-- --- whose a row of an outbox is, and what it belongs to ---

-- name: timeline_ack
-- row: timeline_row
SELECT (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = o.ClientId) AS ClientId, CAST(NULL AS VARCHAR(32)) AS TraceId
FROM TB_FUNCTIONAL_ACK_OUTBOX AS o
WHERE o.Id = :id;

-- name: timeline_return
-- row: timeline_row
SELECT (SELECT k.ClientIdentifier FROM TB_TICKET_INTERFACE AS t JOIN Clients AS k ON k.Id = t.ClientId
        WHERE t.BusinessEntity = o.BusinessEntity AND t.BusinessDocId = o.BusinessDocId AND t.PhaseCode = o.PhaseCode) AS ClientId,
       CAST(NULL AS VARCHAR(32)) AS TraceId
FROM TB_TICKET_RETURN_OUTBOX AS o
WHERE o.Id = :id;

-- name: timeline_event
-- row: timeline_row
SELECT (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = e.client_id) AS ClientId, e.trace_id AS TraceId
FROM outbox_events AS e
WHERE e.id = :uuid;

-- name: timeline_webhook
-- row: timeline_row
SELECT (SELECT k.ClientIdentifier FROM WebhookSubscriptions AS s JOIN Clients AS k ON k.Id = s.ClientId
        WHERE s.Id = d.SubscriptionId) AS ClientId, CAST(NULL AS VARCHAR(32)) AS TraceId
FROM WebhookDeliveries AS d
WHERE d.Id = :uuid;

-- name: timeline_integration
-- row: timeline_row
SELECT (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = c.ClientId) AS ClientId, c.TraceId
FROM IntegrationCalls AS c
WHERE c.Id = :uuid;

-- --- rows that belong to a document, oldest first ---

-- name: timeline_returns_of
-- row: timeline_key
SELECT o.Id FROM TB_TICKET_RETURN_OUTBOX AS o
WHERE o.BusinessEntity = :entity AND o.BusinessDocId = :doc AND o.PhaseCode = :phase
ORDER BY o.Id
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) o.Id FROM TB_TICKET_RETURN_OUTBOX AS o
WHERE o.BusinessEntity = CAST(:entity AS VARCHAR(101)) AND o.BusinessDocId = CAST(:doc AS VARCHAR(101)) AND o.PhaseCode = :phase
ORDER BY o.Id;

-- name: timeline_acks_of
-- row: timeline_key
SELECT o.Id FROM TB_FUNCTIONAL_ACK_OUTBOX AS o WHERE o.BusinessDocId = :doc ORDER BY o.Id LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) o.Id FROM TB_FUNCTIONAL_ACK_OUTBOX AS o WHERE o.BusinessDocId = CAST(:doc AS VARCHAR(101)) ORDER BY o.Id;

-- Events of tickets have the document for a correlation id.
-- name: timeline_webhooks_of
-- row: timeline_key
SELECT d.Id FROM WebhookDeliveries AS d
WHERE d.CorrelationId = :doc AND d.BatchId IS NULL
ORDER BY d.CreatedAt, d.Id
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) d.Id FROM WebhookDeliveries AS d
WHERE d.CorrelationId = CAST(:doc AS VARCHAR(129)) AND d.BatchId IS NULL
ORDER BY d.CreatedAt, d.Id;

-- name: timeline_webhooks_of_batch
-- row: timeline_key
SELECT d.Id FROM WebhookDeliveries AS d WHERE d.BatchId = :uuid ORDER BY d.CreatedAt, d.Id LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) d.Id FROM WebhookDeliveries AS d WHERE d.BatchId = :uuid ORDER BY d.CreatedAt, d.Id;

-- Who touched it.
-- name: timeline_audit
SELECT OccurredAt, Actor, Action, Outcome FROM AuditLog
WHERE Target = :target
ORDER BY Id DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) OccurredAt, Actor, Action, Outcome FROM AuditLog
WHERE Target = CAST(:target AS NVARCHAR(201))
ORDER BY Id DESC;
