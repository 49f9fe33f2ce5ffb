-- How the destinations of relays are, for all processes: rows of DeliveryTargets with the channel 'relay', the relay's
-- name as target. An empty target is all relays.

-- name: relay_target_insert
INSERT INTO DeliveryTargets (Channel, Target, CreatedAt, UpdatedAt)
VALUES ('relay', :target, :now, :now)
ON CONFLICT (Channel, Target) DO NOTHING;
-- dialect: sqlserver
INSERT INTO DeliveryTargets (Channel, Target, CreatedAt, UpdatedAt)
SELECT 'relay', n.Target, n.SeenAt, n.SeenAt
FROM (SELECT CAST(:target AS VARCHAR(1001)) AS Target, CAST(:now AS DATETIME2) AS SeenAt) AS n
WHERE NOT EXISTS (SELECT 1 FROM DeliveryTargets AS t WITH (UPDLOCK, HOLDLOCK)
                  WHERE t.Channel = 'relay' AND t.Target = n.Target);

-- name: relay_target_update
UPDATE DeliveryTargets
SET Arrived = Arrived + :arrived, LastArrivedAt = COALESCE(:arrived_at, LastArrivedAt),
    LastFailedAt = COALESCE(:failed_at, LastFailedAt), LastError = COALESCE(:error, LastError), DownSince = :down_since,
    UpdatedAt = :now
WHERE Channel = 'relay' AND Target = CAST(:target AS VARCHAR(1001));

-- name: relay_target_list
SELECT Target, Arrived, PausedAt FROM DeliveryTargets WHERE Channel = 'relay';
