-- Secrets that are replaced in time.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- SecretChangedAt: when the secret came into use; NULL: with the row. Rotations before this script are in the audit log.
IF COL_LENGTH(N'Clients', N'SecretChangedAt') IS NULL
    ALTER TABLE Clients ADD SecretChangedAt DATETIME2 NULL;
GO
UPDATE Clients
SET SecretChangedAt = (SELECT MAX(a.OccurredAt) FROM AuditLog AS a
                       WHERE a.ClientId = Clients.Id AND a.Action = 'ClientSecretRotated')
WHERE SecretChangedAt IS NULL;
GO

-- AutoRotate: the server makes a new secret now and then. NextSecretEncrypted: one that the receiver has not fetched, made
-- at NextSecretAt; until it is fetched, deliveries are signed with the current secret.
IF COL_LENGTH(N'WebhookSubscriptions', N'AutoRotate') IS NULL
    ALTER TABLE WebhookSubscriptions ADD AutoRotate BIT NOT NULL
        CONSTRAINT DF_WebhookSubscriptions_AutoRotate DEFAULT 0;
IF COL_LENGTH(N'WebhookSubscriptions', N'SecretChangedAt') IS NULL
    ALTER TABLE WebhookSubscriptions ADD SecretChangedAt DATETIME2 NULL;
IF COL_LENGTH(N'WebhookSubscriptions', N'NextSecretEncrypted') IS NULL
    ALTER TABLE WebhookSubscriptions ADD NextSecretEncrypted VARBINARY(MAX) NULL;
IF COL_LENGTH(N'WebhookSubscriptions', N'NextSecretAt') IS NULL
    ALTER TABLE WebhookSubscriptions ADD NextSecretAt DATETIME2 NULL;
GO
UPDATE WebhookSubscriptions
SET SecretChangedAt = (SELECT MAX(a.OccurredAt) FROM AuditLog AS a
                       WHERE a.ClientId = WebhookSubscriptions.ClientId AND a.Action = 'WebhookSecretRotated'
                         AND a.Target = LOWER(CAST(WebhookSubscriptions.Id AS NVARCHAR(36))))
WHERE SecretChangedAt IS NULL;
GO
