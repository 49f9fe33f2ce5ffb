-- Locks of imports, and who uses which provider of them.

-- The token of the owner that also holds a lock: as long as it is the batch's FencingToken, the lock tells whether the
-- owner is alive. A process of the release before, which knows no locks, leaves it as it is.
ALTER TABLE ImportBatch ADD COLUMN IF NOT EXISTS LockToken bigint NULL;

-- The locks of imports.lock = sql. ExpiresAt is a time of the database's clock; Renewals grows with every extension.
CREATE TABLE IF NOT EXISTS NamedLocks (
    Name varchar(200) NOT NULL CONSTRAINT PK_NamedLocks PRIMARY KEY,
    Owner varchar(64) NOT NULL,
    LeaseMs int NOT NULL,
    ExpiresAt timestamptz(3) NOT NULL,
    Renewals bigint NOT NULL DEFAULT 0
);

-- The processes that import, and the provider that each is configured for.
CREATE TABLE IF NOT EXISTS LockProviders (
    Id uuid NOT NULL CONSTRAINT PK_LockProviders PRIMARY KEY,
    Provider varchar(20) NOT NULL,
    LeaseMs int NOT NULL,
    RenewedAt timestamptz(3) NOT NULL
);

-- The name of this installation in servers that several may share, and since when it has used Redis.
CREATE TABLE IF NOT EXISTS LockInstallation (
    Id int NOT NULL CONSTRAINT PK_LockInstallation PRIMARY KEY,
    InstallationId uuid NOT NULL,
    RedisUsedAt timestamptz(3) NULL
);
