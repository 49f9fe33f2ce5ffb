-- What a backup asks the database beside its pages.

-- Changes when another connection has committed.
-- name: backup_version
-- dialect: sqlite
SELECT v.data_version AS Version FROM pragma_data_version AS v;
-- dialect: postgres, sqlserver
SELECT 0 AS Version;

-- name: backup_size
-- dialect: sqlite
SELECT s.page_size AS PageSize, c.page_count AS PageCount FROM pragma_page_size AS s, pragma_page_count AS c;
-- dialect: postgres, sqlserver
SELECT 0 AS PageSize, 0 AS PageCount;

-- Batches that are not over, and so need their file. A later attempt has none.
-- name: waiting_batches
SELECT Id, UploadPath FROM ImportBatch
WHERE Status IN (0, 1, 2) AND UploadPath IS NOT NULL AND Attempt = 1 AND RemovingAt IS NULL AND Id > :after
ORDER BY Id
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Id, UploadPath FROM ImportBatch
WHERE Status IN (0, 1, 2) AND UploadPath IS NOT NULL AND Attempt = 1 AND RemovingAt IS NULL AND Id > :after
ORDER BY Id;
