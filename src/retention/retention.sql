-- What is over, by kind (retention.h). Cursors go by the key where keys are in the order of time, otherwise by an index over
-- the time.

-- When the work is next due, for all processes: who moves the time on has it.
-- name: maintenance_add
INSERT INTO MaintenanceRuns (Name, DueAt) VALUES (:name, :due) ON CONFLICT (Name) DO NOTHING;
-- dialect: sqlserver
INSERT INTO MaintenanceRuns (Name, DueAt)
SELECT :name, :due
WHERE NOT EXISTS (SELECT 1 FROM MaintenanceRuns AS o WITH (UPDLOCK, HOLDLOCK) WHERE o.Name = CAST(:name AS VARCHAR(51)));

-- A time beyond :ahead was written under another clock.
-- name: maintenance_take
UPDATE MaintenanceRuns SET DueAt = :due WHERE Name = :name AND (DueAt <= :now OR DueAt > :ahead);
-- dialect: sqlserver
UPDATE MaintenanceRuns SET DueAt = :due
WHERE Name = CAST(:name AS VARCHAR(51)) AND (DueAt <= :now OR DueAt > :ahead);

-- name: maintenance_due
SELECT DueAt FROM MaintenanceRuns WHERE Name = :name;
-- dialect: sqlserver
SELECT DueAt FROM MaintenanceRuns WHERE Name = CAST(:name AS VARCHAR(51));

-- --- batches: removed by batches.c ---

-- Broken off removals come first, whatever their age.
-- name: retention_removing
SELECT Id FROM ImportBatch WHERE RemovingAt IS NOT NULL ORDER BY RemovingAt LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Id FROM ImportBatch WHERE RemovingAt IS NOT NULL ORDER BY RemovingAt;

-- A refused upload has no CompletedAt.
-- name: retention_batches
-- row: retention_pick
-- dialect: sqlite, postgres
SELECT c.Id, c.CreatedAt AS Since,
       CASE WHEN c.Status >= 3 AND COALESCE(c.CompletedAt, c.CreatedAt) < :before THEN 1 ELSE 0 END AS IsOver,
       0 AS Bytes
FROM ImportBatch AS c
WHERE c.CreatedAt < :before AND (c.CreatedAt, c.Id) > (:after, :after_id)
ORDER BY c.CreatedAt, c.Id
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) c.Id, c.CreatedAt AS Since,
       CASE WHEN c.Status >= 3 AND COALESCE(c.CompletedAt, c.CreatedAt) < :before THEN 1 ELSE 0 END AS IsOver,
       0 AS Bytes
FROM ImportBatch AS c
WHERE c.CreatedAt < :before AND c.CreatedAt >= :after
  AND (c.CreatedAt >= DATEADD(MILLISECOND, 1, CAST(:after AS DATETIME2)) OR c.Id > :after_id)
ORDER BY c.CreatedAt, c.Id;

-- --- the other kinds ---

-- template: rows.sqlt
-- with: name = old_event
-- with: body = c.payload
-- with: table = outbox_events
-- with: key = UUID
-- with: id = id
-- with: behind = c.created_at < :before AND (c.created_at, c.id) > (:after, :after_id)
--       AND c.status IN ('PROCESSED', 'DISMISSED')
-- with: behind/sqlserver = c.created_at < :before AND c.created_at >= :after
--       AND (c.created_at >= DATEADD(MILLISECOND, 1, CAST(:after AS DATETIME2)) OR c.id > :after_id)
--       AND c.status IN ('PROCESSED', 'DISMISSED')
-- with: order = c.created_at, c.id
-- with: since = c.created_at
-- with: over = c.status IN ('PROCESSED', 'DISMISSED') AND COALESCE(c.processed_at, c.created_at) < :before

-- A delivery that was given up and whose failure was replayed is over, too.
-- template: rows.sqlt
-- with: name = old_delivery
-- with: body = c.PayloadJson
-- with: table = WebhookDeliveries
-- with: key = UUID
-- with: behind = c.CreatedAt < :before AND (c.CreatedAt, c.Id) > (:after, :after_id)
-- with: behind/sqlserver = c.CreatedAt < :before AND c.CreatedAt >= :after
--       AND (c.CreatedAt >= DATEADD(MILLISECOND, 1, CAST(:after AS DATETIME2)) OR c.Id > :after_id)
-- with: order = c.CreatedAt, c.Id
-- with: since = c.CreatedAt
-- with: over = ((c.Status = 'Sent' AND COALESCE(c.SentAt, c.CreatedAt) < :before)
--       OR (c.Status = 'Error' AND c.NextAttemptAt IS NULL
--           AND (c.DismissedAt < :before OR EXISTS (SELECT 1 FROM WebhookDeliveryFailures AS f
--                                                   WHERE f.DeliveryId = c.Id AND f.ReplayedAt < :before))))

-- template: row_attempts.sqlt
-- with: name = old_delivery
-- with: table = WebhookDeliveries
-- with: channel = webhooks
-- with: key = UUID

-- template: rows.sqlt
-- with: name = old_failure
-- with: body = c.PayloadJson
-- with: table = WebhookDeliveryFailures
-- with: key = INT
-- with: over = (c.ReplayedAt < :before OR c.DismissedAt < :before)

-- Attempts at rows that wait, or wait for a person, stay.
-- template: rows.sqlt
-- with: name = old_attempt
-- with: table = DeliveryAttempts
-- with: key = INT
-- with: since = c.AttemptedAt
-- with: over = c.AttemptedAt < :before AND CASE c.Channel
--       WHEN 'functional-ack' THEN (SELECT COUNT(*) FROM TB_FUNCTIONAL_ACK_OUTBOX AS r WHERE r.Id = CAST(c.RowKey AS INTEGER)
--            AND (r.NextAttemptAt IS NOT NULL OR (r.Status = 'Error' AND r.DismissedAt IS NULL)))
--       WHEN 'ticket-return' THEN (SELECT COUNT(*) FROM TB_TICKET_RETURN_OUTBOX AS r WHERE r.Id = CAST(c.RowKey AS INTEGER)
--            AND (r.NextAttemptAt IS NOT NULL OR (r.Status = 'Error' AND r.DismissedAt IS NULL)))
--       WHEN 'ticket-gateway' THEN (SELECT COUNT(*) FROM TB_TICKET_INTERFACE AS r WHERE r.Id = CAST(c.RowKey AS INTEGER)
--            AND (r.GatewaySendNextAttemptAt IS NOT NULL OR (r.GatewaySendStatus = 'Error' AND r.GatewaySendDismissedAt IS NULL)))
--       WHEN 'integrations' THEN (SELECT COUNT(*) FROM IntegrationCalls AS r WHERE r.Id = c.RowKey
--            AND (r.NextAttemptAt IS NOT NULL OR (r.Status = 'Error' AND r.DismissedAt IS NULL)))
--       WHEN 'webhooks' THEN (SELECT COUNT(*) FROM WebhookDeliveries AS r WHERE r.Id = c.RowKey
--            AND (r.NextAttemptAt IS NOT NULL OR (r.Status = 'Error' AND r.DismissedAt IS NULL)))
--       WHEN 'alerts' THEN (SELECT COUNT(*) FROM AlertDeliveries AS r WHERE r.Id = c.RowKey
--            AND (r.NextAttemptAt IS NOT NULL OR (r.Status = 'Error' AND r.DismissedAt IS NULL)))
--       ELSE 0 END = 0
-- with: over/postgres = c.AttemptedAt < :before AND CASE c.Channel
--       WHEN 'functional-ack' THEN (SELECT COUNT(*) FROM TB_FUNCTIONAL_ACK_OUTBOX AS r WHERE r.Id = CAST(c.RowKey AS BIGINT)
--            AND (r.NextAttemptAt IS NOT NULL OR (r.Status = 'Error' AND r.DismissedAt IS NULL)))
--       WHEN 'ticket-return' THEN (SELECT COUNT(*) FROM TB_TICKET_RETURN_OUTBOX AS r WHERE r.Id = CAST(c.RowKey AS BIGINT)
--            AND (r.NextAttemptAt IS NOT NULL OR (r.Status = 'Error' AND r.DismissedAt IS NULL)))
--       WHEN 'ticket-gateway' THEN (SELECT COUNT(*) FROM TB_TICKET_INTERFACE AS r WHERE r.Id = CAST(c.RowKey AS BIGINT)
--            AND (r.GatewaySendNextAttemptAt IS NOT NULL OR (r.GatewaySendStatus = 'Error' AND r.GatewaySendDismissedAt IS NULL)))
--       WHEN 'integrations' THEN (SELECT COUNT(*) FROM IntegrationCalls AS r WHERE r.Id = CAST(c.RowKey AS uuid)
--            AND (r.NextAttemptAt IS NOT NULL OR (r.Status = 'Error' AND r.DismissedAt IS NULL)))
--       WHEN 'webhooks' THEN (SELECT COUNT(*) FROM WebhookDeliveries AS r WHERE r.Id = CAST(c.RowKey AS uuid)
--            AND (r.NextAttemptAt IS NOT NULL OR (r.Status = 'Error' AND r.DismissedAt IS NULL)))
--       WHEN 'alerts' THEN (SELECT COUNT(*) FROM AlertDeliveries AS r WHERE r.Id = CAST(c.RowKey AS uuid)
--            AND (r.NextAttemptAt IS NOT NULL OR (r.Status = 'Error' AND r.DismissedAt IS NULL)))
--       ELSE 0 END = 0
-- with: over/sqlserver = c.AttemptedAt < :before AND CASE c.Channel
--       WHEN 'functional-ack' THEN (SELECT COUNT(*) FROM TB_FUNCTIONAL_ACK_OUTBOX AS r WHERE r.Id = CAST(c.RowKey AS BIGINT)
--            AND (r.NextAttemptAt IS NOT NULL OR (r.Status = 'Error' AND r.DismissedAt IS NULL)))
--       WHEN 'ticket-return' THEN (SELECT COUNT(*) FROM TB_TICKET_RETURN_OUTBOX AS r WHERE r.Id = CAST(c.RowKey AS BIGINT)
--            AND (r.NextAttemptAt IS NOT NULL OR (r.Status = 'Error' AND r.DismissedAt IS NULL)))
--       WHEN 'ticket-gateway' THEN (SELECT COUNT(*) FROM TB_TICKET_INTERFACE AS r WHERE r.Id = CAST(c.RowKey AS BIGINT)
--            AND (r.GatewaySendNextAttemptAt IS NOT NULL OR (r.GatewaySendStatus = 'Error' AND r.GatewaySendDismissedAt IS NULL)))
--       WHEN 'integrations' THEN (SELECT COUNT(*) FROM IntegrationCalls AS r WHERE r.Id = CAST(c.RowKey AS UNIQUEIDENTIFIER)
--            AND (r.NextAttemptAt IS NOT NULL OR (r.Status = 'Error' AND r.DismissedAt IS NULL)))
--       WHEN 'webhooks' THEN (SELECT COUNT(*) FROM WebhookDeliveries AS r WHERE r.Id = CAST(c.RowKey AS UNIQUEIDENTIFIER)
--            AND (r.NextAttemptAt IS NOT NULL OR (r.Status = 'Error' AND r.DismissedAt IS NULL)))
--       WHEN 'alerts' THEN (SELECT COUNT(*) FROM AlertDeliveries AS r WHERE r.Id = CAST(c.RowKey AS UNIQUEIDENTIFIER)
--            AND (r.NextAttemptAt IS NOT NULL OR (r.Status = 'Error' AND r.DismissedAt IS NULL)))
--       ELSE 0 END = 0

-- A target that nothing was sent to for long. What is known of a whole channel (an empty target) stays.
-- template: rows.sqlt
-- with: name = old_target
-- with: table = DeliveryTargets
-- with: key = INT
-- with: since = c.UpdatedAt
-- with: over = c.UpdatedAt < :before AND c.Target <> '' AND c.PausedAt IS NULL AND c.GivenUp = 0
--       AND NOT EXISTS (SELECT 1 FROM TB_FUNCTIONAL_ACK_OUTBOX AS r WHERE r.HeldFor = c.Id)
--       AND NOT EXISTS (SELECT 1 FROM TB_TICKET_RETURN_OUTBOX AS r WHERE r.HeldFor = c.Id)
--       AND NOT EXISTS (SELECT 1 FROM TB_TICKET_INTERFACE AS r WHERE r.GatewaySendHeldFor = c.Id)
--       AND NOT EXISTS (SELECT 1 FROM IntegrationCalls AS r WHERE r.HeldFor = c.Id)
--       AND NOT EXISTS (SELECT 1 FROM WebhookDeliveries AS r WHERE r.HeldFor = c.Id)
--       AND NOT EXISTS (SELECT 1 FROM AlertDeliveries AS r WHERE r.HeldFor = c.Id)

-- A ticket whose processing, send, return, ack and callback are over; one that can never be processed is over, too.
-- template: rows.sqlt
-- with: name = old_ticket
-- with: body = c.RawPayloadJson
-- with: table = TB_TICKET_INTERFACE
-- with: key = INT
-- with: over = c.UpdatedAt < :before AND COALESCE(c.GatewaySendSentAt, c.CreatedAt) < :before AND c.NextAttemptAt IS NULL
--       AND (c.Status = 'Processed' OR (c.Status = 'Error' AND (c.FirstFailedAt IS NULL OR c.DismissedAt < :before)))
--       AND c.GatewaySendNextAttemptAt IS NULL AND (c.GatewaySendStatus <> 'Error' OR c.GatewaySendDismissedAt < :before)
--       AND COALESCE(c.CallbackReceivedAt, c.CreatedAt) < :before
--       AND NOT EXISTS (SELECT 1 FROM TB_TICKET_RETURN_OUTBOX AS r
--                       WHERE r.BusinessEntity = c.BusinessEntity AND r.BusinessDocId = c.BusinessDocId AND r.PhaseCode = c.PhaseCode
--                         AND (r.NextAttemptAt IS NOT NULL OR (r.Status = 'Error' AND r.DismissedAt IS NULL)))
--       AND NOT EXISTS (SELECT 1 FROM TB_FUNCTIONAL_ACK_OUTBOX AS a
--                       WHERE a.BusinessDocId = c.BusinessDocId
--                         AND (a.NextAttemptAt IS NOT NULL OR (a.Status = 'Error' AND a.DismissedAt IS NULL)))

-- template: row_attempts.sqlt
-- with: name = old_ticket
-- with: table = TB_TICKET_INTERFACE
-- with: channel = ticket-gateway
-- with: key = INT

-- name: ticket_lock
-- row: retention_sure
-- dialect: sqlite
SELECT 1 AS Id WHERE :ids IS NULL;
-- dialect: postgres
SELECT t.Id FROM TB_TICKET_INTERFACE AS t WHERE t.Id IN EACH_INT(:ids) ORDER BY t.Id FOR UPDATE OF t;
-- dialect: sqlserver
SELECT t.Id FROM TB_TICKET_INTERFACE AS t WITH (UPDLOCK, ROWLOCK) WHERE t.Id IN EACH_INT(:ids) ORDER BY t.Id;

-- The returns of tickets, locked after the tickets, as by everybody (interface/channels.sql). Whether one of them waits is
-- looked at once they are locked: a retry takes only the return's row.
-- name: ticket_returns_lock
-- row: retention_sure
-- dialect: sqlite
SELECT 1 AS Id WHERE :ids IS NULL;
-- dialect: postgres
SELECT o.Id
FROM TB_TICKET_INTERFACE AS t
JOIN TB_TICKET_RETURN_OUTBOX AS o ON o.BusinessEntity = t.BusinessEntity AND o.BusinessDocId = t.BusinessDocId
 AND o.PhaseCode = t.PhaseCode
WHERE t.Id IN EACH_INT(:ids)
ORDER BY o.Id
FOR UPDATE OF o;
-- dialect: sqlserver
SELECT o.Id
FROM TB_TICKET_INTERFACE AS t
JOIN TB_TICKET_RETURN_OUTBOX AS o WITH (UPDLOCK, ROWLOCK) ON o.BusinessEntity = t.BusinessEntity
 AND o.BusinessDocId = t.BusinessDocId AND o.PhaseCode = t.PhaseCode
WHERE t.Id IN EACH_INT(:ids)
ORDER BY o.Id;

-- The returns of tickets, and the attempts at them.
-- name: old_ticket_return_attempts
-- dialect: sqlite, sqlserver
DELETE FROM DeliveryAttempts
WHERE Channel = 'ticket-return'
  AND RowKey IN (SELECT CAST(o.Id AS VARCHAR(64))
                 FROM TB_TICKET_INTERFACE AS t
                 JOIN TB_TICKET_RETURN_OUTBOX AS o ON o.BusinessEntity = t.BusinessEntity AND o.BusinessDocId = t.BusinessDocId
                  AND o.PhaseCode = t.PhaseCode
                 WHERE t.Id IN EACH_INT(:ids));
-- dialect: postgres
DELETE FROM DeliveryAttempts
WHERE Channel = 'ticket-return'
  AND RowKey = ANY(ARRAY(SELECT CAST(o.Id AS varchar(64))
                         FROM TB_TICKET_INTERFACE AS t
                         JOIN TB_TICKET_RETURN_OUTBOX AS o ON o.BusinessEntity = t.BusinessEntity
                          AND o.BusinessDocId = t.BusinessDocId AND o.PhaseCode = t.PhaseCode
                         WHERE t.Id IN EACH_INT(:ids)));

-- name: old_ticket_returns
-- dialect: sqlite, sqlserver
DELETE FROM TB_TICKET_RETURN_OUTBOX
WHERE Id IN (SELECT o.Id
             FROM TB_TICKET_INTERFACE AS t
             JOIN TB_TICKET_RETURN_OUTBOX AS o ON o.BusinessEntity = t.BusinessEntity AND o.BusinessDocId = t.BusinessDocId
              AND o.PhaseCode = t.PhaseCode
             WHERE t.Id IN EACH_INT(:ids));
-- dialect: postgres
DELETE FROM TB_TICKET_RETURN_OUTBOX
WHERE Id = ANY(ARRAY(SELECT o.Id
                     FROM TB_TICKET_INTERFACE AS t
                     JOIN TB_TICKET_RETURN_OUTBOX AS o ON o.BusinessEntity = t.BusinessEntity
                      AND o.BusinessDocId = t.BusinessDocId AND o.PhaseCode = t.PhaseCode
                     WHERE t.Id IN EACH_INT(:ids)));

-- template: rows.sqlt
-- with: name = old_ack
-- with: body = c.PayloadJson
-- with: table = TB_FUNCTIONAL_ACK_OUTBOX
-- with: key = INT
-- with: over = ((c.Status = 'Sent' AND COALESCE(c.SentAt, c.CreatedAt) < :before)
--       OR (c.Status = 'Error' AND c.NextAttemptAt IS NULL AND c.DismissedAt < :before))

-- template: row_attempts.sqlt
-- with: name = old_ack
-- with: table = TB_FUNCTIONAL_ACK_OUTBOX
-- with: channel = functional-ack
-- with: key = INT

-- template: rows.sqlt
-- with: name = old_counterparty
-- with: body = c.RawPayload
-- with: table = TB_COUNTERPARTIES
-- with: key = INT
-- with: over = c.Status <> 'Received' AND COALESCE(c.UpdatedAt, c.CreatedAt) < :before

-- template: rows.sqlt
-- with: name = old_call
-- with: body = c.Body
-- with: table = IntegrationCalls
-- with: key = UUID
-- with: behind = c.CreatedAt < :before AND (c.CreatedAt, c.Id) > (:after, :after_id)
-- with: behind/sqlserver = c.CreatedAt < :before AND c.CreatedAt >= :after
--       AND (c.CreatedAt >= DATEADD(MILLISECOND, 1, CAST(:after AS DATETIME2)) OR c.Id > :after_id)
-- with: order = c.CreatedAt, c.Id
-- with: since = c.CreatedAt
-- with: over = ((c.Status = 'Sent' AND COALESCE(c.SentAt, c.CreatedAt) < :before)
--       OR (c.Status = 'Error' AND c.NextAttemptAt IS NULL AND c.DismissedAt < :before))

-- template: row_attempts.sqlt
-- with: name = old_call
-- with: table = IntegrationCalls
-- with: channel = integrations
-- with: key = UUID

-- Its messages go with the alert.
-- template: rows.sqlt
-- with: name = old_alert
-- with: table = Alerts
-- with: key = UUID
-- with: behind = c.FiredAt < :before AND (c.FiredAt, c.Id) > (:after, :after_id)
-- with: behind/sqlserver = c.FiredAt < :before AND c.FiredAt >= :after
--       AND (c.FiredAt >= DATEADD(MILLISECOND, 1, CAST(:after AS DATETIME2)) OR c.Id > :after_id)
-- with: order = c.FiredAt, c.Id
-- with: since = c.FiredAt
-- with: over = c.ResolvedAt < :before
--       AND NOT EXISTS (SELECT 1 FROM AlertDeliveries AS d WHERE d.AlertId = c.Id
--                       AND (d.NextAttemptAt IS NOT NULL OR (d.Status = 'Error' AND d.DismissedAt IS NULL)))

-- The messages of alerts, as the returns of tickets.
-- name: alert_messages_lock
-- row: retention_sure
-- dialect: sqlite
SELECT '' AS Id WHERE :ids IS NULL;
-- dialect: postgres
SELECT d.Id FROM AlertDeliveries AS d WHERE d.AlertId IN EACH_UUID(:ids) ORDER BY d.Id FOR UPDATE OF d;
-- dialect: sqlserver
SELECT d.Id FROM AlertDeliveries AS d WITH (UPDLOCK, ROWLOCK) WHERE d.AlertId IN EACH_UUID(:ids) ORDER BY d.Id;

-- name: old_alert_attempts
-- dialect: sqlite
DELETE FROM DeliveryAttempts
WHERE Channel = 'alerts' AND RowKey IN (SELECT d.Id FROM AlertDeliveries AS d WHERE d.AlertId IN EACH_UUID(:ids));
-- dialect: postgres
DELETE FROM DeliveryAttempts
WHERE Channel = 'alerts'
  AND RowKey = ANY(ARRAY(SELECT CAST(d.Id AS varchar(64)) FROM AlertDeliveries AS d WHERE d.AlertId IN EACH_UUID(:ids)));
-- dialect: sqlserver
DELETE FROM DeliveryAttempts
WHERE Channel = 'alerts'
  AND RowKey IN (SELECT LOWER(CAST(d.Id AS VARCHAR(64))) FROM AlertDeliveries AS d WHERE d.AlertId IN EACH_UUID(:ids));

-- What a dry run counts of the audit log, up to :limit.
-- name: old_audit_total
SELECT COUNT(*) FROM (SELECT 1 AS One FROM AuditLog WHERE OccurredAt < :before ORDER BY OccurredAt LIMIT :limit) AS o;
-- dialect: sqlserver
SELECT COUNT(*) FROM (SELECT TOP (:limit) 1 AS One FROM AuditLog WHERE OccurredAt < :before ORDER BY OccurredAt) AS o;
