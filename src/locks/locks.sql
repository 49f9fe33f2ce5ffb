-- Locks of imports in the database, and who uses which provider. All times are the database's: the clocks of the machines
-- may differ.

-- name: lock_read
-- dialect: sqlite
SELECT Owner, LeaseMs, Renewals, CASE WHEN ExpiresAt < strftime('%Y-%m-%dT%H:%M:%fZ', 'now') THEN 1 ELSE 0 END AS Expired
FROM NamedLocks WHERE Name = :name;
-- dialect: postgres
SELECT Owner, LeaseMs, Renewals, CASE WHEN ExpiresAt < clock_timestamp() THEN 1 ELSE 0 END AS Expired
FROM NamedLocks WHERE Name = :name;
-- dialect: sqlserver
SELECT Owner, LeaseMs, Renewals, CASE WHEN ExpiresAt < SYSUTCDATETIME() THEN 1 ELSE 0 END AS Expired
FROM NamedLocks WHERE Name = CAST(:name AS VARCHAR(201));

-- name: lock_add
-- dialect: sqlite
INSERT INTO NamedLocks (Name, Owner, LeaseMs, ExpiresAt)
VALUES (:name, :owner, :lease_ms, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', (:lease_ms / 1000.0) || ' seconds'))
ON CONFLICT (Name) DO NOTHING;
-- dialect: postgres
INSERT INTO NamedLocks (Name, Owner, LeaseMs, ExpiresAt)
VALUES (:name, :owner, CAST(:lease_ms AS INT), clock_timestamp() + CAST(:lease_ms AS INT) * INTERVAL '1 millisecond')
ON CONFLICT (Name) DO NOTHING;
-- dialect: sqlserver
INSERT INTO NamedLocks (Name, Owner, LeaseMs, ExpiresAt)
SELECT :name, :owner, :lease_ms, DATEADD(MILLISECOND, CAST(:lease_ms AS INT), SYSUTCDATETIME())
WHERE NOT EXISTS (SELECT 1 FROM NamedLocks AS o WITH (UPDLOCK, HOLDLOCK) WHERE o.Name = CAST(:name AS VARCHAR(201)));

-- Of an owner that is lost, if it has not extended it since the row was read; or by the owner itself.
-- name: lock_take
-- dialect: sqlite
UPDATE NamedLocks
SET Owner = :owner, LeaseMs = :lease_ms, Renewals = Renewals + 1,
    ExpiresAt = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', (:lease_ms / 1000.0) || ' seconds')
WHERE Name = :name AND Owner = :seen AND (Renewals = :renewals OR :renewals < 0);
-- dialect: postgres
UPDATE NamedLocks
SET Owner = :owner, LeaseMs = CAST(:lease_ms AS INT), Renewals = Renewals + 1,
    ExpiresAt = clock_timestamp() + CAST(:lease_ms AS INT) * INTERVAL '1 millisecond'
WHERE Name = :name AND Owner = :seen AND (Renewals = :renewals OR :renewals < 0);
-- dialect: sqlserver
UPDATE NamedLocks
SET Owner = :owner, LeaseMs = :lease_ms, Renewals = Renewals + 1,
    ExpiresAt = DATEADD(MILLISECOND, CAST(:lease_ms AS INT), SYSUTCDATETIME())
WHERE Name = CAST(:name AS VARCHAR(201)) AND Owner = CAST(:seen AS VARCHAR(65)) AND (Renewals = :renewals OR :renewals < 0);

-- name: lock_drop
DELETE FROM NamedLocks WHERE Name = :name AND Owner LIKE :pattern;
-- dialect: sqlserver
DELETE FROM NamedLocks WHERE Name = CAST(:name AS VARCHAR(201)) AND Owner LIKE CAST(:pattern AS VARCHAR(66));

-- Locks of batches that nobody took over: their batch was ended otherwise.
-- name: lock_sweep
-- dialect: sqlite
DELETE FROM NamedLocks WHERE ExpiresAt < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 day');
-- dialect: postgres
DELETE FROM NamedLocks WHERE ExpiresAt < clock_timestamp() - INTERVAL '1 day';
-- dialect: sqlserver
DELETE FROM NamedLocks WHERE ExpiresAt < DATEADD(DAY, -1, SYSUTCDATETIME());

-- --- who uses which provider ---

-- name: installation_add
INSERT INTO LockInstallation (Id, InstallationId) VALUES (1, :id) ON CONFLICT (Id) DO NOTHING;
-- dialect: sqlserver
INSERT INTO LockInstallation (Id, InstallationId)
SELECT 1, :id WHERE NOT EXISTS (SELECT 1 FROM LockInstallation AS o WITH (UPDLOCK, HOLDLOCK) WHERE o.Id = 1);

-- Those who start follow one another.
-- name: installation_lock
UPDATE LockInstallation SET Id = 1 WHERE Id = 1;

-- name: installation_read
SELECT InstallationId, RedisUsedAt FROM LockInstallation WHERE Id = 1;

-- name: installation_used
-- dialect: sqlite
UPDATE LockInstallation SET RedisUsedAt = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') WHERE Id = 1;
-- dialect: postgres
UPDATE LockInstallation SET RedisUsedAt = clock_timestamp() WHERE Id = 1;
-- dialect: sqlserver
UPDATE LockInstallation SET RedisUsedAt = SYSUTCDATETIME() WHERE Id = 1;

-- name: provider_sweep
-- dialect: sqlite
DELETE FROM LockProviders WHERE RenewedAt < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-180 seconds');
-- dialect: postgres
DELETE FROM LockProviders WHERE RenewedAt < clock_timestamp() - INTERVAL '180 seconds';
-- dialect: sqlserver
DELETE FROM LockProviders WHERE RenewedAt < DATEADD(SECOND, -180, SYSUTCDATETIME());

-- name: provider_list
SELECT Id, Provider, LeaseMs FROM LockProviders ORDER BY Id;

-- name: provider_renew
-- dialect: sqlite
UPDATE LockProviders SET RenewedAt = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') WHERE Id = :id;
-- dialect: postgres
UPDATE LockProviders SET RenewedAt = clock_timestamp() WHERE Id = :id;
-- dialect: sqlserver
UPDATE LockProviders SET RenewedAt = SYSUTCDATETIME() WHERE Id = :id;

-- name: provider_add
-- dialect: sqlite
INSERT INTO LockProviders (Id, Provider, LeaseMs, RenewedAt)
VALUES (:id, :provider, :lease_ms, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
-- dialect: postgres
INSERT INTO LockProviders (Id, Provider, LeaseMs, RenewedAt) VALUES (:id, :provider, :lease_ms, clock_timestamp());
-- dialect: sqlserver
INSERT INTO LockProviders (Id, Provider, LeaseMs, RenewedAt) VALUES (:id, :provider, :lease_ms, SYSUTCDATETIME());

-- name: provider_drop
DELETE FROM LockProviders WHERE Id = :id;
