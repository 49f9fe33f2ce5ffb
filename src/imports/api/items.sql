-- The items of a batch as clients see them. A payload of more than :longest characters is left out, since a page has
-- many. Of an item that failed its owner sees what is kept (src/imports/kept.h), until its time is over: :expired.

-- The counters of a client's batch. Sequences count from 0: if the last one equals the number of items less one, none
-- is missing, and an item's place is its sequence; unless an item may stand for many records.
-- name: item_counts
SELECT b.ProcessedRecords, b.ErrorCount, b.SkippedCount,
       (SELECT MAX(i.Sequence) FROM ImportItem AS i WHERE i.BatchId = b.Id) AS LastSequence, b.CutRules, b.KeptUntil,
       b.MappingJson, b.ColumnsJson
FROM ImportBatch AS b
WHERE b.Id = :id AND b.ClientId = :client AND b.RemovingAt IS NULL;

-- name: item_range
-- row: item
-- dialect: sqlite, postgres
SELECT i.Sequence, i.Status, i.ErrorMessage, CASE WHEN length(i.PayloadJson) <= :longest THEN i.PayloadJson END AS Payload, i.ChunkId,
       i.CreatedAt, i.RecordCount, CASE WHEN length(k.Sealed) <= :longest THEN k.Sealed END AS Sealed, i.Reason, i.SourceRow,
       CASE WHEN length(i.OriginalJson) <= :longest THEN i.OriginalJson END AS Original
FROM ImportItem AS i
LEFT JOIN ImportKept AS k ON k.BatchId = i.BatchId AND k.Sequence = i.Sequence AND 0 = :expired
WHERE i.BatchId = :id AND i.Sequence >= :from AND i.Sequence < :until
ORDER BY i.Sequence;
-- dialect: sqlserver
SELECT i.Sequence, i.Status, i.ErrorMessage, CASE WHEN DATALENGTH(i.PayloadJson) / 2 <= :longest THEN i.PayloadJson END AS Payload, i.ChunkId,
       i.CreatedAt, i.RecordCount, CASE WHEN DATALENGTH(k.Sealed) <= :longest THEN k.Sealed END AS Sealed, i.Reason, i.SourceRow,
       CASE WHEN DATALENGTH(i.OriginalJson) / 2 <= :longest THEN i.OriginalJson END AS Original
FROM ImportItem AS i
LEFT JOIN ImportKept AS k ON k.BatchId = i.BatchId AND k.Sequence = i.Sequence AND 0 = :expired
WHERE i.BatchId = :id AND i.Sequence >= :from AND i.Sequence < :until
ORDER BY i.Sequence;

-- name: item_page
-- row: item
-- dialect: sqlite, postgres
SELECT i.Sequence, i.Status, i.ErrorMessage, CASE WHEN length(i.PayloadJson) <= :longest THEN i.PayloadJson END AS Payload, i.ChunkId,
       i.CreatedAt, i.RecordCount, CASE WHEN length(k.Sealed) <= :longest THEN k.Sealed END AS Sealed, i.Reason, i.SourceRow,
       CASE WHEN length(i.OriginalJson) <= :longest THEN i.OriginalJson END AS Original
FROM ImportItem AS i
LEFT JOIN ImportKept AS k ON k.BatchId = i.BatchId AND k.Sequence = i.Sequence AND 0 = :expired
WHERE i.BatchId = :id AND (CAST(:status AS INT) IS NULL OR i.Status = CAST(:status AS INT)) AND i.Sequence >= :from
ORDER BY i.Sequence
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT i.Sequence, i.Status, i.ErrorMessage, CASE WHEN DATALENGTH(i.PayloadJson) / 2 <= :longest THEN i.PayloadJson END AS Payload, i.ChunkId,
       i.CreatedAt, i.RecordCount, CASE WHEN DATALENGTH(k.Sealed) <= :longest THEN k.Sealed END AS Sealed, i.Reason, i.SourceRow,
       CASE WHEN DATALENGTH(i.OriginalJson) / 2 <= :longest THEN i.OriginalJson END AS Original
FROM ImportItem AS i
LEFT JOIN ImportKept AS k ON k.BatchId = i.BatchId AND k.Sequence = i.Sequence AND 0 = :expired
WHERE i.BatchId = :id AND (CAST(:status AS INT) IS NULL OR i.Status = CAST(:status AS INT)) AND i.Sequence >= :from
ORDER BY i.Sequence
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- No further than :most: beyond it, the batch's counters give an estimate.
-- name: item_page_total
SELECT COUNT(*) FROM (SELECT 1 AS One FROM ImportItem
                      WHERE BatchId = :id AND (CAST(:status AS INT) IS NULL OR Status = CAST(:status AS INT)) LIMIT :most) AS n;
-- dialect: sqlserver
SELECT COUNT(*) FROM (SELECT TOP (:most) 1 AS One FROM ImportItem
                      WHERE BatchId = :id AND (CAST(:status AS INT) IS NULL OR Status = CAST(:status AS INT))
                      ORDER BY Sequence) AS n;

-- Items in error have an index of their own, which a database surely uses only if the status is written as a number.
-- The first item of the page is found by counting in that index alone.
-- name: item_error_first
SELECT Sequence FROM ImportItem WHERE BatchId = :id AND Status = 1 ORDER BY Sequence LIMIT 1 OFFSET :offset;
-- dialect: sqlserver
SELECT Sequence FROM ImportItem WHERE BatchId = :id AND Status = 1 ORDER BY Sequence OFFSET :offset ROWS FETCH NEXT 1 ROWS ONLY;

-- name: item_error_page
-- row: item
-- dialect: sqlite, postgres
SELECT i.Sequence, i.Status, i.ErrorMessage, CASE WHEN length(i.PayloadJson) <= :longest THEN i.PayloadJson END AS Payload, i.ChunkId,
       i.CreatedAt, i.RecordCount, CASE WHEN length(k.Sealed) <= :longest THEN k.Sealed END AS Sealed, i.Reason, i.SourceRow,
       CASE WHEN length(i.OriginalJson) <= :longest THEN i.OriginalJson END AS Original
FROM ImportItem AS i
LEFT JOIN ImportKept AS k ON k.BatchId = i.BatchId AND k.Sequence = i.Sequence AND 0 = :expired
WHERE i.BatchId = :id AND i.Status = 1 AND i.Sequence >= :from
ORDER BY i.Sequence
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) i.Sequence, i.Status, i.ErrorMessage, CASE WHEN DATALENGTH(i.PayloadJson) / 2 <= :longest THEN i.PayloadJson END AS Payload, i.ChunkId,
       i.CreatedAt, i.RecordCount, CASE WHEN DATALENGTH(k.Sealed) <= :longest THEN k.Sealed END AS Sealed, i.Reason, i.SourceRow,
       CASE WHEN DATALENGTH(i.OriginalJson) / 2 <= :longest THEN i.OriginalJson END AS Original
FROM ImportItem AS i
LEFT JOIN ImportKept AS k ON k.BatchId = i.BatchId AND k.Sequence = i.Sequence AND 0 = :expired
WHERE i.BatchId = :id AND i.Status = 1 AND i.Sequence >= :from
ORDER BY i.Sequence;

-- name: item_error_total
SELECT COUNT(*) FROM ImportItem WHERE BatchId = :id AND Status = 1;

-- Items of one reason have an index of their own, too. A reason is that of one status.
-- name: item_reason_first
SELECT Sequence FROM ImportItem WHERE BatchId = :id AND Reason = CAST(:reason AS VARCHAR(51)) ORDER BY Sequence LIMIT 1 OFFSET :offset;
-- dialect: sqlserver
SELECT Sequence FROM ImportItem WHERE BatchId = :id AND Reason = CAST(:reason AS VARCHAR(51)) ORDER BY Sequence
OFFSET :offset ROWS FETCH NEXT 1 ROWS ONLY;

-- name: item_reason_page
-- row: item
-- dialect: sqlite, postgres
SELECT i.Sequence, i.Status, i.ErrorMessage, CASE WHEN length(i.PayloadJson) <= :longest THEN i.PayloadJson END AS Payload, i.ChunkId,
       i.CreatedAt, i.RecordCount, CASE WHEN length(k.Sealed) <= :longest THEN k.Sealed END AS Sealed, i.Reason, i.SourceRow,
       CASE WHEN length(i.OriginalJson) <= :longest THEN i.OriginalJson END AS Original
FROM ImportItem AS i
LEFT JOIN ImportKept AS k ON k.BatchId = i.BatchId AND k.Sequence = i.Sequence AND 0 = :expired
WHERE i.BatchId = :id AND i.Reason = CAST(:reason AS VARCHAR(51)) AND i.Sequence >= :from
ORDER BY i.Sequence
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) i.Sequence, i.Status, i.ErrorMessage, CASE WHEN DATALENGTH(i.PayloadJson) / 2 <= :longest THEN i.PayloadJson END AS Payload, i.ChunkId,
       i.CreatedAt, i.RecordCount, CASE WHEN DATALENGTH(k.Sealed) <= :longest THEN k.Sealed END AS Sealed, i.Reason, i.SourceRow,
       CASE WHEN DATALENGTH(i.OriginalJson) / 2 <= :longest THEN i.OriginalJson END AS Original
FROM ImportItem AS i
LEFT JOIN ImportKept AS k ON k.BatchId = i.BatchId AND k.Sequence = i.Sequence AND 0 = :expired
WHERE i.BatchId = :id AND i.Reason = CAST(:reason AS VARCHAR(51)) AND i.Sequence >= :from
ORDER BY i.Sequence;

-- name: item_reason_total
SELECT COUNT(*) FROM ImportItem WHERE BatchId = :id AND Reason = CAST(:reason AS VARCHAR(51));

-- The reasons of failed items, by the index alone, and the first item of each. Items of an earlier release have none.
-- name: item_reason_groups
SELECT g.Reason, g.Items, i.SourceRow
FROM (SELECT Reason, COUNT(*) AS Items, MIN(Sequence) AS FirstSequence FROM ImportItem
      WHERE BatchId = :id AND Reason IS NOT NULL GROUP BY Reason) AS g
JOIN ImportItem AS i ON i.BatchId = :id AND i.Sequence = g.FirstSequence
WHERE i.Status = 1
ORDER BY g.Items DESC, g.Reason;

-- For the report: the sizes of the next rows, so that no more are read at a time than fit; then the rows.
-- name: item_error_sizes
SELECT i.Sequence, COALESCE(length(k.Sealed), length(COALESCE(i.OriginalJson, i.PayloadJson)), 0) AS Chars
FROM ImportItem AS i
LEFT JOIN ImportKept AS k ON k.BatchId = i.BatchId AND k.Sequence = i.Sequence AND 0 = :expired
WHERE i.BatchId = :id AND i.Status = 1 AND i.Sequence > :after
ORDER BY i.Sequence
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) i.Sequence, COALESCE(DATALENGTH(k.Sealed), DATALENGTH(COALESCE(i.OriginalJson, i.PayloadJson)) / 2, 0) AS Chars
FROM ImportItem AS i
LEFT JOIN ImportKept AS k ON k.BatchId = i.BatchId AND k.Sequence = i.Sequence AND 0 = :expired
WHERE i.BatchId = :id AND i.Status = 1 AND i.Sequence > :after
ORDER BY i.Sequence;

-- name: item_error_rows
SELECT i.Sequence, i.ErrorMessage, CASE WHEN i.OriginalJson IS NULL AND k.Sequence IS NULL THEN i.PayloadJson END AS PayloadJson,
       i.OriginalJson, k.Sealed
FROM ImportItem AS i
LEFT JOIN ImportKept AS k ON k.BatchId = i.BatchId AND k.Sequence = i.Sequence AND 0 = :expired
WHERE i.BatchId = :id AND i.Status = 1 AND i.Sequence > :after AND i.Sequence <= :until
ORDER BY i.Sequence;
