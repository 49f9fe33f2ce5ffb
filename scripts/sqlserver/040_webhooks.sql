-- Webhook subscriptions and the deliveries that were given up.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- Made with the columns of the specification; what was added follows, as do defaults and checks, of which a table made
-- by others may have none.
IF OBJECT_ID(N'WebhookSubscriptions', N'U') IS NULL
CREATE TABLE WebhookSubscriptions (
    Id UNIQUEIDENTIFIER NOT NULL CONSTRAINT PK_WebhookSubscriptions PRIMARY KEY CLUSTERED,
    ClientId UNIQUEIDENTIFIER NOT NULL,
    Url NVARCHAR(512) NOT NULL,
    Secret NVARCHAR(128) NULL,
    IsActive BIT NOT NULL,
    CreatedAt DATETIME2 NOT NULL
);

IF OBJECT_ID(N'WebhookDeliveryFailures', N'U') IS NULL
CREATE TABLE WebhookDeliveryFailures (
    Id BIGINT IDENTITY(1,1) NOT NULL CONSTRAINT PK_WebhookDeliveryFailures PRIMARY KEY CLUSTERED,
    SubscriptionId UNIQUEIDENTIFIER NOT NULL
        CONSTRAINT FK_WebhookDeliveryFailures_WebhookSubscriptions
        REFERENCES WebhookSubscriptions (Id) ON DELETE CASCADE,
    EventId UNIQUEIDENTIFIER NOT NULL,
    Event VARCHAR(50) NOT NULL,
    PayloadJson NVARCHAR(MAX) NOT NULL,
    Attempts INT NOT NULL CONSTRAINT DF_WebhookDeliveryFailures_Attempts DEFAULT 0,
    LastStatus INT NULL,
    LastError NVARCHAR(2000) NULL,
    FirstAttemptAt DATETIME2 NULL,
    LastAttemptAt DATETIME2 NULL,
    CreatedAt DATETIME2 NOT NULL CONSTRAINT DF_WebhookDeliveryFailures_CreatedAt DEFAULT SYSUTCDATETIME(),
    ReplayedAt DATETIME2 NULL
);
GO

-- Events: comma separated, NULL means BatchCompleted and BatchFailed. The secret stands in Secret, or in
-- SecretEncrypted when the server has a master key. FailureSince: first failure since the last success.
IF COL_LENGTH(N'WebhookSubscriptions', N'Events') IS NULL
    ALTER TABLE WebhookSubscriptions ADD Events NVARCHAR(400) NULL;
IF COL_LENGTH(N'WebhookSubscriptions', N'SecretEncrypted') IS NULL
    ALTER TABLE WebhookSubscriptions ADD SecretEncrypted VARBINARY(MAX) NULL;
IF COL_LENGTH(N'WebhookSubscriptions', N'PreviousSecret') IS NULL
    ALTER TABLE WebhookSubscriptions ADD PreviousSecret NVARCHAR(128) NULL;
IF COL_LENGTH(N'WebhookSubscriptions', N'PreviousSecretEncrypted') IS NULL
    ALTER TABLE WebhookSubscriptions ADD PreviousSecretEncrypted VARBINARY(MAX) NULL;
IF COL_LENGTH(N'WebhookSubscriptions', N'PreviousSecretExpiresAt') IS NULL
    ALTER TABLE WebhookSubscriptions ADD PreviousSecretExpiresAt DATETIME2 NULL;
IF COL_LENGTH(N'WebhookSubscriptions', N'DisabledAt') IS NULL
    ALTER TABLE WebhookSubscriptions ADD DisabledAt DATETIME2 NULL;
IF COL_LENGTH(N'WebhookSubscriptions', N'DisabledReason') IS NULL
    ALTER TABLE WebhookSubscriptions ADD DisabledReason NVARCHAR(400) NULL;
IF COL_LENGTH(N'WebhookSubscriptions', N'FailureSince') IS NULL
    ALTER TABLE WebhookSubscriptions ADD FailureSince DATETIME2 NULL;
IF COL_LENGTH(N'WebhookSubscriptions', N'UpdatedAt') IS NULL
    ALTER TABLE WebhookSubscriptions ADD UpdatedAt DATETIME2 NOT NULL
        CONSTRAINT DF_WebhookSubscriptions_UpdatedAt DEFAULT SYSUTCDATETIME();
GO

IF EXISTS (SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(N'WebhookSubscriptions')
           AND name = N'IsActive' AND default_object_id = 0)
    ALTER TABLE WebhookSubscriptions ADD CONSTRAINT DF_WebhookSubscriptions_IsActive DEFAULT 1 FOR IsActive;
IF EXISTS (SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(N'WebhookSubscriptions')
           AND name = N'CreatedAt' AND default_object_id = 0)
    ALTER TABLE WebhookSubscriptions ADD CONSTRAINT DF_WebhookSubscriptions_CreatedAt
        DEFAULT SYSUTCDATETIME() FOR CreatedAt;

-- A secret was optional where the rows were made by others: with such a row the table stays without the check.
IF OBJECT_ID(N'CK_WebhookSubscriptions_Secret', N'C') IS NULL
   AND NOT EXISTS (SELECT 1 FROM WebhookSubscriptions WHERE Secret IS NULL AND SecretEncrypted IS NULL)
    ALTER TABLE WebhookSubscriptions ADD CONSTRAINT CK_WebhookSubscriptions_Secret
        CHECK (Secret IS NOT NULL OR SecretEncrypted IS NOT NULL);

-- Not by its name: a second cascade between the same two tables would be refused.
IF NOT EXISTS (SELECT 1 FROM sys.foreign_keys WHERE parent_object_id = OBJECT_ID(N'WebhookSubscriptions')
               AND referenced_object_id = OBJECT_ID(N'Clients'))
    ALTER TABLE WebhookSubscriptions ADD CONSTRAINT FK_WebhookSubscriptions_Clients
        FOREIGN KEY (ClientId) REFERENCES Clients (Id) ON DELETE CASCADE;
GO

-- Babelfish shows of an index's name the first 31 characters and an ending of its own; SQL Server the name.
DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF SERVERPROPERTY('Babelfish') = 1
BEGIN
    SET @shown = 31;
    SET @ending = N'%';
END;

IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookSubscriptions')
               AND name LIKE LEFT(N'IX_WebhookSubscriptions_ClientId', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_WebhookSubscriptions_ClientId ON WebhookSubscriptions (ClientId);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookDeliveryFailures')
               AND name LIKE LEFT(N'IX_WebhookDeliveryFailures_SubscriptionId', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_WebhookDeliveryFailures_SubscriptionId ON WebhookDeliveryFailures (SubscriptionId);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'WebhookDeliveryFailures')
               AND name LIKE LEFT(N'IX_WebhookDeliveryFailures_CreatedAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_WebhookDeliveryFailures_CreatedAt ON WebhookDeliveryFailures (CreatedAt);
GO
