-- Secrets that are replaced in time.

-- SecretChangedAt: when the secret came into use; NULL: with the row. Rotations before this script are in the audit log.
ALTER TABLE Clients ADD COLUMN IF NOT EXISTS SecretChangedAt timestamptz(3) NULL;
UPDATE Clients
SET SecretChangedAt = (SELECT MAX(a.OccurredAt) FROM AuditLog AS a
                       WHERE a.ClientId = Clients.Id AND a.Action = 'ClientSecretRotated')
WHERE SecretChangedAt IS NULL;

-- AutoRotate: the server makes a new secret now and then. NextSecretEncrypted: one that the receiver has not fetched, made
-- at NextSecretAt; until it is fetched, deliveries are signed with the current secret.
ALTER TABLE WebhookSubscriptions ADD COLUMN IF NOT EXISTS AutoRotate boolean NOT NULL DEFAULT false;
ALTER TABLE WebhookSubscriptions ADD COLUMN IF NOT EXISTS SecretChangedAt timestamptz(3) NULL;
ALTER TABLE WebhookSubscriptions ADD COLUMN IF NOT EXISTS NextSecretEncrypted bytea NULL;
ALTER TABLE WebhookSubscriptions ADD COLUMN IF NOT EXISTS NextSecretAt timestamptz(3) NULL;
UPDATE WebhookSubscriptions
SET SecretChangedAt = (SELECT MAX(a.OccurredAt) FROM AuditLog AS a
                       WHERE a.ClientId = WebhookSubscriptions.ClientId AND a.Action = 'WebhookSecretRotated'
                         AND a.Target = CAST(WebhookSubscriptions.Id AS varchar(36)))
WHERE SecretChangedAt IS NULL;
