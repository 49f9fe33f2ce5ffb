-- How the targets of deliveries are, and pausing them. The delivery engine and the relays keep the rows of DeliveryTargets;
-- a row whose Target is empty stands for the whole channel.

-- name: targets_shown
-- row: target
-- dialect: sqlite, postgres
SELECT Channel, Target, Arrived, LastArrivedAt, LastFailedAt, LastError, DownSince, PausedAt, PausedBy
FROM DeliveryTargets
WHERE Channel = :channel AND (PausedAt IS NOT NULL OR Target <> '')
ORDER BY CASE WHEN Target = '' THEN 0 WHEN DownSince IS NOT NULL OR PausedAt IS NOT NULL THEN 1 ELSE 2 END, Target
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Channel, Target, Arrived, LastArrivedAt, LastFailedAt, LastError, DownSince, PausedAt, PausedBy
FROM DeliveryTargets
WHERE Channel = CAST(:channel AS VARCHAR(51)) AND (PausedAt IS NOT NULL OR Target <> '')
ORDER BY CASE WHEN Target = '' THEN 0 WHEN DownSince IS NOT NULL OR PausedAt IS NOT NULL THEN 1 ELSE 2 END, Target;

-- name: target_get
-- row: target
SELECT Channel, Target, Arrived, LastArrivedAt, LastFailedAt, LastError, DownSince, PausedAt, PausedBy
FROM DeliveryTargets
WHERE Channel = CAST(:channel AS VARCHAR(51)) AND Target = CAST(:target AS VARCHAR(1001));

-- A target that was never sent to may be paused as well.
-- name: target_pause
-- dialect: sqlite, postgres
INSERT INTO DeliveryTargets (Channel, Target, PausedAt, PausedBy, CreatedAt, UpdatedAt)
VALUES (:channel, :target, :now, :by, :now, :now)
ON CONFLICT (Channel, Target) DO UPDATE
SET PausedAt = excluded.PausedAt, PausedBy = excluded.PausedBy, UpdatedAt = excluded.UpdatedAt
WHERE DeliveryTargets.PausedAt IS NULL;
-- dialect: sqlserver
UPDATE DeliveryTargets WITH (UPDLOCK, HOLDLOCK)
SET PausedAt = :now, PausedBy = :by, UpdatedAt = :now
WHERE Channel = CAST(:channel AS VARCHAR(51)) AND Target = CAST(:target AS VARCHAR(1001)) AND PausedAt IS NULL;
IF @@ROWCOUNT = 0
    INSERT INTO DeliveryTargets (Channel, Target, PausedAt, PausedBy, CreatedAt, UpdatedAt)
    SELECT :channel, :target, :now, :by, :now, :now
    WHERE NOT EXISTS (SELECT 1 FROM DeliveryTargets AS o WITH (UPDLOCK, HOLDLOCK)
                      WHERE o.Channel = CAST(:channel AS VARCHAR(51)) AND o.Target = CAST(:target AS VARCHAR(1001)));

-- name: target_resume
UPDATE DeliveryTargets
SET PausedAt = NULL, PausedBy = NULL, UpdatedAt = :now
WHERE Channel = CAST(:channel AS VARCHAR(51)) AND Target = CAST(:target AS VARCHAR(1001)) AND PausedAt IS NOT NULL;
