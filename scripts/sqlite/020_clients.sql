-- Clients (tenants), their policies, and the audit log.

-- Status: 0 Active, 1 Suspended. Scopes: comma separated, NULL means all. SecretAlgorithm says how SecretHash
-- was made; after a rotation with a grace period the Previous* columns hold the secret that is on its way out.
CREATE TABLE IF NOT EXISTS Clients (
    Id TEXT NOT NULL CONSTRAINT PK_Clients PRIMARY KEY CHECK (length(Id) = 36),
    Name NVARCHAR(120) NOT NULL CHECK (length(Name) <= 120),
    ClientIdentifier VARCHAR(64) NOT NULL CHECK (length(ClientIdentifier) <= 64),
    SecretHash BLOB NOT NULL,
    SecretSalt BLOB NOT NULL,
    Status TINYINT NOT NULL DEFAULT 0 CHECK (Status BETWEEN 0 AND 1),
    CreatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    LastSeenAt TEXT NULL,
    Scopes NVARCHAR(400) NULL CHECK (length(Scopes) <= 400),
    SecretAlgorithm VARCHAR(60) NOT NULL DEFAULT 'argon2id,v=19,m=19456,t=2,p=1'
        CHECK (length(SecretAlgorithm) <= 60),
    PreviousSecretHash BLOB NULL,
    PreviousSecretSalt BLOB NULL,
    PreviousSecretAlgorithm VARCHAR(60) NULL CHECK (length(PreviousSecretAlgorithm) <= 60),
    PreviousSecretExpiresAt TEXT NULL,
    UpdatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
CREATE UNIQUE INDEX IF NOT EXISTS UQ_Clients_ClientIdentifier ON Clients (ClientIdentifier);

-- One row a client. NULL means no limit, or the server's default. Allowed* hours are UTC; Business* hours are in
-- the configured time zone. A start after its end is a window over midnight; 24 is midnight at the day's end.
CREATE TABLE IF NOT EXISTS ClientPolicies (
    Id TEXT NOT NULL CONSTRAINT PK_ClientPolicies PRIMARY KEY CHECK (length(Id) = 36),
    ClientId TEXT NOT NULL
        CONSTRAINT FK_ClientPolicies_Clients REFERENCES Clients (Id) ON DELETE CASCADE,
    MaxFileSizeMb INT NULL,
    MaxBatchPerDay INT NULL,
    AllowedStartHour TINYINT NULL CHECK (AllowedStartHour BETWEEN 0 AND 23),
    AllowedEndHour TINYINT NULL CHECK (AllowedEndHour BETWEEN 0 AND 24),
    RequireSchedulingForLarge BIT NOT NULL DEFAULT 0 CHECK (RequireSchedulingForLarge IN (0, 1)),
    LargeThresholdMb INT NULL,
    CreatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    BatchSize INT NULL,
    RequestsPerMinute INT NULL,
    ConcurrentUploads INT NULL,
    BusinessHoursOnly BIT NULL CHECK (BusinessHoursOnly IN (0, 1)),
    BusinessStartHour TINYINT NULL CHECK (BusinessStartHour BETWEEN 0 AND 23),
    BusinessEndHour TINYINT NULL CHECK (BusinessEndHour BETWEEN 0 AND 24),
    MaintenanceWindow NVARCHAR(100) NULL CHECK (length(MaintenanceWindow) <= 100),
    TempStorageQuotaMb INT NULL,
    MaxConcurrentBatches INT NULL,
    UpdatedAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
CREATE UNIQUE INDEX IF NOT EXISTS UQ_ClientPolicies_ClientId ON ClientPolicies (ClientId);

-- Append-only: rows outlive the client they speak of (hence no foreign key) and are never changed.
CREATE TABLE IF NOT EXISTS AuditLog (
    Id INTEGER NOT NULL CONSTRAINT PK_AuditLog PRIMARY KEY AUTOINCREMENT,
    OccurredAt TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    Actor NVARCHAR(200) NOT NULL CHECK (length(Actor) <= 200),
    Action VARCHAR(100) NOT NULL CHECK (length(Action) <= 100),
    Target NVARCHAR(200) NULL CHECK (length(Target) <= 200),
    ClientId TEXT NULL CHECK (length(ClientId) = 36),
    Ip VARCHAR(64) NULL CHECK (length(Ip) <= 64),
    CorrelationId VARCHAR(128) NULL CHECK (length(CorrelationId) <= 128),
    DetailsJson TEXT NULL
);
CREATE INDEX IF NOT EXISTS IX_AuditLog_OccurredAt ON AuditLog (OccurredAt);
CREATE INDEX IF NOT EXISTS IX_AuditLog_ClientId_OccurredAt ON AuditLog (ClientId, OccurredAt);

CREATE TRIGGER IF NOT EXISTS TR_AuditLog_NoUpdate BEFORE UPDATE ON AuditLog
BEGIN
    SELECT RAISE(ABORT, 'AuditLog is append-only');
END;
CREATE TRIGGER IF NOT EXISTS TR_AuditLog_NoDelete BEFORE DELETE ON AuditLog
BEGIN
    SELECT RAISE(ABORT, 'AuditLog is append-only');
END;
-- INSERT OR REPLACE deletes without firing the trigger above.
CREATE TRIGGER IF NOT EXISTS TR_AuditLog_NoReplace BEFORE INSERT ON AuditLog
WHEN EXISTS (SELECT 1 FROM AuditLog WHERE Id = NEW.Id)
BEGIN
    SELECT RAISE(ABORT, 'AuditLog is append-only');
END;
