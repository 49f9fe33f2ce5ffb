-- Webhooks as a channel of the delivery engine (src/delivery/channel.h says what each query takes and gives;
-- src/delivery/outbox.sqlt why they are written so), and what else is settled with its rows.
--
-- A retry of many leaves out deliveries that were replayed, which would arrive twice, and those without a receiver.

-- template: ../delivery/outbox.sqlt
-- with: name = webhook
-- with: table = WebhookDeliveries
-- with: status_index = INDEXED BY IX_WebhookDeliveries_Status_CreatedAt
-- with: key = UUID
-- with: ids = UUID
-- with: mine/sqlite = ((:shards >> (instr('0123456789abcdef', lower(substr(c.Id, 36, 1))) - 1)) & 1) <> 0
-- with: mine/postgres = ((CAST(:shards AS BIGINT) >> (get_byte(uuid_send(c.Id), 15) & 15)) & 1) <> 0
-- with: mine/sqlserver = (CAST(:shards AS BIGINT) / POWER(CAST(2 AS BIGINT), CHARINDEX(RIGHT(LOWER(CAST(c.Id AS CHAR(36))), 1), '0123456789abcdef') - 1)) % 2 <> 0
-- with: target_key = SubscriptionId
-- with: at_sent = LastStatus = NULL,
-- with: at_failed = LastStatus = :http_status,
-- with: aimed = c.SubscriptionId IN (SELECT s.Id FROM WebhookSubscriptions AS s
--       WHERE s.Url = CAST(:target AS VARCHAR(1001)) OR s.Url LIKE CAST(:target_query AS VARCHAR(2005)) ESCAPE '!'
--          OR LOWER(CAST(s.Id AS VARCHAR(36))) = LOWER(CAST(:target AS VARCHAR(1001))))
-- with: reference = Reference
-- with: target = (SELECT s.Url FROM WebhookSubscriptions AS s WHERE s.Id = c.SubscriptionId)
-- with: correlation = CorrelationId
-- with: retriable = AND (SELECT CAST(s.IsActive AS INT) FROM WebhookSubscriptions AS s WHERE s.Id = c.SubscriptionId) = 1
--       AND NOT EXISTS (SELECT 1 FROM WebhookDeliveryFailures AS f WHERE f.DeliveryId = c.Id AND f.ReplayedAt IS NOT NULL)

-- The subscription may have changed since the event: URL and secrets are the present ones.
-- name: webhook_load
-- row: channel_load
SELECT d.Id, 1 AS Version, d.SubscriptionId, d.PayloadJson, d.CorrelationId,
       s.Url, s.IsActive, s.Secret, s.SecretEncrypted, s.PreviousSecret, s.PreviousSecretEncrypted, s.PreviousSecretExpiresAt,
       d.BatchId, k.ClientIdentifier, s.ClientId, d.TraceParent
FROM WebhookDeliveries AS d
JOIN WebhookSubscriptions AS s ON s.Id = d.SubscriptionId
JOIN Clients AS k ON k.Id = s.ClientId
WHERE d.Id IN EACH_UUID(:ids);

-- The dead letters that were neither replayed nor dismissed, of the time since :since: a delivery stays in Error when its letter is
-- replayed. What waited for a subscription that was switched off was to be given up; if the server did that,
-- alert_webhooks_failing tells of it.
-- name: webhook_given_up
-- row: channel_given_up
-- dialect: sqlite, postgres
SELECT n.Target, COUNT(*) AS Documents, MIN(n.EndedAt) AS Oldest, MAX(n.EndedAt) AS Newest,
       MAX(CASE WHEN n.Nth = 1 THEN n.LastError END) AS LastError
FROM (SELECT g.Target, g.EndedAt, g.LastError, ROW_NUMBER() OVER (PARTITION BY g.Target ORDER BY g.EndedAt DESC) AS Nth
      FROM (SELECT f.SubscriptionId AS Target, f.CreatedAt AS EndedAt, f.LastError AS LastError
            FROM WebhookDeliveryFailures AS f
            JOIN WebhookSubscriptions AS s ON s.Id = f.SubscriptionId
            WHERE f.ReplayedAt IS NULL AND f.DismissedAt IS NULL AND f.CreatedAt > :since AND CAST(s.IsActive AS INT) = 1
            ORDER BY f.CreatedAt DESC
            LIMIT :rows) AS g) AS n
GROUP BY n.Target
ORDER BY Documents DESC, n.Target
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) n.Target, COUNT(*) AS Documents, MIN(n.EndedAt) AS Oldest, MAX(n.EndedAt) AS Newest,
       MAX(CASE WHEN n.Nth = 1 THEN n.LastError END) AS LastError
FROM (SELECT g.Target, g.EndedAt, g.LastError, ROW_NUMBER() OVER (PARTITION BY g.Target ORDER BY g.EndedAt DESC) AS Nth
      FROM (SELECT TOP (:rows) f.SubscriptionId AS Target, f.CreatedAt AS EndedAt, f.LastError AS LastError
            FROM WebhookDeliveryFailures AS f
            JOIN WebhookSubscriptions AS s ON s.Id = f.SubscriptionId
            WHERE f.ReplayedAt IS NULL AND f.DismissedAt IS NULL AND f.CreatedAt > :since AND CAST(s.IsActive AS INT) = 1
            ORDER BY f.CreatedAt DESC) AS g) AS n
GROUP BY n.Target
ORDER BY Documents DESC, n.Target;

-- name: webhook_given_up_total
SELECT COUNT(*)
FROM WebhookDeliveryFailures AS f
JOIN WebhookSubscriptions AS s ON s.Id = f.SubscriptionId
WHERE f.ReplayedAt IS NULL AND f.DismissedAt IS NULL AND f.CreatedAt > :since AND CAST(s.IsActive AS INT) = 1;

-- The dead letters of deliveries that a person dismissed; or retried, :at is NULL then.
-- name: webhook_dismissed
UPDATE WebhookDeliveryFailures SET DismissedAt = :at WHERE DeliveryId IN EACH_UUID(:ids) AND ReplayedAt IS NULL;

-- --- what the outcome means for others, in the settling transaction ---

-- name: webhook_outcomes
SELECT COALESCE(SUM(CASE WHEN Status = 'Sent' THEN 1 ELSE 0 END), 0) AS Sent,
       COALESCE(SUM(CASE WHEN Status = 'Error' THEN 1 ELSE 0 END), 0) AS Failed
FROM WebhookDeliveries
WHERE Id IN EACH_UUID(:ids);

-- After a success the subscription is no longer failing. PostgreSQL locks the subscriptions in one order, since two
-- processes that settle at the same time may want the same ones. It collects those of the rows in an array first;
-- otherwise it would go through all subscriptions and the deliveries of each.
-- name: webhook_well_again
UPDATE WebhookSubscriptions SET FailureSince = NULL
WHERE FailureSince IS NOT NULL
  AND Id IN (SELECT d.SubscriptionId FROM WebhookDeliveries AS d WHERE d.Id IN EACH_UUID(:ids)
               AND CASE WHEN d.Status = 'Sent' THEN 1 ELSE 0 END = 1);
-- dialect: postgres
UPDATE WebhookSubscriptions SET FailureSince = NULL
WHERE Id = ANY(ARRAY(SELECT s.Id FROM WebhookSubscriptions AS s
                     WHERE s.FailureSince IS NOT NULL
                       AND s.Id = ANY(ARRAY(SELECT d.SubscriptionId FROM WebhookDeliveries AS d WHERE d.Id IN EACH_UUID(:ids)
                                              AND CASE WHEN d.Status = 'Sent' THEN 1 ELSE 0 END = 1))
                     ORDER BY s.Id FOR NO KEY UPDATE));

-- A delivery that was given up and arrived after all, by a retry, need not be replayed.
-- name: webhook_arrived_after_all
UPDATE WebhookDeliveryFailures SET ReplayedAt = :now
WHERE ReplayedAt IS NULL
  AND DeliveryId IN (SELECT d.Id FROM WebhookDeliveries AS d WHERE d.Id IN EACH_UUID(:ids)
               AND CASE WHEN d.Status = 'Sent' THEN 1 ELSE 0 END = 1);

-- A batch is notified when every subscription that wanted its end has received it, by the delivery or a replay.
-- name: webhook_notified
UPDATE ImportBatch SET WebhookNotified = :told
WHERE WebhookNotified <> :told
  AND Id IN (SELECT d.BatchId FROM WebhookDeliveries AS d
             WHERE d.Id IN EACH_UUID(:ids)
               AND CASE WHEN d.Status = 'Sent' AND d.Event IN ('BatchCompleted', 'BatchFailed') THEN 1 ELSE 0 END = 1)
  AND NOT EXISTS (SELECT 1 FROM WebhookDeliveries AS o
                  WHERE o.BatchId = ImportBatch.Id AND o.Status IN ('Pending', 'Sending', 'Error')
                    AND o.Event IN ('BatchCompleted', 'BatchFailed')
                    AND NOT EXISTS (SELECT 1 FROM WebhookDeliveries AS r
                                    WHERE r.BatchId = o.BatchId AND r.Status = 'Sent' AND r.EventId = o.EventId
                                      AND r.SubscriptionId = o.SubscriptionId));

-- name: webhook_fails_since
UPDATE WebhookSubscriptions SET FailureSince = :now
WHERE FailureSince IS NULL
  AND Id IN (SELECT d.SubscriptionId FROM WebhookDeliveries AS d WHERE d.Id IN EACH_UUID(:ids)
               AND CASE WHEN d.Status = 'Error' THEN 1 ELSE 0 END = 1);
-- dialect: postgres
UPDATE WebhookSubscriptions SET FailureSince = :now
WHERE Id = ANY(ARRAY(SELECT s.Id FROM WebhookSubscriptions AS s
                     WHERE s.FailureSince IS NULL
                       AND s.Id = ANY(ARRAY(SELECT d.SubscriptionId FROM WebhookDeliveries AS d WHERE d.Id IN EACH_UUID(:ids)
                                              AND CASE WHEN d.Status = 'Error' THEN 1 ELSE 0 END = 1))
                     ORDER BY s.Id FOR NO KEY UPDATE));

-- 410 Gone: the receiver wants no more deliveries.
-- name: webhook_disable_gone
-- row: webhook_disabled
UPDATE WebhookSubscriptions
SET IsActive = :active, DisabledAt = :now, DisabledReason = :reason, UpdatedAt = :now
WHERE IsActive <> :active
  AND Id IN (SELECT d.SubscriptionId FROM WebhookDeliveries AS d
             WHERE d.Id IN EACH_UUID(:ids)
               AND CASE WHEN d.Status = 'Error' AND d.NextAttemptAt IS NULL AND d.LastStatus = 410 THEN 1 ELSE 0 END = 1)
RETURNING Id;
-- dialect: sqlserver
UPDATE WebhookSubscriptions
SET IsActive = :active, DisabledAt = :now, DisabledReason = :reason, UpdatedAt = :now
OUTPUT inserted.Id
WHERE IsActive <> :active
  AND Id IN (SELECT d.SubscriptionId FROM WebhookDeliveries AS d
             WHERE d.Id IN EACH_UUID(:ids)
               AND CASE WHEN d.Status = 'Error' AND d.NextAttemptAt IS NULL AND d.LastStatus = 410 THEN 1 ELSE 0 END = 1);

-- name: webhook_disable_failing
-- row: webhook_disabled
UPDATE WebhookSubscriptions
SET IsActive = :active, DisabledAt = :now, DisabledReason = :reason, UpdatedAt = :now
WHERE IsActive <> :active AND FailureSince <= :before
  AND Id IN (SELECT d.SubscriptionId FROM WebhookDeliveries AS d WHERE d.Id IN EACH_UUID(:ids)
               AND CASE WHEN d.Status = 'Error' THEN 1 ELSE 0 END = 1)
RETURNING Id;
-- dialect: sqlserver
UPDATE WebhookSubscriptions
SET IsActive = :active, DisabledAt = :now, DisabledReason = :reason, UpdatedAt = :now
OUTPUT inserted.Id
WHERE IsActive <> :active AND FailureSince <= :before
  AND Id IN (SELECT d.SubscriptionId FROM WebhookDeliveries AS d WHERE d.Id IN EACH_UUID(:ids)
               AND CASE WHEN d.Status = 'Error' THEN 1 ELSE 0 END = 1);

-- One that is on its way ends too. If it arrives after all, `sent` says so and webhook_arrived_after_all settles its dead
-- letter; if not, its failure finds no due time and changes nothing. PostgreSQL leaves out those that another process is
-- settling, which waits for the subscription that was disabled here.
-- name: webhook_end_waiting
UPDATE WebhookDeliveries
SET Status = 'Error', NextAttemptAt = NULL, SendingSince = NULL, HeldFor = NULL, HeldAt = NULL, LastError = :error
WHERE SubscriptionId = :subscription_id AND CASE WHEN NextAttemptAt IS NOT NULL THEN 1 ELSE 0 END = 1;
-- dialect: postgres
UPDATE WebhookDeliveries
SET Status = 'Error', NextAttemptAt = NULL, SendingSince = NULL, HeldFor = NULL, HeldAt = NULL, LastError = :error
WHERE Id = ANY(ARRAY(SELECT d.Id FROM WebhookDeliveries AS d
                     WHERE d.SubscriptionId = :subscription_id AND CASE WHEN d.NextAttemptAt IS NOT NULL THEN 1 ELSE 0 END = 1
                     FOR UPDATE SKIP LOCKED));

-- Dead letters: one for each delivery, until it is replayed.
-- name: webhook_bury
-- dialect: sqlite
INSERT INTO WebhookDeliveryFailures (SubscriptionId, EventId, Event, PayloadJson, Attempts, LastStatus, LastError,
                                     FirstAttemptAt, LastAttemptAt, CreatedAt, DeliveryId)
SELECT d.SubscriptionId, d.EventId, d.Event, d.PayloadJson, d.AttemptCount, d.LastStatus, d.LastError,
       (SELECT MIN(a.AttemptedAt) FROM DeliveryAttempts AS a WHERE a.Channel = 'webhooks' AND a.RowKey = d.Id),
       d.LastAttemptAt, :now, d.Id
FROM WebhookDeliveries AS d
WHERE d.Id IN EACH_UUID(:ids)
  AND CASE WHEN d.Status = 'Error' AND d.NextAttemptAt IS NULL THEN 1 ELSE 0 END = 1
  AND NOT EXISTS (SELECT 1 FROM WebhookDeliveryFailures AS f WHERE f.DeliveryId = d.Id AND f.ReplayedAt IS NULL);
-- dialect: postgres
INSERT INTO WebhookDeliveryFailures (SubscriptionId, EventId, Event, PayloadJson, Attempts, LastStatus, LastError,
                                     FirstAttemptAt, LastAttemptAt, CreatedAt, DeliveryId)
SELECT d.SubscriptionId, d.EventId, d.Event, d.PayloadJson, d.AttemptCount, d.LastStatus, d.LastError,
       (SELECT MIN(a.AttemptedAt) FROM DeliveryAttempts AS a WHERE a.Channel = 'webhooks' AND a.RowKey = CAST(d.Id AS varchar(64))),
       d.LastAttemptAt, CAST(:now AS timestamptz), d.Id
FROM WebhookDeliveries AS d
WHERE d.Id IN EACH_UUID(:ids)
  AND CASE WHEN d.Status = 'Error' AND d.NextAttemptAt IS NULL THEN 1 ELSE 0 END = 1
  AND NOT EXISTS (SELECT 1 FROM WebhookDeliveryFailures AS f WHERE f.DeliveryId = d.Id AND f.ReplayedAt IS NULL);
-- dialect: sqlserver
INSERT INTO WebhookDeliveryFailures (SubscriptionId, EventId, Event, PayloadJson, Attempts, LastStatus, LastError,
                                     FirstAttemptAt, LastAttemptAt, CreatedAt, DeliveryId)
SELECT d.SubscriptionId, d.EventId, d.Event, d.PayloadJson, d.AttemptCount, d.LastStatus, d.LastError,
       (SELECT MIN(a.AttemptedAt) FROM DeliveryAttempts AS a WHERE a.Channel = 'webhooks' AND a.RowKey = LOWER(CAST(d.Id AS VARCHAR(64)))),
       d.LastAttemptAt, CAST(:now AS DATETIME2), d.Id
FROM WebhookDeliveries AS d
WHERE d.Id IN EACH_UUID(:ids)
  AND CASE WHEN d.Status = 'Error' AND d.NextAttemptAt IS NULL THEN 1 ELSE 0 END = 1
  AND NOT EXISTS (SELECT 1 FROM WebhookDeliveryFailures AS f WHERE f.DeliveryId = d.Id AND f.ReplayedAt IS NULL);

-- Buries what waited for a subscription that was just disabled. Deliveries that failed before have their dead letter
-- already, replayed or not.
-- name: webhook_bury_waiting
-- dialect: sqlite
INSERT INTO WebhookDeliveryFailures (SubscriptionId, EventId, Event, PayloadJson, Attempts, LastStatus, LastError,
                                     FirstAttemptAt, LastAttemptAt, CreatedAt, DeliveryId)
SELECT d.SubscriptionId, d.EventId, d.Event, d.PayloadJson, d.AttemptCount, d.LastStatus, d.LastError,
       (SELECT MIN(a.AttemptedAt) FROM DeliveryAttempts AS a WHERE a.Channel = 'webhooks' AND a.RowKey = d.Id),
       d.LastAttemptAt, :now, d.Id
FROM WebhookDeliveries AS d
WHERE d.SubscriptionId = :subscription_id
  AND CASE WHEN d.Status = 'Error' AND d.NextAttemptAt IS NULL THEN 1 ELSE 0 END = 1
  AND NOT EXISTS (SELECT 1 FROM WebhookDeliveryFailures AS f WHERE f.DeliveryId = d.Id);
-- dialect: postgres
INSERT INTO WebhookDeliveryFailures (SubscriptionId, EventId, Event, PayloadJson, Attempts, LastStatus, LastError,
                                     FirstAttemptAt, LastAttemptAt, CreatedAt, DeliveryId)
SELECT d.SubscriptionId, d.EventId, d.Event, d.PayloadJson, d.AttemptCount, d.LastStatus, d.LastError,
       (SELECT MIN(a.AttemptedAt) FROM DeliveryAttempts AS a WHERE a.Channel = 'webhooks' AND a.RowKey = CAST(d.Id AS varchar(64))),
       d.LastAttemptAt, CAST(:now AS timestamptz), d.Id
FROM WebhookDeliveries AS d
WHERE d.SubscriptionId = :subscription_id
  AND CASE WHEN d.Status = 'Error' AND d.NextAttemptAt IS NULL THEN 1 ELSE 0 END = 1
  AND NOT EXISTS (SELECT 1 FROM WebhookDeliveryFailures AS f WHERE f.DeliveryId = d.Id);
-- dialect: sqlserver
INSERT INTO WebhookDeliveryFailures (SubscriptionId, EventId, Event, PayloadJson, Attempts, LastStatus, LastError,
                                     FirstAttemptAt, LastAttemptAt, CreatedAt, DeliveryId)
SELECT d.SubscriptionId, d.EventId, d.Event, d.PayloadJson, d.AttemptCount, d.LastStatus, d.LastError,
       (SELECT MIN(a.AttemptedAt) FROM DeliveryAttempts AS a WHERE a.Channel = 'webhooks' AND a.RowKey = LOWER(CAST(d.Id AS VARCHAR(64)))),
       d.LastAttemptAt, CAST(:now AS DATETIME2), d.Id
FROM WebhookDeliveries AS d
WHERE d.SubscriptionId = :subscription_id
  AND CASE WHEN d.Status = 'Error' AND d.NextAttemptAt IS NULL THEN 1 ELSE 0 END = 1
  AND NOT EXISTS (SELECT 1 FROM WebhookDeliveryFailures AS f WHERE f.DeliveryId = d.Id);

-- --- events ---

-- Adds a row for every subscription that wants the event. The database makes the ids, so that one statement is enough.
-- PostgreSQL waits for a subscription that is being deleted and then leaves it out; otherwise the row's foreign key
-- would fail.
-- name: webhook_emit
-- dialect: sqlite
INSERT INTO WebhookDeliveries (Id, SubscriptionId, EventId, Event, Reference, BatchId, PayloadJson, CorrelationId, CreatedAt,
                               NextAttemptAt, TraceParent)
SELECT lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-a' ||
             substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))), s.Id,
       :event_id, :event, :reference, :batch_id, :body, :correlation_id, :now, :now, :trace
FROM WebhookSubscriptions AS s
WHERE s.ClientId = :client_id AND CAST(s.IsActive AS INT) = 1
  AND ',' || COALESCE(s.Events, 'BatchCompleted,BatchFailed') || ',' LIKE '%,' || :event || ',%';
-- dialect: postgres
INSERT INTO WebhookDeliveries (Id, SubscriptionId, EventId, Event, Reference, BatchId, PayloadJson, CorrelationId, CreatedAt,
                               NextAttemptAt, TraceParent)
SELECT gen_random_uuid(), s.Id,
       CAST(:event_id AS uuid), CAST(:event AS varchar), CAST(:reference AS varchar), CAST(:batch_id AS uuid), CAST(:body AS text),
       CAST(:correlation_id AS varchar), CAST(:now AS timestamptz), CAST(:now AS timestamptz), CAST(:trace AS varchar)
FROM WebhookSubscriptions AS s
WHERE s.ClientId = :client_id AND CAST(s.IsActive AS INT) = 1
  AND ',' || COALESCE(s.Events, 'BatchCompleted,BatchFailed') || ',' LIKE '%,' || CAST(:event AS varchar) || ',%'
FOR KEY SHARE OF s;
-- dialect: sqlserver
INSERT INTO WebhookDeliveries (Id, SubscriptionId, EventId, Event, Reference, BatchId, PayloadJson, CorrelationId, CreatedAt,
                               NextAttemptAt, TraceParent)
SELECT NEWID(), s.Id,
       CAST(:event_id AS UNIQUEIDENTIFIER), CAST(:event AS VARCHAR(51)), CAST(:reference AS NVARCHAR(101)),
       CAST(:batch_id AS UNIQUEIDENTIFIER), CAST(:body AS NVARCHAR(MAX)), CAST(:correlation_id AS VARCHAR(129)), CAST(:now AS DATETIME2),
       CAST(:now AS DATETIME2), CAST(:trace AS VARCHAR(56))
FROM WebhookSubscriptions AS s
WHERE s.ClientId = :client_id AND CAST(s.IsActive AS INT) = 1
  AND ',' + COALESCE(s.Events, 'BatchCompleted,BatchFailed') + ',' LIKE '%,' + CAST(:event AS VARCHAR(51)) + ',%';

-- name: webhook_emit_one
-- dialect: sqlite
INSERT INTO WebhookDeliveries (Id, SubscriptionId, EventId, Event, Reference, BatchId, PayloadJson, CorrelationId, CreatedAt,
                               NextAttemptAt, TraceParent)
SELECT lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-a' ||
             substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))), s.Id,
       :event_id, :event, :reference, :batch_id, :body, :correlation_id, :now, :now, :trace
FROM WebhookSubscriptions AS s
WHERE s.ClientId = :client_id AND CAST(s.IsActive AS INT) = 1
  AND s.Id = :subscription_id;
-- dialect: postgres
INSERT INTO WebhookDeliveries (Id, SubscriptionId, EventId, Event, Reference, BatchId, PayloadJson, CorrelationId, CreatedAt,
                               NextAttemptAt, TraceParent)
SELECT gen_random_uuid(), s.Id,
       CAST(:event_id AS uuid), CAST(:event AS varchar), CAST(:reference AS varchar), CAST(:batch_id AS uuid), CAST(:body AS text),
       CAST(:correlation_id AS varchar), CAST(:now AS timestamptz), CAST(:now AS timestamptz), CAST(:trace AS varchar)
FROM WebhookSubscriptions AS s
WHERE s.ClientId = :client_id AND CAST(s.IsActive AS INT) = 1
  AND s.Id = :subscription_id
FOR KEY SHARE OF s;
-- dialect: sqlserver
INSERT INTO WebhookDeliveries (Id, SubscriptionId, EventId, Event, Reference, BatchId, PayloadJson, CorrelationId, CreatedAt,
                               NextAttemptAt, TraceParent)
SELECT NEWID(), s.Id,
       CAST(:event_id AS UNIQUEIDENTIFIER), CAST(:event AS VARCHAR(51)), CAST(:reference AS NVARCHAR(101)),
       CAST(:batch_id AS UNIQUEIDENTIFIER), CAST(:body AS NVARCHAR(MAX)), CAST(:correlation_id AS VARCHAR(129)), CAST(:now AS DATETIME2),
       CAST(:now AS DATETIME2), CAST(:trace AS VARCHAR(56))
FROM WebhookSubscriptions AS s
WHERE s.ClientId = :client_id AND CAST(s.IsActive AS INT) = 1
  AND s.Id = :subscription_id;
