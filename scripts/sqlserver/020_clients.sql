-- Clients (tenants), their policies, and the audit log.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- Each table is made with the columns of the specification; what was added to it follows, as do defaults and checks,
-- of which a table made by others may have none.

-- Status: 0 Active, 1 Suspended.
IF OBJECT_ID(N'Clients', N'U') IS NULL
CREATE TABLE Clients (
    Id UNIQUEIDENTIFIER NOT NULL CONSTRAINT PK_Clients PRIMARY KEY CLUSTERED,
    Name NVARCHAR(120) NOT NULL,
    ClientIdentifier VARCHAR(64) NOT NULL,
    SecretHash VARBINARY(MAX) NOT NULL,
    SecretSalt VARBINARY(MAX) NOT NULL,
    Status TINYINT NOT NULL,
    CreatedAt DATETIME2 NOT NULL,
    LastSeenAt DATETIME2 NULL
);

-- One row a client. NULL means no limit, or the server's default. Allowed* hours are UTC; Business* hours are in
-- the configured time zone. A start after its end is a window over midnight; 24 is midnight at the day's end.
IF OBJECT_ID(N'ClientPolicies', N'U') IS NULL
CREATE TABLE ClientPolicies (
    Id UNIQUEIDENTIFIER NOT NULL CONSTRAINT PK_ClientPolicies PRIMARY KEY CLUSTERED,
    ClientId UNIQUEIDENTIFIER NOT NULL,
    MaxFileSizeMb INT NULL,
    MaxBatchPerDay INT NULL,
    AllowedStartHour TINYINT NULL,
    AllowedEndHour TINYINT NULL,
    RequireSchedulingForLarge BIT NOT NULL,
    LargeThresholdMb INT NULL,
    CreatedAt DATETIME2 NOT NULL
);

-- Append-only: rows outlive the client they speak of (hence no foreign key) and are never changed.
IF OBJECT_ID(N'AuditLog', N'U') IS NULL
CREATE TABLE AuditLog (
    Id BIGINT IDENTITY(1,1) NOT NULL CONSTRAINT PK_AuditLog PRIMARY KEY CLUSTERED,
    OccurredAt DATETIME2 NOT NULL CONSTRAINT DF_AuditLog_OccurredAt DEFAULT SYSUTCDATETIME(),
    Actor NVARCHAR(200) NOT NULL,
    Action VARCHAR(100) NOT NULL,
    Target NVARCHAR(200) NULL,
    ClientId UNIQUEIDENTIFIER NULL,
    Ip VARCHAR(64) NULL,
    CorrelationId VARCHAR(128) NULL,
    DetailsJson NVARCHAR(MAX) NULL
);
GO

-- Scopes: comma separated, NULL means all. SecretAlgorithm says how SecretHash was made; after a rotation with a grace
-- period the Previous* columns hold the secret that is on its way out.
IF COL_LENGTH(N'Clients', N'Scopes') IS NULL
    ALTER TABLE Clients ADD Scopes NVARCHAR(400) NULL;
IF COL_LENGTH(N'Clients', N'SecretAlgorithm') IS NULL
    ALTER TABLE Clients ADD SecretAlgorithm VARCHAR(60) NOT NULL
        CONSTRAINT DF_Clients_SecretAlgorithm DEFAULT 'argon2id,v=19,m=19456,t=2,p=1';
IF COL_LENGTH(N'Clients', N'PreviousSecretHash') IS NULL
    ALTER TABLE Clients ADD PreviousSecretHash VARBINARY(MAX) NULL;
IF COL_LENGTH(N'Clients', N'PreviousSecretSalt') IS NULL
    ALTER TABLE Clients ADD PreviousSecretSalt VARBINARY(MAX) NULL;
IF COL_LENGTH(N'Clients', N'PreviousSecretAlgorithm') IS NULL
    ALTER TABLE Clients ADD PreviousSecretAlgorithm VARCHAR(60) NULL;
IF COL_LENGTH(N'Clients', N'PreviousSecretExpiresAt') IS NULL
    ALTER TABLE Clients ADD PreviousSecretExpiresAt DATETIME2 NULL;
IF COL_LENGTH(N'Clients', N'UpdatedAt') IS NULL
    ALTER TABLE Clients ADD UpdatedAt DATETIME2 NOT NULL CONSTRAINT DF_Clients_UpdatedAt DEFAULT SYSUTCDATETIME();

IF COL_LENGTH(N'ClientPolicies', N'BatchSize') IS NULL
    ALTER TABLE ClientPolicies ADD BatchSize INT NULL;
IF COL_LENGTH(N'ClientPolicies', N'RequestsPerMinute') IS NULL
    ALTER TABLE ClientPolicies ADD RequestsPerMinute INT NULL;
IF COL_LENGTH(N'ClientPolicies', N'ConcurrentUploads') IS NULL
    ALTER TABLE ClientPolicies ADD ConcurrentUploads INT NULL;
IF COL_LENGTH(N'ClientPolicies', N'BusinessHoursOnly') IS NULL
    ALTER TABLE ClientPolicies ADD BusinessHoursOnly BIT NULL;
IF COL_LENGTH(N'ClientPolicies', N'BusinessStartHour') IS NULL
    ALTER TABLE ClientPolicies ADD BusinessStartHour TINYINT NULL;
IF COL_LENGTH(N'ClientPolicies', N'BusinessEndHour') IS NULL
    ALTER TABLE ClientPolicies ADD BusinessEndHour TINYINT NULL;
IF COL_LENGTH(N'ClientPolicies', N'MaintenanceWindow') IS NULL
    ALTER TABLE ClientPolicies ADD MaintenanceWindow NVARCHAR(100) NULL;
IF COL_LENGTH(N'ClientPolicies', N'TempStorageQuotaMb') IS NULL
    ALTER TABLE ClientPolicies ADD TempStorageQuotaMb INT NULL;
IF COL_LENGTH(N'ClientPolicies', N'MaxConcurrentBatches') IS NULL
    ALTER TABLE ClientPolicies ADD MaxConcurrentBatches INT NULL;
IF COL_LENGTH(N'ClientPolicies', N'UpdatedAt') IS NULL
    ALTER TABLE ClientPolicies ADD UpdatedAt DATETIME2 NOT NULL
        CONSTRAINT DF_ClientPolicies_UpdatedAt DEFAULT SYSUTCDATETIME();
GO

IF EXISTS (SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(N'Clients')
           AND name = N'Status' AND default_object_id = 0)
    ALTER TABLE Clients ADD CONSTRAINT DF_Clients_Status DEFAULT 0 FOR Status;
IF EXISTS (SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(N'Clients')
           AND name = N'CreatedAt' AND default_object_id = 0)
    ALTER TABLE Clients ADD CONSTRAINT DF_Clients_CreatedAt DEFAULT SYSUTCDATETIME() FOR CreatedAt;
IF EXISTS (SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(N'ClientPolicies')
           AND name = N'RequireSchedulingForLarge' AND default_object_id = 0)
    ALTER TABLE ClientPolicies ADD CONSTRAINT DF_ClientPolicies_RequireSchedulingForLarge
        DEFAULT 0 FOR RequireSchedulingForLarge;
IF EXISTS (SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(N'ClientPolicies')
           AND name = N'CreatedAt' AND default_object_id = 0)
    ALTER TABLE ClientPolicies ADD CONSTRAINT DF_ClientPolicies_CreatedAt DEFAULT SYSUTCDATETIME() FOR CreatedAt;

-- A row that violates one stops the script: somebody numbered the states otherwise, which is better told than misread.
IF OBJECT_ID(N'CK_Clients_Status', N'C') IS NULL
    ALTER TABLE Clients ADD CONSTRAINT CK_Clients_Status CHECK (Status BETWEEN 0 AND 1);
IF OBJECT_ID(N'CK_ClientPolicies_AllowedStartHour', N'C') IS NULL
    ALTER TABLE ClientPolicies ADD CONSTRAINT CK_ClientPolicies_AllowedStartHour
        CHECK (AllowedStartHour BETWEEN 0 AND 23);
IF OBJECT_ID(N'CK_ClientPolicies_AllowedEndHour', N'C') IS NULL
    ALTER TABLE ClientPolicies ADD CONSTRAINT CK_ClientPolicies_AllowedEndHour
        CHECK (AllowedEndHour BETWEEN 0 AND 24);
IF OBJECT_ID(N'CK_ClientPolicies_BusinessStartHour', N'C') IS NULL
    ALTER TABLE ClientPolicies ADD CONSTRAINT CK_ClientPolicies_BusinessStartHour
        CHECK (BusinessStartHour BETWEEN 0 AND 23);
IF OBJECT_ID(N'CK_ClientPolicies_BusinessEndHour', N'C') IS NULL
    ALTER TABLE ClientPolicies ADD CONSTRAINT CK_ClientPolicies_BusinessEndHour
        CHECK (BusinessEndHour BETWEEN 0 AND 24);

-- Not by its name: a second cascade between the same two tables would be refused.
IF NOT EXISTS (SELECT 1 FROM sys.foreign_keys WHERE parent_object_id = OBJECT_ID(N'ClientPolicies')
               AND referenced_object_id = OBJECT_ID(N'Clients'))
    ALTER TABLE ClientPolicies ADD CONSTRAINT FK_ClientPolicies_Clients
        FOREIGN KEY (ClientId) REFERENCES Clients (Id) ON DELETE CASCADE;
GO

-- Babelfish shows of an index's name the first 31 characters and an ending of its own; SQL Server the name.
DECLARE @shown INT = 128, @ending NVARCHAR(1) = N'';
IF SERVERPROPERTY('Babelfish') = 1
BEGIN
    SET @shown = 31;
    SET @ending = N'%';
END;

IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'Clients')
               AND name LIKE LEFT(N'UQ_Clients_ClientIdentifier', @shown) + @ending)
    ALTER TABLE Clients ADD CONSTRAINT UQ_Clients_ClientIdentifier UNIQUE NONCLUSTERED (ClientIdentifier);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'ClientPolicies')
               AND name LIKE LEFT(N'UQ_ClientPolicies_ClientId', @shown) + @ending)
    ALTER TABLE ClientPolicies ADD CONSTRAINT UQ_ClientPolicies_ClientId UNIQUE NONCLUSTERED (ClientId);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'AuditLog')
               AND name LIKE LEFT(N'IX_AuditLog_OccurredAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_AuditLog_OccurredAt ON AuditLog (OccurredAt);
IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID(N'AuditLog')
               AND name LIKE LEFT(N'IX_AuditLog_ClientId_OccurredAt', @shown) + @ending)
    CREATE NONCLUSTERED INDEX IX_AuditLog_ClientId_OccurredAt ON AuditLog (ClientId, OccurredAt);
GO

-- Instead of the change, error 50000. RAISERROR and not THROW, which would end the caller's whole transaction.
-- TRUNCATE fires no trigger, but needs the right to ALTER the table, as disabling the trigger does.
IF OBJECT_ID(N'TR_AuditLog_AppendOnly', N'TR') IS NULL
    EXEC(N'CREATE TRIGGER TR_AuditLog_AppendOnly ON AuditLog INSTEAD OF UPDATE, DELETE AS
BEGIN
    SET NOCOUNT ON;
    RAISERROR(N''AuditLog is append-only'', 16, 1);
END;');
GO
