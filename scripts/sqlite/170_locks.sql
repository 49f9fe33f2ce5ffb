-- Locks of imports, and who uses which provider of them.

-- The token of the owner that also holds a lock: as long as it is the batch's FencingToken, the lock tells whether the
-- owner is alive. A process of the release before, which knows no locks, leaves it as it is.
-- add column if missing: ImportBatch LockToken
ALTER TABLE ImportBatch ADD COLUMN LockToken BIGINT NULL;

-- The locks of imports.lock = sql. ExpiresAt is a time of the database's clock; Renewals grows with every extension.
CREATE TABLE IF NOT EXISTS NamedLocks (
    Name VARCHAR(200) NOT NULL CONSTRAINT PK_NamedLocks PRIMARY KEY CHECK (length(Name) <= 200),
    Owner VARCHAR(64) NOT NULL CHECK (length(Owner) <= 64),
    LeaseMs INT NOT NULL,
    ExpiresAt TEXT NOT NULL,
    Renewals BIGINT NOT NULL DEFAULT 0
);

-- The processes that import, and the provider that each is configured for.
CREATE TABLE IF NOT EXISTS LockProviders (
    Id TEXT NOT NULL CONSTRAINT PK_LockProviders PRIMARY KEY CHECK (length(Id) = 36),
    Provider VARCHAR(20) NOT NULL CHECK (length(Provider) <= 20),
    LeaseMs INT NOT NULL,
    RenewedAt TEXT NOT NULL
);

-- The name of this installation in servers that several may share, and since when it has used Redis.
CREATE TABLE IF NOT EXISTS LockInstallation (
    Id INT NOT NULL CONSTRAINT PK_LockInstallation PRIMARY KEY,
    InstallationId TEXT NOT NULL CHECK (length(InstallationId) = 36),
    RedisUsedAt TEXT NULL
);
