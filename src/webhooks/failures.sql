-- Deliveries that were given up (WebhookDeliveryFailures), for administrators, and their replay.

-- name: webhook_failure_list
SELECT f.Id, f.SubscriptionId, c.ClientIdentifier, s.Url, f.DeliveryId, f.EventId, f.Event, f.PayloadJson, f.Attempts,
       f.LastStatus, f.LastError, f.FirstAttemptAt, f.LastAttemptAt, f.CreatedAt, f.ReplayedAt, f.DismissedAt
FROM WebhookDeliveryFailures AS f
JOIN WebhookSubscriptions AS s ON s.Id = f.SubscriptionId
JOIN Clients AS c ON c.Id = s.ClientId
WHERE f.Id IN EACH_INT(:ids)
ORDER BY CASE WHEN CAST(:oldest AS INT) = 1 THEN f.Id ELSE -f.Id END;

-- name: webhook_failure_keys
-- row: list_key
-- dialect: sqlite
SELECT f.Id, f.CreatedAt
FROM WebhookDeliveryFailures AS f
WHERE (:subscription_id IS NULL OR f.SubscriptionId = :subscription_id)
  AND (:client IS NULL
       OR f.SubscriptionId IN (SELECT s.Id FROM WebhookSubscriptions AS s JOIN Clients AS c ON c.Id = s.ClientId
                               WHERE c.ClientIdentifier = :client))
  AND (:replayed IS NULL OR CASE WHEN f.ReplayedAt IS NULL THEN 0 ELSE 1 END = :replayed)
  AND f.Id {<} :after_id
ORDER BY f.Id {DESC}
LIMIT :limit OFFSET :offset;
-- dialect: postgres
SELECT f.Id, f.CreatedAt
FROM WebhookDeliveryFailures AS f
WHERE (CAST(:subscription_id AS uuid) IS NULL OR f.SubscriptionId = CAST(:subscription_id AS uuid))
  AND (CAST(:client AS varchar) IS NULL
       OR f.SubscriptionId IN (SELECT s.Id FROM WebhookSubscriptions AS s JOIN Clients AS c ON c.Id = s.ClientId
                               WHERE c.ClientIdentifier = CAST(:client AS varchar)))
  AND (CAST(:replayed AS bigint) IS NULL OR CASE WHEN f.ReplayedAt IS NULL THEN 0 ELSE 1 END = CAST(:replayed AS bigint))
  AND f.Id {<} :after_id
ORDER BY f.Id {DESC}
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT f.Id, f.CreatedAt
FROM WebhookDeliveryFailures AS f
WHERE (CAST(:subscription_id AS UNIQUEIDENTIFIER) IS NULL OR f.SubscriptionId = CAST(:subscription_id AS UNIQUEIDENTIFIER))
  AND (CAST(:client AS VARCHAR(65)) IS NULL
       OR f.SubscriptionId IN (SELECT s.Id FROM WebhookSubscriptions AS s JOIN Clients AS c ON c.Id = s.ClientId
                               WHERE c.ClientIdentifier = CAST(:client AS VARCHAR(65))))
  AND (CAST(:replayed AS BIGINT) IS NULL OR CASE WHEN f.ReplayedAt IS NULL THEN 0 ELSE 1 END = CAST(:replayed AS BIGINT))
  AND f.Id {<} :after_id
ORDER BY f.Id {DESC}
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- name: webhook_failure_get
SELECT f.SubscriptionId, s.ClientId, s.IsActive, f.ReplayedAt
FROM WebhookDeliveryFailures AS f
JOIN WebhookSubscriptions AS s ON s.Id = f.SubscriptionId
WHERE f.Id = :id;

-- Whether the subscription exists, and whether it is active.
-- name: webhook_failure_subscription
SELECT IsActive FROM WebhookSubscriptions WHERE Id = :subscription_id;

-- Failures of subscriptions that are active, or (for counting) that are not.
-- name: webhook_failure_since
-- row: webhook_failure_id
-- dialect: sqlite
SELECT f.Id
FROM WebhookDeliveryFailures AS f
JOIN WebhookSubscriptions AS s ON s.Id = f.SubscriptionId
WHERE f.CreatedAt >= :since AND f.ReplayedAt IS NULL AND f.DismissedAt IS NULL AND s.IsActive = :active
  AND (:subscription_id IS NULL OR f.SubscriptionId = :subscription_id)
ORDER BY f.Id
LIMIT :limit;
-- dialect: postgres
SELECT f.Id
FROM WebhookDeliveryFailures AS f
JOIN WebhookSubscriptions AS s ON s.Id = f.SubscriptionId
WHERE f.CreatedAt >= :since AND f.ReplayedAt IS NULL AND f.DismissedAt IS NULL AND s.IsActive = :active
  AND (CAST(:subscription_id AS uuid) IS NULL OR f.SubscriptionId = CAST(:subscription_id AS uuid))
ORDER BY f.Id
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) f.Id
FROM WebhookDeliveryFailures AS f
JOIN WebhookSubscriptions AS s ON s.Id = f.SubscriptionId
WHERE f.CreatedAt >= :since AND f.ReplayedAt IS NULL AND f.DismissedAt IS NULL AND s.IsActive = :active
  AND (CAST(:subscription_id AS UNIQUEIDENTIFIER) IS NULL OR f.SubscriptionId = CAST(:subscription_id AS UNIQUEIDENTIFIER))
ORDER BY f.Id;

-- name: webhook_failure_since_total
-- dialect: sqlite
SELECT COUNT(*)
FROM WebhookDeliveryFailures AS f
JOIN WebhookSubscriptions AS s ON s.Id = f.SubscriptionId
WHERE f.CreatedAt >= :since AND f.ReplayedAt IS NULL AND f.DismissedAt IS NULL AND s.IsActive = :active
  AND (:subscription_id IS NULL OR f.SubscriptionId = :subscription_id);
-- dialect: postgres
SELECT COUNT(*)
FROM WebhookDeliveryFailures AS f
JOIN WebhookSubscriptions AS s ON s.Id = f.SubscriptionId
WHERE f.CreatedAt >= :since AND f.ReplayedAt IS NULL AND f.DismissedAt IS NULL AND s.IsActive = :active
  AND (CAST(:subscription_id AS uuid) IS NULL OR f.SubscriptionId = CAST(:subscription_id AS uuid));
-- dialect: sqlserver
SELECT COUNT(*)
FROM WebhookDeliveryFailures AS f
JOIN WebhookSubscriptions AS s ON s.Id = f.SubscriptionId
WHERE f.CreatedAt >= :since AND f.ReplayedAt IS NULL AND f.DismissedAt IS NULL AND s.IsActive = :active
  AND (CAST(:subscription_id AS UNIQUEIDENTIFIER) IS NULL OR f.SubscriptionId = CAST(:subscription_id AS UNIQUEIDENTIFIER));

-- If two callers replay the same failure, one of them gets it.
-- name: webhook_failure_take
-- row: webhook_failure_id
UPDATE WebhookDeliveryFailures SET ReplayedAt = :now WHERE Id IN EACH_INT(:ids) AND ReplayedAt IS NULL RETURNING Id;
-- dialect: sqlserver
UPDATE WebhookDeliveryFailures SET ReplayedAt = :now OUTPUT inserted.Id
WHERE Id IN EACH_INT(:ids) AND ReplayedAt IS NULL;

-- Sends the same event once more, as a new delivery. Columns that the failure does not have come from the first
-- delivery, if that still exists.
-- name: webhook_failure_replay
-- dialect: sqlite
INSERT INTO WebhookDeliveries (Id, SubscriptionId, EventId, Event, Reference, BatchId, PayloadJson, CorrelationId, CreatedAt,
                               NextAttemptAt, TraceParent)
SELECT lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-a' ||
             substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))), f.SubscriptionId, f.EventId, f.Event, d.Reference,
       d.BatchId, f.PayloadJson, d.CorrelationId, :now, :now, d.TraceParent
FROM WebhookDeliveryFailures AS f
LEFT JOIN WebhookDeliveries AS d ON d.Id = f.DeliveryId
WHERE f.Id IN EACH_INT(:ids)
RETURNING Id;
-- dialect: postgres
INSERT INTO WebhookDeliveries (Id, SubscriptionId, EventId, Event, Reference, BatchId, PayloadJson, CorrelationId, CreatedAt,
                               NextAttemptAt, TraceParent)
SELECT gen_random_uuid(), f.SubscriptionId, f.EventId, f.Event, d.Reference, d.BatchId, f.PayloadJson, d.CorrelationId,
       CAST(:now AS timestamptz), CAST(:now AS timestamptz), d.TraceParent
FROM WebhookDeliveryFailures AS f
LEFT JOIN WebhookDeliveries AS d ON d.Id = f.DeliveryId
WHERE f.Id IN EACH_INT(:ids)
RETURNING Id;
-- dialect: sqlserver
INSERT INTO WebhookDeliveries (Id, SubscriptionId, EventId, Event, Reference, BatchId, PayloadJson, CorrelationId, CreatedAt,
                               NextAttemptAt, TraceParent)
OUTPUT inserted.Id
SELECT NEWID(), f.SubscriptionId, f.EventId, f.Event, d.Reference, d.BatchId, f.PayloadJson, d.CorrelationId,
       CAST(:now AS DATETIME2), CAST(:now AS DATETIME2), d.TraceParent
FROM WebhookDeliveryFailures AS f
LEFT JOIN WebhookDeliveries AS d ON d.Id = f.DeliveryId
WHERE f.Id IN EACH_INT(:ids);

-- A failure that a person wants no more of, and its delivery, if that still exists.
-- name: webhook_failure_dismiss
UPDATE WebhookDeliveryFailures SET DismissedAt = :now WHERE Id = :id AND ReplayedAt IS NULL AND DismissedAt IS NULL;

-- name: webhook_failure_dismiss_delivery
UPDATE WebhookDeliveries SET DismissedAt = :now
WHERE Id IN (SELECT f.DeliveryId FROM WebhookDeliveryFailures AS f WHERE f.Id = :id)
  AND CASE WHEN Status = 'Error' AND NextAttemptAt IS NULL AND DismissedAt IS NULL THEN 1 ELSE 0 END = 1;

-- Whether the webhook is the client's.
-- name: webhook_failure_owner
SELECT COUNT(*) FROM WebhookSubscriptions AS s JOIN Clients AS c ON c.Id = s.ClientId
WHERE s.Id = :subscription_id AND c.ClientIdentifier = CAST(:client AS VARCHAR(65));
