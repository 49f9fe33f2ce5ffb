-- Subscriptions of clients, what was delivered to them, and what was given up.

-- Adding a subscription locks the client's row, so that the limit on their number holds.
-- name: subscription_lock_client
UPDATE Clients SET Status = Status WHERE Id = :client_id;

-- name: subscription_count
SELECT COUNT(*) FROM WebhookSubscriptions WHERE ClientId = :client_id;

-- name: subscription_insert
INSERT INTO WebhookSubscriptions (Id, ClientId, Url, Events, Secret, SecretEncrypted, IsActive, CreatedAt, UpdatedAt,
                                  DisabledAt, DisabledReason)
VALUES (:id, :client_id, :url, :events, :secret, :encrypted, :active, :now, :now, :disabled_at, :reason);

-- name: subscription_get
-- row: subscription
SELECT Id, Url, Events, IsActive, CreatedAt, UpdatedAt, DisabledAt, DisabledReason, FailureSince, PreviousSecretExpiresAt
FROM WebhookSubscriptions
WHERE Id = :id AND ClientId = :client_id;

-- name: subscription_list
-- row: subscription
SELECT Id, Url, Events, IsActive, CreatedAt, UpdatedAt, DisabledAt, DisabledReason, FailureSince, PreviousSecretExpiresAt
FROM WebhookSubscriptions
WHERE ClientId = :client_id
ORDER BY CreatedAt DESC, Id DESC
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT Id, Url, Events, IsActive, CreatedAt, UpdatedAt, DisabledAt, DisabledReason, FailureSince, PreviousSecretExpiresAt
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

-- The current secret becomes the previous one, unless :until is now: then there is none.
-- name: subscription_rotate
UPDATE WebhookSubscriptions
SET PreviousSecret = CASE WHEN :until > :now THEN Secret END,
    PreviousSecretEncrypted = CASE WHEN :until > :now THEN SecretEncrypted END,
    PreviousSecretExpiresAt = CASE WHEN :until > :now THEN :until END,
    Secret = :secret, SecretEncrypted = :encrypted, UpdatedAt = :now
WHERE Id = :id AND ClientId = :client_id;
-- dialect: postgres
UPDATE WebhookSubscriptions
SET PreviousSecret = CASE WHEN CAST(:until AS timestamptz) > CAST(:now AS timestamptz) THEN Secret END,
    PreviousSecretEncrypted = CASE WHEN CAST(:until AS timestamptz) > CAST(:now AS timestamptz) THEN SecretEncrypted END,
    PreviousSecretExpiresAt = CASE WHEN CAST(:until AS timestamptz) > CAST(:now AS timestamptz) THEN CAST(:until AS timestamptz) END,
    Secret = :secret, SecretEncrypted = :encrypted, UpdatedAt = :now
WHERE Id = :id AND ClientId = :client_id;
-- dialect: sqlserver
UPDATE WebhookSubscriptions
SET PreviousSecret = CASE WHEN CAST(:until AS DATETIME2) > CAST(:now AS DATETIME2) THEN Secret END,
    PreviousSecretEncrypted = CASE WHEN CAST(:until AS DATETIME2) > CAST(:now AS DATETIME2) THEN SecretEncrypted END,
    PreviousSecretExpiresAt = CASE WHEN CAST(:until AS DATETIME2) > CAST(:now AS DATETIME2) THEN CAST(:until AS DATETIME2) END,
    Secret = :secret, SecretEncrypted = :encrypted, UpdatedAt = :now
WHERE Id = :id AND ClientId = :client_id;

-- --- secrets at the start: stored before there was a master key, or under the old one ---

-- name: subscription_plain
-- row: subscription_secrets
-- dialect: sqlite, postgres
SELECT Id, Secret, SecretEncrypted, PreviousSecret, PreviousSecretEncrypted, PreviousSecretExpiresAt
FROM WebhookSubscriptions
WHERE Secret IS NOT NULL AND SecretEncrypted IS NULL AND Id > :after
ORDER BY Id LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Id, Secret, SecretEncrypted, PreviousSecret, PreviousSecretEncrypted, PreviousSecretExpiresAt
FROM WebhookSubscriptions
WHERE Secret IS NOT NULL AND SecretEncrypted IS NULL AND Id > :after
ORDER BY Id;

-- name: subscription_encrypted
-- row: subscription_secrets
-- dialect: sqlite, postgres
SELECT Id, Secret, SecretEncrypted, PreviousSecret, PreviousSecretEncrypted, PreviousSecretExpiresAt
FROM WebhookSubscriptions
WHERE SecretEncrypted IS NOT NULL AND Id > :after
ORDER BY Id LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Id, Secret, SecretEncrypted, PreviousSecret, PreviousSecretEncrypted, PreviousSecretExpiresAt
FROM WebhookSubscriptions
WHERE SecretEncrypted IS NOT NULL AND Id > :after
ORDER BY Id;

-- An encrypted secret, to see whether the master key is the right one: the last one that was made or changed.
-- name: subscription_sealed
SELECT Id, SecretEncrypted FROM WebhookSubscriptions WHERE SecretEncrypted IS NOT NULL ORDER BY UpdatedAt DESC LIMIT 1;
-- dialect: sqlserver
SELECT TOP (1) Id, SecretEncrypted FROM WebhookSubscriptions WHERE SecretEncrypted IS NOT NULL ORDER BY UpdatedAt DESC;

-- Leaves a secret alone that was replaced meanwhile.
-- name: subscription_seal
UPDATE WebhookSubscriptions
SET Secret = NULL, SecretEncrypted = :encrypted, PreviousSecret = NULL, PreviousSecretEncrypted = :previous_encrypted
WHERE Id = :id AND Secret = :secret AND SecretEncrypted IS NULL;

-- name: subscription_reseal
UPDATE WebhookSubscriptions
SET SecretEncrypted = :encrypted, PreviousSecret = NULL, PreviousSecretEncrypted = :previous_encrypted
WHERE Id = :id AND SecretEncrypted = :before;

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
WHERE SubscriptionId = :subscription_id AND (CAST(:status AS VARCHAR(20)) IS NULL OR Status = CAST(:status AS VARCHAR(21)))
ORDER BY CreatedAt DESC, Id DESC
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT Id, EventId, Event, Reference, Status, AttemptCount, LastStatus, LastError, CreatedAt, LastAttemptAt, SentAt, NextAttemptAt,
       TryCount, SentStatus, SentMs
FROM WebhookDeliveries
WHERE SubscriptionId = :subscription_id AND (CAST(:status AS VARCHAR(20)) IS NULL OR Status = CAST(:status AS VARCHAR(21)))
ORDER BY CreatedAt DESC, Id DESC
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- name: subscription_deliveries_total
SELECT COUNT(*) FROM WebhookDeliveries
WHERE SubscriptionId = :subscription_id AND (CAST(:status AS VARCHAR(20)) IS NULL OR Status = CAST(:status AS VARCHAR(21)));
