-- Webhook subscriptions and the deliveries that were given up.

-- Events: comma separated, NULL means BatchCompleted and BatchFailed. The secret stands in Secret, or in SecretEncrypted
-- when the server has a master key. FailureSince: first failure since the last success.
CREATE TABLE IF NOT EXISTS WebhookSubscriptions (
    Id TEXT NOT NULL CONSTRAINT PK_WebhookSubscriptions PRIMARY KEY CHECK (length(Id) = 36),
    ClientId TEXT NOT NULL
        CONSTRAINT FK_WebhookSubscriptions_Clients REFERENCES Clients (Id) ON DELETE CASCADE,
    Url NVARCHAR(512) NOT NULL CHECK (length(Url) <= 512),
    Secret NVARCHAR(128) NULL CHECK (length(Secret) <= 128),
    IsActive BIT NOT NULL DEFAULT 1 CHECK (IsActive IN (0, 1)),
    CreatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    Events NVARCHAR(400) NULL CHECK (length(Events) <= 400),
    SecretEncrypted BLOB NULL,
    PreviousSecret NVARCHAR(128) NULL CHECK (length(PreviousSecret) <= 128),
    PreviousSecretEncrypted BLOB NULL,
    PreviousSecretExpiresAt TEXT NULL,
    DisabledAt TEXT NULL,
    DisabledReason NVARCHAR(400) NULL CHECK (length(DisabledReason) <= 400),
    FailureSince TEXT NULL,
    UpdatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    CONSTRAINT CK_WebhookSubscriptions_Secret CHECK (Secret IS NOT NULL OR SecretEncrypted IS NOT NULL)
);
CREATE INDEX IF NOT EXISTS IX_WebhookSubscriptions_ClientId ON WebhookSubscriptions (ClientId);

CREATE TABLE IF NOT EXISTS WebhookDeliveryFailures (
    Id INTEGER NOT NULL CONSTRAINT PK_WebhookDeliveryFailures PRIMARY KEY AUTOINCREMENT,
    SubscriptionId TEXT NOT NULL
        CONSTRAINT FK_WebhookDeliveryFailures_WebhookSubscriptions
        REFERENCES WebhookSubscriptions (Id) ON DELETE CASCADE,
    EventId TEXT NOT NULL CHECK (length(EventId) = 36),
    Event VARCHAR(50) NOT NULL CHECK (length(Event) <= 50),
    PayloadJson TEXT NOT NULL,
    Attempts INT NOT NULL DEFAULT 0,
    LastStatus INT NULL,
    LastError NVARCHAR(2000) NULL CHECK (length(LastError) <= 2000),
    FirstAttemptAt TEXT NULL,
    LastAttemptAt TEXT NULL,
    CreatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    ReplayedAt TEXT NULL
);
CREATE INDEX IF NOT EXISTS IX_WebhookDeliveryFailures_SubscriptionId
    ON WebhookDeliveryFailures (SubscriptionId);
CREATE INDEX IF NOT EXISTS IX_WebhookDeliveryFailures_CreatedAt ON WebhookDeliveryFailures (CreatedAt);
