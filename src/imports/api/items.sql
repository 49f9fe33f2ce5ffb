-- The items of a batch as clients see them. A payload of more than :longest characters is left out, since a page has
-- many.

-- The counters of a client's batch. Sequences count from 0: if the last one equals the number of items less one, none
-- is missing, and an item's place is its sequence; unless an item may stand for many records.
-- name: item_counts
SELECT b.ProcessedRecords, b.ErrorCount, b.SkippedCount,
       (SELECT MAX(i.Sequence) FROM ImportItem AS i WHERE i.BatchId = b.Id) AS LastSequence, b.CutRules
FROM ImportBatch AS b
WHERE b.Id = :id AND b.ClientId = :client;

-- name: item_range
-- row: item
-- dialect: sqlite, postgres
SELECT Sequence, Status, ErrorMessage, CASE WHEN length(PayloadJson) <= :longest THEN PayloadJson END AS Payload, IsMasked, ChunkId,
       CreatedAt, RecordCount
FROM ImportItem
WHERE BatchId = :id AND Sequence >= :from AND Sequence < :until
ORDER BY Sequence;
-- dialect: sqlserver
SELECT Sequence, Status, ErrorMessage, CASE WHEN DATALENGTH(PayloadJson) / 2 <= :longest THEN PayloadJson END AS Payload, IsMasked, ChunkId,
       CreatedAt, RecordCount
FROM ImportItem
WHERE BatchId = :id AND Sequence >= :from AND Sequence < :until
ORDER BY Sequence;

-- name: item_page
-- row: item
-- dialect: sqlite, postgres
SELECT Sequence, Status, ErrorMessage, CASE WHEN length(PayloadJson) <= :longest THEN PayloadJson END AS Payload, IsMasked, ChunkId,
       CreatedAt, RecordCount
FROM ImportItem
WHERE BatchId = :id AND (CAST(:status AS INT) IS NULL OR Status = CAST(:status AS INT))
ORDER BY Sequence
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT Sequence, Status, ErrorMessage, CASE WHEN DATALENGTH(PayloadJson) / 2 <= :longest THEN PayloadJson END AS Payload, IsMasked, ChunkId,
       CreatedAt, RecordCount
FROM ImportItem
WHERE BatchId = :id AND (CAST(:status AS INT) IS NULL OR Status = CAST(:status AS INT))
ORDER BY Sequence
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- name: item_page_total
SELECT COUNT(*) FROM ImportItem WHERE BatchId = :id AND (CAST(:status AS INT) IS NULL OR Status = CAST(:status AS INT));

-- Items in error have an index of their own, which a database surely uses only if the status is written as a number.
-- The first item of the page is found by counting in that index alone.
-- name: item_error_first
SELECT Sequence FROM ImportItem WHERE BatchId = :id AND Status = 1 ORDER BY Sequence LIMIT 1 OFFSET :offset;
-- dialect: sqlserver
SELECT Sequence FROM ImportItem WHERE BatchId = :id AND Status = 1 ORDER BY Sequence OFFSET :offset ROWS FETCH NEXT 1 ROWS ONLY;

-- name: item_error_page
-- row: item
-- dialect: sqlite, postgres
SELECT Sequence, Status, ErrorMessage, CASE WHEN length(PayloadJson) <= :longest THEN PayloadJson END AS Payload, IsMasked, ChunkId,
       CreatedAt, RecordCount
FROM ImportItem
WHERE BatchId = :id AND Status = 1 AND Sequence >= :from
ORDER BY Sequence
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Sequence, Status, ErrorMessage, CASE WHEN DATALENGTH(PayloadJson) / 2 <= :longest THEN PayloadJson END AS Payload, IsMasked,
       ChunkId, CreatedAt, RecordCount
FROM ImportItem
WHERE BatchId = :id AND Status = 1 AND Sequence >= :from
ORDER BY Sequence;

-- name: item_error_total
SELECT COUNT(*) FROM ImportItem WHERE BatchId = :id AND Status = 1;

-- For the report: the sizes of the next rows, so that no more are read at a time than fit; then the rows.
-- name: item_error_sizes
SELECT Sequence, COALESCE(length(COALESCE(OriginalJson, PayloadJson)), 0) AS Chars
FROM ImportItem
WHERE BatchId = :id AND Status = 1 AND Sequence > :after
ORDER BY Sequence
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Sequence, COALESCE(DATALENGTH(COALESCE(OriginalJson, PayloadJson)) / 2, 0) AS Chars
FROM ImportItem
WHERE BatchId = :id AND Status = 1 AND Sequence > :after
ORDER BY Sequence;

-- name: item_error_rows
SELECT Sequence, ErrorMessage, CASE WHEN OriginalJson IS NULL THEN PayloadJson END AS PayloadJson, OriginalJson, IsMasked
FROM ImportItem
WHERE BatchId = :id AND Status = 1 AND Sequence > :after AND Sequence <= :until
ORDER BY Sequence;
