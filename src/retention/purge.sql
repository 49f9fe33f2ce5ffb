-- Jobs of purge (purge.h), and what they remove. Batches are removed by batches.h.

-- name: purge_job_insert
INSERT INTO PurgeJobs (Id, Kind, Target, Cutoff, CountsJson, SkippedJson, CreatedBy, CreatedAt, UpdatedAt, Fence, LeaseUntil)
VALUES (:id, :kind, :target, :cutoff, :counts, :skipped, :by, :now, :now, 1, :lease_until);

-- name: purge_job_get
-- row: purge_job
SELECT Id, Kind, Target, Cutoff, State, Phase, CursorKey, GroupJson, CountsJson, SkippedJson, CreatedBy, CreatedAt, UpdatedAt,
       EndedAt, LastError, Fence
FROM PurgeJobs
WHERE Id = :id;

-- name: purge_job_list
-- row: purge_job
SELECT Id, Kind, Target, Cutoff, State, Phase, CursorKey, GroupJson, CountsJson, SkippedJson, CreatedBy, CreatedAt, UpdatedAt,
       EndedAt, LastError, Fence
FROM PurgeJobs
ORDER BY CreatedAt DESC, Id DESC
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT Id, Kind, Target, Cutoff, State, Phase, CursorKey, GroupJson, CountsJson, SkippedJson, CreatedBy, CreatedAt, UpdatedAt,
       EndedAt, LastError, Fence
FROM PurgeJobs
ORDER BY CreatedAt DESC, Id DESC
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- name: purge_job_total
SELECT COUNT(*) FROM PurgeJobs;

-- name: purge_job_running
SELECT COUNT(*) FROM PurgeJobs WHERE EndedAt IS NULL;

-- Jobs that nobody works on. A lease beyond :ahead was written under another clock.
-- name: purge_job_due
SELECT Id FROM PurgeJobs WHERE EndedAt IS NULL AND (LeaseUntil <= :now OR LeaseUntil > :ahead)
ORDER BY LeaseUntil, Id LIMIT 1;
-- dialect: sqlserver
SELECT TOP (1) Id FROM PurgeJobs WHERE EndedAt IS NULL AND (LeaseUntil <= :now OR LeaseUntil > :ahead)
ORDER BY LeaseUntil, Id;

-- name: purge_job_take
UPDATE PurgeJobs SET Fence = Fence + 1, LeaseUntil = :lease_until
WHERE Id = :id AND EndedAt IS NULL AND (LeaseUntil <= :now OR LeaseUntil > :ahead);

-- name: purge_job_state
SELECT State FROM PurgeJobs WHERE Id = :id;

-- Who lost the lease changes nothing.
-- name: purge_job_save
UPDATE PurgeJobs
SET State = CASE WHEN CAST(:state AS VARCHAR(21)) IS NULL THEN State ELSE CAST(:state AS VARCHAR(21)) END, Phase = :phase,
    CursorKey = :cursor, GroupJson = :group, CountsJson = :counts, SkippedJson = :skipped, LastError = :error,
    UpdatedAt = :now, EndedAt = :ended, LeaseUntil = :lease_until
WHERE Id = :id AND Fence = :fence AND EndedAt IS NULL;

-- name: purge_job_let_go
UPDATE PurgeJobs SET LastError = :error, LeaseUntil = :lease_until WHERE Id = :id AND Fence = :fence AND EndedAt IS NULL;

-- name: purge_job_cancel
UPDATE PurgeJobs SET State = 'Cancelling', UpdatedAt = :now WHERE Id = :id AND EndedAt IS NULL AND Kind <> 'subject';

-- --- batches ---

-- name: purge_batch_counts
-- row: purge_batch
SELECT b.Status, CASE WHEN b.UploadPath IS NULL THEN 0 ELSE 1 END AS Files,
       (SELECT COUNT(*) FROM ImportItem AS i WHERE i.BatchId = b.Id) AS Items,
       (SELECT COUNT(*) FROM ImportChunk AS k WHERE k.BatchId = b.Id) AS Chunks,
       (SELECT COUNT(*) FROM ImportKept AS p WHERE p.BatchId = b.Id) AS Kept,
       (SELECT COUNT(*) FROM WebhookDeliveries AS d WHERE d.BatchId = b.Id) AS Deliveries,
       (SELECT COUNT(*) FROM WebhookDeliveries AS d
        JOIN DeliveryAttempts AS a ON a.Channel = 'webhooks' AND a.RowKey = LOWER(CAST(d.Id AS VARCHAR(36)))
        WHERE d.BatchId = b.Id) AS Attempts,
       (SELECT COUNT(*) FROM WebhookDeliveries AS d JOIN WebhookDeliveryFailures AS f ON f.DeliveryId = d.Id
        WHERE d.BatchId = b.Id) AS Failures,
       (SELECT COUNT(*) FROM WebhookDeliveries AS d WHERE d.BatchId = b.Id AND d.NextAttemptAt IS NOT NULL) AS Waiting
FROM ImportBatch AS b
WHERE b.Id = :id;

-- template: purge_batches.sqlt
-- with: name = purge_client_batches
-- with: which = b.ClientId = :client
-- with: waiting = b.ClientId = :client

-- A refused upload has no CompletedAt.
-- template: purge_batches.sqlt
-- with: name = purge_old_batches
-- with: which = (b.CompletedAt < :cutoff OR (b.CompletedAt IS NULL AND b.Status >= 3 AND b.CreatedAt < :cutoff))
-- with: waiting = b.CreatedAt < :cutoff

-- --- a client's documents ---

-- name: purge_client
SELECT Id FROM Clients WHERE ClientIdentifier = CAST(:identifier AS VARCHAR(65));

-- A ticket goes with its returns and acks.
-- template: purge_documents.sqlt
-- with: name = purge_tickets
-- with: table = TB_TICKET_INTERFACE
-- with: key = INT
-- with: whose = c.ClientId = :client
-- with: waits = c.Status IN ('Awaiting', 'Processing') OR c.NextAttemptAt IS NOT NULL OR c.GatewaySendNextAttemptAt IS NOT NULL
--       OR EXISTS (SELECT 1 FROM TB_TICKET_RETURN_OUTBOX AS o
--           WHERE o.BusinessEntity = c.BusinessEntity AND o.BusinessDocId = c.BusinessDocId AND o.PhaseCode = c.PhaseCode
--             AND (o.NextAttemptAt IS NOT NULL OR o.Status IN ('Pending', 'Sending')))
-- with: channel = ticket-gateway
-- with: place = 'ticket', 'callback'

-- The returns of tickets that are about to be removed, and the attempts at them.
-- name: purge_tickets_returns
-- row: purge_found
SELECT o.Id, 0 AS Waits
FROM TB_TICKET_INTERFACE AS t
JOIN TB_TICKET_RETURN_OUTBOX AS o ON o.BusinessEntity = t.BusinessEntity AND o.BusinessDocId = t.BusinessDocId
 AND o.PhaseCode = t.PhaseCode
WHERE t.Id IN EACH_INT(:ids);

-- name: purge_returns_total
SELECT COUNT(*)
FROM TB_TICKET_INTERFACE AS t
JOIN TB_TICKET_RETURN_OUTBOX AS o ON o.BusinessEntity = t.BusinessEntity AND o.BusinessDocId = t.BusinessDocId
 AND o.PhaseCode = t.PhaseCode
WHERE t.ClientId = :client AND t.NextAttemptAt IS NULL AND t.GatewaySendNextAttemptAt IS NULL AND o.NextAttemptAt IS NULL
  AND o.Status IN ('Sent', 'Error') AND t.Status IN ('Processed', 'Error');

-- name: purge_return_attempts
DELETE FROM DeliveryAttempts
WHERE Channel = 'ticket-return'
  AND RowKey IN (SELECT CAST(o.Id AS VARCHAR(36)) FROM TB_TICKET_RETURN_OUTBOX AS o WHERE o.Id IN EACH_INT(:ids));

-- name: purge_return_remove
DELETE FROM TB_TICKET_RETURN_OUTBOX WHERE Id IN EACH_INT(:ids);

-- template: purge_documents.sqlt
-- with: name = purge_acks
-- with: table = TB_FUNCTIONAL_ACK_OUTBOX
-- with: key = INT
-- with: whose = c.ClientId = :client
-- with: waits = c.NextAttemptAt IS NOT NULL OR c.Status IN ('Pending', 'Sending')
-- with: channel = functional-ack
-- with: place = 'ack'

-- template: purge_documents.sqlt
-- with: name = purge_counterparties
-- with: table = TB_COUNTERPARTIES
-- with: key = INT
-- with: whose = c.ClientId = :client
-- with: waits = 1 = 0
-- with: channel = counterparties
-- with: place = 'counterparty'

-- template: purge_documents.sqlt
-- with: name = purge_events
-- with: table = outbox_events
-- with: key = UUID
-- with: id = id
-- with: whose = c.client_id = :client
-- with: waits = c.status = 'PENDING'
-- with: channel = relay
-- with: place = 'event'

-- template: purge_documents.sqlt
-- with: name = purge_calls
-- with: table = IntegrationCalls
-- with: key = UUID
-- with: whose = c.ClientId = :client
-- with: waits = c.NextAttemptAt IS NOT NULL OR c.Status IN ('Pending', 'Sending')
-- with: channel = integrations
-- with: place = 'call'

-- template: purge_documents.sqlt
-- with: name = purge_webhooks
-- with: table = WebhookDeliveries
-- with: key = UUID
-- with: whose = c.SubscriptionId IN (SELECT s.Id FROM WebhookSubscriptions AS s WHERE s.ClientId = :client)
-- with: waits = c.NextAttemptAt IS NOT NULL OR c.Status IN ('Pending', 'Sending')
-- with: channel = webhooks
-- with: place = 'webhook'

-- name: purge_webhook_failures
DELETE FROM WebhookDeliveryFailures WHERE DeliveryId IN EACH_UUID(:ids);

-- Failures of older versions, which name no delivery.
-- template: purge_documents.sqlt
-- with: name = purge_failures
-- with: table = WebhookDeliveryFailures
-- with: key = INT
-- with: whose = c.DeliveryId IS NULL AND c.SubscriptionId IN (SELECT s.Id FROM WebhookSubscriptions AS s WHERE s.ClientId = :client)
-- with: waits = 1 = 0
-- with: channel = none
-- with: place = 'none'

-- name: purge_failures_of
SELECT COUNT(*)
FROM WebhookSubscriptions AS s
JOIN WebhookDeliveryFailures AS f ON f.SubscriptionId = s.Id
JOIN WebhookDeliveries AS d ON d.Id = f.DeliveryId
WHERE s.ClientId = :client AND d.NextAttemptAt IS NULL AND d.Status NOT IN ('Pending', 'Sending');
