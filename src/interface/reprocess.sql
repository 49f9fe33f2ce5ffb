-- Tickets that a person has processed again from their stored payload (reprocess_api.c).

-- The row is locked until the commit.
-- name: reprocess_ticket
-- dialect: sqlite
SELECT Id, BusinessEntity, BusinessDocId, PhaseCode, PayloadVersion, ClientId, ErasedAt FROM TB_TICKET_INTERFACE WHERE Id = :id;
-- dialect: postgres
SELECT Id, BusinessEntity, BusinessDocId, PhaseCode, PayloadVersion, ClientId, ErasedAt FROM TB_TICKET_INTERFACE WHERE Id = :id
FOR UPDATE;
-- dialect: sqlserver
SELECT Id, BusinessEntity, BusinessDocId, PhaseCode, PayloadVersion, ClientId, ErasedAt
FROM TB_TICKET_INTERFACE WITH (UPDLOCK, ROWLOCK)
WHERE Id = :id;

-- What arrived at the first try has no row in DeliveryAttempts; a ticket that starts over gets one for it.
-- name: reprocess_keep_sent
INSERT INTO DeliveryAttempts (Channel, RowKey, Attempt, AttemptedAt, Outcome, HttpStatus, DurationMs, Counted)
SELECT 'ticket-gateway', CAST(Id AS VARCHAR(20)), GatewaySendTryCount, GatewaySendLastAttemptAt, 'Sent', GatewaySendSentStatus,
       COALESCE(GatewaySendSentMs, 0), 1
FROM TB_TICKET_INTERFACE
WHERE Id IN EACH_INT(:ids)
  AND CASE WHEN GatewaySendStatus = 'Sent' AND GatewaySendTryCount = 1 AND GatewaySendSentStatus IS NOT NULL
            AND (CAST(:status AS VARCHAR(21)) IS NULL OR Status = CAST(:status AS VARCHAR(21))) THEN 1 ELSE 0 END = 1;

-- The same for their returns, which are replaced when the tickets are processed.
-- name: reprocess_keep_returns
INSERT INTO DeliveryAttempts (Channel, RowKey, Attempt, AttemptedAt, Outcome, HttpStatus, DurationMs, Counted)
SELECT 'ticket-return', CAST(o.Id AS VARCHAR(20)), o.TryCount, o.LastAttemptAt, 'Sent', o.SentStatus, COALESCE(o.SentMs, 0), 1
FROM TB_TICKET_INTERFACE AS t
JOIN TB_TICKET_RETURN_OUTBOX AS o ON o.BusinessEntity = t.BusinessEntity AND o.BusinessDocId = t.BusinessDocId
 AND o.PhaseCode = t.PhaseCode
WHERE t.Id IN EACH_INT(:ids)
  AND CASE WHEN o.Status = 'Sent' AND o.TryCount = 1 AND o.SentStatus IS NOT NULL THEN 1 ELSE 0 END = 1
  AND NOT EXISTS (SELECT 1 FROM DeliveryAttempts AS a
                  WHERE a.Channel = 'ticket-return' AND a.RowKey = CAST(o.Id AS VARCHAR(20)) AND a.Outcome = 'Sent');

-- Starts tickets over as a new payload does (ticket_upsert): the version grows, so that what is under way for the
-- previous one settles nothing, and everything is sent under a new key. What is on its way to the gateway is waited for
-- by the process that sends it. ReturnAgain has the return of this version sent, even if an earlier one was; it is
-- replaced once the ticket is processed. A row that has another Status by now than the one that was asked for stays.
-- name: reprocess_start
UPDATE TB_TICKET_INTERFACE
SET PayloadVersion = PayloadVersion + 1, Status = 'Awaiting', AttemptCount = 0, LastError = NULL, UpdatedAt = :now,
    NextAttemptAt = :now, ProcessingSince = NULL, DismissedAt = NULL, FirstFailedAt = NULL, CountedAt = NULL, TargetMark = NULL,
    ReturnAgain = PayloadVersion + 1, ReturnStatus = 'Pending', ReturnAttemptCount = 0, ReturnLastError = NULL,
    ReturnLastAttemptAt = NULL, ReturnSentAt = NULL,
    GatewaySendStatus = 'Pending', GatewaySendSendingSince = NULL, GatewaySendSentStatus = NULL, GatewaySendSentMs = NULL,
    GatewaySendAttemptCount = 0, GatewaySendLastError = NULL,
    GatewaySendFirstFailedAt = NULL, GatewaySendCountedAt = NULL, GatewaySendTargetMark = NULL,
    GatewaySendHeldFor = NULL, GatewaySendHeldAt = NULL,
    GatewaySendLastAttemptAt = NULL, GatewaySendSentAt = NULL, GatewaySendNextAttemptAt = NULL,
    GatewaySendKeyForm = NULL,
    CallbackStatus = 'Pending', CallbackReceivedAt = NULL, CallbackPayloadJson = NULL, CallbackMessage = NULL,
    CallbackCode = NULL
WHERE Id IN EACH_INT(:ids)
  AND CASE WHEN ErasedAt IS NULL AND (CAST(:status AS VARCHAR(21)) IS NULL OR Status = CAST(:status AS VARCHAR(21)))
           THEN 1 ELSE 0 END = 1;

-- Their callbacks are gone, and so are those whom they named.
-- name: reprocess_forget_callbacks
DELETE FROM SubjectIndex
WHERE Place = 'callback'
  AND RowKey IN (SELECT CAST(t.Id AS VARCHAR(20)) FROM TB_TICKET_INTERFACE AS t
                 WHERE t.Id IN EACH_INT(:ids) AND t.CallbackPayloadJson IS NULL);

-- Tickets by a filter, each by the index that leaves the fewest rows to look at (reprocess_api.c: way_of).

-- template: reprocess.sqlt
-- with: name = reprocess_all
-- with: oldest = t.Id

-- template: reprocess.sqlt
-- with: name = reprocess_status
-- with: narrow = AND t.Status = CAST(:status AS VARCHAR(21))

-- template: reprocess.sqlt
-- with: name = reprocess_client
-- with: narrow = AND t.ClientId = (SELECT n.Id FROM Clients AS n WHERE n.ClientIdentifier = CAST(:client AS VARCHAR(65)))
