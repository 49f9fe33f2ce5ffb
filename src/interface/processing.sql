-- The processing of tickets that were not processed as they were accepted (ticket_state.h). A row is due when its
-- NextAttemptAt has come. It belongs to the process that owns its shard (src/shards/shards.h).
--
-- AttemptCount: failures that counted, and the success; a ticket that is not tried again has at least as many as are
-- allowed. TryCount: all tries, also of earlier payloads. FirstFailedAt, CountedAt and TargetMark are what
-- resilience/tries.h knows of a ticket; in Error without a due time, FirstFailedAt tells one that was given up from one
-- that is not fit. ProcessingSince: since when a ticket has been in hand; written after a second, with Processing.

-- The due tickets of these shards behind a cursor, with the sizes of their payloads, so that no more are read than fit.
-- SQLite reads no further than it is asked, and PostgreSQL knows the length of a payload that is stored out of line without
-- fetching it.
-- name: process_due
-- dialect: sqlite
SELECT Id, PayloadVersion, LENGTH(CAST(RawPayloadJson AS BLOB)) AS PayloadBytes, NextAttemptAt
FROM TB_TICKET_INTERFACE
WHERE NextAttemptAt <= :now AND (NextAttemptAt, Id) > (:after, :after_id) AND ((:shards >> (Id & 15)) & 1) = 1
ORDER BY NextAttemptAt, Id
LIMIT :limit;
-- dialect: postgres
SELECT Id, PayloadVersion, OCTET_LENGTH(RawPayloadJson) AS PayloadBytes, NextAttemptAt
FROM TB_TICKET_INTERFACE
WHERE NextAttemptAt <= :now AND (NextAttemptAt, Id) > (:after, :after_id)
  AND ((CAST(:shards AS BIGINT) >> CAST(Id & 15 AS INT)) & 1) = 1
ORDER BY NextAttemptAt, Id
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Id, PayloadVersion, DATALENGTH(RawPayloadJson), NextAttemptAt
FROM TB_TICKET_INTERFACE
WHERE NextAttemptAt <= :now AND NextAttemptAt >= :after AND (NextAttemptAt > :after OR Id > :after_id)
  AND (CAST(:shards AS BIGINT) / POWER(CAST(2 AS BIGINT), Id % 16)) % 2 = 1
ORDER BY NextAttemptAt, Id;

-- A payload that was replaced by a larger one meanwhile is left for the next claim.
-- name: process_load
-- dialect: sqlite
SELECT Id, PayloadVersion, NextAttemptAt, RawPayloadJson, BusinessEntity, BusinessDocId, PhaseCode, ClientId, TryCount,
       AttemptCount, FirstFailedAt, CountedAt, TargetMark, TraceParent
FROM TB_TICKET_INTERFACE
WHERE Id IN EACH_INT(:ids) AND NextAttemptAt IS NOT NULL AND LENGTH(CAST(RawPayloadJson AS BLOB)) <= :max_bytes
ORDER BY Id;
-- dialect: postgres
SELECT Id, PayloadVersion, NextAttemptAt, RawPayloadJson, BusinessEntity, BusinessDocId, PhaseCode, ClientId, TryCount,
       AttemptCount, FirstFailedAt, CountedAt, TargetMark, TraceParent
FROM TB_TICKET_INTERFACE
WHERE Id IN EACH_INT(:ids) AND NextAttemptAt IS NOT NULL AND OCTET_LENGTH(RawPayloadJson) <= :max_bytes
ORDER BY Id;
-- dialect: sqlserver
SELECT Id, PayloadVersion, NextAttemptAt, RawPayloadJson, BusinessEntity, BusinessDocId, PhaseCode, ClientId, TryCount,
       AttemptCount, FirstFailedAt, CountedAt, TargetMark, TraceParent
FROM TB_TICKET_INTERFACE
WHERE Id IN EACH_INT(:ids) AND NextAttemptAt IS NOT NULL AND DATALENGTH(RawPayloadJson) <= :max_bytes
ORDER BY Id;

-- name: process_next_due
SELECT MIN(NextAttemptAt) AS NextDue FROM TB_TICKET_INTERFACE WHERE NextAttemptAt > :now;

-- Before outcomes are written: the program compares version and due time with those at the claim.
-- name: process_lock
-- dialect: sqlite
SELECT Id, PayloadVersion, NextAttemptAt
FROM TB_TICKET_INTERFACE
WHERE Id IN EACH_INT(:ids);
-- dialect: postgres
SELECT Id, PayloadVersion, NextAttemptAt
FROM TB_TICKET_INTERFACE
WHERE Id IN EACH_INT(:ids)
ORDER BY Id
FOR UPDATE;
-- dialect: sqlserver
SELECT Id, PayloadVersion, NextAttemptAt
FROM TB_TICKET_INTERFACE WITH (UPDLOCK, ROWLOCK)
WHERE Id IN EACH_INT(:ids)
ORDER BY Id;

-- The rows are locked. The version is named again for databases that ignore lock hints.
-- name: process_done
UPDATE TB_TICKET_INTERFACE
SET Status = 'Processed', LastError = NULL, UpdatedAt = :now, NextAttemptAt = NULL, ProcessingSince = NULL,
    TryCount = TryCount + 1, AttemptCount = CASE WHEN FirstFailedAt IS NULL THEN 1 ELSE AttemptCount + 1 END,
    GatewaySendStatus = 'Pending', GatewaySendAttemptCount = 0, GatewaySendFirstFailedAt = NULL, GatewaySendCountedAt = NULL,
    GatewaySendTargetMark = NULL, GatewaySendHeldFor = NULL, GatewaySendHeldAt = NULL, GatewaySendSendingSince = NULL,
    GatewaySendNextAttemptAt = :now
WHERE Id = :id AND PayloadVersion = :version;

-- due is NULL for a ticket that can never be processed, and for one that is given up.
-- name: process_failed
UPDATE TB_TICKET_INTERFACE
SET Status = 'Error', LastError = :error, UpdatedAt = :now, NextAttemptAt = :due, ProcessingSince = NULL,
    TryCount = TryCount + 1, AttemptCount = :attempts, FirstFailedAt = :first_failed, CountedAt = :counted, TargetMark = :mark,
    DismissedAt = NULL
WHERE Id = :id AND PayloadVersion = :version;

-- A ticket that is not read, unless it has another payload by now. Without RETURNING, for which SQLite would hold the
-- payload in memory once more.
-- name: process_refuse
UPDATE TB_TICKET_INTERFACE
SET Status = 'Error', LastError = :error, UpdatedAt = :now, NextAttemptAt = NULL, ProcessingSince = NULL,
    TryCount = TryCount + 1, AttemptCount = :attempts, FirstFailedAt = :first_failed, CountedAt = NULL, TargetMark = NULL,
    DismissedAt = NULL
WHERE Id = :id AND PayloadVersion = :version AND NextAttemptAt IS NOT NULL;

-- name: process_show
UPDATE TB_TICKET_INTERFACE
SET Status = 'Processing', ProcessingSince = :now
WHERE Id = :id AND PayloadVersion = :version AND NextAttemptAt <= :now;

-- What a process left that processes it no more.
-- name: process_reset
-- dialect: sqlite
UPDATE TB_TICKET_INTERFACE
SET Status = CASE WHEN FirstFailedAt IS NULL THEN 'Awaiting' ELSE 'Error' END, ProcessingSince = NULL
WHERE Status = 'Processing' AND ((:shards >> (Id & 15)) & 1) = 1;
-- dialect: postgres
UPDATE TB_TICKET_INTERFACE
SET Status = CASE WHEN FirstFailedAt IS NULL THEN 'Awaiting' ELSE 'Error' END, ProcessingSince = NULL
WHERE Status = 'Processing' AND ((CAST(:shards AS BIGINT) >> CAST(Id & 15 AS INT)) & 1) = 1;
-- dialect: sqlserver
UPDATE TB_TICKET_INTERFACE
SET Status = CASE WHEN FirstFailedAt IS NULL THEN 'Awaiting' ELSE 'Error' END, ProcessingSince = NULL
WHERE Status = 'Processing' AND (CAST(:shards AS BIGINT) / POWER(CAST(2 AS BIGINT), Id % 16)) % 2 = 1;

-- How many tickets were processed, ever, by all processes.
-- name: processed_count
SELECT Arrived FROM DeliveryTargets WHERE Channel = 'tickets' AND Target = '';

-- In Babelfish @@ROWCOUNT is 0 after an OUTPUT: the SELECT answers.
-- name: processed_add
INSERT INTO DeliveryTargets (Channel, Target, Arrived, LastArrivedAt, CreatedAt, UpdatedAt)
VALUES ('tickets', '', :count, :now, :now, :now)
ON CONFLICT (Channel, Target) DO UPDATE
SET Arrived = DeliveryTargets.Arrived + excluded.Arrived, LastArrivedAt = excluded.LastArrivedAt,
    UpdatedAt = excluded.UpdatedAt
RETURNING Arrived;
-- dialect: sqlserver
UPDATE DeliveryTargets WITH (UPDLOCK, HOLDLOCK)
SET Arrived = Arrived + :count, LastArrivedAt = :now, UpdatedAt = :now
WHERE Channel = 'tickets' AND Target = '';
IF @@ROWCOUNT = 0
    INSERT INTO DeliveryTargets (Channel, Target, Arrived, LastArrivedAt, CreatedAt, UpdatedAt)
    VALUES ('tickets', '', :count, :now, :now, :now);
SELECT Arrived FROM DeliveryTargets WHERE Channel = 'tickets' AND Target = '';

-- Replaces the content of a return. A return that was sent is not sent again, unless a person had this very
-- version of the ticket processed again (ReturnAgain). An attempt that is on its way carries the previous content; the new
-- one waits for its end (src/delivery/README.md) and is sent under a key of its own.
-- name: return_replace
UPDATE TB_TICKET_RETURN_OUTBOX
SET PayloadJson = :payload, PayloadVersion = PayloadVersion + 1, KeyForm = NULL, NextAttemptAt = :now,
    Status = 'Pending', AttemptCount = 0, LastAttemptAt = NULL, LastError = NULL, FirstFailedAt = NULL, CountedAt = NULL,
    TargetMark = NULL, HeldFor = NULL, HeldAt = NULL, SentAt = NULL, SendingSince = NULL, SentStatus = NULL, SentMs = NULL,
    ErasedAt = NULL, TraceParent = :trace
WHERE CASE WHEN Status <> 'Sent' THEN 1
           WHEN EXISTS (SELECT 1 FROM TB_TICKET_INTERFACE AS t
                        WHERE t.Id = :ticket AND t.ReturnAgain = t.PayloadVersion) THEN 1
           ELSE 0 END = 1
  AND BusinessEntity = (SELECT t.BusinessEntity FROM TB_TICKET_INTERFACE AS t WHERE t.Id = :ticket)
  AND BusinessDocId = (SELECT t.BusinessDocId FROM TB_TICKET_INTERFACE AS t WHERE t.Id = :ticket)
  AND PhaseCode = (SELECT t.PhaseCode FROM TB_TICKET_INTERFACE AS t WHERE t.Id = :ticket);

-- Tickets that have a return already, from an earlier payload. None can be added meanwhile, since the ticket's row is
-- locked.
-- name: return_known
SELECT t.Id
FROM TB_TICKET_INTERFACE AS t
JOIN TB_TICKET_RETURN_OUTBOX AS o ON o.BusinessEntity = t.BusinessEntity AND o.BusinessDocId = t.BusinessDocId
 AND o.PhaseCode = t.PhaseCode
WHERE t.Id IN EACH_INT(:ids);

-- name: return_insert
INSERT INTO TB_TICKET_RETURN_OUTBOX (BusinessEntity, BusinessDocId, PhaseCode, PayloadJson, TargetUrl, Status,
                                     CreatedAt, NextAttemptAt, TraceParent)
VALUES (:entity, :doc_id, :phase, :payload, :target_url, 'Pending', :now, :now, :trace);

-- name: ticket_ack_insert
INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl, Status, CreatedAt, NextAttemptAt, ClientId,
                                      TraceParent)
VALUES (:doc_id, :payload, :target_url, 'Pending', :now, :now, :client, :trace);

-- name: return_pending_ticket
UPDATE TB_TICKET_INTERFACE
SET ReturnStatus = 'Pending', ReturnAttemptCount = 0, ReturnLastError = NULL, ReturnSentAt = NULL
WHERE Id = :ticket AND CASE WHEN ReturnStatus <> 'Pending' THEN 1 ELSE 0 END = 1
  AND EXISTS (SELECT 1 FROM TB_TICKET_RETURN_OUTBOX AS o
              WHERE o.BusinessEntity = TB_TICKET_INTERFACE.BusinessEntity
                AND o.BusinessDocId = TB_TICKET_INTERFACE.BusinessDocId
                AND o.PhaseCode = TB_TICKET_INTERFACE.PhaseCode
                AND CASE WHEN o.Status = 'Pending' THEN 1 ELSE 0 END = 1);

-- Those of these clients that subscribe to events of tickets.
-- name: process_listeners
SELECT c.Id, c.ClientIdentifier
FROM Clients AS c
WHERE c.Id IN EACH_UUID(:ids)
  AND EXISTS (SELECT 1 FROM WebhookSubscriptions AS s
              WHERE s.ClientId = c.Id AND CAST(s.IsActive AS INT) = 1 AND s.Events LIKE '%Ticket%');
