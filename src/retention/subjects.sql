-- Where people are stored. `waits`: the row is on its way.
--
-- RowKey is the id of any kind of document, so that it may be cast only where Place says which.

-- A ticket is found by its payload or by its callback.
-- name: subject_tickets
-- row: subject_place
SELECT t.Id AS RowKey,
       CASE WHEN t.NextAttemptAt IS NOT NULL OR t.GatewaySendNextAttemptAt IS NOT NULL THEN 1 ELSE 0 END AS Waits
FROM SubjectIndex AS s
JOIN TB_TICKET_INTERFACE AS t ON t.Id = CASE WHEN s.Place IN ('ticket', 'callback') THEN CAST(s.RowKey AS BIGINT) END
WHERE s.Hash = :hash AND s.Place IN ('ticket', 'callback');

-- name: subject_counterparties
-- row: subject_place
SELECT t.Id AS RowKey, 0 AS Waits
FROM SubjectIndex AS s
JOIN TB_COUNTERPARTIES AS t ON t.Id = CASE WHEN s.Place = 'counterparty' THEN CAST(s.RowKey AS BIGINT) END
WHERE s.Hash = :hash AND s.Place = 'counterparty';

-- name: subject_acks
-- row: subject_place
SELECT t.Id AS RowKey, CASE WHEN t.NextAttemptAt IS NOT NULL THEN 1 ELSE 0 END AS Waits
FROM SubjectIndex AS s
JOIN TB_FUNCTIONAL_ACK_OUTBOX AS t ON t.Id = CASE WHEN s.Place = 'ack' THEN CAST(s.RowKey AS BIGINT) END
WHERE s.Hash = :hash AND s.Place = 'ack';

-- name: subject_events
-- row: subject_place
-- dialect: sqlite
SELECT t.id AS RowKey, CASE WHEN t.status = 'PENDING' THEN 1 ELSE 0 END AS Waits
FROM SubjectIndex AS s
JOIN outbox_events AS t ON t.id = s.RowKey
WHERE s.Hash = :hash AND s.Place = 'event';
-- dialect: postgres
SELECT t.id AS RowKey, CASE WHEN t.status = 'PENDING' THEN 1 ELSE 0 END AS Waits
FROM SubjectIndex AS s
JOIN outbox_events AS t ON t.id = CASE WHEN s.Place = 'event' THEN CAST(s.RowKey AS UUID) END
WHERE s.Hash = :hash AND s.Place = 'event';
-- dialect: sqlserver
SELECT t.id AS RowKey, CASE WHEN t.status = 'PENDING' THEN 1 ELSE 0 END AS Waits
FROM SubjectIndex AS s
JOIN outbox_events AS t ON t.id = CASE WHEN s.Place = 'event' THEN CAST(s.RowKey AS UNIQUEIDENTIFIER) END
WHERE s.Hash = :hash AND s.Place = 'event';

-- name: subject_calls
-- row: subject_place
-- dialect: sqlite
SELECT t.Id AS RowKey, CASE WHEN t.NextAttemptAt IS NOT NULL THEN 1 ELSE 0 END AS Waits
FROM SubjectIndex AS s
JOIN IntegrationCalls AS t ON t.Id = s.RowKey
WHERE s.Hash = :hash AND s.Place = 'call';
-- dialect: postgres
SELECT t.Id AS RowKey, CASE WHEN t.NextAttemptAt IS NOT NULL THEN 1 ELSE 0 END AS Waits
FROM SubjectIndex AS s
JOIN IntegrationCalls AS t ON t.Id = CASE WHEN s.Place = 'call' THEN CAST(s.RowKey AS UUID) END
WHERE s.Hash = :hash AND s.Place = 'call';
-- dialect: sqlserver
SELECT t.Id AS RowKey, CASE WHEN t.NextAttemptAt IS NOT NULL THEN 1 ELSE 0 END AS Waits
FROM SubjectIndex AS s
JOIN IntegrationCalls AS t ON t.Id = CASE WHEN s.Place = 'call' THEN CAST(s.RowKey AS UNIQUEIDENTIFIER) END
WHERE s.Hash = :hash AND s.Place = 'call';

-- Status: 0 Pending, 1 Processing, 2 Scheduled.
-- name: subject_batches
-- row: subject_place
-- dialect: sqlite
SELECT t.Id AS RowKey, CASE WHEN t.Status IN (0, 1, 2) THEN 1 ELSE 0 END AS Waits
FROM SubjectIndex AS s
JOIN ImportBatch AS t ON t.Id = s.RowKey
WHERE s.Hash = :hash AND s.Place = 'batch';
-- dialect: postgres
SELECT t.Id AS RowKey, CASE WHEN t.Status IN (0, 1, 2) THEN 1 ELSE 0 END AS Waits
FROM SubjectIndex AS s
JOIN ImportBatch AS t ON t.Id = CASE WHEN s.Place = 'batch' THEN CAST(s.RowKey AS UUID) END
WHERE s.Hash = :hash AND s.Place = 'batch';
-- dialect: sqlserver
SELECT t.Id AS RowKey, CASE WHEN t.Status IN (0, 1, 2) THEN 1 ELSE 0 END AS Waits
FROM SubjectIndex AS s
JOIN ImportBatch AS t ON t.Id = CASE WHEN s.Place = 'batch' THEN CAST(s.RowKey AS UNIQUEIDENTIFIER) END
WHERE s.Hash = :hash AND s.Place = 'batch';

-- The rows of ImportSubjects are looked through in steps of keys.
-- name: subject_items_range
-- row: subject_range
SELECT COALESCE(MIN(Id), 0) AS First, COALESCE(MAX(Id), -1) AS Last FROM ImportSubjects;

-- Those of a step that hold the bytes of the hash anywhere; the program looks closer. SQL Server compares bytes as
-- text by its collation, and may miss some: there the program reads them all.
-- name: subject_items
-- dialect: sqlite
SELECT s.BatchId, CASE WHEN b.Status IN (0, 1, 2) THEN 1 ELSE 0 END AS Waits, s.Entries
FROM ImportSubjects AS s
JOIN ImportBatch AS b ON b.Id = s.BatchId
WHERE s.Id >= :first AND s.Id < :behind AND instr(s.Entries, :hash) > 0;
-- dialect: postgres
SELECT s.BatchId, CASE WHEN b.Status IN (0, 1, 2) THEN 1 ELSE 0 END AS Waits, s.Entries
FROM ImportSubjects AS s
JOIN ImportBatch AS b ON b.Id = s.BatchId
WHERE s.Id >= :first AND s.Id < :behind AND position(CAST(:hash AS BYTEA) IN s.Entries) > 0;
-- dialect: sqlserver
SELECT s.BatchId, CASE WHEN b.Status IN (0, 1, 2) THEN 1 ELSE 0 END AS Waits, s.Entries
FROM ImportSubjects AS s
JOIN ImportBatch AS b ON b.Id = s.BatchId
WHERE s.Id >= :first AND s.Id < :behind AND DATALENGTH(s.Entries) >= DATALENGTH(CAST(:hash AS VARBINARY(8)));

-- --- what is shown of them ---

-- template: subjects_detail.sqlt
-- with: name = subject_ticket
-- with: table = TB_TICKET_INTERFACE
-- with: title = t.BusinessEntity
-- with: reference = t.BusinessDocId
-- with: number = t.PhaseCode
-- with: payload = t.RawPayloadJson
-- with: other = t.CallbackPayloadJson

-- template: subjects_detail.sqlt
-- with: name = subject_counterparty
-- with: table = TB_COUNTERPARTIES
-- with: title = t.BusinessEntity
-- with: reference = t.BusinessDocId
-- with: payload = t.RawPayload

-- template: subjects_detail.sqlt
-- with: name = subject_ack
-- with: table = TB_FUNCTIONAL_ACK_OUTBOX
-- with: title = CAST(NULL AS VARCHAR(1))
-- with: reference = t.BusinessDocId
-- with: payload = t.PayloadJson

-- template: subjects_detail.sqlt
-- with: name = subject_event
-- with: table = outbox_events
-- with: client = t.client_id
-- with: status = t.status
-- with: created = t.created_at
-- with: title = t.event_type
-- with: reference = t.aggregate_id
-- with: payload = t.payload
-- with: where = t.id = :id

-- template: subjects_detail.sqlt
-- with: name = subject_call
-- with: table = IntegrationCalls
-- with: title = t.IntegrationName
-- with: reference = t.CorrelationId
-- with: payload = t.Body
-- with: other = t.HeadersJson

-- template: subjects_detail.sqlt
-- with: name = subject_batch
-- with: table = ImportBatch
-- with: status = CASE t.Status WHEN 0 THEN 'Pending' WHEN 1 THEN 'Processing' WHEN 2 THEN 'Scheduled' WHEN 3 THEN 'Completed'
--     WHEN 4 THEN 'CompletedWithErrors' WHEN 5 THEN 'Failed' ELSE 'Cancelled' END
-- with: title = t.FileName
-- with: reference = t.RequestedBy
-- with: payload = t.MetadataJson

-- name: subject_item
-- row: subject_detail
SELECT (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = b.ClientId) AS ClientIdentifier,
       CASE i.Status WHEN 0 THEN 'Imported' WHEN 1 THEN 'Error' ELSE 'Skipped' END AS Status, i.CreatedAt AS CreatedAt, b.FileName AS Title, CAST(NULL AS VARCHAR(1)) AS Reference,
       CAST(NULL AS INT) AS Number, CASE WHEN :full = 1 THEN i.PayloadJson END AS Payload,
       CASE WHEN :full = 1 THEN i.OriginalJson END AS Other
FROM ImportItem AS i
JOIN ImportBatch AS b ON b.Id = i.BatchId
WHERE i.BatchId = :id AND i.Sequence = :sequence;

-- What is kept of an item that failed, encrypted.
-- name: subject_kept
SELECT Sealed FROM ImportKept WHERE BatchId = :id AND Sequence = :sequence;

-- Batches whose file was not read to its end: whom it names is not known yet.
-- name: subject_unread
SELECT Id FROM ImportBatch WHERE Status IN (0, 1, 2) AND Attempt = 1 ORDER BY CreatedAt LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Id FROM ImportBatch WHERE Status IN (0, 1, 2) AND Attempt = 1 ORDER BY CreatedAt;

-- --- rows of an earlier release ---

-- name: subject_fill_get
SELECT Position, DoneAt FROM SubjectFill WHERE Source = CAST(:source AS VARCHAR(21));

-- name: subject_fill_insert
INSERT INTO SubjectFill (Source, Position) VALUES (:source, :position);

-- Changes nothing if another process has taken the step.
-- name: subject_fill_move
UPDATE SubjectFill SET Position = :next, DoneAt = :done
WHERE Source = CAST(:source AS VARCHAR(21)) AND Position = CAST(:position AS VARCHAR(65)) AND DoneAt IS NULL;

-- The rows behind a position. Those that may be replaced are locked: who replaces one meanwhile waits, and then replaces
-- its entries.
-- name: subject_fill_tickets
-- row: subject_source
SELECT t.Id AS RowKey, t.RawPayloadJson AS Payload, t.CallbackPayloadJson AS Other, CAST(NULL AS VARCHAR(1)) AS Name,
       CAST(NULL AS VARCHAR(1)) AS Value
FROM TB_TICKET_INTERFACE AS t
WHERE t.Id > :after
ORDER BY t.Id LIMIT :limit;
-- dialect: postgres
SELECT t.Id AS RowKey, t.RawPayloadJson AS Payload, t.CallbackPayloadJson AS Other, CAST(NULL AS VARCHAR(1)) AS Name,
       CAST(NULL AS VARCHAR(1)) AS Value
FROM TB_TICKET_INTERFACE AS t
WHERE t.Id > :after
ORDER BY t.Id LIMIT :limit
FOR NO KEY UPDATE;
-- dialect: sqlserver
SELECT TOP (:limit) t.Id AS RowKey, t.RawPayloadJson AS Payload, t.CallbackPayloadJson AS Other, CAST(NULL AS VARCHAR(1)) AS Name,
       CAST(NULL AS VARCHAR(1)) AS Value
FROM TB_TICKET_INTERFACE AS t WITH (UPDLOCK, ROWLOCK)
WHERE t.Id > :after
ORDER BY t.Id;

-- name: subject_fill_counterparties
-- row: subject_source
SELECT t.Id AS RowKey, t.RawPayload AS Payload, CAST(NULL AS VARCHAR(1)) AS Other, CAST(NULL AS VARCHAR(1)) AS Name,
       CAST(NULL AS VARCHAR(1)) AS Value
FROM TB_COUNTERPARTIES AS t
WHERE t.Id > :after
ORDER BY t.Id LIMIT :limit;
-- dialect: postgres
SELECT t.Id AS RowKey, t.RawPayload AS Payload, CAST(NULL AS VARCHAR(1)) AS Other, CAST(NULL AS VARCHAR(1)) AS Name,
       CAST(NULL AS VARCHAR(1)) AS Value
FROM TB_COUNTERPARTIES AS t
WHERE t.Id > :after
ORDER BY t.Id LIMIT :limit
FOR NO KEY UPDATE;
-- dialect: sqlserver
SELECT TOP (:limit) t.Id AS RowKey, t.RawPayload AS Payload, CAST(NULL AS VARCHAR(1)) AS Other, CAST(NULL AS VARCHAR(1)) AS Name,
       CAST(NULL AS VARCHAR(1)) AS Value
FROM TB_COUNTERPARTIES AS t WITH (UPDLOCK, ROWLOCK)
WHERE t.Id > :after
ORDER BY t.Id;

-- Phones and fiscal numbers of counterparties, for rows of other programs, which may have no payload.
-- name: subject_fill_children
SELECT a.CounterpartyIdFk AS RowKey, a.Phone, a.Fax, CAST(NULL AS VARCHAR(30)) AS FiscalNumber
FROM TB_COUNTERPARTY_ADDRESSES AS a
WHERE a.CounterpartyIdFk > :after AND a.CounterpartyIdFk <= :last
UNION ALL
SELECT f.CounterpartyIdFk, CAST(NULL AS VARCHAR(30)), CAST(NULL AS VARCHAR(30)), f.FiscalNumber
FROM TB_COUNTERPARTY_FISCAL_REFERENCES AS f
WHERE f.CounterpartyIdFk > :after AND f.CounterpartyIdFk <= :last;

-- name: subject_fill_acks
-- row: subject_source
SELECT t.Id AS RowKey, t.PayloadJson AS Payload, CAST(NULL AS VARCHAR(1)) AS Other, CAST(NULL AS VARCHAR(1)) AS Name,
       CAST(NULL AS VARCHAR(1)) AS Value
FROM TB_FUNCTIONAL_ACK_OUTBOX AS t
WHERE t.Id > :after
ORDER BY t.Id LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) t.Id AS RowKey, t.PayloadJson AS Payload, CAST(NULL AS VARCHAR(1)) AS Other, CAST(NULL AS VARCHAR(1)) AS Name,
       CAST(NULL AS VARCHAR(1)) AS Value
FROM TB_FUNCTIONAL_ACK_OUTBOX AS t
WHERE t.Id > :after
ORDER BY t.Id;

-- name: subject_fill_events
-- row: subject_source
SELECT t.id AS RowKey, t.payload AS Payload, CAST(NULL AS VARCHAR(1)) AS Other, t.aggregate_type AS Name, t.aggregate_id AS Value
FROM outbox_events AS t
WHERE t.id > :after
ORDER BY t.id LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) t.id AS RowKey, t.payload AS Payload, CAST(NULL AS VARCHAR(1)) AS Other, t.aggregate_type AS Name, t.aggregate_id AS Value
FROM outbox_events AS t
WHERE t.id > :after
ORDER BY t.id;

-- name: subject_fill_calls
-- row: subject_source
SELECT t.Id AS RowKey, t.Body AS Payload, t.HeadersJson AS Other, t.Path AS Name, CAST(NULL AS VARCHAR(1)) AS Value
FROM IntegrationCalls AS t
WHERE t.Id > :after
ORDER BY t.Id LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) t.Id AS RowKey, t.Body AS Payload, t.HeadersJson AS Other, t.Path AS Name, CAST(NULL AS VARCHAR(1)) AS Value
FROM IntegrationCalls AS t
WHERE t.Id > :after
ORDER BY t.Id;

-- name: subject_fill_batches
-- row: subject_source
SELECT t.Id AS RowKey, t.MetadataJson AS Payload, CAST(NULL AS VARCHAR(1)) AS Other, t.RequestedBy AS Name, t.FileName AS Value
FROM ImportBatch AS t
WHERE t.Id > :after
ORDER BY t.Id LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) t.Id AS RowKey, t.MetadataJson AS Payload, CAST(NULL AS VARCHAR(1)) AS Other, t.RequestedBy AS Name, t.FileName AS Value
FROM ImportBatch AS t
WHERE t.Id > :after
ORDER BY t.Id;

-- Written is 1 if the chunk of the item has its entries, or if the item is masked: then nobody is found in it any more.
-- name: subject_fill_items
SELECT i.Id, i.BatchId, i.Sequence, i.PayloadJson, i.OriginalJson,
       CASE WHEN i.IsMasked = :masked
                 OR EXISTS (SELECT 1 FROM ImportSubjects AS s WHERE s.BatchId = i.BatchId AND s.ChunkId = i.ChunkId)
            THEN 1 ELSE 0 END AS Written
FROM ImportItem AS i
WHERE i.Id > :after
ORDER BY i.Id LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) i.Id, i.BatchId, i.Sequence, i.PayloadJson, i.OriginalJson,
       CASE WHEN i.IsMasked = :masked
                 OR EXISTS (SELECT 1 FROM ImportSubjects AS s WHERE s.BatchId = i.BatchId AND s.ChunkId = i.ChunkId)
            THEN 1 ELSE 0 END AS Written
FROM ImportItem AS i
WHERE i.Id > :after
ORDER BY i.Id;

-- --- entries whose document is gone ---

-- name: subject_index_range
-- row: subject_range
SELECT COALESCE(MIN(Id), 0) AS First, COALESCE(MAX(Id), -1) AS Last FROM SubjectIndex;

-- Documents are removed by several hands, and rows of tickets by other programs too; the entries follow.
-- name: subject_index_sweep
-- dialect: sqlite
DELETE FROM SubjectIndex
WHERE Id >= :first AND Id < :behind
  AND ((Place IN ('ticket', 'callback') AND NOT EXISTS (SELECT 1 FROM TB_TICKET_INTERFACE AS t WHERE t.Id = CAST(SubjectIndex.RowKey AS BIGINT)))
    OR (Place = 'counterparty' AND NOT EXISTS (SELECT 1 FROM TB_COUNTERPARTIES AS t WHERE t.Id = CAST(SubjectIndex.RowKey AS BIGINT)))
    OR (Place = 'ack' AND NOT EXISTS (SELECT 1 FROM TB_FUNCTIONAL_ACK_OUTBOX AS t WHERE t.Id = CAST(SubjectIndex.RowKey AS BIGINT)))
    OR (Place = 'event' AND NOT EXISTS (SELECT 1 FROM outbox_events AS t WHERE t.id = SubjectIndex.RowKey))
    OR (Place = 'call' AND NOT EXISTS (SELECT 1 FROM IntegrationCalls AS t WHERE t.Id = SubjectIndex.RowKey))
    OR (Place = 'batch' AND NOT EXISTS (SELECT 1 FROM ImportBatch AS t WHERE t.Id = SubjectIndex.RowKey)));
-- dialect: postgres
DELETE FROM SubjectIndex
WHERE Id >= :first AND Id < :behind
  AND NOT CASE Place
          WHEN 'ticket' THEN EXISTS (SELECT 1 FROM TB_TICKET_INTERFACE AS t WHERE t.Id = CAST(SubjectIndex.RowKey AS BIGINT))
          WHEN 'callback' THEN EXISTS (SELECT 1 FROM TB_TICKET_INTERFACE AS t WHERE t.Id = CAST(SubjectIndex.RowKey AS BIGINT))
          WHEN 'counterparty' THEN EXISTS (SELECT 1 FROM TB_COUNTERPARTIES AS t WHERE t.Id = CAST(SubjectIndex.RowKey AS BIGINT))
          WHEN 'ack' THEN EXISTS (SELECT 1 FROM TB_FUNCTIONAL_ACK_OUTBOX AS t WHERE t.Id = CAST(SubjectIndex.RowKey AS BIGINT))
          WHEN 'event' THEN EXISTS (SELECT 1 FROM outbox_events AS t WHERE t.id = CAST(SubjectIndex.RowKey AS UUID))
          WHEN 'call' THEN EXISTS (SELECT 1 FROM IntegrationCalls AS t WHERE t.Id = CAST(SubjectIndex.RowKey AS UUID))
          WHEN 'batch' THEN EXISTS (SELECT 1 FROM ImportBatch AS t WHERE t.Id = CAST(SubjectIndex.RowKey AS UUID))
          ELSE TRUE END;
-- dialect: sqlserver
DELETE FROM SubjectIndex
WHERE Id >= :first AND Id < :behind
  AND ((Place IN ('ticket', 'callback') AND NOT EXISTS (SELECT 1 FROM TB_TICKET_INTERFACE AS t WHERE t.Id = TRY_CAST(SubjectIndex.RowKey AS BIGINT)))
    OR (Place = 'counterparty' AND NOT EXISTS (SELECT 1 FROM TB_COUNTERPARTIES AS t WHERE t.Id = TRY_CAST(SubjectIndex.RowKey AS BIGINT)))
    OR (Place = 'ack' AND NOT EXISTS (SELECT 1 FROM TB_FUNCTIONAL_ACK_OUTBOX AS t WHERE t.Id = TRY_CAST(SubjectIndex.RowKey AS BIGINT)))
    OR (Place = 'event' AND NOT EXISTS (SELECT 1 FROM outbox_events AS t WHERE t.id = TRY_CAST(SubjectIndex.RowKey AS UNIQUEIDENTIFIER)))
    OR (Place = 'call' AND NOT EXISTS (SELECT 1 FROM IntegrationCalls AS t WHERE t.Id = TRY_CAST(SubjectIndex.RowKey AS UNIQUEIDENTIFIER)))
    OR (Place = 'batch' AND NOT EXISTS (SELECT 1 FROM ImportBatch AS t WHERE t.Id = TRY_CAST(SubjectIndex.RowKey AS UNIQUEIDENTIFIER))));
