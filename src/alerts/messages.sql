-- Messages about alerts, as a channel of the delivery engine (src/delivery/channel.h says what each query takes and gives).
--
-- A resolution waits until its alert's message has left or was given up: overtaken by it, an incident would stay open for ever.

-- name: alert_delivery_insert
INSERT INTO AlertDeliveries (Id, AlertId, Sink, EventAction, PayloadJson, CreatedAt, NextAttemptAt)
VALUES (:id, :alert_id, :sink, :event_action, :payload_json, :now, :now);

-- name: alert_delivery_claim
-- dialect: sqlite
UPDATE AlertDeliveries
SET Status = 'Sending', AttemptCount = AttemptCount + 1, LastAttemptAt = :now, NextAttemptAt = :lease_until
WHERE Id IN (SELECT d.Id FROM AlertDeliveries AS d
             WHERE d.NextAttemptAt <= :now
               AND (d.EventAction <> 'resolve'
                  OR NOT EXISTS (SELECT 1 FROM AlertDeliveries AS t
                                 WHERE t.AlertId = d.AlertId AND t.Sink = d.Sink AND t.EventAction = 'trigger'
                                   AND t.NextAttemptAt IS NOT NULL))
             ORDER BY d.NextAttemptAt LIMIT :limit)
RETURNING Id, AttemptCount, AttemptCount, Sink, AlertId, PayloadJson;
-- dialect: postgres
UPDATE AlertDeliveries
SET Status = 'Sending', AttemptCount = AttemptCount + 1, LastAttemptAt = :now, NextAttemptAt = :lease_until
WHERE Id = ANY(ARRAY(SELECT d.Id FROM AlertDeliveries AS d
                     WHERE d.NextAttemptAt <= :now
                       AND (d.EventAction <> 'resolve'
                  OR NOT EXISTS (SELECT 1 FROM AlertDeliveries AS t
                                 WHERE t.AlertId = d.AlertId AND t.Sink = d.Sink AND t.EventAction = 'trigger'
                                   AND t.NextAttemptAt IS NOT NULL))
                     ORDER BY d.NextAttemptAt LIMIT :limit
                     FOR UPDATE OF d SKIP LOCKED))
RETURNING Id, AttemptCount, AttemptCount, Sink, AlertId, PayloadJson;
-- dialect: sqlserver
UPDATE AlertDeliveries
SET Status = 'Sending', AttemptCount = AttemptCount + 1, LastAttemptAt = :now, NextAttemptAt = :lease_until
OUTPUT inserted.Id, inserted.AttemptCount, inserted.AttemptCount, inserted.Sink, inserted.AlertId, inserted.PayloadJson
WHERE Id IN (SELECT TOP (:limit) d.Id FROM AlertDeliveries AS d WITH (UPDLOCK, READPAST, ROWLOCK)
             WHERE d.NextAttemptAt <= :now
               AND (d.EventAction <> 'resolve'
                OR NOT EXISTS (SELECT 1 FROM AlertDeliveries AS t
                               WHERE t.AlertId = d.AlertId AND t.Sink = d.Sink AND t.EventAction = 'trigger'
                                 AND t.NextAttemptAt IS NOT NULL))
             ORDER BY d.NextAttemptAt)
  AND NextAttemptAt <= :now;

-- name: alert_delivery_claim_newest
-- dialect: sqlite
UPDATE AlertDeliveries
SET Status = 'Sending', AttemptCount = AttemptCount + 1, LastAttemptAt = :now, NextAttemptAt = :lease_until
WHERE Id IN (SELECT d.Id FROM AlertDeliveries AS d
             WHERE d.NextAttemptAt <= :now
               AND (d.EventAction <> 'resolve'
                  OR NOT EXISTS (SELECT 1 FROM AlertDeliveries AS t
                                 WHERE t.AlertId = d.AlertId AND t.Sink = d.Sink AND t.EventAction = 'trigger'
                                   AND t.NextAttemptAt IS NOT NULL))
             ORDER BY d.NextAttemptAt DESC LIMIT :limit)
RETURNING Id, AttemptCount, AttemptCount, Sink, AlertId, PayloadJson;
-- dialect: postgres
UPDATE AlertDeliveries
SET Status = 'Sending', AttemptCount = AttemptCount + 1, LastAttemptAt = :now, NextAttemptAt = :lease_until
WHERE Id = ANY(ARRAY(SELECT d.Id FROM AlertDeliveries AS d
                     WHERE d.NextAttemptAt <= :now
                       AND (d.EventAction <> 'resolve'
                  OR NOT EXISTS (SELECT 1 FROM AlertDeliveries AS t
                                 WHERE t.AlertId = d.AlertId AND t.Sink = d.Sink AND t.EventAction = 'trigger'
                                   AND t.NextAttemptAt IS NOT NULL))
                     ORDER BY d.NextAttemptAt DESC LIMIT :limit
                     FOR UPDATE OF d SKIP LOCKED))
RETURNING Id, AttemptCount, AttemptCount, Sink, AlertId, PayloadJson;
-- dialect: sqlserver
UPDATE AlertDeliveries
SET Status = 'Sending', AttemptCount = AttemptCount + 1, LastAttemptAt = :now, NextAttemptAt = :lease_until
OUTPUT inserted.Id, inserted.AttemptCount, inserted.AttemptCount, inserted.Sink, inserted.AlertId, inserted.PayloadJson
WHERE Id IN (SELECT TOP (:limit) d.Id FROM AlertDeliveries AS d WITH (UPDLOCK, READPAST, ROWLOCK)
             WHERE d.NextAttemptAt <= :now
               AND (d.EventAction <> 'resolve'
                OR NOT EXISTS (SELECT 1 FROM AlertDeliveries AS t
                               WHERE t.AlertId = d.AlertId AND t.Sink = d.Sink AND t.EventAction = 'trigger'
                                 AND t.NextAttemptAt IS NOT NULL))
             ORDER BY d.NextAttemptAt DESC)
  AND NextAttemptAt <= :now;

-- name: alert_delivery_sent
UPDATE AlertDeliveries
SET Status = 'Sent', SentAt = :now, NextAttemptAt = NULL, LastError = NULL
WHERE Id IN EACH_UUID(:ids)
  AND CASE WHEN AttemptCount = :fence AND NextAttemptAt = :lease_until AND Status = 'Sending' THEN 1 ELSE 0 END = 1
RETURNING Id;
-- dialect: sqlserver
UPDATE AlertDeliveries
SET Status = 'Sent', SentAt = :now, NextAttemptAt = NULL, LastError = NULL
OUTPUT inserted.Id
WHERE Id IN EACH_UUID(:ids)
  AND CASE WHEN AttemptCount = :fence AND NextAttemptAt = :lease_until AND Status = 'Sending' THEN 1 ELSE 0 END = 1;

-- name: alert_delivery_failed
UPDATE AlertDeliveries
SET Status = 'Error', LastAttemptAt = :now, NextAttemptAt = :due, LastError = :error
WHERE Id = :id
  AND CASE WHEN AttemptCount = :fence AND NextAttemptAt = :lease_until AND Status = 'Sending' THEN 1 ELSE 0 END = 1;

-- name: alert_delivery_deferred
UPDATE AlertDeliveries
SET Status = CASE WHEN AttemptCount > 1 THEN 'Error' ELSE 'Pending' END, AttemptCount = AttemptCount - 1, NextAttemptAt = :due
WHERE Id = :id
  AND CASE WHEN AttemptCount = :fence AND NextAttemptAt = :lease_until AND Status = 'Sending' THEN 1 ELSE 0 END = 1;

-- name: alert_delivery_next_due
SELECT MIN(d.NextAttemptAt) FROM AlertDeliveries AS d
WHERE d.NextAttemptAt IS NOT NULL
  AND (d.EventAction <> 'resolve'
                  OR NOT EXISTS (SELECT 1 FROM AlertDeliveries AS t
                                 WHERE t.AlertId = d.AlertId AND t.Sink = d.Sink AND t.EventAction = 'trigger'
                                   AND t.NextAttemptAt IS NOT NULL));

-- name: alert_delivery_waiting
SELECT COUNT(*), MIN(CreatedAt) FROM AlertDeliveries WHERE NextAttemptAt IS NOT NULL;

-- name: alert_delivery_counts
SELECT Status, COUNT(*), MIN(CreatedAt) FROM AlertDeliveries GROUP BY Status;

-- name: alert_delivery_list
SELECT Id, AlertId, Sink || ' ' || EventAction, Status, AttemptCount, CreatedAt, LastAttemptAt, SentAt, NextAttemptAt, LastError
FROM AlertDeliveries
WHERE (CAST(:status AS VARCHAR(20)) IS NULL OR Status = CAST(:status AS VARCHAR(21)))
ORDER BY CreatedAt DESC, Id DESC
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT Id, AlertId, Sink + ' ' + EventAction, Status, AttemptCount, CreatedAt, LastAttemptAt, SentAt, NextAttemptAt, LastError
FROM AlertDeliveries
WHERE (CAST(:status AS VARCHAR(20)) IS NULL OR Status = CAST(:status AS VARCHAR(21)))
ORDER BY CreatedAt DESC, Id DESC
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- name: alert_delivery_total
SELECT COUNT(*) FROM AlertDeliveries
WHERE (CAST(:status AS VARCHAR(20)) IS NULL OR Status = CAST(:status AS VARCHAR(21)));

-- name: alert_delivery_get
SELECT Id, AlertId, Sink || ' ' || EventAction, Status, AttemptCount, CreatedAt, LastAttemptAt, SentAt, NextAttemptAt, LastError,
       PayloadJson
FROM AlertDeliveries
WHERE Id = :id;
-- dialect: sqlserver
SELECT Id, AlertId, Sink + ' ' + EventAction, Status, AttemptCount, CreatedAt, LastAttemptAt, SentAt, NextAttemptAt, LastError,
       PayloadJson
FROM AlertDeliveries
WHERE Id = :id;

-- The message of an alert that is over by now is not sent any more: nobody would close the incident.
-- name: alert_delivery_retry
UPDATE AlertDeliveries
SET Status = 'Pending', AttemptCount = 0, NextAttemptAt = :now
WHERE Id = :id AND Status = 'Error'
  AND (EventAction = 'resolve' OR AlertId IN (SELECT Id FROM Alerts WHERE ResolvedAt IS NULL));

-- name: alert_delivery_retry_all
UPDATE AlertDeliveries
SET Status = 'Pending', AttemptCount = 0, NextAttemptAt = :now
WHERE Status = 'Error'
  AND (EventAction = 'resolve' OR AlertId IN (SELECT Id FROM Alerts WHERE ResolvedAt IS NULL));
