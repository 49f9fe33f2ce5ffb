-- Erasing a person from documents (erase.h). :erased stands in the place of what a document said; one that is on its way,
-- or that was made after :cutoff, is left. What was given up no longer waits for a person.

-- name: erasure_insert
INSERT INTO Erasures (Id, SubjectKind, SubjectHash, ErasedAt, CreatedBy) VALUES (:id, :kind, :hash, :now, :by);

-- name: erasure_exists
SELECT COUNT(*) FROM Erasures WHERE Id = :id;

-- name: erasure_total
SELECT COUNT(*) FROM Erasures;

-- name: erasure_list
SELECT Id, SubjectKind, SubjectHash, ErasedAt FROM Erasures WHERE Id > :after ORDER BY Id LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Id, SubjectKind, SubjectHash, ErasedAt FROM Erasures WHERE Id > :after ORDER BY Id;

-- The payload's hash goes too, so that the same document may come again. :callback is 1 if it is the callback that names
-- the person: then that one's time counts.
-- name: erase_ticket
UPDATE TB_TICKET_INTERFACE
SET RawPayloadJson = :erased, PayloadHash = NULL, LastError = NULL, ReturnLastError = NULL, GatewaySendLastError = NULL,
    DismissedAt = CASE WHEN Status = 'Error' THEN COALESCE(DismissedAt, :now) ELSE DismissedAt END,
    GatewaySendDismissedAt = CASE WHEN GatewaySendStatus = 'Error' THEN COALESCE(GatewaySendDismissedAt, :now)
                                  ELSE GatewaySendDismissedAt END,
    CallbackPayloadJson = CASE WHEN CallbackPayloadJson IS NULL THEN NULL ELSE :erased END, CallbackMessage = NULL,
    CallbackCode = NULL, CallbackHash = NULL, ErasedAt = :now
WHERE Id = :id AND Status IN ('Processed', 'Error') AND NextAttemptAt IS NULL AND GatewaySendNextAttemptAt IS NULL
  AND CASE WHEN CAST(:callback AS INT) = 1 THEN CallbackReceivedAt ELSE COALESCE(PayloadAt, CreatedAt) END <= :cutoff
  AND NOT EXISTS (SELECT 1 FROM TB_TICKET_RETURN_OUTBOX AS o
                  WHERE o.BusinessEntity = TB_TICKET_INTERFACE.BusinessEntity
                    AND o.BusinessDocId = TB_TICKET_INTERFACE.BusinessDocId
                    AND o.PhaseCode = TB_TICKET_INTERFACE.PhaseCode AND o.NextAttemptAt IS NOT NULL);

-- name: erase_ticket_older
SELECT COUNT(*) FROM TB_TICKET_INTERFACE
WHERE Id = :id
  AND CASE WHEN CAST(:callback AS INT) = 1 THEN CallbackReceivedAt ELSE COALESCE(PayloadAt, CreatedAt) END <= :cutoff;

-- name: erase_ticket_returns
UPDATE TB_TICKET_RETURN_OUTBOX
SET PayloadJson = :erased, LastError = NULL, ErasedAt = :now,
    DismissedAt = CASE WHEN Status = 'Error' THEN COALESCE(DismissedAt, :now) ELSE DismissedAt END
WHERE Id IN (SELECT o.Id FROM TB_TICKET_INTERFACE AS t
             JOIN TB_TICKET_RETURN_OUTBOX AS o ON o.BusinessEntity = t.BusinessEntity AND o.BusinessDocId = t.BusinessDocId
              AND o.PhaseCode = t.PhaseCode
             WHERE t.Id = :id)
  AND NextAttemptAt IS NULL;

-- name: erase_return_attempts
UPDATE DeliveryAttempts
SET Answer = NULL, Error = NULL
WHERE Channel = 'ticket-return'
  AND RowKey IN (SELECT CAST(o.Id AS VARCHAR(36)) FROM TB_TICKET_INTERFACE AS t
                 JOIN TB_TICKET_RETURN_OUTBOX AS o ON o.BusinessEntity = t.BusinessEntity AND o.BusinessDocId = t.BusinessDocId
                  AND o.PhaseCode = t.PhaseCode
                 WHERE t.Id = :id);

-- name: erase_attempts
UPDATE DeliveryAttempts SET Answer = NULL, Error = NULL
WHERE Channel = CAST(:channel AS VARCHAR(51)) AND RowKey = CAST(:row AS VARCHAR(65));

-- name: erase_counterparty
UPDATE TB_COUNTERPARTIES
SET Name = NULL, LocalName = NULL, SearchName = NULL, ReferenceCode = NULL, StatusMessage = NULL, RawPayload = :erased,
    Version = Version + 1, ErasedAt = :now
WHERE Id = :id AND COALESCE(PayloadAt, CreatedAt) <= :cutoff;

-- name: erase_counterparty_addresses
DELETE FROM TB_COUNTERPARTY_ADDRESSES WHERE CounterpartyIdFk = :id;

-- name: erase_counterparty_fiscal
DELETE FROM TB_COUNTERPARTY_FISCAL_REFERENCES WHERE CounterpartyIdFk = :id;

-- name: erase_ack
UPDATE TB_FUNCTIONAL_ACK_OUTBOX
SET PayloadJson = :erased, LastError = NULL, ErasedAt = :now,
    DismissedAt = CASE WHEN Status = 'Error' THEN COALESCE(DismissedAt, :now) ELSE DismissedAt END
WHERE Id = :id AND CreatedAt <= :cutoff AND Status IN ('Sent', 'Error') AND NextAttemptAt IS NULL;

-- name: erase_ack_older
SELECT COUNT(*) FROM TB_FUNCTIONAL_ACK_OUTBOX WHERE Id = :id AND CreatedAt <= :cutoff;

-- name: erase_event
UPDATE outbox_events
SET payload = :erased, aggregate_id = NULL, last_error = NULL, erased_at = :now,
    status = CASE WHEN status = 'FAILED' THEN 'DISMISSED' ELSE status END
WHERE id = :id AND created_at <= :cutoff AND status <> 'PENDING';

-- name: erase_event_older
SELECT COUNT(*) FROM outbox_events WHERE id = :id AND created_at <= :cutoff;

-- name: erase_call
UPDATE IntegrationCalls
SET Body = :body, HeadersJson = '{}', Path = '/', LastError = NULL, ErasedAt = :now,
    DismissedAt = CASE WHEN Status = 'Error' THEN COALESCE(DismissedAt, :now) ELSE DismissedAt END
WHERE Id = :id AND CreatedAt <= :cutoff AND Status IN ('Sent', 'Error') AND NextAttemptAt IS NULL;

-- name: erase_call_older
SELECT COUNT(*) FROM IntegrationCalls WHERE Id = :id AND CreatedAt <= :cutoff;

-- name: erase_batch
UPDATE ImportBatch
SET MetadataJson = CASE WHEN MetadataJson IS NULL THEN NULL ELSE :erased END, RequestedBy = NULL
WHERE Id = :id AND CreatedAt <= :cutoff AND Status >= 3;

-- name: erase_batch_older
SELECT COUNT(*) FROM ImportBatch WHERE Id = :id AND CreatedAt <= :cutoff;

-- One that is sent again: those that were never read are counted by themselves (erase_unread).
-- name: erase_batch_again
SELECT COUNT(*) FROM ImportBatch WHERE Id = :id AND CreatedAt <= :cutoff AND Attempt > 1;

-- No row: its items stay for now. It is locked, so that it is not sent again meanwhile.
-- name: erase_batch_over
SELECT Status FROM ImportBatch WHERE Id = :id AND CreatedAt <= :cutoff AND Status >= 3;
-- dialect: postgres
SELECT Status FROM ImportBatch WHERE Id = :id AND CreatedAt <= :cutoff AND Status >= 3 FOR UPDATE;
-- dialect: sqlserver
SELECT Status FROM ImportBatch WITH (UPDLOCK, ROWLOCK) WHERE Id = :id AND CreatedAt <= :cutoff AND Status >= 3;

-- Status and sequence stay, so that the batch's figures stay true. What is masked is not sent again. An item that is in
-- two chunks is counted once.
-- name: erase_item
UPDATE ImportItem
SET PayloadJson = :erased, OriginalJson = NULL, PayloadHash = NULL, IsMasked = :masked
WHERE BatchId = :id AND Sequence = :sequence AND (PayloadJson IS NULL OR PayloadJson <> :erased);

-- name: erase_item_kept
DELETE FROM ImportKept WHERE BatchId = :id AND Sequence = :sequence;

-- --- where the person is named ---

-- name: erase_entries
SELECT Id, Place, RowKey FROM SubjectIndex WHERE Hash = :hash AND Id > :after ORDER BY Id LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Id, Place, RowKey FROM SubjectIndex WHERE Hash = :hash AND Id > :after ORDER BY Id;

-- name: erase_entry
SELECT COUNT(*) FROM SubjectIndex WHERE Id = :id;

-- name: erase_chunk_next
SELECT COALESCE(MIN(Id), 0) FROM ImportSubjects WHERE Id > :after;

-- name: erase_chunk_last
SELECT COALESCE(MAX(Id), 0) FROM ImportSubjects;

-- Chunks that hold the bytes of the hash anywhere; the program looks closer. SQL Server has them all (subject_items).
-- name: erase_chunks
-- dialect: sqlite
SELECT Id, BatchId, Entries FROM ImportSubjects
WHERE Id > :after AND Id <= :upto AND instr(Entries, :hash) > 0
ORDER BY Id LIMIT :limit;
-- dialect: postgres
SELECT Id, BatchId, Entries FROM ImportSubjects
WHERE Id > :after AND Id <= :upto AND position(CAST(:hash AS BYTEA) IN Entries) > 0
ORDER BY Id LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Id, BatchId, Entries FROM ImportSubjects
WHERE Id > :after AND Id <= :upto AND DATALENGTH(Entries) >= DATALENGTH(CAST(:hash AS VARBINARY(8)))
ORDER BY Id;

-- name: erase_chunk
SELECT Entries FROM ImportSubjects WHERE Id = :id;

-- name: erase_chunk_set
UPDATE ImportSubjects SET Entries = :entries WHERE Id = :id;

-- How many tables of documents of earlier releases have been looked through.
-- name: erase_filled
SELECT COUNT(*) FROM SubjectFill WHERE DoneAt IS NOT NULL;

-- Batches whose file was not read to its end: whom it names is not known yet.
-- name: erase_unread
SELECT COUNT(*) FROM ImportBatch WHERE Status IN (0, 1, 2) AND Attempt = 1 AND CreatedAt <= :cutoff;
