-- Batches that became ready (announce.h). States are numbers: docs/schema.md.

-- name: ready_add
INSERT INTO batch_ready_outbox (aggregate_id, reason, created_at) VALUES (:batch, :reason, :now);

-- name: ready_due
-- dialect: sqlite
INSERT INTO batch_ready_outbox (aggregate_id, reason, created_at)
SELECT Id, 'due', :now FROM ImportBatch WHERE Status = 2 AND ScheduledFor <= :now;
-- dialect: postgres
INSERT INTO batch_ready_outbox (aggregate_id, reason, created_at)
SELECT CAST(Id AS VARCHAR(36)), 'due', CAST(:now AS TIMESTAMPTZ) FROM ImportBatch WHERE Status = 2 AND ScheduledFor <= :now;
-- dialect: sqlserver
INSERT INTO batch_ready_outbox (aggregate_id, reason, created_at)
SELECT LOWER(CAST(Id AS VARCHAR(36))), 'due', CAST(:now AS DATETIME2) FROM ImportBatch WHERE Status = 2 AND ScheduledFor <= :now;

-- name: claim_due
UPDATE ImportBatch SET Status = 0, UpdatedAt = :now WHERE Status = 2 AND ScheduledFor <= :now;

-- name: ready_stale
-- dialect: sqlite
INSERT INTO batch_ready_outbox (aggregate_id, reason, created_at)
SELECT Id, 'freed', :now FROM ImportBatch WHERE Status = 1 AND LockedAt < :before;
-- dialect: postgres
INSERT INTO batch_ready_outbox (aggregate_id, reason, created_at)
SELECT CAST(Id AS VARCHAR(36)), 'freed', CAST(:now AS TIMESTAMPTZ) FROM ImportBatch WHERE Status = 1 AND LockedAt < :before;
-- dialect: sqlserver
INSERT INTO batch_ready_outbox (aggregate_id, reason, created_at)
SELECT LOWER(CAST(Id AS VARCHAR(36))), 'freed', CAST(:now AS DATETIME2) FROM ImportBatch WHERE Status = 1 AND LockedAt < :before;

-- The oldest Pending batch, of any client or of that of the batch :id.
-- name: ready_next
-- dialect: sqlite
INSERT INTO batch_ready_outbox (aggregate_id, reason, created_at)
SELECT w.Id, 'released', :now
FROM (SELECT Id FROM ImportBatch
      WHERE Status = 0 AND (1 = :any OR ClientId = (SELECT b.ClientId FROM ImportBatch AS b WHERE b.Id = :id))
      ORDER BY CreatedAt, Id LIMIT 1) AS w;
-- dialect: postgres
INSERT INTO batch_ready_outbox (aggregate_id, reason, created_at)
SELECT CAST(w.Id AS VARCHAR(36)), 'released', CAST(:now AS TIMESTAMPTZ)
FROM (SELECT Id FROM ImportBatch
      WHERE Status = 0 AND (1 = :any OR ClientId = (SELECT b.ClientId FROM ImportBatch AS b WHERE b.Id = :id))
      ORDER BY CreatedAt, Id LIMIT 1) AS w;
-- dialect: sqlserver
INSERT INTO batch_ready_outbox (aggregate_id, reason, created_at)
SELECT LOWER(CAST(w.Id AS VARCHAR(36))), 'released', CAST(:now AS DATETIME2)
FROM (SELECT TOP (1) Id FROM ImportBatch
      WHERE Status = 0 AND (1 = :any OR ClientId = (SELECT b.ClientId FROM ImportBatch AS b WHERE b.Id = :id))
      ORDER BY CreatedAt, Id) AS w;

-- name: ready_forget
DELETE FROM batch_ready_outbox WHERE created_at < :before AND (status <> 'PENDING' OR 1 = :all);
