-- Secrets that are replaced in time.

-- SecretChangedAt: when the secret came into use; NULL: with the row. Rotations before this script are in the audit log.
-- add column if missing: Clients SecretChangedAt
ALTER TABLE Clients ADD COLUMN SecretChangedAt TEXT NULL;
UPDATE Clients
SET SecretChangedAt = (SELECT MAX(a.OccurredAt) FROM AuditLog AS a
                       WHERE a.ClientId = Clients.Id AND a.Action = 'ClientSecretRotated')
WHERE SecretChangedAt IS NULL;

-- AutoRotate: the server makes a new secret now and then. NextSecretEncrypted: one that the receiver has not fetched, made
-- at NextSecretAt; until it is fetched, deliveries are signed with the current secret.
-- add column if missing: WebhookSubscriptions AutoRotate
ALTER TABLE WebhookSubscriptions ADD COLUMN AutoRotate BIT NOT NULL DEFAULT 0 CHECK (AutoRotate IN (0, 1));
-- add column if missing: WebhookSubscriptions SecretChangedAt
ALTER TABLE WebhookSubscriptions ADD COLUMN SecretChangedAt TEXT NULL;
-- add column if missing: WebhookSubscriptions NextSecretEncrypted
ALTER TABLE WebhookSubscriptions ADD COLUMN NextSecretEncrypted BLOB NULL;
-- add column if missing: WebhookSubscriptions NextSecretAt
ALTER TABLE WebhookSubscriptions ADD COLUMN NextSecretAt TEXT NULL;
UPDATE WebhookSubscriptions
SET SecretChangedAt = (SELECT MAX(a.OccurredAt) FROM AuditLog AS a
                       WHERE a.ClientId = WebhookSubscriptions.ClientId AND a.Action = 'WebhookSecretRotated'
                         AND a.Target = WebhookSubscriptions.Id)
WHERE SecretChangedAt IS NULL;
