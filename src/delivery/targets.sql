-- How targets are: DeliveryTargets, shared by all processes and kept over restarts. Each process adds what it saw, at
-- most once a second.

-- down: 1, the breaker is not closed since :down_since; 2, it is closed again; 0, as it was.
-- name: target_save
UPDATE DeliveryTargets
SET Arrived = Arrived + :arrived, LastArrivedAt = COALESCE(:last_arrived, LastArrivedAt),
    LastFailedAt = COALESCE(:last_failed, LastFailedAt), LastError = COALESCE(:error, LastError),
    DownSince = CASE WHEN CAST(:down AS INT) = 1 THEN COALESCE(DownSince, :down_since)
                     WHEN CAST(:down AS INT) = 2 THEN NULL ELSE DownSince END,
    UpdatedAt = :now
WHERE Channel = :channel AND Target = :target;
-- dialect: sqlserver
UPDATE DeliveryTargets
SET Arrived = Arrived + :arrived, LastArrivedAt = COALESCE(CAST(:last_arrived AS DATETIME2), LastArrivedAt),
    LastFailedAt = COALESCE(CAST(:last_failed AS DATETIME2), LastFailedAt),
    LastError = COALESCE(CAST(:error AS NVARCHAR(2000)), LastError),
    DownSince = CASE WHEN CAST(:down AS INT) = 1 THEN COALESCE(DownSince, CAST(:down_since AS DATETIME2))
                     WHEN CAST(:down AS INT) = 2 THEN NULL ELSE DownSince END,
    UpdatedAt = :now
WHERE Channel = CAST(:channel AS VARCHAR(51)) AND Target = CAST(:target AS VARCHAR(1001));

-- name: target_add
INSERT INTO DeliveryTargets (Channel, Target, CreatedAt, UpdatedAt)
VALUES (:channel, :target, :now, :now)
ON CONFLICT (Channel, Target) DO NOTHING;
-- dialect: sqlserver
INSERT INTO DeliveryTargets (Channel, Target, CreatedAt, UpdatedAt)
SELECT :channel, :target, :now, :now
WHERE NOT EXISTS (SELECT 1 FROM DeliveryTargets AS o WITH (UPDLOCK, HOLDLOCK)
                  WHERE o.Channel = CAST(:channel AS VARCHAR(51)) AND o.Target = CAST(:target AS VARCHAR(1001)));

-- Those that are paused, then the ones that changed last.
-- name: target_list
SELECT Id, Channel, Target, Arrived, DownSince, PausedAt
FROM DeliveryTargets
ORDER BY CASE WHEN PausedAt IS NULL THEN 1 ELSE 0 END, UpdatedAt DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Id, Channel, Target, Arrived, DownSince, PausedAt
FROM DeliveryTargets
ORDER BY CASE WHEN PausedAt IS NULL THEN 1 ELSE 0 END, UpdatedAt DESC;

-- A target, and the row of its whole channel, for those who ask why a row waits.
-- name: target_state
SELECT Target, DownSince, PausedAt, PausedBy, LastError
FROM DeliveryTargets
WHERE Channel = CAST(:channel AS VARCHAR(51)) AND Target IN ('', CAST(:target AS VARCHAR(1001)));
