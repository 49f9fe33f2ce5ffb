-- Tickets as clients send and see them, and the callbacks of the gateway.

-- Writes a new ticket, or replaces the payload of an existing one and starts it over. `status` and what follows it are
-- the outcome of a ticket that is processed as it is accepted, or Awaiting and due (ticket_accept.c). Changes nothing if
-- the payload is the same, or if the ticket is another client's (unless `all`). Rows of other programs have no PayloadHash,
-- so that any payload replaces theirs. Return* stay: they mirror the outbox, which knows whether a return was sent. ClientId
-- stays: the owner is the client that made the ticket. PayloadVersion is 1 for new rows only. SendingSince, SentStatus and
-- SentMs are for ticket_keep_sent.
-- name: ticket_upsert
-- row: ticket_written
INSERT INTO TB_TICKET_INTERFACE
    (BusinessEntity, BusinessDocId, PhaseCode, CompanyCode, BranchCode, DestinationCode, ShipmentEvent,
     FunctionalAckIsRequired, TargetApplicationCode, RawPayloadJson, PayloadHash, CreatedAt, UpdatedAt, ClientId,
     Status, LastError, TryCount, AttemptCount, NextAttemptAt, GatewaySendNextAttemptAt, PayloadAt,
     TraceParent)
VALUES (:entity, :doc, :phase, :company, :branch, :destination, :event, :ack, :target, :payload, :hash, :now, :now, :client,
        :status, :error, :tries, :attempts, :due, :gateway_due, :now, :trace)
ON CONFLICT (BusinessEntity, BusinessDocId, PhaseCode) DO UPDATE
SET CompanyCode = excluded.CompanyCode, BranchCode = excluded.BranchCode, DestinationCode = excluded.DestinationCode,
    ShipmentEvent = excluded.ShipmentEvent, FunctionalAckIsRequired = excluded.FunctionalAckIsRequired,
    TargetApplicationCode = excluded.TargetApplicationCode, RawPayloadJson = excluded.RawPayloadJson,
    PayloadHash = excluded.PayloadHash, PayloadVersion = TB_TICKET_INTERFACE.PayloadVersion + 1,
    Status = excluded.Status, LastError = excluded.LastError, TryCount = TB_TICKET_INTERFACE.TryCount + excluded.TryCount,
    AttemptCount = excluded.AttemptCount, UpdatedAt = excluded.UpdatedAt, NextAttemptAt = excluded.NextAttemptAt,
    ProcessingSince = NULL, FirstFailedAt = NULL, CountedAt = NULL, TargetMark = NULL, DismissedAt = NULL,
    GatewaySendStatus = 'Pending', GatewaySendAttemptCount = 0, GatewaySendLastError = NULL,
    GatewaySendFirstFailedAt = NULL, GatewaySendCountedAt = NULL, GatewaySendTargetMark = NULL, GatewaySendHeldFor = NULL,
    GatewaySendHeldAt = NULL,
    GatewaySendSendingSince = CASE WHEN TB_TICKET_INTERFACE.GatewaySendStatus = 'Sent' AND TB_TICKET_INTERFACE.GatewaySendTryCount = 1
                                   THEN TB_TICKET_INTERFACE.GatewaySendLastAttemptAt END,
    GatewaySendLastAttemptAt = NULL, GatewaySendSentAt = NULL, GatewaySendNextAttemptAt = excluded.GatewaySendNextAttemptAt,
    GatewaySendKeyForm = NULL,
    CallbackStatus = 'Pending', CallbackReceivedAt = NULL, CallbackPayloadJson = NULL, CallbackMessage = NULL,
    CallbackCode = NULL, ErasedAt = NULL, PayloadAt = excluded.PayloadAt, TraceParent = excluded.TraceParent
WHERE (TB_TICKET_INTERFACE.PayloadHash IS NULL OR TB_TICKET_INTERFACE.PayloadHash <> excluded.PayloadHash)
  AND (TB_TICKET_INTERFACE.ClientId = excluded.ClientId OR CAST(:all AS INT) = 1)
RETURNING Id, Status, ClientId, PayloadVersion;
-- dialect: sqlserver
UPDATE TB_TICKET_INTERFACE WITH (UPDLOCK, HOLDLOCK)
SET CompanyCode = :company, BranchCode = :branch, DestinationCode = :destination,
    ShipmentEvent = :event, FunctionalAckIsRequired = :ack,
    TargetApplicationCode = :target, RawPayloadJson = :payload,
    PayloadHash = :hash, PayloadVersion = TB_TICKET_INTERFACE.PayloadVersion + 1,
    Status = :status, LastError = :error, TryCount = TB_TICKET_INTERFACE.TryCount + :tries,
    AttemptCount = :attempts, UpdatedAt = :now, NextAttemptAt = :due,
    ProcessingSince = NULL, FirstFailedAt = NULL, CountedAt = NULL, TargetMark = NULL, DismissedAt = NULL,
    GatewaySendStatus = 'Pending', GatewaySendAttemptCount = 0, GatewaySendLastError = NULL,
    GatewaySendFirstFailedAt = NULL, GatewaySendCountedAt = NULL, GatewaySendTargetMark = NULL, GatewaySendHeldFor = NULL,
    GatewaySendHeldAt = NULL,
    GatewaySendSendingSince = CASE WHEN TB_TICKET_INTERFACE.GatewaySendStatus = 'Sent' AND TB_TICKET_INTERFACE.GatewaySendTryCount = 1
                                   THEN TB_TICKET_INTERFACE.GatewaySendLastAttemptAt END,
    GatewaySendLastAttemptAt = NULL, GatewaySendSentAt = NULL, GatewaySendNextAttemptAt = :gateway_due,
    GatewaySendKeyForm = NULL,
    CallbackStatus = 'Pending', CallbackReceivedAt = NULL, CallbackPayloadJson = NULL, CallbackMessage = NULL,
    CallbackCode = NULL, ErasedAt = NULL, PayloadAt = :now, TraceParent = :trace
OUTPUT inserted.Id, inserted.Status, inserted.ClientId, inserted.PayloadVersion
WHERE TB_TICKET_INTERFACE.BusinessEntity = CAST(:entity AS VARCHAR(101))
  AND TB_TICKET_INTERFACE.BusinessDocId = CAST(:doc AS VARCHAR(101)) AND TB_TICKET_INTERFACE.PhaseCode = :phase
  AND (TB_TICKET_INTERFACE.PayloadHash IS NULL OR TB_TICKET_INTERFACE.PayloadHash <> CAST(:hash AS VARCHAR(65)))
  AND (TB_TICKET_INTERFACE.ClientId = :client OR CAST(:all AS INT) = 1);
IF @@ROWCOUNT = 0
    INSERT INTO TB_TICKET_INTERFACE
        (BusinessEntity, BusinessDocId, PhaseCode, CompanyCode, BranchCode, DestinationCode, ShipmentEvent,
         FunctionalAckIsRequired, TargetApplicationCode, RawPayloadJson, PayloadHash, CreatedAt, UpdatedAt, ClientId,
         Status, LastError, TryCount, AttemptCount, NextAttemptAt, GatewaySendNextAttemptAt, PayloadAt,
     TraceParent)
    OUTPUT inserted.Id, inserted.Status, inserted.ClientId, inserted.PayloadVersion
    SELECT :entity, :doc, :phase, :company, :branch, :destination, :event, :ack, :target, :payload, :hash, :now, :now, :client,
           :status, :error, :tries, :attempts, :due, :gateway_due, :now, :trace
    WHERE NOT EXISTS (SELECT 1 FROM TB_TICKET_INTERFACE AS o WITH (UPDLOCK, HOLDLOCK)
                      WHERE o.BusinessEntity = CAST(:entity AS VARCHAR(101))
                        AND o.BusinessDocId = CAST(:doc AS VARCHAR(101)) AND o.PhaseCode = :phase);
-- many: postgres
WITH n AS (
    SELECT *
    FROM UNNEST(CAST(:entity AS TEXT[]), CAST(:doc AS TEXT[]), CAST(:phase AS INT[]), CAST(:company AS TEXT[]),
                CAST(:branch AS TEXT[]), CAST(:destination AS TEXT[]), CAST(:event AS TEXT[]), CAST(:ack AS BOOLEAN[]),
                CAST(:target AS TEXT[]), CAST(:payload AS TEXT[]), CAST(:hash AS TEXT[]), CAST(:now AS TIMESTAMPTZ[]),
                CAST(:client AS UUID[]), CAST(:all AS BIGINT[]), CAST(:status AS TEXT[]), CAST(:error AS TEXT[]),
                CAST(:tries AS INT[]), CAST(:attempts AS INT[]), CAST(:due AS TIMESTAMPTZ[]),
                CAST(:gateway_due AS TIMESTAMPTZ[]), CAST(:trace AS TEXT[]))
         WITH ORDINALITY AS u (entity, doc, phase, company, branch, destination, event, ack, target, payload, hash,
                               now, client, reaches, status, error, tries, attempts, due, gateway_due, trace, nth)
), w AS (
    INSERT INTO TB_TICKET_INTERFACE
        (BusinessEntity, BusinessDocId, PhaseCode, CompanyCode, BranchCode, DestinationCode, ShipmentEvent,
         FunctionalAckIsRequired, TargetApplicationCode, RawPayloadJson, PayloadHash, CreatedAt, UpdatedAt, ClientId,
         Status, LastError, TryCount, AttemptCount, NextAttemptAt, GatewaySendNextAttemptAt, PayloadAt,
     TraceParent)
    SELECT n.entity, n.doc, n.phase, n.company, n.branch, n.destination, n.event, n.ack, n.target, n.payload, n.hash, n.now, n.now,
           n.client, n.status, n.error, n.tries, n.attempts, n.due, n.gateway_due, n.now, n.trace
    FROM n
    ON CONFLICT (BusinessEntity, BusinessDocId, PhaseCode) DO UPDATE
    SET CompanyCode = excluded.CompanyCode, BranchCode = excluded.BranchCode, DestinationCode = excluded.DestinationCode,
        ShipmentEvent = excluded.ShipmentEvent, FunctionalAckIsRequired = excluded.FunctionalAckIsRequired,
        TargetApplicationCode = excluded.TargetApplicationCode, RawPayloadJson = excluded.RawPayloadJson,
        PayloadHash = excluded.PayloadHash, PayloadVersion = TB_TICKET_INTERFACE.PayloadVersion + 1,
        Status = excluded.Status, LastError = excluded.LastError, TryCount = TB_TICKET_INTERFACE.TryCount + excluded.TryCount,
        AttemptCount = excluded.AttemptCount, UpdatedAt = excluded.UpdatedAt, NextAttemptAt = excluded.NextAttemptAt,
        ProcessingSince = NULL, FirstFailedAt = NULL, CountedAt = NULL, TargetMark = NULL, DismissedAt = NULL,
        GatewaySendStatus = 'Pending', GatewaySendAttemptCount = 0, GatewaySendLastError = NULL,
        GatewaySendFirstFailedAt = NULL, GatewaySendCountedAt = NULL, GatewaySendTargetMark = NULL, GatewaySendHeldFor = NULL,
        GatewaySendHeldAt = NULL,
        GatewaySendSendingSince = CASE WHEN TB_TICKET_INTERFACE.GatewaySendStatus = 'Sent' AND TB_TICKET_INTERFACE.GatewaySendTryCount = 1
                                       THEN TB_TICKET_INTERFACE.GatewaySendLastAttemptAt END,
        GatewaySendLastAttemptAt = NULL, GatewaySendSentAt = NULL, GatewaySendNextAttemptAt = excluded.GatewaySendNextAttemptAt,
        GatewaySendKeyForm = NULL,
        CallbackStatus = 'Pending', CallbackReceivedAt = NULL, CallbackPayloadJson = NULL, CallbackMessage = NULL,
        CallbackCode = NULL, ErasedAt = NULL, PayloadAt = excluded.PayloadAt, TraceParent = excluded.TraceParent
    WHERE (TB_TICKET_INTERFACE.PayloadHash IS NULL OR TB_TICKET_INTERFACE.PayloadHash <> excluded.PayloadHash)
      AND (TB_TICKET_INTERFACE.ClientId = excluded.ClientId OR EXISTS (SELECT 1 FROM n WHERE n.reaches = 1 AND n.entity = excluded.BusinessEntity
                                                                               AND n.doc = excluded.BusinessDocId AND n.phase = excluded.PhaseCode))
    RETURNING Id, Status, ClientId, PayloadVersion, BusinessEntity, BusinessDocId, PhaseCode
)
SELECT w.Id, w.Status, w.ClientId, w.PayloadVersion, n.nth AS Nth
FROM w
JOIN n ON n.entity = w.BusinessEntity AND n.doc = w.BusinessDocId AND n.phase = w.PhaseCode;

-- A new ticket alone. On SQLite this costs half as much as an upsert that returns its row.
-- name: ticket_insert
INSERT INTO TB_TICKET_INTERFACE
    (BusinessEntity, BusinessDocId, PhaseCode, CompanyCode, BranchCode, DestinationCode, ShipmentEvent,
     FunctionalAckIsRequired, TargetApplicationCode, RawPayloadJson, PayloadHash, CreatedAt, UpdatedAt, ClientId,
     Status, LastError, TryCount, AttemptCount, NextAttemptAt, GatewaySendNextAttemptAt, PayloadAt,
     TraceParent)
VALUES (:entity, :doc, :phase, :company, :branch, :destination, :event, :ack, :target, :payload, :hash, :now, :now, :client,
        :status, :error, :tries, :attempts, :due, :gateway_due, :now, :trace)
ON CONFLICT (BusinessEntity, BusinessDocId, PhaseCode) DO NOTHING;
-- dialect: sqlserver
INSERT INTO TB_TICKET_INTERFACE
    (BusinessEntity, BusinessDocId, PhaseCode, CompanyCode, BranchCode, DestinationCode, ShipmentEvent,
     FunctionalAckIsRequired, TargetApplicationCode, RawPayloadJson, PayloadHash, CreatedAt, UpdatedAt, ClientId,
     Status, LastError, TryCount, AttemptCount, NextAttemptAt, GatewaySendNextAttemptAt, PayloadAt,
     TraceParent)
SELECT :entity, :doc, :phase, :company, :branch, :destination, :event, :ack, :target, :payload, :hash, :now, :now, :client,
       :status, :error, :tries, :attempts, :due, :gateway_due, :now, :trace
WHERE NOT EXISTS (SELECT 1 FROM TB_TICKET_INTERFACE AS o WITH (UPDLOCK, HOLDLOCK)
                  WHERE o.BusinessEntity = CAST(:entity AS VARCHAR(101))
                    AND o.BusinessDocId = CAST(:doc AS VARCHAR(101)) AND o.PhaseCode = :phase);

-- The previous payload arrived at the first try, which has no row in DeliveryAttempts; now that the ticket starts over it
-- gets one. Runs in the transaction that replaced the payload.
-- name: ticket_keep_sent
INSERT INTO DeliveryAttempts (Channel, RowKey, Attempt, AttemptedAt, Outcome, HttpStatus, DurationMs, Counted)
SELECT 'ticket-gateway', CAST(Id AS VARCHAR(20)), GatewaySendTryCount, GatewaySendSendingSince, 'Sent', GatewaySendSentStatus,
       COALESCE(GatewaySendSentMs, 0), 1
FROM TB_TICKET_INTERFACE
WHERE Id IN EACH_INT(:ids) AND GatewaySendSendingSince IS NOT NULL AND GatewaySendSentStatus IS NOT NULL;

-- name: ticket_same
-- row: ticket_written
SELECT Id, Status, ClientId, PayloadVersion
FROM TB_TICKET_INTERFACE
WHERE BusinessEntity = CAST(:entity AS VARCHAR(101)) AND BusinessDocId = CAST(:doc AS VARCHAR(101))
  AND PhaseCode = :phase;

-- Tickets as clients see them: all, and those of one client.
-- template: tickets.sqlt
-- with: name = ticket

-- template: tickets.sqlt
-- with: name = own_ticket
-- with: whose = AND ClientId = :client

-- The program compares the stored callback with the new one, by its keyed hash, or as a text if it is not masked: by its
-- collation a database may take different texts for equal.
-- name: callback_find
-- dialect: sqlite
SELECT Id, CallbackStatus, CallbackPayloadJson, CallbackHash, ClientId, GatewaySendSentAt
FROM TB_TICKET_INTERFACE
WHERE BusinessEntity = :entity AND BusinessDocId = :doc AND PhaseCode = :phase;
-- dialect: postgres
SELECT Id, CallbackStatus, CallbackPayloadJson, CallbackHash, ClientId, GatewaySendSentAt
FROM TB_TICKET_INTERFACE
WHERE BusinessEntity = :entity AND BusinessDocId = :doc AND PhaseCode = :phase
FOR UPDATE;
-- dialect: sqlserver
SELECT Id, CallbackStatus, CallbackPayloadJson, CallbackHash, ClientId, GatewaySendSentAt
FROM TB_TICKET_INTERFACE WITH (UPDLOCK, ROWLOCK)
WHERE BusinessEntity = CAST(:entity AS VARCHAR(101)) AND BusinessDocId = CAST(:doc AS VARCHAR(101))
  AND PhaseCode = :phase;

-- name: callback_set
UPDATE TB_TICKET_INTERFACE
SET CallbackStatus = :status, CallbackReceivedAt = :now, CallbackPayloadJson = :payload, CallbackMessage = :message,
    CallbackCode = :code, CallbackHash = :hash, UpdatedAt = :now
WHERE Id = :id;

-- --- tickets of all clients, for operators ---

-- template: tickets_admin.sqlt
-- with: name = all_tickets
-- with: newest = t.Id {DESC}
-- with: behind = t.Id {<} :after_id

-- template: tickets_admin.sqlt
-- with: name = doc_tickets
-- with: narrow = AND t.BusinessDocId = CAST(:doc AS VARCHAR(101))

-- template: tickets_admin.sqlt
-- with: name = client_tickets
-- with: narrow = AND t.ClientId = :client

-- template: tickets_admin.sqlt
-- with: name = status_tickets
-- with: narrow = AND t.Status = CAST(:status AS VARCHAR(21))

-- template: tickets_admin.sqlt
-- with: name = return_tickets
-- with: narrow = AND t.ReturnStatus = CAST(:return_status AS VARCHAR(21))

-- template: tickets_admin.sqlt
-- with: name = gateway_tickets
-- with: narrow = AND t.GatewaySendStatus = CAST(:gateway_status AS VARCHAR(21))

-- name: tickets_rows
-- row: ticket, …
SELECT t.Id, t.BusinessEntity, t.BusinessDocId, t.PhaseCode, t.CompanyCode, t.BranchCode, t.DestinationCode, t.ShipmentEvent,
       t.FunctionalAckIsRequired, t.TargetApplicationCode, t.CreatedAt, t.UpdatedAt, t.PayloadVersion,
       t.Status, t.AttemptCount, t.LastError, t.NextAttemptAt,
       t.ReturnStatus, t.ReturnAttemptCount, t.ReturnLastError, t.ReturnLastAttemptAt, t.ReturnSentAt,
       t.GatewaySendStatus, t.GatewaySendAttemptCount, t.GatewaySendLastError, t.GatewaySendLastAttemptAt, t.GatewaySendSentAt,
       t.GatewaySendNextAttemptAt,
       t.CallbackStatus, t.CallbackReceivedAt, t.CallbackCode, t.CallbackMessage,
       (SELECT MIN(o.NextAttemptAt) FROM TB_TICKET_RETURN_OUTBOX AS o
        WHERE o.BusinessEntity = t.BusinessEntity AND o.BusinessDocId = t.BusinessDocId
          AND o.PhaseCode = t.PhaseCode) AS ReturnNextAttemptAt,
       (SELECT MIN(d.Target) FROM TB_TICKET_RETURN_OUTBOX AS o JOIN DeliveryTargets AS d ON d.Id = o.HeldFor
        WHERE o.BusinessEntity = t.BusinessEntity AND o.BusinessDocId = t.BusinessDocId
          AND o.PhaseCode = t.PhaseCode) AS ReturnHeldTarget,
       (SELECT d.Target FROM DeliveryTargets AS d WHERE d.Id = t.GatewaySendHeldFor) AS GatewayHeldTarget,
       t.TryCount, t.FirstFailedAt, t.GatewaySendTryCount, t.GatewaySendFirstFailedAt,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = t.ClientId) AS ClientIdentifier
FROM TB_TICKET_INTERFACE AS t
WHERE t.Id IN EACH_INT(:ids)
ORDER BY CASE WHEN CAST(:oldest AS INT) = 1 THEN t.CreatedAt END, CASE WHEN CAST(:oldest AS INT) = 1 THEN t.Id END,
         t.CreatedAt DESC, t.Id DESC;

-- name: ticket_whole
-- row: ticket, …
SELECT t.Id, t.BusinessEntity, t.BusinessDocId, t.PhaseCode, t.CompanyCode, t.BranchCode, t.DestinationCode, t.ShipmentEvent,
       t.FunctionalAckIsRequired, t.TargetApplicationCode, t.CreatedAt, t.UpdatedAt, t.PayloadVersion,
       t.Status, t.AttemptCount, t.LastError, t.NextAttemptAt,
       t.ReturnStatus, t.ReturnAttemptCount, t.ReturnLastError, t.ReturnLastAttemptAt, t.ReturnSentAt,
       t.GatewaySendStatus, t.GatewaySendAttemptCount, t.GatewaySendLastError, t.GatewaySendLastAttemptAt, t.GatewaySendSentAt,
       t.GatewaySendNextAttemptAt,
       t.CallbackStatus, t.CallbackReceivedAt, t.CallbackCode, t.CallbackMessage,
       (SELECT MIN(o.NextAttemptAt) FROM TB_TICKET_RETURN_OUTBOX AS o
        WHERE o.BusinessEntity = t.BusinessEntity AND o.BusinessDocId = t.BusinessDocId
          AND o.PhaseCode = t.PhaseCode) AS ReturnNextAttemptAt,
       (SELECT MIN(d.Target) FROM TB_TICKET_RETURN_OUTBOX AS o JOIN DeliveryTargets AS d ON d.Id = o.HeldFor
        WHERE o.BusinessEntity = t.BusinessEntity AND o.BusinessDocId = t.BusinessDocId
          AND o.PhaseCode = t.PhaseCode) AS ReturnHeldTarget,
       (SELECT d.Target FROM DeliveryTargets AS d WHERE d.Id = t.GatewaySendHeldFor) AS GatewayHeldTarget,
       t.TryCount, t.FirstFailedAt, t.GatewaySendTryCount, t.GatewaySendFirstFailedAt,
       (SELECT k.ClientIdentifier FROM Clients AS k WHERE k.Id = t.ClientId) AS ClientIdentifier,
       t.GatewaySendSentStatus, t.GatewaySendSentMs
FROM TB_TICKET_INTERFACE AS t
WHERE t.Id = :id;

-- The acks of the ticket's document; those of its other phases are among them.
-- name: ticket_acks
-- row: ticket_sendings
SELECT o.Id, o.TargetUrl, o.Status, o.AttemptCount, o.TryCount, o.CreatedAt, o.LastAttemptAt, o.SentAt, o.NextAttemptAt,
       o.FirstFailedAt, o.LastError, o.SentStatus, o.SentMs,
       (SELECT d.Target FROM DeliveryTargets AS d WHERE d.Id = o.HeldFor) AS HeldTarget
FROM TB_FUNCTIONAL_ACK_OUTBOX AS o
WHERE o.BusinessDocId = CAST(:doc AS VARCHAR(101))
ORDER BY o.Id DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) o.Id, o.TargetUrl, o.Status, o.AttemptCount, o.TryCount, o.CreatedAt, o.LastAttemptAt, o.SentAt, o.NextAttemptAt,
       o.FirstFailedAt, o.LastError, o.SentStatus, o.SentMs,
       (SELECT d.Target FROM DeliveryTargets AS d WHERE d.Id = o.HeldFor) AS HeldTarget
FROM TB_FUNCTIONAL_ACK_OUTBOX AS o
WHERE o.BusinessDocId = CAST(:doc AS VARCHAR(101))
ORDER BY o.Id DESC;

-- name: ticket_returns
-- row: ticket_sendings
SELECT o.Id, o.TargetUrl, o.Status, o.AttemptCount, o.TryCount, o.CreatedAt, o.LastAttemptAt, o.SentAt, o.NextAttemptAt,
       o.FirstFailedAt, o.LastError, o.SentStatus, o.SentMs,
       (SELECT d.Target FROM DeliveryTargets AS d WHERE d.Id = o.HeldFor) AS HeldTarget
FROM TB_TICKET_RETURN_OUTBOX AS o
WHERE o.BusinessEntity = CAST(:entity AS VARCHAR(101)) AND o.BusinessDocId = CAST(:doc AS VARCHAR(101)) AND o.PhaseCode = :phase
ORDER BY o.Id DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) o.Id, o.TargetUrl, o.Status, o.AttemptCount, o.TryCount, o.CreatedAt, o.LastAttemptAt, o.SentAt, o.NextAttemptAt,
       o.FirstFailedAt, o.LastError, o.SentStatus, o.SentMs,
       (SELECT d.Target FROM DeliveryTargets AS d WHERE d.Id = o.HeldFor) AS HeldTarget
FROM TB_TICKET_RETURN_OUTBOX AS o
WHERE o.BusinessEntity = CAST(:entity AS VARCHAR(101)) AND o.BusinessDocId = CAST(:doc AS VARCHAR(101)) AND o.PhaseCode = :phase
ORDER BY o.Id DESC;

-- A page of tickets as clients see them.
-- name: ticket_rows
-- row: ticket
SELECT Id, BusinessEntity, BusinessDocId, PhaseCode, CompanyCode, BranchCode, DestinationCode, ShipmentEvent,
       FunctionalAckIsRequired, TargetApplicationCode, CreatedAt, UpdatedAt, PayloadVersion,
       Status, AttemptCount, LastError, NextAttemptAt,
       ReturnStatus, ReturnAttemptCount, ReturnLastError, ReturnLastAttemptAt, ReturnSentAt,
       GatewaySendStatus, GatewaySendAttemptCount, GatewaySendLastError, GatewaySendLastAttemptAt, GatewaySendSentAt,
       GatewaySendNextAttemptAt,
       CallbackStatus, CallbackReceivedAt, CallbackCode, CallbackMessage,
       (SELECT MIN(o.NextAttemptAt) FROM TB_TICKET_RETURN_OUTBOX AS o
        WHERE o.BusinessEntity = TB_TICKET_INTERFACE.BusinessEntity AND o.BusinessDocId = TB_TICKET_INTERFACE.BusinessDocId
          AND o.PhaseCode = TB_TICKET_INTERFACE.PhaseCode) AS ReturnNextAttemptAt,
       (SELECT MIN(d.Target) FROM TB_TICKET_RETURN_OUTBOX AS o JOIN DeliveryTargets AS d ON d.Id = o.HeldFor
        WHERE o.BusinessEntity = TB_TICKET_INTERFACE.BusinessEntity AND o.BusinessDocId = TB_TICKET_INTERFACE.BusinessDocId
          AND o.PhaseCode = TB_TICKET_INTERFACE.PhaseCode) AS ReturnHeldTarget,
       (SELECT d.Target FROM DeliveryTargets AS d WHERE d.Id = TB_TICKET_INTERFACE.GatewaySendHeldFor) AS GatewayHeldTarget
FROM TB_TICKET_INTERFACE
WHERE Id IN EACH_INT(:ids)
ORDER BY CASE WHEN CAST(:oldest AS INT) = 1 THEN CreatedAt END, CASE WHEN CAST(:oldest AS INT) = 1 THEN Id END,
         CreatedAt DESC, Id DESC;
