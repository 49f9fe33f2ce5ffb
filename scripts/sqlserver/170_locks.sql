-- Locks of imports, and who uses which provider of them.
-- Run by 'dataflow migrate', or by hand: sqlcmd -S HOST -d REDEXV2 -b -i FILE

SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON;
SET NUMERIC_ROUNDABORT OFF;
GO

-- The token of the owner that also holds a lock: as long as it is the batch's FencingToken, the lock tells whether the
-- owner is alive. A process of the release before, which knows no locks, leaves it as it is.
IF COL_LENGTH(N'ImportBatch', N'LockToken') IS NULL
    ALTER TABLE ImportBatch ADD LockToken BIGINT NULL;
GO

-- The locks of imports.lock = sql. ExpiresAt is a time of the database's clock; Renewals grows with every extension.
IF OBJECT_ID(N'NamedLocks', N'U') IS NULL
CREATE TABLE NamedLocks (
    Name VARCHAR(200) NOT NULL CONSTRAINT PK_NamedLocks PRIMARY KEY CLUSTERED,
    Owner VARCHAR(64) NOT NULL,
    LeaseMs INT NOT NULL,
    ExpiresAt DATETIME2 NOT NULL,
    Renewals BIGINT NOT NULL CONSTRAINT DF_NamedLocks_Renewals DEFAULT 0
);

-- The processes that import, and the provider that each is configured for.
IF OBJECT_ID(N'LockProviders', N'U') IS NULL
CREATE TABLE LockProviders (
    Id UNIQUEIDENTIFIER NOT NULL CONSTRAINT PK_LockProviders PRIMARY KEY CLUSTERED,
    Provider VARCHAR(20) NOT NULL,
    LeaseMs INT NOT NULL,
    RenewedAt DATETIME2 NOT NULL
);

-- The name of this installation in servers that several may share, and since when it has used Redis.
IF OBJECT_ID(N'LockInstallation', N'U') IS NULL
CREATE TABLE LockInstallation (
    Id INT NOT NULL CONSTRAINT PK_LockInstallation PRIMARY KEY CLUSTERED,
    InstallationId UNIQUEIDENTIFIER NOT NULL,
    RedisUsedAt DATETIME2 NULL
);
GO
