-- Who owns which shards. All times are the database's: the clocks of the machines may differ.

-- name: work_owner_renew
-- dialect: sqlite
UPDATE WorkOwners
SET RenewedAt = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
    LeaseUntil = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', (:lease_ms / 1000.0) || ' seconds'), Channels = :channels
WHERE Id = :id;
-- dialect: postgres
UPDATE WorkOwners
SET RenewedAt = clock_timestamp(),
    LeaseUntil = clock_timestamp() + CAST(:lease_ms AS BIGINT) * INTERVAL '1 millisecond', Channels = :channels
WHERE Id = :id;
-- dialect: sqlserver
UPDATE WorkOwners
SET RenewedAt = SYSUTCDATETIME(), LeaseUntil = DATEADD(MILLISECOND, CAST(:lease_ms AS INT), SYSUTCDATETIME()),
    Channels = CAST(:channels AS NVARCHAR(MAX))
WHERE Id = :id;

-- name: work_owner_insert
-- dialect: sqlite
INSERT INTO WorkOwners (Id, Name, Version, Channels, StartedAt, RenewedAt, LeaseUntil)
VALUES (:id, :name, :version, :channels, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
        strftime('%Y-%m-%dT%H:%M:%fZ', 'now', (:lease_ms / 1000.0) || ' seconds'));
-- dialect: postgres
INSERT INTO WorkOwners (Id, Name, Version, Channels, StartedAt, RenewedAt, LeaseUntil)
VALUES (:id, :name, :version, :channels, clock_timestamp(), clock_timestamp(),
        clock_timestamp() + CAST(:lease_ms AS BIGINT) * INTERVAL '1 millisecond');
-- dialect: sqlserver
INSERT INTO WorkOwners (Id, Name, Version, Channels, StartedAt, RenewedAt, LeaseUntil)
VALUES (:id, :name, :version, :channels, SYSUTCDATETIME(), SYSUTCDATETIME(),
        DATEADD(MILLISECOND, CAST(:lease_ms AS INT), SYSUTCDATETIME()));

-- name: work_owner_list
-- dialect: sqlite
SELECT Id, Name, Version, Channels, StartedAt, RenewedAt, LeaseUntil,
       strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AS Now
FROM WorkOwners ORDER BY StartedAt, Id;
-- dialect: postgres
SELECT Id, Name, Version, Channels, StartedAt, RenewedAt, LeaseUntil, clock_timestamp() AS Now
FROM WorkOwners ORDER BY StartedAt, Id;
-- dialect: sqlserver
SELECT Id, Name, Version, Channels, StartedAt, RenewedAt, LeaseUntil, SYSUTCDATETIME() AS Now
FROM WorkOwners ORDER BY StartedAt, Id;

-- Of an owner that is lost, if it has not renewed its lease since the row was read. SQL Server's times are finer than ours.
-- name: work_owner_delete
DELETE FROM WorkOwners WHERE Id = :id AND RenewedAt = :renewed;
-- dialect: sqlserver
DELETE FROM WorkOwners
WHERE Id = :id AND RenewedAt >= CAST(:renewed AS DATETIME2)
  AND RenewedAt < DATEADD(MILLISECOND, 1, CAST(:renewed AS DATETIME2));

-- name: work_owner_end
DELETE FROM WorkOwners WHERE Id = :id;

-- name: work_shard_list
SELECT Channel, Shard, OwnerId, Epoch FROM WorkShards ORDER BY Channel, Shard;

-- name: work_shard_add
INSERT INTO WorkShards (Channel, Shard, Epoch) VALUES (:channel, :shard, 0)
ON CONFLICT (Channel, Shard) DO NOTHING;
-- dialect: sqlserver
INSERT INTO WorkShards (Channel, Shard, Epoch)
SELECT :channel, :shard, 0
WHERE NOT EXISTS (SELECT 1 FROM WorkShards AS o WITH (UPDLOCK, HOLDLOCK)
                  WHERE o.Channel = CAST(:channel AS VARCHAR(51)) AND o.Shard = :shard);

-- To a new owner, or to none. Naming the epoch is enough: it grows with each change.
-- name: work_shard_change
-- dialect: sqlite
UPDATE WorkShards
SET OwnerId = :owner, Epoch = Epoch + 1, TakenAt = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
WHERE Channel = :channel AND Shard = :shard AND Epoch = :epoch;
-- dialect: postgres
UPDATE WorkShards SET OwnerId = :owner, Epoch = Epoch + 1, TakenAt = clock_timestamp()
WHERE Channel = :channel AND Shard = :shard AND Epoch = :epoch;
-- dialect: sqlserver
UPDATE WorkShards SET OwnerId = :owner, Epoch = Epoch + 1, TakenAt = SYSUTCDATETIME()
WHERE Channel = CAST(:channel AS VARCHAR(51)) AND Shard = :shard AND Epoch = :epoch;

-- Held until the settlement's transaction ends. PostgreSQL writes no new version of the row. SQL Server's lock is an UPDATE,
-- since Babelfish ignores hints. SQLite has one writer.
-- name: work_shard_lock
-- dialect: sqlite
SELECT Shard, Epoch FROM WorkShards
WHERE Channel = :channel AND OwnerId = :owner AND ((:shards >> Shard) & 1) = 1;
-- dialect: postgres
SELECT Shard, Epoch FROM WorkShards
WHERE Channel = :channel AND OwnerId = :owner AND ((CAST(:shards AS BIGINT) >> Shard) & 1) = 1
ORDER BY Shard
FOR UPDATE;
-- dialect: sqlserver
UPDATE WorkShards SET Epoch = Epoch
OUTPUT inserted.Shard AS Shard, inserted.Epoch AS Epoch
WHERE Channel = CAST(:channel AS VARCHAR(51)) AND OwnerId = :owner
  AND (CAST(:shards AS BIGINT) / POWER(CAST(2 AS BIGINT), Shard)) % 2 = 1;
