-- Batches whose files wait in the outside storage, for rotation. A later attempt has none.

-- name: rekey_scheduled
-- dialect: sqlite, postgres
SELECT Id, UploadPath FROM ImportBatch
WHERE Status IN (0, 1, 2) AND Attempt = 1 AND UploadPath LIKE 's3://%' AND Id > :after
ORDER BY Id LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Id, UploadPath FROM ImportBatch
WHERE Status IN (0, 1, 2) AND Attempt = 1 AND UploadPath LIKE 's3://%' AND Id > :after
ORDER BY Id;

-- name: rekey_location
SELECT UploadPath FROM ImportBatch WHERE Id = :id AND Status IN (0, 1, 2) AND Attempt = 1;
