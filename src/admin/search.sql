-- GET /admin/search and GET /search: each query looks for one kind of document by one of its ids, and has an index for it
-- (143_search.sql has those that nothing else needs). Title, Part and Number are what a person knows the document by.
-- If :any_client is 0, only documents of :client are found.

-- name: search_ticket
-- row: found
SELECT t.Id, t.BusinessDocId AS Title, t.BusinessEntity AS Part, t.PhaseCode AS Number, t.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = t.ClientId) AS ClientId, t.CreatedAt
FROM TB_TICKET_INTERFACE AS t
WHERE t.BusinessDocId = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR t.ClientId = :client)
ORDER BY t.Id DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) t.Id, t.BusinessDocId AS Title, t.BusinessEntity AS Part, t.PhaseCode AS Number, t.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = t.ClientId) AS ClientId, t.CreatedAt
FROM TB_TICKET_INTERFACE AS t
WHERE t.BusinessDocId = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR t.ClientId = :client)
ORDER BY t.Id DESC;

-- name: search_ticket_id
-- row: found
SELECT t.Id, t.BusinessDocId AS Title, t.BusinessEntity AS Part, t.PhaseCode AS Number, t.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = t.ClientId) AS ClientId, t.CreatedAt
FROM TB_TICKET_INTERFACE AS t
WHERE t.Id = :number
  AND (CAST(:any_client AS INT) = 1 OR t.ClientId = :client)
ORDER BY t.Id DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) t.Id, t.BusinessDocId AS Title, t.BusinessEntity AS Part, t.PhaseCode AS Number, t.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = t.ClientId) AS ClientId, t.CreatedAt
FROM TB_TICKET_INTERFACE AS t
WHERE t.Id = :number
  AND (CAST(:any_client AS INT) = 1 OR t.ClientId = :client)
ORDER BY t.Id DESC;

-- name: search_counterparty
-- row: found
SELECT p.Id, p.BusinessDocId AS Title, p.BusinessEntity AS Part, CAST(NULL AS INT) AS Number, p.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = p.ClientId) AS ClientId, p.CreatedAt
FROM TB_COUNTERPARTIES AS p
WHERE p.BusinessDocId = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR p.ClientId = :client)
ORDER BY p.Id DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) p.Id, p.BusinessDocId AS Title, p.BusinessEntity AS Part, CAST(NULL AS INT) AS Number, p.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = p.ClientId) AS ClientId, p.CreatedAt
FROM TB_COUNTERPARTIES AS p
WHERE p.BusinessDocId = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR p.ClientId = :client)
ORDER BY p.Id DESC;

-- name: search_counterparty_key
-- row: found
SELECT p.Id, p.BusinessDocId AS Title, p.BusinessEntity AS Part, CAST(NULL AS INT) AS Number, p.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = p.ClientId) AS ClientId, p.CreatedAt
FROM TB_COUNTERPARTIES AS p
WHERE p.CounterpartyId = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR p.ClientId = :client)
ORDER BY p.Id DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) p.Id, p.BusinessDocId AS Title, p.BusinessEntity AS Part, CAST(NULL AS INT) AS Number, p.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = p.ClientId) AS ClientId, p.CreatedAt
FROM TB_COUNTERPARTIES AS p
WHERE p.CounterpartyId = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR p.ClientId = :client)
ORDER BY p.Id DESC;

-- name: search_counterparty_id
-- row: found
SELECT p.Id, p.BusinessDocId AS Title, p.BusinessEntity AS Part, CAST(NULL AS INT) AS Number, p.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = p.ClientId) AS ClientId, p.CreatedAt
FROM TB_COUNTERPARTIES AS p
WHERE p.Id = :number
  AND (CAST(:any_client AS INT) = 1 OR p.ClientId = :client)
ORDER BY p.Id DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) p.Id, p.BusinessDocId AS Title, p.BusinessEntity AS Part, CAST(NULL AS INT) AS Number, p.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = p.ClientId) AS ClientId, p.CreatedAt
FROM TB_COUNTERPARTIES AS p
WHERE p.Id = :number
  AND (CAST(:any_client AS INT) = 1 OR p.ClientId = :client)
ORDER BY p.Id DESC;

-- name: search_ack
-- row: found
SELECT o.Id, o.BusinessDocId AS Title, CAST(NULL AS VARCHAR(10)) AS Part, CAST(NULL AS INT) AS Number, o.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = o.ClientId) AS ClientId, o.CreatedAt
FROM TB_FUNCTIONAL_ACK_OUTBOX AS o
WHERE o.BusinessDocId = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR o.ClientId = :client)
ORDER BY o.Id DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) o.Id, o.BusinessDocId AS Title, CAST(NULL AS VARCHAR(10)) AS Part, CAST(NULL AS INT) AS Number, o.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = o.ClientId) AS ClientId, o.CreatedAt
FROM TB_FUNCTIONAL_ACK_OUTBOX AS o
WHERE o.BusinessDocId = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR o.ClientId = :client)
ORDER BY o.Id DESC;

-- name: search_ack_id
-- row: found
SELECT o.Id, o.BusinessDocId AS Title, CAST(NULL AS VARCHAR(10)) AS Part, CAST(NULL AS INT) AS Number, o.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = o.ClientId) AS ClientId, o.CreatedAt
FROM TB_FUNCTIONAL_ACK_OUTBOX AS o
WHERE o.Id = :number
  AND (CAST(:any_client AS INT) = 1 OR o.ClientId = :client)
ORDER BY o.Id DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) o.Id, o.BusinessDocId AS Title, CAST(NULL AS VARCHAR(10)) AS Part, CAST(NULL AS INT) AS Number, o.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = o.ClientId) AS ClientId, o.CreatedAt
FROM TB_FUNCTIONAL_ACK_OUTBOX AS o
WHERE o.Id = :number
  AND (CAST(:any_client AS INT) = 1 OR o.ClientId = :client)
ORDER BY o.Id DESC;

-- By its ticket, whose index it shares.
-- name: search_return
-- row: found
SELECT o.Id, o.BusinessDocId AS Title, o.BusinessEntity AS Part, o.PhaseCode AS Number, o.Status,
       CAST(NULL AS VARCHAR(10)) AS ClientId, o.CreatedAt
FROM TB_TICKET_INTERFACE AS t
JOIN TB_TICKET_RETURN_OUTBOX AS o ON o.BusinessEntity = t.BusinessEntity AND o.BusinessDocId = t.BusinessDocId
 AND o.PhaseCode = t.PhaseCode
WHERE t.BusinessDocId = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR t.ClientId = :client)
ORDER BY o.Id DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) o.Id, o.BusinessDocId AS Title, o.BusinessEntity AS Part, o.PhaseCode AS Number, o.Status,
       CAST(NULL AS VARCHAR(10)) AS ClientId, o.CreatedAt
FROM TB_TICKET_INTERFACE AS t
JOIN TB_TICKET_RETURN_OUTBOX AS o ON o.BusinessEntity = t.BusinessEntity AND o.BusinessDocId = t.BusinessDocId
 AND o.PhaseCode = t.PhaseCode
WHERE t.BusinessDocId = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR t.ClientId = :client)
ORDER BY o.Id DESC;

-- name: search_return_id
-- row: found
SELECT o.Id, o.BusinessDocId AS Title, o.BusinessEntity AS Part, o.PhaseCode AS Number, o.Status,
       CAST(NULL AS VARCHAR(10)) AS ClientId, o.CreatedAt
FROM TB_TICKET_RETURN_OUTBOX AS o
WHERE o.Id = :number
  AND (CAST(:any_client AS INT) = 1 OR EXISTS (SELECT 1 FROM TB_TICKET_INTERFACE AS t WHERE t.BusinessEntity = o.BusinessEntity
                                                AND t.BusinessDocId = o.BusinessDocId AND t.PhaseCode = o.PhaseCode AND t.ClientId = :client))
ORDER BY o.Id DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) o.Id, o.BusinessDocId AS Title, o.BusinessEntity AS Part, o.PhaseCode AS Number, o.Status,
       CAST(NULL AS VARCHAR(10)) AS ClientId, o.CreatedAt
FROM TB_TICKET_RETURN_OUTBOX AS o
WHERE o.Id = :number
  AND (CAST(:any_client AS INT) = 1 OR EXISTS (SELECT 1 FROM TB_TICKET_INTERFACE AS t WHERE t.BusinessEntity = o.BusinessEntity
                                                AND t.BusinessDocId = o.BusinessDocId AND t.PhaseCode = o.PhaseCode AND t.ClientId = :client))
ORDER BY o.Id DESC;

-- name: search_batch_id
-- row: found
SELECT b.Id, b.FileName AS Title, CAST(NULL AS VARCHAR(10)) AS Part, CAST(NULL AS INT) AS Number,
       CASE b.Status WHEN 0 THEN 'Pending' WHEN 1 THEN 'Processing' WHEN 2 THEN 'Scheduled' WHEN 3 THEN 'Completed'
                     WHEN 4 THEN 'CompletedWithErrors' WHEN 5 THEN 'Failed' ELSE 'Cancelled' END AS Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = b.ClientId) AS ClientId, b.CreatedAt
FROM ImportBatch AS b
WHERE b.Id = :uuid
  AND (CAST(:any_client AS INT) = 1 OR b.ClientId = :client)
ORDER BY b.CreatedAt DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) b.Id, b.FileName AS Title, CAST(NULL AS VARCHAR(10)) AS Part, CAST(NULL AS INT) AS Number,
       CASE b.Status WHEN 0 THEN 'Pending' WHEN 1 THEN 'Processing' WHEN 2 THEN 'Scheduled' WHEN 3 THEN 'Completed'
                     WHEN 4 THEN 'CompletedWithErrors' WHEN 5 THEN 'Failed' ELSE 'Cancelled' END AS Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = b.ClientId) AS ClientId, b.CreatedAt
FROM ImportBatch AS b
WHERE b.Id = :uuid
  AND (CAST(:any_client AS INT) = 1 OR b.ClientId = :client)
ORDER BY b.CreatedAt DESC;

-- name: search_batch_file
-- row: found
-- dialect: sqlite
SELECT b.Id, b.FileName AS Title, CAST(NULL AS VARCHAR(10)) AS Part, CAST(NULL AS INT) AS Number,
       CASE b.Status WHEN 0 THEN 'Pending' WHEN 1 THEN 'Processing' WHEN 2 THEN 'Scheduled' WHEN 3 THEN 'Completed'
                     WHEN 4 THEN 'CompletedWithErrors' WHEN 5 THEN 'Failed' ELSE 'Cancelled' END AS Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = b.ClientId) AS ClientId, b.CreatedAt
FROM ImportBatch AS b
WHERE b.FileName >= :text AND b.FileName < :text_end
  AND (CAST(:any_client AS INT) = 1 OR b.ClientId = :client)
ORDER BY b.FileName
LIMIT :limit;
-- dialect: postgres
SELECT b.Id, b.FileName AS Title, CAST(NULL AS VARCHAR(10)) AS Part, CAST(NULL AS INT) AS Number,
       CASE b.Status WHEN 0 THEN 'Pending' WHEN 1 THEN 'Processing' WHEN 2 THEN 'Scheduled' WHEN 3 THEN 'Completed'
                     WHEN 4 THEN 'CompletedWithErrors' WHEN 5 THEN 'Failed' ELSE 'Cancelled' END AS Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = b.ClientId) AS ClientId, b.CreatedAt
FROM ImportBatch AS b
WHERE b.FileName COLLATE "C" >= :text AND b.FileName COLLATE "C" < :text_end
  AND (CAST(:any_client AS INT) = 1 OR b.ClientId = :client)
ORDER BY b.FileName COLLATE "C"
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) b.Id, b.FileName AS Title, CAST(NULL AS VARCHAR(10)) AS Part, CAST(NULL AS INT) AS Number,
       CASE b.Status WHEN 0 THEN 'Pending' WHEN 1 THEN 'Processing' WHEN 2 THEN 'Scheduled' WHEN 3 THEN 'Completed'
                     WHEN 4 THEN 'CompletedWithErrors' WHEN 5 THEN 'Failed' ELSE 'Cancelled' END AS Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = b.ClientId) AS ClientId, b.CreatedAt
FROM ImportBatch AS b
WHERE b.FileName LIKE REPLACE(REPLACE(REPLACE(REPLACE(CAST(:text AS NVARCHAR(201)), N'!', N'!!'), N'%', N'!%'), N'_', N'!_'), N'[', N'![') + N'%' ESCAPE N'!'
  AND CAST(:text_end AS NVARCHAR(210)) IS NOT NULL
  AND (CAST(:any_client AS INT) = 1 OR b.ClientId = :client)
ORDER BY b.FileName;

-- name: search_batch_correlation
-- row: found
SELECT b.Id, b.FileName AS Title, CAST(NULL AS VARCHAR(10)) AS Part, CAST(NULL AS INT) AS Number,
       CASE b.Status WHEN 0 THEN 'Pending' WHEN 1 THEN 'Processing' WHEN 2 THEN 'Scheduled' WHEN 3 THEN 'Completed'
                     WHEN 4 THEN 'CompletedWithErrors' WHEN 5 THEN 'Failed' ELSE 'Cancelled' END AS Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = b.ClientId) AS ClientId, b.CreatedAt
FROM ImportBatch AS b
WHERE b.CorrelationId = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR b.ClientId = :client)
ORDER BY b.CreatedAt DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) b.Id, b.FileName AS Title, CAST(NULL AS VARCHAR(10)) AS Part, CAST(NULL AS INT) AS Number,
       CASE b.Status WHEN 0 THEN 'Pending' WHEN 1 THEN 'Processing' WHEN 2 THEN 'Scheduled' WHEN 3 THEN 'Completed'
                     WHEN 4 THEN 'CompletedWithErrors' WHEN 5 THEN 'Failed' ELSE 'Cancelled' END AS Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = b.ClientId) AS ClientId, b.CreatedAt
FROM ImportBatch AS b
WHERE b.CorrelationId = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR b.ClientId = :client)
ORDER BY b.CreatedAt DESC;

-- name: search_batch_trace
-- row: found
SELECT b.Id, b.FileName AS Title, CAST(NULL AS VARCHAR(10)) AS Part, CAST(NULL AS INT) AS Number,
       CASE b.Status WHEN 0 THEN 'Pending' WHEN 1 THEN 'Processing' WHEN 2 THEN 'Scheduled' WHEN 3 THEN 'Completed'
                     WHEN 4 THEN 'CompletedWithErrors' WHEN 5 THEN 'Failed' ELSE 'Cancelled' END AS Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = b.ClientId) AS ClientId, b.CreatedAt
FROM ImportBatch AS b
WHERE b.TraceId = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR b.ClientId = :client)
ORDER BY b.CreatedAt DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) b.Id, b.FileName AS Title, CAST(NULL AS VARCHAR(10)) AS Part, CAST(NULL AS INT) AS Number,
       CASE b.Status WHEN 0 THEN 'Pending' WHEN 1 THEN 'Processing' WHEN 2 THEN 'Scheduled' WHEN 3 THEN 'Completed'
                     WHEN 4 THEN 'CompletedWithErrors' WHEN 5 THEN 'Failed' ELSE 'Cancelled' END AS Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = b.ClientId) AS ClientId, b.CreatedAt
FROM ImportBatch AS b
WHERE b.TraceId = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR b.ClientId = :client)
ORDER BY b.CreatedAt DESC;

-- name: search_event_id
-- row: found
SELECT e.id AS Id, e.event_type AS Title, e.aggregate_id AS Part, CAST(NULL AS INT) AS Number, e.status AS Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = e.client_id) AS ClientId, e.created_at AS CreatedAt
FROM outbox_events AS e
WHERE e.id = :uuid
  AND (CAST(:any_client AS INT) = 1 OR e.client_id = :client)
ORDER BY e.created_at DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) e.id AS Id, e.event_type AS Title, e.aggregate_id AS Part, CAST(NULL AS INT) AS Number, e.status AS Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = e.client_id) AS ClientId, e.created_at AS CreatedAt
FROM outbox_events AS e
WHERE e.id = :uuid
  AND (CAST(:any_client AS INT) = 1 OR e.client_id = :client)
ORDER BY e.created_at DESC;

-- name: search_event_correlation
-- row: found
SELECT e.id AS Id, e.event_type AS Title, e.aggregate_id AS Part, CAST(NULL AS INT) AS Number, e.status AS Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = e.client_id) AS ClientId, e.created_at AS CreatedAt
FROM outbox_events AS e
WHERE e.correlation_id = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR e.client_id = :client)
ORDER BY e.created_at DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) e.id AS Id, e.event_type AS Title, e.aggregate_id AS Part, CAST(NULL AS INT) AS Number, e.status AS Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = e.client_id) AS ClientId, e.created_at AS CreatedAt
FROM outbox_events AS e
WHERE e.correlation_id = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR e.client_id = :client)
ORDER BY e.created_at DESC;

-- name: search_event_trace
-- row: found
SELECT e.id AS Id, e.event_type AS Title, e.aggregate_id AS Part, CAST(NULL AS INT) AS Number, e.status AS Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = e.client_id) AS ClientId, e.created_at AS CreatedAt
FROM outbox_events AS e
WHERE e.trace_id = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR e.client_id = :client)
ORDER BY e.created_at DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) e.id AS Id, e.event_type AS Title, e.aggregate_id AS Part, CAST(NULL AS INT) AS Number, e.status AS Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = e.client_id) AS ClientId, e.created_at AS CreatedAt
FROM outbox_events AS e
WHERE e.trace_id = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR e.client_id = :client)
ORDER BY e.created_at DESC;

-- name: search_webhook_id
-- row: found
SELECT d.Id, d.Event AS Title, d.Reference AS Part, CAST(NULL AS INT) AS Number, d.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k JOIN WebhookSubscriptions AS s ON s.ClientId = k.Id WHERE s.Id = d.SubscriptionId) AS ClientId,
       d.CreatedAt
FROM WebhookDeliveries AS d
WHERE d.Id = :uuid
  AND (CAST(:any_client AS INT) = 1 OR d.SubscriptionId IN (SELECT s.Id FROM WebhookSubscriptions AS s WHERE s.ClientId = :client))
ORDER BY d.CreatedAt DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) d.Id, d.Event AS Title, d.Reference AS Part, CAST(NULL AS INT) AS Number, d.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k JOIN WebhookSubscriptions AS s ON s.ClientId = k.Id WHERE s.Id = d.SubscriptionId) AS ClientId,
       d.CreatedAt
FROM WebhookDeliveries AS d
WHERE d.Id = :uuid
  AND (CAST(:any_client AS INT) = 1 OR d.SubscriptionId IN (SELECT s.Id FROM WebhookSubscriptions AS s WHERE s.ClientId = :client))
ORDER BY d.CreatedAt DESC;

-- name: search_webhook_event
-- row: found
SELECT d.Id, d.Event AS Title, d.Reference AS Part, CAST(NULL AS INT) AS Number, d.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k JOIN WebhookSubscriptions AS s ON s.ClientId = k.Id WHERE s.Id = d.SubscriptionId) AS ClientId,
       d.CreatedAt
FROM WebhookDeliveries AS d
WHERE d.EventId = :uuid
  AND (CAST(:any_client AS INT) = 1 OR d.SubscriptionId IN (SELECT s.Id FROM WebhookSubscriptions AS s WHERE s.ClientId = :client))
ORDER BY d.CreatedAt DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) d.Id, d.Event AS Title, d.Reference AS Part, CAST(NULL AS INT) AS Number, d.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k JOIN WebhookSubscriptions AS s ON s.ClientId = k.Id WHERE s.Id = d.SubscriptionId) AS ClientId,
       d.CreatedAt
FROM WebhookDeliveries AS d
WHERE d.EventId = :uuid
  AND (CAST(:any_client AS INT) = 1 OR d.SubscriptionId IN (SELECT s.Id FROM WebhookSubscriptions AS s WHERE s.ClientId = :client))
ORDER BY d.CreatedAt DESC;

-- name: search_webhook_batch
-- row: found
SELECT d.Id, d.Event AS Title, d.Reference AS Part, CAST(NULL AS INT) AS Number, d.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k JOIN WebhookSubscriptions AS s ON s.ClientId = k.Id WHERE s.Id = d.SubscriptionId) AS ClientId,
       d.CreatedAt
FROM WebhookDeliveries AS d
WHERE d.BatchId = :uuid
  AND (CAST(:any_client AS INT) = 1 OR d.SubscriptionId IN (SELECT s.Id FROM WebhookSubscriptions AS s WHERE s.ClientId = :client))
ORDER BY d.CreatedAt DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) d.Id, d.Event AS Title, d.Reference AS Part, CAST(NULL AS INT) AS Number, d.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k JOIN WebhookSubscriptions AS s ON s.ClientId = k.Id WHERE s.Id = d.SubscriptionId) AS ClientId,
       d.CreatedAt
FROM WebhookDeliveries AS d
WHERE d.BatchId = :uuid
  AND (CAST(:any_client AS INT) = 1 OR d.SubscriptionId IN (SELECT s.Id FROM WebhookSubscriptions AS s WHERE s.ClientId = :client))
ORDER BY d.CreatedAt DESC;

-- name: search_webhook_correlation
-- row: found
SELECT d.Id, d.Event AS Title, d.Reference AS Part, CAST(NULL AS INT) AS Number, d.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k JOIN WebhookSubscriptions AS s ON s.ClientId = k.Id WHERE s.Id = d.SubscriptionId) AS ClientId,
       d.CreatedAt
FROM WebhookDeliveries AS d
WHERE d.CorrelationId = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR d.SubscriptionId IN (SELECT s.Id FROM WebhookSubscriptions AS s WHERE s.ClientId = :client))
ORDER BY d.CreatedAt DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) d.Id, d.Event AS Title, d.Reference AS Part, CAST(NULL AS INT) AS Number, d.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k JOIN WebhookSubscriptions AS s ON s.ClientId = k.Id WHERE s.Id = d.SubscriptionId) AS ClientId,
       d.CreatedAt
FROM WebhookDeliveries AS d
WHERE d.CorrelationId = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR d.SubscriptionId IN (SELECT s.Id FROM WebhookSubscriptions AS s WHERE s.ClientId = :client))
ORDER BY d.CreatedAt DESC;

-- name: search_call_id
-- row: found
SELECT i.Id, i.IntegrationName AS Title, i.Path AS Part, CAST(NULL AS INT) AS Number, i.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = i.ClientId) AS ClientId, i.CreatedAt
FROM IntegrationCalls AS i
WHERE i.Id = :uuid
  AND (CAST(:any_client AS INT) = 1 OR i.ClientId = :client)
ORDER BY i.CreatedAt DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) i.Id, i.IntegrationName AS Title, i.Path AS Part, CAST(NULL AS INT) AS Number, i.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = i.ClientId) AS ClientId, i.CreatedAt
FROM IntegrationCalls AS i
WHERE i.Id = :uuid
  AND (CAST(:any_client AS INT) = 1 OR i.ClientId = :client)
ORDER BY i.CreatedAt DESC;

-- name: search_call_correlation
-- row: found
SELECT i.Id, i.IntegrationName AS Title, i.Path AS Part, CAST(NULL AS INT) AS Number, i.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = i.ClientId) AS ClientId, i.CreatedAt
FROM IntegrationCalls AS i
WHERE i.CorrelationId = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR i.ClientId = :client)
ORDER BY i.CreatedAt DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) i.Id, i.IntegrationName AS Title, i.Path AS Part, CAST(NULL AS INT) AS Number, i.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = i.ClientId) AS ClientId, i.CreatedAt
FROM IntegrationCalls AS i
WHERE i.CorrelationId = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR i.ClientId = :client)
ORDER BY i.CreatedAt DESC;

-- name: search_call_trace
-- row: found
SELECT i.Id, i.IntegrationName AS Title, i.Path AS Part, CAST(NULL AS INT) AS Number, i.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = i.ClientId) AS ClientId, i.CreatedAt
FROM IntegrationCalls AS i
WHERE i.TraceId = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR i.ClientId = :client)
ORDER BY i.CreatedAt DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) i.Id, i.IntegrationName AS Title, i.Path AS Part, CAST(NULL AS INT) AS Number, i.Status,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = i.ClientId) AS ClientId, i.CreatedAt
FROM IntegrationCalls AS i
WHERE i.TraceId = CAST(:text AS VARCHAR(201))
  AND (CAST(:any_client AS INT) = 1 OR i.ClientId = :client)
ORDER BY i.CreatedAt DESC;

-- name: search_client_id
-- row: found
SELECT k.ClientIdentifier AS Id, k.Name AS Title, CAST(NULL AS VARCHAR(10)) AS Part, CAST(NULL AS INT) AS Number,
       CASE k.Status WHEN 0 THEN 'Active' ELSE 'Suspended' END AS Status, k.ClientIdentifier AS ClientId, k.CreatedAt
FROM Clients AS k
WHERE k.ClientIdentifier = CAST(:text AS VARCHAR(201))
ORDER BY k.CreatedAt DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) k.ClientIdentifier AS Id, k.Name AS Title, CAST(NULL AS VARCHAR(10)) AS Part, CAST(NULL AS INT) AS Number,
       CASE k.Status WHEN 0 THEN 'Active' ELSE 'Suspended' END AS Status, k.ClientIdentifier AS ClientId, k.CreatedAt
FROM Clients AS k
WHERE k.ClientIdentifier = CAST(:text AS VARCHAR(201))
ORDER BY k.CreatedAt DESC;

-- name: search_client_name
-- row: found
-- dialect: sqlite
SELECT k.ClientIdentifier AS Id, k.Name AS Title, CAST(NULL AS VARCHAR(10)) AS Part, CAST(NULL AS INT) AS Number,
       CASE k.Status WHEN 0 THEN 'Active' ELSE 'Suspended' END AS Status, k.ClientIdentifier AS ClientId, k.CreatedAt
FROM Clients AS k
WHERE k.Name >= :text AND k.Name < :text_end
ORDER BY k.Name
LIMIT :limit;
-- dialect: postgres
SELECT k.ClientIdentifier AS Id, k.Name AS Title, CAST(NULL AS VARCHAR(10)) AS Part, CAST(NULL AS INT) AS Number,
       CASE k.Status WHEN 0 THEN 'Active' ELSE 'Suspended' END AS Status, k.ClientIdentifier AS ClientId, k.CreatedAt
FROM Clients AS k
WHERE k.Name COLLATE "C" >= :text AND k.Name COLLATE "C" < :text_end
ORDER BY k.Name COLLATE "C"
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) k.ClientIdentifier AS Id, k.Name AS Title, CAST(NULL AS VARCHAR(10)) AS Part, CAST(NULL AS INT) AS Number,
       CASE k.Status WHEN 0 THEN 'Active' ELSE 'Suspended' END AS Status, k.ClientIdentifier AS ClientId, k.CreatedAt
FROM Clients AS k
WHERE k.Name LIKE REPLACE(REPLACE(REPLACE(REPLACE(CAST(:text AS NVARCHAR(201)), N'!', N'!!'), N'%', N'!%'), N'_', N'!_'), N'[', N'![') + N'%' ESCAPE N'!'
  AND CAST(:text_end AS NVARCHAR(210)) IS NOT NULL
ORDER BY k.Name;
