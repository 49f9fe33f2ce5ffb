-- The processing of tickets (ticket_state.h). A row is due when its NextAttemptAt has come; the fence contains attempt
-- and version. channels.sql explains the CASE.

-- The due tickets with the sizes of their payloads, so that no more are claimed than fit. The rows are locked until the
-- claim of some of them commits. SQLite reads no further than it is asked, and PostgreSQL knows the length of a payload
-- that is stored out of line without fetching it.
-- name: process_due
-- dialect: sqlite
SELECT Id, LENGTH(CAST(RawPayloadJson AS BLOB)) AS PayloadBytes
FROM TB_TICKET_INTERFACE
WHERE NextAttemptAt <= :now
ORDER BY NextAttemptAt
LIMIT :limit;
-- dialect: postgres
SELECT Id, OCTET_LENGTH(RawPayloadJson) AS PayloadBytes
FROM TB_TICKET_INTERFACE
WHERE NextAttemptAt <= :now
ORDER BY NextAttemptAt
LIMIT :limit
FOR UPDATE SKIP LOCKED;
-- dialect: sqlserver
SELECT TOP (:limit) Id, DATALENGTH(RawPayloadJson)
FROM TB_TICKET_INTERFACE WITH (UPDLOCK, READPAST, ROWLOCK)
WHERE NextAttemptAt <= :now
ORDER BY NextAttemptAt;

-- The condition "due" is repeated for databases that ignore lock hints.
-- name: process_claim
UPDATE TB_TICKET_INTERFACE
SET Status = 'Processing', AttemptCount = AttemptCount + 1, UpdatedAt = :now, NextAttemptAt = :lease_until
WHERE Id IN EACH_INT(:ids) AND CASE WHEN NextAttemptAt <= :now THEN 1 ELSE 0 END = 1
RETURNING Id, CAST(PayloadVersion AS BIGINT) * 1000000 + AttemptCount AS Fence, RawPayloadJson, BusinessEntity, BusinessDocId,
          PhaseCode, ClientId;
-- dialect: sqlserver
UPDATE TB_TICKET_INTERFACE
SET Status = 'Processing', AttemptCount = AttemptCount + 1, UpdatedAt = :now, NextAttemptAt = :lease_until
OUTPUT inserted.Id, inserted.PayloadVersion * CAST(1000000 AS BIGINT) + inserted.AttemptCount,
       inserted.RawPayloadJson, inserted.BusinessEntity, inserted.BusinessDocId, inserted.PhaseCode, inserted.ClientId
WHERE Id IN EACH_INT(:ids) AND CASE WHEN NextAttemptAt <= :now THEN 1 ELSE 0 END = 1;

-- Without RETURNING, for which SQLite would hold the payload in memory once more.
-- name: process_oversized
UPDATE TB_TICKET_INTERFACE
SET Status = 'Error', AttemptCount = AttemptCount + 1, LastError = :error, UpdatedAt = :now, NextAttemptAt = NULL
WHERE Id = :id;

-- name: process_next_due
SELECT MIN(NextAttemptAt) AS NextDue FROM TB_TICKET_INTERFACE WHERE NextAttemptAt IS NOT NULL;

-- Settles many tickets of one fence, and returns those whose row still had it. An older payload may still be on its way
-- to the gateway: see channels.sql.
-- name: process_done
UPDATE TB_TICKET_INTERFACE
SET Status = 'Processed', LastError = NULL, UpdatedAt = :now, NextAttemptAt = NULL,
    GatewaySendStatus = 'Pending', GatewaySendAttemptCount = 0, GatewaySendFirstFailedAt = NULL, GatewaySendCountedAt = NULL,
    GatewaySendTargetMark = NULL, GatewaySendHeldFor = NULL, GatewaySendHeldAt = NULL,
    GatewaySendNextAttemptAt = CASE WHEN GatewaySendHeldUntil > :now THEN GatewaySendHeldUntil ELSE :now END
WHERE Id IN EACH_INT(:ids)
  AND CASE WHEN CAST(PayloadVersion AS BIGINT) * 1000000 + AttemptCount = :fence AND Status = 'Processing'
           THEN 1 ELSE 0 END = 1
RETURNING Id;
-- dialect: sqlserver
UPDATE TB_TICKET_INTERFACE
SET Status = 'Processed', LastError = NULL, UpdatedAt = :now, NextAttemptAt = NULL,
    GatewaySendStatus = 'Pending', GatewaySendAttemptCount = 0, GatewaySendFirstFailedAt = NULL, GatewaySendCountedAt = NULL,
    GatewaySendTargetMark = NULL, GatewaySendHeldFor = NULL, GatewaySendHeldAt = NULL,
    GatewaySendNextAttemptAt = CASE WHEN GatewaySendHeldUntil > :now THEN GatewaySendHeldUntil ELSE :now END
OUTPUT inserted.Id
WHERE Id IN EACH_INT(:ids)
  AND CASE WHEN PayloadVersion * CAST(1000000 AS BIGINT) + AttemptCount = :fence AND Status = 'Processing'
           THEN 1 ELSE 0 END = 1;

-- due is NULL for a ticket that can never be processed.
-- name: process_failed
UPDATE TB_TICKET_INTERFACE
SET Status = 'Error', LastError = :error, UpdatedAt = :now, NextAttemptAt = :due
WHERE Id = :id
  AND CASE WHEN CAST(PayloadVersion AS BIGINT) * 1000000 + AttemptCount = :fence AND Status = 'Processing'
           THEN 1 ELSE 0 END = 1;

-- Replaces the content of a return. A return that was sent is not sent again. An attempt that is on its way carries the
-- previous content; the new one waits for its end (channels.sql) and is sent under a key of its own.
-- name: return_replace
UPDATE TB_TICKET_RETURN_OUTBOX
SET PayloadJson = :payload, PayloadVersion = PayloadVersion + 1, KeyForm = NULL,
    HeldUntil = CASE WHEN Status = 'Sending' THEN NextAttemptAt ELSE HeldUntil END,
    NextAttemptAt = CASE WHEN Status = 'Sending' AND NextAttemptAt > :now THEN NextAttemptAt
                         WHEN Status <> 'Sending' AND HeldUntil > :now THEN HeldUntil ELSE :now END,
    Status = 'Pending', AttemptCount = 0, LastAttemptAt = NULL, LastError = NULL, FirstFailedAt = NULL, CountedAt = NULL,
    TargetMark = NULL, HeldFor = NULL, HeldAt = NULL
WHERE CASE WHEN Status <> 'Sent' THEN 1 ELSE 0 END = 1
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
                                     CreatedAt, NextAttemptAt)
VALUES (:entity, :doc_id, :phase, :payload, :target_url, 'Pending', :now, :now);

-- name: return_pending_ticket
UPDATE TB_TICKET_INTERFACE
SET ReturnStatus = 'Pending', ReturnAttemptCount = 0, ReturnLastError = NULL
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
