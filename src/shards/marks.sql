-- Rows that are taken with care, since a process ended in the middle of its work, and how often they were taken.

-- name: work_mark_list
SELECT RowKey, Taken FROM WorkMarks WHERE Channel = :channel ORDER BY MarkedAt, RowKey LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) RowKey, Taken FROM WorkMarks
WHERE Channel = CAST(:channel AS VARCHAR(51)) ORDER BY MarkedAt, RowKey;

-- name: work_mark_add
INSERT INTO WorkMarks (Channel, RowKey, Taken, MarkedAt) VALUES (:channel, :row_key, 1, :now)
ON CONFLICT (Channel, RowKey) DO UPDATE SET Taken = WorkMarks.Taken + 1, MarkedAt = excluded.MarkedAt;
-- dialect: sqlserver
UPDATE WorkMarks WITH (UPDLOCK, HOLDLOCK) SET Taken = Taken + 1, MarkedAt = :now
WHERE Channel = CAST(:channel AS VARCHAR(51)) AND RowKey = CAST(:row_key AS VARCHAR(65));
IF @@ROWCOUNT = 0
    INSERT INTO WorkMarks (Channel, RowKey, Taken, MarkedAt) VALUES (:channel, :row_key, 1, :now);

-- name: work_mark_clear
DELETE FROM WorkMarks WHERE Channel = :channel AND RowKey = :row_key;
-- dialect: sqlserver
DELETE FROM WorkMarks WHERE Channel = CAST(:channel AS VARCHAR(51)) AND RowKey = CAST(:row_key AS VARCHAR(65));
