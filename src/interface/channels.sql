-- The three channels of the interface, for the delivery engine (src/delivery/channel.h says what each query takes and
-- gives, src/delivery/outbox.sqlt why they are written so).
--
-- KeyForm tells which Idempotency-Key a content has (channels.c). A content without an attempt gets the present form, 1. A
-- content that an older version of the program tried to send before an upgrade has no KeyForm and keeps the key it was
-- sent with, 0. For returns, AttemptCount tells whether the content was tried, because the older version keeps
-- LastAttemptAt when it replaces a content. `load` decides, and `failed` writes the same: it sets LastAttemptAt.

-- template: ../delivery/outbox.sqlt
-- with: name = ack
-- with: table = TB_FUNCTIONAL_ACK_OUTBOX
-- with: status_index = INDEXED BY IX_TB_FUNCTIONAL_ACK_OUTBOX_Status_CreatedAt
-- with: key = INT
-- with: mine/sqlite = ((:shards >> (c.Id & 15)) & 1) <> 0
-- with: mine/postgres = ((CAST(:shards AS BIGINT) >> CAST(c.Id & 15 AS INT)) & 1) <> 0
-- with: mine/sqlserver = (CAST(:shards AS BIGINT) / POWER(CAST(2 AS BIGINT), c.Id % 16)) % 2 <> 0
-- with: given = BusinessDocId, TargetUrl, PayloadJson, CASE WHEN LastAttemptAt IS NULL THEN 1 ELSE COALESCE(KeyForm, 0) END AS KeyForm,
--       TraceParent, ClientId
-- with: reference = BusinessDocId
-- with: target = TargetUrl
-- with: target_key = substr(TargetUrl, 1, instr(TargetUrl || char(63), char(63)) - 1)
-- with: target_key/postgres = split_part(TargetUrl, chr(63), 1)
-- with: target_key/sqlserver = LEFT(TargetUrl, CHARINDEX(CHAR(63), TargetUrl + CHAR(63)) - 1)
-- with: newest = c.Id {DESC}
-- with: behind = c.Id {<} :after_id
-- with: at_failed = KeyForm = CASE WHEN LastAttemptAt IS NULL THEN 1 ELSE COALESCE(KeyForm, 0) END,
-- with: aimed = c.TargetUrl = CAST(:target AS VARCHAR(1001)) OR c.TargetUrl LIKE CAST(:target_query AS VARCHAR(2005)) ESCAPE '!'
--       OR (COALESCE(c.TargetUrl, '') = '' AND CAST(:own AS INT) = 1)

-- template: ../delivery/outbox.sqlt
-- with: name = ticket_return
-- with: table = TB_TICKET_RETURN_OUTBOX
-- with: status_index = INDEXED BY IX_TB_TICKET_RETURN_OUTBOX_Status_CreatedAt
-- with: key = INT
-- with: mine/sqlite = ((:shards >> (c.Id & 15)) & 1) <> 0
-- with: mine/postgres = ((CAST(:shards AS BIGINT) >> CAST(c.Id & 15 AS INT)) & 1) <> 0
-- with: mine/sqlserver = (CAST(:shards AS BIGINT) / POWER(CAST(2 AS BIGINT), c.Id % 16)) % 2 <> 0
-- with: version = PayloadVersion
-- with: given = BusinessDocId, TargetUrl, PayloadJson, CASE WHEN LastAttemptAt IS NULL THEN 1
--       ELSE COALESCE(KeyForm, CASE WHEN AttemptCount > 0 THEN 0 ELSE 1 END) END AS KeyForm, PayloadVersion, TraceParent,
--       (SELECT t.ClientId FROM TB_TICKET_INTERFACE AS t WHERE t.BusinessEntity = TB_TICKET_RETURN_OUTBOX.BusinessEntity
--        AND t.BusinessDocId = TB_TICKET_RETURN_OUTBOX.BusinessDocId AND t.PhaseCode = TB_TICKET_RETURN_OUTBOX.PhaseCode) AS ClientId
-- with: reference = BusinessDocId
-- with: target = TargetUrl
-- with: target_key = substr(TargetUrl, 1, instr(TargetUrl || char(63), char(63)) - 1)
-- with: target_key/postgres = split_part(TargetUrl, chr(63), 1)
-- with: target_key/sqlserver = LEFT(TargetUrl, CHARINDEX(CHAR(63), TargetUrl + CHAR(63)) - 1)
-- with: newest = c.Id {DESC}
-- with: behind = c.Id {<} :after_id
-- with: at_failed = KeyForm = CASE WHEN LastAttemptAt IS NULL THEN 1
--       ELSE COALESCE(KeyForm, CASE WHEN AttemptCount > 0 THEN 0 ELSE 1 END) END,
-- with: aimed = c.TargetUrl = CAST(:target AS VARCHAR(1001)) OR c.TargetUrl LIKE CAST(:target_query AS VARCHAR(2005)) ESCAPE '!'
--       OR (COALESCE(c.TargetUrl, '') = '' AND CAST(:own AS INT) = 1)

-- --- the state of returns, in their tickets ---
-- Tickets are locked in the order of their ids, as by gateway_lock; and before their returns, as by who replaces a ticket
-- and then its return. So the tickets that return_mirror writes are locked before anything is settled.

-- name: return_lock
-- dialect: sqlite
SELECT 1 AS Id WHERE :ids IS NULL;
-- dialect: postgres
SELECT t.Id
FROM TB_TICKET_RETURN_OUTBOX AS o
JOIN TB_TICKET_INTERFACE AS t ON t.BusinessEntity = o.BusinessEntity AND t.BusinessDocId = o.BusinessDocId
 AND t.PhaseCode = o.PhaseCode
WHERE o.Id IN EACH_INT(:ids)
ORDER BY t.Id
FOR UPDATE OF t;
-- dialect: sqlserver
SELECT t.Id
FROM TB_TICKET_RETURN_OUTBOX AS o
JOIN TB_TICKET_INTERFACE AS t WITH (UPDLOCK, ROWLOCK) ON t.BusinessEntity = o.BusinessEntity
 AND t.BusinessDocId = o.BusinessDocId AND t.PhaseCode = o.PhaseCode
WHERE o.Id IN EACH_INT(:ids)
ORDER BY t.Id;

-- name: return_mirror
UPDATE TB_TICKET_INTERFACE
SET ReturnStatus = o.Status, ReturnAttemptCount = o.AttemptCount, ReturnLastAttemptAt = o.LastAttemptAt,
    ReturnSentAt = o.SentAt, ReturnLastError = o.LastError
FROM TB_TICKET_RETURN_OUTBOX AS o
WHERE o.Id IN EACH_INT(:ids) AND TB_TICKET_INTERFACE.BusinessEntity = o.BusinessEntity
  AND TB_TICKET_INTERFACE.BusinessDocId = o.BusinessDocId AND TB_TICKET_INTERFACE.PhaseCode = o.PhaseCode;
-- dialect: postgres
UPDATE TB_TICKET_INTERFACE
SET ReturnStatus = s.Status, ReturnAttemptCount = s.AttemptCount, ReturnLastAttemptAt = s.LastAttemptAt,
    ReturnSentAt = s.SentAt, ReturnLastError = s.LastError
FROM (SELECT t.Id AS TicketId, o.Status, o.AttemptCount, o.LastAttemptAt, o.SentAt, o.LastError
      FROM TB_TICKET_RETURN_OUTBOX AS o
      JOIN TB_TICKET_INTERFACE AS t ON t.BusinessEntity = o.BusinessEntity
       AND t.BusinessDocId = o.BusinessDocId AND t.PhaseCode = o.PhaseCode
      WHERE o.Id IN EACH_INT(:ids)
      ORDER BY t.Id
      FOR UPDATE OF t) AS s
WHERE Id = s.TicketId;

-- --- tickets to the gateway ---
-- A ticket that is not processed has nothing to send, and is not listed.

-- name: gateway_claim
-- row: channel_claim
-- dialect: sqlite
SELECT c.Id, PayloadVersion AS Version, c.GatewaySendTryCount AS Tries,
       MAX(COALESCE(strftime('%Y-%m-%dT%H:%M:%fZ', c.GatewaySendNextAttemptAt), ''), '1970-01-01T00:00:00.001Z') AS DueAt,
       COALESCE(LENGTH(CAST(c.RawPayloadJson AS BLOB)), 0) AS Bytes, c.GatewaySendAttemptCount AS Counted,
       c.GatewaySendFirstFailedAt AS FirstFailedAt, c.GatewaySendCountedAt AS CountedAt,
       c.GatewaySendTargetMark AS TargetMark
FROM TB_TICKET_INTERFACE AS c
WHERE c.GatewaySendNextAttemptAt <= :now
  AND (c.GatewaySendNextAttemptAt, c.Id) > (CASE WHEN :after = '1970-01-01T00:00:00.000Z' THEN '' ELSE :after END, :after_id)
  AND ((:shards >> (c.Id & 15)) & 1) <> 0
ORDER BY c.GatewaySendNextAttemptAt, c.Id
LIMIT :limit;
-- dialect: postgres
SELECT c.Id, PayloadVersion AS Version, c.GatewaySendTryCount AS Tries, c.GatewaySendNextAttemptAt AS DueAt,
       COALESCE(OCTET_LENGTH(c.RawPayloadJson), 0) AS Bytes, c.GatewaySendAttemptCount AS Counted,
       c.GatewaySendFirstFailedAt AS FirstFailedAt, c.GatewaySendCountedAt AS CountedAt,
       c.GatewaySendTargetMark AS TargetMark
FROM TB_TICKET_INTERFACE AS c
WHERE c.GatewaySendNextAttemptAt <= :now AND (c.GatewaySendNextAttemptAt, c.Id) > (:after, :after_id)
  AND ((CAST(:shards AS BIGINT) >> CAST(c.Id & 15 AS INT)) & 1) <> 0
ORDER BY c.GatewaySendNextAttemptAt, c.Id
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) c.Id, PayloadVersion AS Version, c.GatewaySendTryCount AS Tries, c.GatewaySendNextAttemptAt AS DueAt,
       COALESCE(DATALENGTH(c.RawPayloadJson), 0) AS Bytes, c.GatewaySendAttemptCount AS Counted,
       c.GatewaySendFirstFailedAt AS FirstFailedAt, c.GatewaySendCountedAt AS CountedAt,
       c.GatewaySendTargetMark AS TargetMark
FROM TB_TICKET_INTERFACE AS c
WHERE c.GatewaySendNextAttemptAt <= :now AND c.GatewaySendNextAttemptAt >= :after
  AND (c.GatewaySendNextAttemptAt >= DATEADD(MILLISECOND, 1, CAST(:after AS DATETIME2)) OR c.Id > :after_id)
  AND (CAST(:shards AS BIGINT) / POWER(CAST(2 AS BIGINT), c.Id % 16)) % 2 <> 0
ORDER BY c.GatewaySendNextAttemptAt, c.Id;

-- name: gateway_claim_held
-- row: channel_claim
-- dialect: sqlite
SELECT c.Id, PayloadVersion AS Version, c.GatewaySendTryCount AS Tries,
       MAX(COALESCE(strftime('%Y-%m-%dT%H:%M:%fZ', c.GatewaySendNextAttemptAt), ''), '1970-01-01T00:00:00.001Z') AS DueAt,
       COALESCE(LENGTH(CAST(c.RawPayloadJson AS BLOB)), 0) AS Bytes, c.GatewaySendAttemptCount AS Counted,
       c.GatewaySendFirstFailedAt AS FirstFailedAt, c.GatewaySendCountedAt AS CountedAt,
       c.GatewaySendTargetMark AS TargetMark
FROM TB_TICKET_INTERFACE AS c
WHERE c.GatewaySendHeldFor = :target AND c.GatewaySendNextAttemptAt IS NOT NULL AND ((:shards >> (c.Id & 15)) & 1) <> 0
ORDER BY c.CreatedAt
LIMIT :limit;
-- dialect: postgres
SELECT c.Id, PayloadVersion AS Version, c.GatewaySendTryCount AS Tries, c.GatewaySendNextAttemptAt AS DueAt,
       COALESCE(OCTET_LENGTH(c.RawPayloadJson), 0) AS Bytes, c.GatewaySendAttemptCount AS Counted,
       c.GatewaySendFirstFailedAt AS FirstFailedAt, c.GatewaySendCountedAt AS CountedAt,
       c.GatewaySendTargetMark AS TargetMark
FROM TB_TICKET_INTERFACE AS c
WHERE c.GatewaySendHeldFor = :target AND c.GatewaySendNextAttemptAt IS NOT NULL
  AND ((CAST(:shards AS BIGINT) >> CAST(c.Id & 15 AS INT)) & 1) <> 0
ORDER BY c.CreatedAt
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) c.Id, PayloadVersion AS Version, c.GatewaySendTryCount AS Tries, c.GatewaySendNextAttemptAt AS DueAt,
       COALESCE(DATALENGTH(c.RawPayloadJson), 0) AS Bytes, c.GatewaySendAttemptCount AS Counted,
       c.GatewaySendFirstFailedAt AS FirstFailedAt, c.GatewaySendCountedAt AS CountedAt,
       c.GatewaySendTargetMark AS TargetMark
FROM TB_TICKET_INTERFACE AS c
WHERE c.GatewaySendHeldFor = :target AND c.GatewaySendNextAttemptAt IS NOT NULL
  AND (CAST(:shards AS BIGINT) / POWER(CAST(2 AS BIGINT), c.Id % 16)) % 2 <> 0
ORDER BY c.CreatedAt;

-- name: gateway_claim_probe
-- row: channel_claim
-- dialect: sqlite
SELECT c.Id, PayloadVersion AS Version, c.GatewaySendTryCount AS Tries,
       MAX(COALESCE(strftime('%Y-%m-%dT%H:%M:%fZ', c.GatewaySendNextAttemptAt), ''), '1970-01-01T00:00:00.001Z') AS DueAt,
       COALESCE(LENGTH(CAST(c.RawPayloadJson AS BLOB)), 0) AS Bytes, c.GatewaySendAttemptCount AS Counted,
       c.GatewaySendFirstFailedAt AS FirstFailedAt, c.GatewaySendCountedAt AS CountedAt,
       c.GatewaySendTargetMark AS TargetMark
FROM TB_TICKET_INTERFACE AS c
WHERE c.GatewaySendHeldFor = :target AND c.GatewaySendNextAttemptAt IS NOT NULL AND ((:shards >> (c.Id & 15)) & 1) <> 0
ORDER BY c.GatewaySendHeldAt
LIMIT :limit;
-- dialect: postgres
SELECT c.Id, PayloadVersion AS Version, c.GatewaySendTryCount AS Tries, c.GatewaySendNextAttemptAt AS DueAt,
       COALESCE(OCTET_LENGTH(c.RawPayloadJson), 0) AS Bytes, c.GatewaySendAttemptCount AS Counted,
       c.GatewaySendFirstFailedAt AS FirstFailedAt, c.GatewaySendCountedAt AS CountedAt,
       c.GatewaySendTargetMark AS TargetMark
FROM TB_TICKET_INTERFACE AS c
WHERE c.GatewaySendHeldFor = :target AND c.GatewaySendNextAttemptAt IS NOT NULL
  AND ((CAST(:shards AS BIGINT) >> CAST(c.Id & 15 AS INT)) & 1) <> 0
ORDER BY c.GatewaySendHeldAt
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) c.Id, PayloadVersion AS Version, c.GatewaySendTryCount AS Tries, c.GatewaySendNextAttemptAt AS DueAt,
       COALESCE(DATALENGTH(c.RawPayloadJson), 0) AS Bytes, c.GatewaySendAttemptCount AS Counted,
       c.GatewaySendFirstFailedAt AS FirstFailedAt, c.GatewaySendCountedAt AS CountedAt,
       c.GatewaySendTargetMark AS TargetMark
FROM TB_TICKET_INTERFACE AS c
WHERE c.GatewaySendHeldFor = :target AND c.GatewaySendNextAttemptAt IS NOT NULL
  AND (CAST(:shards AS BIGINT) / POWER(CAST(2 AS BIGINT), c.Id % 16)) % 2 <> 0
ORDER BY c.GatewaySendHeldAt;

-- name: gateway_load
-- row: channel_load
SELECT Id, PayloadVersion AS Version, BusinessDocId, RawPayloadJson,
       CASE WHEN GatewaySendLastAttemptAt IS NULL THEN 1 ELSE COALESCE(GatewaySendKeyForm, 0) END AS GatewaySendKeyForm,
       PayloadVersion, TraceParent, ClientId
FROM TB_TICKET_INTERFACE
WHERE Id IN EACH_INT(:ids);

-- name: gateway_ahead
-- row: channel_ahead
SELECT MAX(COALESCE(GatewaySendLastAttemptAt, CreatedAt)) AS Latest FROM TB_TICKET_INTERFACE WHERE GatewaySendNextAttemptAt > :now;

-- name: gateway_rebase
-- dialect: sqlite, postgres
UPDATE TB_TICKET_INTERFACE
SET GatewaySendNextAttemptAt = :now
WHERE Id IN (SELECT c.Id FROM TB_TICKET_INTERFACE AS c
             WHERE c.GatewaySendNextAttemptAt > :lease_until AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) > :lease_until
               AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) <= :until
             ORDER BY c.GatewaySendNextAttemptAt LIMIT :limit);
-- dialect: sqlserver
UPDATE TB_TICKET_INTERFACE
SET GatewaySendNextAttemptAt = :now
WHERE Id IN (SELECT TOP (:limit) c.Id FROM TB_TICKET_INTERFACE AS c
             WHERE c.GatewaySendNextAttemptAt > :lease_until AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) > :lease_until
               AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) <= :until
             ORDER BY c.GatewaySendNextAttemptAt);

-- Processing, callbacks and the mirror of returns write tickets too.
-- name: gateway_lock
-- dialect: sqlite
SELECT 1 AS Id WHERE :ids IS NULL;
-- dialect: postgres
SELECT Id FROM TB_TICKET_INTERFACE WHERE Id IN EACH_INT(:ids) ORDER BY Id FOR UPDATE;
-- dialect: sqlserver
SELECT Id FROM TB_TICKET_INTERFACE WITH (UPDLOCK, ROWLOCK) WHERE Id IN EACH_INT(:ids) ORDER BY Id;

-- name: gateway_sent
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Sent', GatewaySendTryCount = GatewaySendTryCount + 1,
    GatewaySendAttemptCount = GatewaySendAttemptCount + 1, GatewaySendSentAt = :now, GatewaySendLastAttemptAt = :started,
    GatewaySendSentStatus = :http_status, GatewaySendSentMs = :duration_ms, GatewaySendNextAttemptAt = NULL,
    GatewaySendSendingSince = NULL, GatewaySendHeldFor = NULL, GatewaySendHeldAt = NULL, GatewaySendLastError = NULL
WHERE Id = :id AND CASE WHEN PayloadVersion = :version AND GatewaySendStatus <> 'Sent' THEN 1 ELSE 0 END = 1;
-- many: postgres
UPDATE TB_TICKET_INTERFACE AS t
SET GatewaySendStatus = 'Sent', GatewaySendTryCount = t.GatewaySendTryCount + 1,
    GatewaySendAttemptCount = t.GatewaySendAttemptCount + 1, GatewaySendSentAt = n.now,
    GatewaySendLastAttemptAt = n.started, GatewaySendSentStatus = n.http_status, GatewaySendSentMs = n.duration_ms,
    GatewaySendNextAttemptAt = NULL,
    GatewaySendSendingSince = NULL, GatewaySendHeldFor = NULL, GatewaySendHeldAt = NULL, GatewaySendLastError = NULL
FROM UNNEST(CAST(:now AS TIMESTAMPTZ[]), CAST(:started AS TIMESTAMPTZ[]), CAST(:http_status AS INT[]),
            CAST(:duration_ms AS BIGINT[]), CAST(:id AS BIGINT[]), CAST(:version AS BIGINT[]))
     WITH ORDINALITY AS n (now, started, http_status, duration_ms, id, version, Nth)
WHERE t.Id = n.id AND CASE WHEN t.PayloadVersion = n.version AND t.GatewaySendStatus <> 'Sent' THEN 1 ELSE 0 END = 1
RETURNING n.Nth;

-- name: gateway_failed
-- dialect: sqlite
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Error', GatewaySendTryCount = GatewaySendTryCount + 1, GatewaySendAttemptCount = :attempts,
    GatewaySendFirstFailedAt = :first_failed, GatewaySendCountedAt = :counted, GatewaySendTargetMark = :mark,
    GatewaySendHeldFor = :held_for, GatewaySendHeldAt = :held_at, GatewaySendLastAttemptAt = :started,
    GatewaySendNextAttemptAt = :due, GatewaySendSendingSince = NULL, GatewaySendDismissedAt = NULL,
    GatewaySendKeyForm = CASE WHEN GatewaySendLastAttemptAt IS NULL THEN 1 ELSE COALESCE(GatewaySendKeyForm, 0) END,
    GatewaySendLastError = :error
WHERE Id = :id
  AND CASE WHEN PayloadVersion = :version AND GatewaySendNextAttemptAt IS NOT NULL
            AND MAX(COALESCE(strftime('%Y-%m-%dT%H:%M:%fZ', GatewaySendNextAttemptAt), ''), '1970-01-01T00:00:00.001Z') = :was_due THEN 1 ELSE 0 END = 1;
-- dialect: postgres
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Error', GatewaySendTryCount = GatewaySendTryCount + 1, GatewaySendAttemptCount = :attempts,
    GatewaySendFirstFailedAt = :first_failed, GatewaySendCountedAt = :counted, GatewaySendTargetMark = :mark,
    GatewaySendHeldFor = :held_for, GatewaySendHeldAt = :held_at, GatewaySendLastAttemptAt = :started,
    GatewaySendNextAttemptAt = :due, GatewaySendSendingSince = NULL, GatewaySendDismissedAt = NULL,
    GatewaySendKeyForm = CASE WHEN GatewaySendLastAttemptAt IS NULL THEN 1 ELSE COALESCE(GatewaySendKeyForm, 0) END,
    GatewaySendLastError = :error
WHERE Id = :id
  AND CASE WHEN PayloadVersion = :version AND GatewaySendNextAttemptAt = :was_due THEN 1 ELSE 0 END = 1;
-- dialect: sqlserver
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Error', GatewaySendTryCount = GatewaySendTryCount + 1, GatewaySendAttemptCount = :attempts,
    GatewaySendFirstFailedAt = :first_failed, GatewaySendCountedAt = :counted, GatewaySendTargetMark = :mark,
    GatewaySendHeldFor = :held_for, GatewaySendHeldAt = :held_at, GatewaySendLastAttemptAt = :started,
    GatewaySendNextAttemptAt = :due, GatewaySendSendingSince = NULL, GatewaySendDismissedAt = NULL,
    GatewaySendKeyForm = CASE WHEN GatewaySendLastAttemptAt IS NULL THEN 1 ELSE COALESCE(GatewaySendKeyForm, 0) END,
    GatewaySendLastError = :error
WHERE Id = :id
  AND CASE WHEN PayloadVersion = :version AND GatewaySendNextAttemptAt >= :was_due
            AND GatewaySendNextAttemptAt < DATEADD(MILLISECOND, 1, CAST(:was_due AS DATETIME2)) THEN 1 ELSE 0 END = 1;

-- name: gateway_deferred
-- dialect: sqlite
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = CASE WHEN GatewaySendFirstFailedAt IS NOT NULL OR GatewaySendAttemptCount > 0 THEN 'Error' ELSE 'Pending' END,
    GatewaySendSendingSince = NULL,
    GatewaySendHeldFor = :held_for, GatewaySendHeldAt = :held_at, GatewaySendNextAttemptAt = :due
WHERE Id = :id
  AND CASE WHEN PayloadVersion = :version AND GatewaySendNextAttemptAt IS NOT NULL
            AND MAX(COALESCE(strftime('%Y-%m-%dT%H:%M:%fZ', GatewaySendNextAttemptAt), ''), '1970-01-01T00:00:00.001Z') = :was_due THEN 1 ELSE 0 END = 1;
-- dialect: postgres
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = CASE WHEN GatewaySendFirstFailedAt IS NOT NULL OR GatewaySendAttemptCount > 0 THEN 'Error' ELSE 'Pending' END,
    GatewaySendSendingSince = NULL,
    GatewaySendHeldFor = :held_for, GatewaySendHeldAt = :held_at, GatewaySendNextAttemptAt = :due
WHERE Id = :id
  AND CASE WHEN PayloadVersion = :version AND GatewaySendNextAttemptAt = :was_due THEN 1 ELSE 0 END = 1;
-- dialect: sqlserver
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = CASE WHEN GatewaySendFirstFailedAt IS NOT NULL OR GatewaySendAttemptCount > 0 THEN 'Error' ELSE 'Pending' END,
    GatewaySendSendingSince = NULL,
    GatewaySendHeldFor = :held_for, GatewaySendHeldAt = :held_at, GatewaySendNextAttemptAt = :due
WHERE Id = :id
  AND CASE WHEN PayloadVersion = :version AND GatewaySendNextAttemptAt >= :was_due
            AND GatewaySendNextAttemptAt < DATEADD(MILLISECOND, 1, CAST(:was_due AS DATETIME2)) THEN 1 ELSE 0 END = 1;
-- many: postgres
UPDATE TB_TICKET_INTERFACE AS t
SET GatewaySendStatus = CASE WHEN t.GatewaySendFirstFailedAt IS NOT NULL OR t.GatewaySendAttemptCount > 0
                             THEN 'Error' ELSE 'Pending' END,
    GatewaySendSendingSince = NULL, GatewaySendHeldFor = n.held_for, GatewaySendHeldAt = n.held_at, GatewaySendNextAttemptAt = n.due
FROM UNNEST(CAST(:held_for AS BIGINT[]), CAST(:held_at AS TIMESTAMPTZ[]), CAST(:due AS TIMESTAMPTZ[]),
            CAST(:id AS BIGINT[]), CAST(:version AS BIGINT[]), CAST(:was_due AS TIMESTAMPTZ[]))
     WITH ORDINALITY AS n (held_for, held_at, due, id, version, was_due, Nth)
WHERE t.Id = n.id AND CASE WHEN t.PayloadVersion = n.version AND t.GatewaySendNextAttemptAt = n.was_due THEN 1 ELSE 0 END = 1
RETURNING n.Nth;

-- name: gateway_sending
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Sending', GatewaySendSendingSince = :now
WHERE Id = :id
  AND CASE WHEN PayloadVersion = :version AND GatewaySendNextAttemptAt IS NOT NULL AND GatewaySendStatus IN ('Pending', 'Error')
            AND (GatewaySendLastAttemptAt IS NULL OR GatewaySendLastAttemptAt <= :now) THEN 1 ELSE 0 END = 1;

-- name: gateway_reset
-- row: channel_reset
-- dialect: sqlite
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = CASE WHEN GatewaySendFirstFailedAt IS NOT NULL OR GatewaySendAttemptCount > 0 THEN 'Error' ELSE 'Pending' END,
    GatewaySendSendingSince = NULL
WHERE Id IN (SELECT c.Id FROM TB_TICKET_INTERFACE AS c
             WHERE c.GatewaySendNextAttemptAt IS NOT NULL AND c.GatewaySendStatus = 'Sending' AND c.GatewaySendSendingSince IS NOT NULL
               AND ((:shards >> (c.Id & 15)) & 1) <> 0)
RETURNING Id;
-- dialect: postgres
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = CASE WHEN GatewaySendFirstFailedAt IS NOT NULL OR GatewaySendAttemptCount > 0 THEN 'Error' ELSE 'Pending' END,
    GatewaySendSendingSince = NULL
WHERE Id IN (SELECT c.Id FROM TB_TICKET_INTERFACE AS c
             WHERE c.GatewaySendNextAttemptAt IS NOT NULL AND c.GatewaySendStatus = 'Sending' AND c.GatewaySendSendingSince IS NOT NULL
               AND ((CAST(:shards AS BIGINT) >> CAST(c.Id & 15 AS INT)) & 1) <> 0)
RETURNING Id;
-- dialect: sqlserver
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = CASE WHEN GatewaySendFirstFailedAt IS NOT NULL OR GatewaySendAttemptCount > 0 THEN 'Error' ELSE 'Pending' END,
    GatewaySendSendingSince = NULL
OUTPUT inserted.Id
WHERE Id IN (SELECT c.Id FROM TB_TICKET_INTERFACE AS c
             WHERE c.GatewaySendNextAttemptAt IS NOT NULL AND c.GatewaySendStatus = 'Sending' AND c.GatewaySendSendingSince IS NOT NULL
               AND (CAST(:shards AS BIGINT) / POWER(CAST(2 AS BIGINT), c.Id % 16)) % 2 <> 0);

-- name: gateway_next_due
-- row: channel_next_due
SELECT MIN(c.GatewaySendNextAttemptAt) AS DueAt FROM TB_TICKET_INTERFACE AS c WHERE c.GatewaySendNextAttemptAt > :now;

-- name: gateway_waiting
-- row: channel_waiting
SELECT COUNT(*) AS Documents, MIN(CreatedAt) AS Oldest, COALESCE(SUM(CASE WHEN GatewaySendHeldFor IS NULL THEN 0 ELSE 1 END), 0) AS Held
FROM TB_TICKET_INTERFACE
WHERE GatewaySendNextAttemptAt IS NOT NULL;

-- name: gateway_held
-- row: channel_held
SELECT t.Id, t.Target
FROM DeliveryTargets AS t
WHERE t.Channel = :channel
  AND EXISTS (SELECT 1 FROM TB_TICKET_INTERFACE AS r WHERE r.GatewaySendHeldFor = t.Id AND r.GatewaySendNextAttemptAt IS NOT NULL)
ORDER BY t.Id
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) t.Id, t.Target
FROM DeliveryTargets AS t
WHERE t.Channel = CAST(:channel AS VARCHAR(51))
  AND EXISTS (SELECT 1 FROM TB_TICKET_INTERFACE AS r WHERE r.GatewaySendHeldFor = t.Id AND r.GatewaySendNextAttemptAt IS NOT NULL)
ORDER BY t.Id;

-- name: gateway_given_up
-- row: channel_given_up
-- dialect: sqlite
SELECT n.Target, COUNT(*) AS Documents, MIN(n.EndedAt) AS Oldest, MAX(n.EndedAt) AS Newest,
       MAX(CASE WHEN n.Nth = 1 THEN n.LastError END) AS LastError
FROM (SELECT g.Target, g.EndedAt, g.LastError, ROW_NUMBER() OVER (PARTITION BY g.Target ORDER BY g.EndedAt DESC) AS Nth
      FROM (SELECT CAST(NULL AS VARCHAR(500)) AS Target, COALESCE(GatewaySendLastAttemptAt, CreatedAt) AS EndedAt, GatewaySendLastError AS LastError
            FROM TB_TICKET_INTERFACE INDEXED BY IX_TB_TICKET_INTERFACE_AwaitsPerson
            WHERE GatewaySendStatus = 'Error' AND GatewaySendNextAttemptAt IS NULL AND GatewaySendDismissedAt IS NULL
            ORDER BY GatewaySendLastAttemptAt DESC
            LIMIT :rows) AS g) AS n
GROUP BY n.Target
ORDER BY Documents DESC, n.Target
LIMIT :limit;
-- dialect: postgres
SELECT n.Target, COUNT(*) AS Documents, MIN(n.EndedAt) AS Oldest, MAX(n.EndedAt) AS Newest,
       MAX(CASE WHEN n.Nth = 1 THEN n.LastError END) AS LastError
FROM (SELECT g.Target, g.EndedAt, g.LastError, ROW_NUMBER() OVER (PARTITION BY g.Target ORDER BY g.EndedAt DESC) AS Nth
      FROM (SELECT CAST(NULL AS VARCHAR(500)) AS Target, COALESCE(GatewaySendLastAttemptAt, CreatedAt) AS EndedAt, GatewaySendLastError AS LastError
            FROM TB_TICKET_INTERFACE
            WHERE GatewaySendStatus = 'Error' AND GatewaySendNextAttemptAt IS NULL AND GatewaySendDismissedAt IS NULL
            ORDER BY GatewaySendLastAttemptAt DESC
            LIMIT :rows) AS g) AS n
GROUP BY n.Target
ORDER BY Documents DESC, n.Target
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) n.Target, COUNT(*) AS Documents, MIN(n.EndedAt) AS Oldest, MAX(n.EndedAt) AS Newest,
       MAX(CASE WHEN n.Nth = 1 THEN n.LastError END) AS LastError
FROM (SELECT g.Target, g.EndedAt, g.LastError, ROW_NUMBER() OVER (PARTITION BY g.Target ORDER BY g.EndedAt DESC) AS Nth
      FROM (SELECT TOP (:rows) CAST(NULL AS VARCHAR(500)) AS Target, COALESCE(GatewaySendLastAttemptAt, CreatedAt) AS EndedAt, GatewaySendLastError AS LastError
            FROM TB_TICKET_INTERFACE
            WHERE GatewaySendStatus = 'Error' AND GatewaySendNextAttemptAt IS NULL AND GatewaySendDismissedAt IS NULL
            ORDER BY GatewaySendLastAttemptAt DESC) AS g) AS n
GROUP BY n.Target
ORDER BY Documents DESC, n.Target;

-- name: gateway_given_up_total
SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE GatewaySendStatus = 'Error' AND GatewaySendNextAttemptAt IS NULL AND GatewaySendDismissedAt IS NULL;
-- dialect: sqlite
SELECT COUNT(*) FROM TB_TICKET_INTERFACE INDEXED BY IX_TB_TICKET_INTERFACE_AwaitsPerson
WHERE GatewaySendStatus = 'Error' AND GatewaySendNextAttemptAt IS NULL AND GatewaySendDismissedAt IS NULL;

-- name: gateway_counts
-- row: channel_counts
SELECT GatewaySendStatus AS Status, COUNT(*) AS Documents, MIN(CreatedAt) AS Oldest
FROM TB_TICKET_INTERFACE
WHERE (GatewaySendStatus <> 'Pending' OR GatewaySendNextAttemptAt IS NOT NULL)
GROUP BY GatewaySendStatus;

-- name: gateway_stuck
-- row: channel_stuck
SELECT (SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE GatewaySendNextAttemptAt IS NOT NULL) AS Waiting,
       (SELECT MIN(CreatedAt) FROM TB_TICKET_INTERFACE WHERE GatewaySendNextAttemptAt IS NOT NULL) AS Oldest,
       (SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE GatewaySendHeldFor IS NOT NULL) AS Held,
       (SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE GatewaySendStatus = 'Error' AND GatewaySendNextAttemptAt IS NULL AND GatewaySendDismissedAt IS NULL) AS GivenUp,
       (SELECT MIN(GatewaySendLastAttemptAt) FROM TB_TICKET_INTERFACE WHERE GatewaySendStatus = 'Error' AND GatewaySendNextAttemptAt IS NULL AND GatewaySendDismissedAt IS NULL) AS GivenUpSince;

-- name: gateway_rows
-- row: channel_item
SELECT Id, BusinessDocId AS Reference, CAST(NULL AS VARCHAR(500)) AS Target, GatewaySendStatus AS Status, GatewaySendAttemptCount AS Attempts, CreatedAt,
       GatewaySendLastAttemptAt AS LastAttemptAt, GatewaySendSentAt AS SentAt, GatewaySendNextAttemptAt AS DueAt, GatewaySendLastError AS LastError,
       GatewaySendTryCount AS Tries, GatewaySendFirstFailedAt AS FirstFailedAt,
       (SELECT t.Target FROM DeliveryTargets AS t WHERE t.Id = c.GatewaySendHeldFor) AS HeldFor, GatewaySendDismissedAt AS DismissedAt
FROM TB_TICKET_INTERFACE AS c
WHERE c.Id IN EACH_INT(:ids)
ORDER BY CASE WHEN CAST(:oldest AS INT) = 1 THEN c.Id ELSE -c.Id END;

-- name: gateway_keys
-- row: list_key
SELECT c.Id, c.CreatedAt
FROM TB_TICKET_INTERFACE AS c
WHERE (c.GatewaySendStatus <> 'Pending' OR c.GatewaySendNextAttemptAt IS NOT NULL) AND c.Id {<} :after_id
  AND (CAST(:status AS VARCHAR(21)) IS NULL OR c.GatewaySendStatus = CAST(:status AS VARCHAR(21)))
  AND CASE WHEN (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
            AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
            AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until THEN 1 ELSE 0 END <> 0
ORDER BY c.Id {DESC}
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT c.Id, c.CreatedAt
FROM TB_TICKET_INTERFACE AS c
WHERE (c.GatewaySendStatus <> 'Pending' OR c.GatewaySendNextAttemptAt IS NOT NULL) AND c.Id {<} :after_id
  AND (CAST(:status AS VARCHAR(21)) IS NULL OR c.GatewaySendStatus = CAST(:status AS VARCHAR(21)))
  AND CASE WHEN (CAST(:target AS NVARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
            AND (CAST(:error AS NVARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS NVARCHAR(501))) ESCAPE '!')
            AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until THEN 1 ELSE 0 END <> 0
ORDER BY c.Id {DESC}
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- For a state that few rows have: they are sorted.
-- name: gateway_status_keys
-- row: list_key
-- dialect: sqlite
SELECT c.Id, c.CreatedAt
FROM TB_TICKET_INTERFACE AS c INDEXED BY IX_TB_TICKET_INTERFACE_GatewaySendStatus_GatewaySendLastAttemptAt
WHERE c.GatewaySendStatus = CAST(:status AS VARCHAR(21))
  AND (c.GatewaySendStatus <> 'Pending' OR c.GatewaySendNextAttemptAt IS NOT NULL) AND c.Id {<} :after_id
  AND CASE WHEN (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
            AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
            AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until THEN 1 ELSE 0 END <> 0
ORDER BY c.Id {DESC}
LIMIT :limit OFFSET :offset;
-- dialect: postgres
SELECT c.Id, c.CreatedAt
FROM TB_TICKET_INTERFACE AS c
WHERE c.GatewaySendStatus = CAST(:status AS VARCHAR(21))
  AND (c.GatewaySendStatus <> 'Pending' OR c.GatewaySendNextAttemptAt IS NOT NULL) AND c.Id {<} :after_id
  AND CASE WHEN (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
            AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
            AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until THEN 1 ELSE 0 END <> 0
ORDER BY c.Id {DESC}
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT c.Id, c.CreatedAt
FROM TB_TICKET_INTERFACE AS c
WHERE c.GatewaySendStatus = CAST(:status AS VARCHAR(21))
  AND (c.GatewaySendStatus <> 'Pending' OR c.GatewaySendNextAttemptAt IS NOT NULL) AND c.Id {<} :after_id
  AND CASE WHEN (CAST(:target AS NVARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
            AND (CAST(:error AS NVARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS NVARCHAR(501))) ESCAPE '!')
            AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until THEN 1 ELSE 0 END <> 0
ORDER BY c.Id {DESC}
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- name: gateway_given_up_keys
-- row: list_key
-- dialect: sqlite
SELECT c.Id, c.CreatedAt
FROM TB_TICKET_INTERFACE AS c INDEXED BY IX_TB_TICKET_INTERFACE_AwaitsPerson
WHERE c.GatewaySendStatus = 'Error' AND c.GatewaySendNextAttemptAt IS NULL AND c.GatewaySendDismissedAt IS NULL AND c.Id {<} :after_id
  AND CASE WHEN (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
            AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
            AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until THEN 1 ELSE 0 END <> 0
ORDER BY c.Id {DESC}
LIMIT :limit OFFSET :offset;
-- dialect: postgres
SELECT c.Id, c.CreatedAt
FROM TB_TICKET_INTERFACE AS c
WHERE c.GatewaySendStatus = 'Error' AND c.GatewaySendNextAttemptAt IS NULL AND c.GatewaySendDismissedAt IS NULL AND c.Id {<} :after_id
  AND CASE WHEN (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
            AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
            AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until THEN 1 ELSE 0 END <> 0
ORDER BY c.Id {DESC}
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT c.Id, c.CreatedAt
FROM TB_TICKET_INTERFACE AS c
WHERE c.GatewaySendStatus = 'Error' AND c.GatewaySendNextAttemptAt IS NULL AND c.GatewaySendDismissedAt IS NULL AND c.Id {<} :after_id
  AND CASE WHEN (CAST(:target AS NVARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
            AND (CAST(:error AS NVARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS NVARCHAR(501))) ESCAPE '!')
            AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until THEN 1 ELSE 0 END <> 0
ORDER BY c.Id {DESC}
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- name: gateway_get
-- row: channel_detail
SELECT Id, BusinessDocId AS Reference, CAST(NULL AS VARCHAR(500)) AS Target, GatewaySendStatus AS Status, GatewaySendAttemptCount AS Attempts, CreatedAt,
       GatewaySendLastAttemptAt AS LastAttemptAt, GatewaySendSentAt AS SentAt, GatewaySendNextAttemptAt AS DueAt, GatewaySendLastError AS LastError,
       GatewaySendTryCount AS Tries, GatewaySendFirstFailedAt AS FirstFailedAt,
       (SELECT t.Target FROM DeliveryTargets AS t WHERE t.Id = c.GatewaySendHeldFor) AS HeldFor, GatewaySendDismissedAt AS DismissedAt, RawPayloadJson AS Payload, CAST(NULL AS VARCHAR(36)) AS CorrelationId,
       GatewaySendSentStatus AS SentStatus, GatewaySendSentMs AS SentMs
FROM TB_TICKET_INTERFACE AS c
WHERE Id = :id;
-- dialect: sqlserver
SELECT Id, BusinessDocId AS Reference, CAST(NULL AS VARCHAR(500)) AS Target, GatewaySendStatus AS Status, GatewaySendAttemptCount AS Attempts, CreatedAt,
       GatewaySendLastAttemptAt AS LastAttemptAt, GatewaySendSentAt AS SentAt, GatewaySendNextAttemptAt AS DueAt, GatewaySendLastError AS LastError,
       GatewaySendTryCount AS Tries, GatewaySendFirstFailedAt AS FirstFailedAt,
       (SELECT t.Target FROM DeliveryTargets AS t WHERE t.Id = c.GatewaySendHeldFor) AS HeldFor, GatewaySendDismissedAt AS DismissedAt, RawPayloadJson AS Payload, CAST(NULL AS VARCHAR(36)) AS CorrelationId,
       GatewaySendSentStatus AS SentStatus, GatewaySendSentMs AS SentMs
FROM TB_TICKET_INTERFACE AS c
WHERE Id = :id;

-- A person's retry starts a row over. GatewaySendTryCount stays: it counts all tries.
-- name: gateway_retry
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Pending', GatewaySendAttemptCount = 0, GatewaySendFirstFailedAt = NULL, GatewaySendCountedAt = NULL, GatewaySendTargetMark = NULL, GatewaySendHeldFor = NULL,
    GatewaySendHeldAt = NULL, GatewaySendDismissedAt = NULL, GatewaySendNextAttemptAt = :now
WHERE Id = :id AND GatewaySendStatus = 'Error';

-- name: gateway_retry_total
SELECT COUNT(*) FROM TB_TICKET_INTERFACE AS c
WHERE c.GatewaySendStatus = 'Error' AND c.GatewaySendDismissedAt IS NULL
  AND (CAST(:given_up AS INT) = 0 OR c.GatewaySendNextAttemptAt IS NULL)
  AND (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
  AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until;
-- dialect: sqlserver
SELECT COUNT(*) FROM TB_TICKET_INTERFACE AS c
WHERE c.GatewaySendStatus = 'Error' AND c.GatewaySendDismissedAt IS NULL
  AND (CAST(:given_up AS INT) = 0 OR c.GatewaySendNextAttemptAt IS NULL)
  AND (CAST(:target AS NVARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS NVARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS NVARCHAR(501))) ESCAPE '!')
  AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until;

-- name: gateway_retry_some
-- row: channel_retried
-- dialect: sqlite
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Pending', GatewaySendAttemptCount = 0, GatewaySendFirstFailedAt = NULL, GatewaySendCountedAt = NULL, GatewaySendTargetMark = NULL, GatewaySendHeldFor = NULL,
    GatewaySendHeldAt = NULL, GatewaySendDismissedAt = NULL, GatewaySendNextAttemptAt = :now
WHERE Id IN (SELECT c.Id FROM TB_TICKET_INTERFACE AS c
             WHERE c.GatewaySendStatus = 'Error' AND c.GatewaySendDismissedAt IS NULL
  AND (CAST(:given_up AS INT) = 0 OR c.GatewaySendNextAttemptAt IS NULL)
  AND (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
  AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until
             LIMIT :limit)
RETURNING Id;
-- dialect: postgres
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Pending', GatewaySendAttemptCount = 0, GatewaySendFirstFailedAt = NULL, GatewaySendCountedAt = NULL, GatewaySendTargetMark = NULL, GatewaySendHeldFor = NULL,
    GatewaySendHeldAt = NULL, GatewaySendDismissedAt = NULL, GatewaySendNextAttemptAt = :now
WHERE Id = ANY(ARRAY(SELECT c.Id FROM TB_TICKET_INTERFACE AS c
                     WHERE c.GatewaySendStatus = 'Error' AND c.GatewaySendDismissedAt IS NULL
  AND (CAST(:given_up AS INT) = 0 OR c.GatewaySendNextAttemptAt IS NULL)
  AND (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
  AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until
                     ORDER BY c.Id LIMIT :limit FOR UPDATE OF c SKIP LOCKED))
RETURNING Id;
-- dialect: sqlserver
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Pending', GatewaySendAttemptCount = 0, GatewaySendFirstFailedAt = NULL, GatewaySendCountedAt = NULL, GatewaySendTargetMark = NULL, GatewaySendHeldFor = NULL,
    GatewaySendHeldAt = NULL, GatewaySendDismissedAt = NULL, GatewaySendNextAttemptAt = :now
OUTPUT inserted.Id
WHERE Id IN (SELECT TOP (:limit) c.Id FROM TB_TICKET_INTERFACE AS c WITH (UPDLOCK, READPAST, ROWLOCK)
             WHERE c.GatewaySendStatus = 'Error' AND c.GatewaySendDismissedAt IS NULL
  AND (CAST(:given_up AS INT) = 0 OR c.GatewaySendNextAttemptAt IS NULL)
  AND (CAST(:target AS NVARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS NVARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS NVARCHAR(501))) ESCAPE '!')
  AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until
             ORDER BY c.Id)
  AND GatewaySendStatus = 'Error';

-- A person wants no more of a row that was given up. A failure after a later retry makes it one again.
-- name: gateway_dismiss
UPDATE TB_TICKET_INTERFACE SET GatewaySendDismissedAt = :now WHERE Id = :id AND GatewaySendStatus = 'Error' AND GatewaySendNextAttemptAt IS NULL AND GatewaySendDismissedAt IS NULL;

-- name: gateway_dismiss_total
SELECT COUNT(*) FROM TB_TICKET_INTERFACE AS c
WHERE c.GatewaySendStatus = 'Error' AND c.GatewaySendNextAttemptAt IS NULL AND c.GatewaySendDismissedAt IS NULL
  AND (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
  AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until;
-- dialect: sqlserver
SELECT COUNT(*) FROM TB_TICKET_INTERFACE AS c
WHERE c.GatewaySendStatus = 'Error' AND c.GatewaySendNextAttemptAt IS NULL AND c.GatewaySendDismissedAt IS NULL
  AND (CAST(:target AS NVARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS NVARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS NVARCHAR(501))) ESCAPE '!')
  AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until;

-- name: gateway_dismiss_some
-- row: channel_retried
-- dialect: sqlite
UPDATE TB_TICKET_INTERFACE SET GatewaySendDismissedAt = :now
WHERE Id IN (SELECT c.Id FROM TB_TICKET_INTERFACE AS c
             WHERE c.GatewaySendStatus = 'Error' AND c.GatewaySendNextAttemptAt IS NULL AND c.GatewaySendDismissedAt IS NULL
  AND (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
  AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until
             LIMIT :limit)
RETURNING Id;
-- dialect: postgres
UPDATE TB_TICKET_INTERFACE SET GatewaySendDismissedAt = :now
WHERE Id = ANY(ARRAY(SELECT c.Id FROM TB_TICKET_INTERFACE AS c
                     WHERE c.GatewaySendStatus = 'Error' AND c.GatewaySendNextAttemptAt IS NULL AND c.GatewaySendDismissedAt IS NULL
  AND (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
  AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until
                     ORDER BY c.Id LIMIT :limit FOR UPDATE OF c SKIP LOCKED))
RETURNING Id;
-- dialect: sqlserver
UPDATE TB_TICKET_INTERFACE SET GatewaySendDismissedAt = :now
OUTPUT inserted.Id
WHERE Id IN (SELECT TOP (:limit) c.Id FROM TB_TICKET_INTERFACE AS c WITH (UPDLOCK, READPAST, ROWLOCK)
             WHERE c.GatewaySendStatus = 'Error' AND c.GatewaySendNextAttemptAt IS NULL AND c.GatewaySendDismissedAt IS NULL
  AND (CAST(:target AS NVARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS NVARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS NVARCHAR(501))) ESCAPE '!')
  AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until
             ORDER BY c.Id)
  AND GatewaySendStatus = 'Error' AND GatewaySendNextAttemptAt IS NULL;
