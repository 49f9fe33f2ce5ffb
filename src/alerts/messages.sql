-- Messages about alerts, as a channel of the delivery engine (src/delivery/channel.h documents the queries).

-- A `resolve` waits until the `trigger` of its alert was sent or given up: if it overtook that, the incident would stay
-- open for ever.
-- template: ../delivery/outbox.sqlt
-- with: name = alert_delivery
-- with: table = AlertDeliveries
-- with: key = UUID
-- with: ids = UUID
-- with: mine/sqlite = ((:shards >> (instr('0123456789abcdef', lower(substr(c.Id, 36, 1))) - 1)) & 1) <> 0
-- with: mine/postgres = ((CAST(:shards AS BIGINT) >> (get_byte(uuid_send(c.Id), 15) & 15)) & 1) <> 0
-- with: mine/sqlserver = (CAST(:shards AS BIGINT) / POWER(CAST(2 AS BIGINT), CHARINDEX(RIGHT(LOWER(CAST(c.Id AS CHAR(36))), 1), '0123456789abcdef') - 1)) % 2 <> 0
-- with: given = Sink, AlertId, PayloadJson
-- with: reference = AlertId
-- with: target = Sink || ' ' || EventAction
-- with: target/sqlserver = Sink + ' ' + EventAction
-- with: target_key = Sink
-- with: ready = AND (c.EventAction <> 'resolve'
--       OR NOT EXISTS (SELECT 1 FROM AlertDeliveries AS t
--                      WHERE t.AlertId = c.AlertId AND t.Sink = c.Sink AND t.EventAction = 'trigger'
--                        AND t.NextAttemptAt IS NOT NULL))
-- with: aimed = c.Sink = CAST(:target AS VARCHAR(1001))
-- with: retriable = AND (c.EventAction = 'resolve' OR c.AlertId IN (SELECT a.Id FROM Alerts AS a WHERE a.ResolvedAt IS NULL))

-- name: alert_delivery_insert
INSERT INTO AlertDeliveries (Id, AlertId, Sink, EventAction, PayloadJson, CreatedAt, NextAttemptAt)
VALUES (:id, :alert_id, :sink, :event_action, :payload_json, :now, :now);

-- The `trigger` of an alert that is over by now is no longer sent: nothing would close the incident.
-- name: alert_delivery_retry
UPDATE AlertDeliveries
SET Status = 'Pending', AttemptCount = 0, FirstFailedAt = NULL, CountedAt = NULL, TargetMark = NULL, HeldFor = NULL,
    HeldAt = NULL, NextAttemptAt = :now
WHERE Id = :id AND Status = 'Error'
  AND (EventAction = 'resolve' OR AlertId IN (SELECT Id FROM Alerts WHERE ResolvedAt IS NULL));
