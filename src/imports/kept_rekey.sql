-- Kept records under older data keys, for rotation.

-- :lost rows do not open, and stay in front. A newer key is in use elsewhere, and this process will follow it.
-- name: kept_older
-- dialect: sqlite, postgres
SELECT BatchId, Sequence, Sealed FROM ImportKept WHERE KeyId < :current
ORDER BY KeyId, BatchId, Sequence LIMIT :limit OFFSET :lost;
-- dialect: sqlserver
SELECT BatchId, Sequence, Sealed FROM ImportKept WHERE KeyId < :current
ORDER BY KeyId, BatchId, Sequence OFFSET :lost ROWS FETCH NEXT :limit ROWS ONLY;

-- Leaves a record alone that was replaced meanwhile.
-- name: kept_reseal
UPDATE ImportKept SET KeyId = :key, Sealed = :sealed WHERE BatchId = :id AND Sequence = :sequence AND Sealed = :before;
