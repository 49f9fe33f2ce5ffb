-- Subscriptions of clients, what was delivered to them, and what was given up.

-- Adding a subscription locks the client's row, so that the limit on their number holds.
-- name: subscription_lock_client
UPDATE Clients SET Status = Status WHERE Id = :client_id;

-- name: subscription_count
SELECT COUNT(*) FROM WebhookSubscriptions WHERE ClientId = :client_id;

-- name: subscription_insert
INSERT INTO WebhookSubscriptions (Id, ClientId, Url, Events, Secret, SecretEncrypted, IsActive, CreatedAt, UpdatedAt,
                                  DisabledAt, DisabledReason, AutoRotate)
VALUES (:id, :client_id, :url, :events, :secret, :encrypted, :active, :now, :now, :disabled_at, :reason, :auto_rotate);

-- name: subscription_get
-- row: subscription
SELECT Id, Url, Events, IsActive, CreatedAt, UpdatedAt, DisabledAt, DisabledReason, FailureSince, PreviousSecretExpiresAt,
       AutoRotate, SecretChangedAt, NextSecretAt
FROM WebhookSubscriptions
WHERE Id = :id AND ClientId = :client_id;

-- name: subscription_list
-- row: subscription
SELECT Id, Url, Events, IsActive, CreatedAt, UpdatedAt, DisabledAt, DisabledReason, FailureSince, PreviousSecretExpiresAt,
       AutoRotate, SecretChangedAt, NextSecretAt
FROM WebhookSubscriptions
WHERE ClientId = :client_id
ORDER BY CreatedAt DESC, Id DESC
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT Id, Url, Events, IsActive, CreatedAt, UpdatedAt, DisabledAt, DisabledReason, FailureSince, PreviousSecretExpiresAt,
       AutoRotate, SecretChangedAt, NextSecretAt
FROM WebhookSubscriptions
WHERE ClientId = :client_id
ORDER BY CreatedAt DESC, Id DESC
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- A parameter that is NULL leaves its column unchanged.
-- name: subscription_change
UPDATE WebhookSubscriptions SET Url = COALESCE(:url, Url), Events = COALESCE(:events, Events), UpdatedAt = :now
WHERE Id = :id AND ClientId = :client_id;

-- The subscription starts afresh: earlier failures do not count against it.
-- name: subscription_activate
UPDATE WebhookSubscriptions SET IsActive = :active, DisabledAt = NULL, DisabledReason = NULL, FailureSince = NULL
WHERE Id = :id;

-- A subscription that is disabled already keeps its reason.
-- name: subscription_deactivate
UPDATE WebhookSubscriptions SET IsActive = :active, DisabledAt = :now, DisabledReason = :reason
WHERE Id = :id AND IsActive <> :active;

-- Runs before the subscription is deleted, in the order in which a settlement locks the rows: otherwise the two could
-- deadlock.
-- name: subscription_delete_deliveries
DELETE FROM WebhookDeliveries
WHERE SubscriptionId IN (SELECT s.Id FROM WebhookSubscriptions AS s WHERE s.Id = :id AND s.ClientId = :client_id);

-- name: subscription_delete
DELETE FROM WebhookSubscriptions WHERE Id = :id AND ClientId = :client_id;

-- The current secret becomes the previous one, unless :until is now: then there is none. One that waits to be fetched
-- goes.
-- name: subscription_rotate
UPDATE WebhookSubscriptions
SET PreviousSecret = CASE WHEN :until > :now THEN Secret END,
    PreviousSecretEncrypted = CASE WHEN :until > :now THEN SecretEncrypted END,
    PreviousSecretExpiresAt = CASE WHEN :until > :now THEN :until END,
    Secret = :secret, SecretEncrypted = :encrypted, UpdatedAt = :now,
    SecretChangedAt = :now, NextSecretEncrypted = NULL, NextSecretAt = NULL
WHERE Id = :id AND ClientId = :client_id;
-- dialect: postgres
UPDATE WebhookSubscriptions
SET PreviousSecret = CASE WHEN CAST(:until AS timestamptz) > CAST(:now AS timestamptz) THEN Secret END,
    PreviousSecretEncrypted = CASE WHEN CAST(:until AS timestamptz) > CAST(:now AS timestamptz) THEN SecretEncrypted END,
    PreviousSecretExpiresAt = CASE WHEN CAST(:until AS timestamptz) > CAST(:now AS timestamptz) THEN CAST(:until AS timestamptz) END,
    Secret = :secret, SecretEncrypted = :encrypted, UpdatedAt = :now,
    SecretChangedAt = :now, NextSecretEncrypted = NULL, NextSecretAt = NULL
WHERE Id = :id AND ClientId = :client_id;
-- dialect: sqlserver
UPDATE WebhookSubscriptions
SET PreviousSecret = CASE WHEN CAST(:until AS DATETIME2) > CAST(:now AS DATETIME2) THEN Secret END,
    PreviousSecretEncrypted = CASE WHEN CAST(:until AS DATETIME2) > CAST(:now AS DATETIME2) THEN SecretEncrypted END,
    PreviousSecretExpiresAt = CASE WHEN CAST(:until AS DATETIME2) > CAST(:now AS DATETIME2) THEN CAST(:until AS DATETIME2) END,
    Secret = :secret, SecretEncrypted = :encrypted, UpdatedAt = :now,
    SecretChangedAt = :now, NextSecretEncrypted = NULL, NextSecretAt = NULL
WHERE Id = :id AND ClientId = :client_id;

-- --- secrets that the server replaces ---

-- Without it a secret that waits to be fetched goes; deliveries have been signed with the current one all the time.
-- name: subscription_auto_rotate
UPDATE WebhookSubscriptions
SET AutoRotate = :auto_rotate,
    NextSecretEncrypted = CASE WHEN CAST(:auto_rotate AS INT) = 1 THEN NextSecretEncrypted END,
    NextSecretAt = CASE WHEN CAST(:auto_rotate AS INT) = 1 THEN NextSecretAt END
WHERE Id = :id;
-- dialect: postgres
UPDATE WebhookSubscriptions
SET AutoRotate = :auto_rotate,
    NextSecretEncrypted = CASE WHEN CAST(:auto_rotate AS boolean) THEN NextSecretEncrypted END,
    NextSecretAt = CASE WHEN CAST(:auto_rotate AS boolean) THEN NextSecretAt END
WHERE Id = :id;

-- Those whose secret is older than it may be, of clients that may fetch another. A previous secret that still counts is
-- not cut short.
-- name: subscription_due
SELECT s.Id, s.ClientId, k.ClientIdentifier
FROM WebhookSubscriptions AS s
JOIN Clients AS k ON k.Id = s.ClientId
WHERE s.AutoRotate = :on AND s.IsActive = :on AND s.NextSecretAt IS NULL AND k.Status = 0
  AND COALESCE(s.SecretChangedAt, s.CreatedAt) <= :before
  AND (s.PreviousSecretExpiresAt IS NULL OR s.PreviousSecretExpiresAt <= :now)
ORDER BY s.Id
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) s.Id, s.ClientId, k.ClientIdentifier
FROM WebhookSubscriptions AS s
JOIN Clients AS k ON k.Id = s.ClientId
WHERE s.AutoRotate = :on AND s.IsActive = :on AND s.NextSecretAt IS NULL AND k.Status = 0
  AND COALESCE(s.SecretChangedAt, s.CreatedAt) <= :before
  AND (s.PreviousSecretExpiresAt IS NULL OR s.PreviousSecretExpiresAt <= :now)
ORDER BY s.Id;

-- The same conditions again: another process, or the client, may have been quicker.
-- name: subscription_next_secret
UPDATE WebhookSubscriptions SET NextSecretEncrypted = :encrypted, NextSecretAt = :now
WHERE Id = :id AND AutoRotate = :on AND IsActive = :on AND NextSecretAt IS NULL
  AND COALESCE(SecretChangedAt, CreatedAt) <= :before
  AND (PreviousSecretExpiresAt IS NULL OR PreviousSecretExpiresAt <= :now);

-- The secret that is being fetched is used from now on; the current one becomes the previous one.
-- name: subscription_use_next
UPDATE WebhookSubscriptions
SET PreviousSecret = Secret, PreviousSecretEncrypted = SecretEncrypted, PreviousSecretExpiresAt = :until,
    Secret = NULL, SecretEncrypted = NextSecretEncrypted, SecretChangedAt = :now, UpdatedAt = :now,
    NextSecretEncrypted = NULL, NextSecretAt = NULL
WHERE Id = :id AND ClientId = :client_id AND NextSecretAt IS NOT NULL;

-- name: subscription_fetch
SELECT AutoRotate, Secret, SecretEncrypted, PreviousSecretExpiresAt
FROM WebhookSubscriptions
WHERE Id = :id AND ClientId = :client_id;

-- --- secrets that are not under the current data key ---

-- name: subscription_secrets
-- dialect: sqlite, postgres
SELECT Id, Secret, SecretEncrypted, PreviousSecret, PreviousSecretEncrypted, NextSecretEncrypted
FROM WebhookSubscriptions WHERE Id > :after ORDER BY Id LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Id, Secret, SecretEncrypted, PreviousSecret, PreviousSecretEncrypted, NextSecretEncrypted
FROM WebhookSubscriptions WHERE Id > :after ORDER BY Id;

-- Leaves a secret alone that was replaced meanwhile.
-- name: subscription_reseal
UPDATE WebhookSubscriptions SET Secret = NULL, SecretEncrypted = :encrypted
WHERE Id = :id AND (SecretEncrypted = :before OR (SecretEncrypted IS NULL AND Secret = :secret));

-- name: subscription_reseal_previous
UPDATE WebhookSubscriptions SET PreviousSecret = NULL, PreviousSecretEncrypted = :encrypted
WHERE Id = :id AND (PreviousSecretEncrypted = :before OR (PreviousSecretEncrypted IS NULL AND PreviousSecret = :secret));

-- name: subscription_reseal_next
UPDATE WebhookSubscriptions SET NextSecretEncrypted = :encrypted WHERE Id = :id AND NextSecretEncrypted = :before;

-- A previous secret whose time is over is useful only to a thief.
-- name: subscription_forget_previous
UPDATE WebhookSubscriptions
SET PreviousSecret = NULL, PreviousSecretEncrypted = NULL, PreviousSecretExpiresAt = NULL
WHERE PreviousSecretExpiresAt <= :now;

-- --- deliveries ---

-- name: subscription_deliveries
SELECT Id, EventId, Event, Reference, Status, AttemptCount, LastStatus, LastError, CreatedAt, LastAttemptAt, SentAt, NextAttemptAt,
       TryCount, SentStatus, SentMs
FROM WebhookDeliveries
WHERE Id IN EACH_UUID(:ids)
ORDER BY CASE WHEN CAST(:oldest AS INT) = 1 THEN CreatedAt END, CASE WHEN CAST(:oldest AS INT) = 1 THEN Id END,
         CreatedAt DESC, Id DESC;

-- name: subscription_delivery_keys
-- row: list_key
SELECT d.Id, d.CreatedAt
FROM WebhookDeliveries AS d
WHERE d.SubscriptionId = :subscription_id AND (CAST(:status AS VARCHAR(20)) IS NULL OR d.Status = CAST(:status AS VARCHAR(21)))
  AND d.CreatedAt {<}= :after_at AND (d.CreatedAt {<} :after_at OR d.Id {<} :after_id)
ORDER BY d.CreatedAt {DESC}, d.Id {DESC}
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT d.Id, d.CreatedAt
FROM WebhookDeliveries AS d
WHERE d.SubscriptionId = :subscription_id AND (CAST(:status AS VARCHAR(20)) IS NULL OR d.Status = CAST(:status AS VARCHAR(21)))
  AND d.CreatedAt {<}= :after_at AND (d.CreatedAt {<} :after_at OR d.Id {<} :after_id)
ORDER BY d.CreatedAt {DESC}, d.Id {DESC}
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- One delivery, with its payload.
-- name: subscription_delivery
-- row: subscription_deliveries, …
SELECT Id, EventId, Event, Reference, Status, AttemptCount, LastStatus, LastError, CreatedAt, LastAttemptAt, SentAt, NextAttemptAt,
       TryCount, SentStatus, SentMs, PayloadJson
FROM WebhookDeliveries
WHERE Id = :id AND SubscriptionId = :subscription_id;

-- Sends the same event once more, as a new delivery.
-- name: subscription_resend
INSERT INTO WebhookDeliveries (Id, SubscriptionId, EventId, Event, Reference, BatchId, PayloadJson, CorrelationId, CreatedAt,
                               NextAttemptAt, TraceParent)
SELECT CAST(:new_id AS VARCHAR(36)), d.SubscriptionId, d.EventId, d.Event, d.Reference, d.BatchId, d.PayloadJson, d.CorrelationId, :now, :now,
       d.TraceParent
FROM WebhookDeliveries AS d
WHERE d.Id = :id AND d.SubscriptionId = :subscription_id;
-- dialect: postgres
INSERT INTO WebhookDeliveries (Id, SubscriptionId, EventId, Event, Reference, BatchId, PayloadJson, CorrelationId, CreatedAt,
                               NextAttemptAt, TraceParent)
SELECT CAST(:new_id AS uuid), d.SubscriptionId, d.EventId, d.Event, d.Reference, d.BatchId, d.PayloadJson, d.CorrelationId,
       CAST(:now AS timestamptz), CAST(:now AS timestamptz), d.TraceParent
FROM WebhookDeliveries AS d
WHERE d.Id = :id AND d.SubscriptionId = :subscription_id;
-- dialect: sqlserver
INSERT INTO WebhookDeliveries (Id, SubscriptionId, EventId, Event, Reference, BatchId, PayloadJson, CorrelationId, CreatedAt,
                               NextAttemptAt, TraceParent)
SELECT CAST(:new_id AS UNIQUEIDENTIFIER), d.SubscriptionId, d.EventId, d.Event, d.Reference, d.BatchId, d.PayloadJson,
       d.CorrelationId, CAST(:now AS DATETIME2), CAST(:now AS DATETIME2), d.TraceParent
FROM WebhookDeliveries AS d
WHERE d.Id = :id AND d.SubscriptionId = :subscription_id;

-- A delivery that was given up and is sent again waits for nobody any more.
-- name: subscription_resent
UPDATE WebhookDeliveryFailures SET ReplayedAt = :now WHERE DeliveryId = :id AND ReplayedAt IS NULL;
