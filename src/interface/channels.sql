-- The three channels of the interface, for the delivery engine (src/delivery/channel.h says what each query takes and
-- gives, src/delivery/outbox.sqlt why they are written so).
--
-- KeyForm tells which Idempotency-Key a content has (channels.c). The first claim decides. A content without an attempt
-- gets the present form, 1. A content that an older version of the program tried to send, before an upgrade or beside
-- this process, has no KeyForm and keeps the key it was sent with, 0. For returns, AttemptCount tells whether the
-- content was tried, because the older version keeps LastAttemptAt when it replaces a content.

-- template: ../delivery/outbox.sqlt
-- with: name = ack
-- with: table = TB_FUNCTIONAL_ACK_OUTBOX
-- with: key = INT
-- with: given = BusinessDocId, TargetUrl, PayloadJson, KeyForm
-- with: reference = BusinessDocId
-- with: target = TargetUrl
-- with: target_key = substr(TargetUrl, 1, instr(TargetUrl || char(63), char(63)) - 1)
-- with: target_key/postgres = split_part(TargetUrl, chr(63), 1)
-- with: target_key/sqlserver = LEFT(TargetUrl, CHARINDEX(CHAR(63), TargetUrl + CHAR(63)) - 1)
-- with: newest = Id DESC
-- with: at_claim = KeyForm = CASE WHEN LastAttemptAt IS NULL THEN 1 ELSE COALESCE(KeyForm, 0) END,
-- with: aimed = c.TargetUrl = CAST(:target AS VARCHAR(1001)) OR c.TargetUrl LIKE CAST(:target_query AS VARCHAR(2005)) ESCAPE '!'
--       OR (COALESCE(c.TargetUrl, '') = '' AND CAST(:own AS INT) = 1)

-- template: ../delivery/outbox.sqlt
-- with: name = ticket_return
-- with: table = TB_TICKET_RETURN_OUTBOX
-- with: key = INT
-- with: given = BusinessDocId, TargetUrl, PayloadJson, KeyForm, PayloadVersion
-- with: fence = CAST(PayloadVersion AS BIGINT) * 1000000 + TryCount
-- with: claimed_fence = inserted.PayloadVersion * CAST(1000000 AS BIGINT) + inserted.TryCount
-- with: reference = BusinessDocId
-- with: target = TargetUrl
-- with: target_key = substr(TargetUrl, 1, instr(TargetUrl || char(63), char(63)) - 1)
-- with: target_key/postgres = split_part(TargetUrl, chr(63), 1)
-- with: target_key/sqlserver = LEFT(TargetUrl, CHARINDEX(CHAR(63), TargetUrl + CHAR(63)) - 1)
-- with: newest = Id DESC
-- with: at_claim = HeldUntil = NULL, KeyForm = CASE WHEN LastAttemptAt IS NULL THEN 1
--       ELSE COALESCE(KeyForm, CASE WHEN AttemptCount > 0 THEN 0 ELSE 1 END) END,
-- with: aimed = c.TargetUrl = CAST(:target AS VARCHAR(1001)) OR c.TargetUrl LIKE CAST(:target_query AS VARCHAR(2005)) ESCAPE '!'
--       OR (COALESCE(c.TargetUrl, '') = '' AND CAST(:own AS INT) = 1)

-- --- returns that are replaced while they are on their way ---
-- An old and a new content of one row are never on their way at once, since the old one might arrive last. A row whose
-- content is replaced while it is Sending (by return_replace, or by ticket_upsert for the gateway) becomes Pending, and
-- is due only when the lease of the old content is over: HeldUntil. If the old attempt is settled before, it finds its
-- lease there; its outcome does not count for the new content, which is due from then on.

-- name: ticket_return_sent
-- row: channel_sent
UPDATE TB_TICKET_RETURN_OUTBOX
SET AttemptCount = CASE WHEN Status = 'Sending' THEN AttemptCount + 1 ELSE AttemptCount END,
    SentAt = CASE WHEN Status = 'Sending' THEN :now ELSE SentAt END,
    NextAttemptAt = CASE WHEN Status = 'Sending' THEN NULL ELSE :now END,
    Status = CASE WHEN Status = 'Sending' THEN 'Sent' ELSE Status END, HeldUntil = NULL, LastError = NULL
WHERE Id IN EACH_INT(:ids)
  AND CASE WHEN Status = 'Sending' AND CAST(PayloadVersion AS BIGINT) * 1000000 + TryCount = :fence AND NextAttemptAt = :lease_until THEN 1
           WHEN Status = 'Pending' AND HeldUntil = :lease_until THEN 1 ELSE 0 END = 1
RETURNING Id;
-- dialect: sqlserver
UPDATE TB_TICKET_RETURN_OUTBOX
SET AttemptCount = CASE WHEN Status = 'Sending' THEN AttemptCount + 1 ELSE AttemptCount END,
    SentAt = CASE WHEN Status = 'Sending' THEN :now ELSE SentAt END,
    NextAttemptAt = CASE WHEN Status = 'Sending' THEN NULL ELSE :now END,
    Status = CASE WHEN Status = 'Sending' THEN 'Sent' ELSE Status END, HeldUntil = NULL, LastError = NULL
OUTPUT inserted.Id
WHERE Id IN EACH_INT(:ids)
  AND CASE WHEN Status = 'Sending' AND CAST(PayloadVersion AS BIGINT) * 1000000 + TryCount = :fence AND NextAttemptAt = :lease_until THEN 1
           WHEN Status = 'Pending' AND HeldUntil = :lease_until THEN 1 ELSE 0 END = 1;

-- name: ticket_return_failed
UPDATE TB_TICKET_RETURN_OUTBOX
SET LastAttemptAt = CASE WHEN Status = 'Sending' THEN :now ELSE LastAttemptAt END,
    AttemptCount = CASE WHEN Status = 'Sending' THEN :attempts ELSE AttemptCount END,
    FirstFailedAt = CASE WHEN Status = 'Sending' THEN :first_failed ELSE FirstFailedAt END,
    CountedAt = CASE WHEN Status = 'Sending' THEN :counted ELSE CountedAt END,
    TargetMark = CASE WHEN Status = 'Sending' THEN :mark ELSE TargetMark END,
    HeldFor = CASE WHEN Status = 'Sending' THEN :held_for ELSE HeldFor END,
    HeldAt = CASE WHEN Status = 'Sending' THEN :held_at ELSE HeldAt END,
    NextAttemptAt = CASE WHEN Status = 'Sending' THEN :due ELSE :now END,
    LastError = CASE WHEN Status = 'Sending' THEN :error ELSE LastError END,
    Status = CASE WHEN Status = 'Sending' THEN 'Error' ELSE Status END, HeldUntil = NULL
WHERE Id = :id
  AND CASE WHEN Status = 'Sending' AND CAST(PayloadVersion AS BIGINT) * 1000000 + TryCount = :fence AND NextAttemptAt = :lease_until THEN 1
           WHEN Status = 'Pending' AND HeldUntil = :lease_until THEN 1 ELSE 0 END = 1;

-- name: ticket_return_deferred
UPDATE TB_TICKET_RETURN_OUTBOX
SET TryCount = CASE WHEN Status = 'Sending' THEN TryCount - 1 ELSE TryCount END,
    Status = CASE WHEN Status = 'Sending' AND (FirstFailedAt IS NOT NULL OR AttemptCount > 0) THEN 'Error' ELSE 'Pending' END,
    HeldFor = CASE WHEN Status = 'Sending' THEN :held_for ELSE HeldFor END,
    HeldAt = CASE WHEN Status = 'Sending' THEN :held_at ELSE HeldAt END,
    NextAttemptAt = CASE WHEN Status = 'Sending' THEN :due WHEN NextAttemptAt IS NULL THEN NextAttemptAt ELSE :now END,
    HeldUntil = NULL
WHERE Id = :id
  AND CASE WHEN Status = 'Sending' AND CAST(PayloadVersion AS BIGINT) * 1000000 + TryCount = :fence AND NextAttemptAt = :lease_until THEN 1
           WHEN Status = 'Pending' AND HeldUntil = :lease_until THEN 1 ELSE 0 END = 1;

-- --- the state of returns, in their tickets ---
-- Tickets are locked in the order of their ids, as by gateway_lock.

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

-- --- tickets to the gateway; the fence contains the version of the payload, which may be replaced meanwhile ---
-- A ticket that is not processed has nothing to send, and is not listed.

-- name: gateway_claim
-- row: channel_claim
-- dialect: sqlite
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Sending', GatewaySendTryCount = GatewaySendTryCount + 1, GatewaySendLastAttemptAt = :now, GatewaySendNextAttemptAt = :lease_until,
    GatewaySendHeldFor = NULL, GatewaySendHeldAt = NULL,
    GatewaySendHeldUntil = NULL, GatewaySendKeyForm = CASE WHEN GatewaySendLastAttemptAt IS NULL THEN 1 ELSE COALESCE(GatewaySendKeyForm, 0) END
WHERE Id IN (SELECT Id FROM TB_TICKET_INTERFACE WHERE GatewaySendNextAttemptAt <= :now ORDER BY GatewaySendNextAttemptAt LIMIT :limit)
RETURNING Id, GatewaySendTryCount AS Attempt, CAST(PayloadVersion AS BIGINT) * 1000000 + GatewaySendTryCount AS Fence,
          COALESCE(LENGTH(CAST(RawPayloadJson AS BLOB)), 0) AS Bytes, GatewaySendAttemptCount AS Counted, GatewaySendFirstFailedAt AS FirstFailedAt,
          GatewaySendCountedAt AS CountedAt, GatewaySendTargetMark AS TargetMark;
-- dialect: postgres
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Sending', GatewaySendTryCount = GatewaySendTryCount + 1, GatewaySendLastAttemptAt = :now, GatewaySendNextAttemptAt = :lease_until,
    GatewaySendHeldFor = NULL, GatewaySendHeldAt = NULL,
    GatewaySendHeldUntil = NULL, GatewaySendKeyForm = CASE WHEN GatewaySendLastAttemptAt IS NULL THEN 1 ELSE COALESCE(GatewaySendKeyForm, 0) END
WHERE Id = ANY(ARRAY(SELECT Id FROM TB_TICKET_INTERFACE WHERE GatewaySendNextAttemptAt <= :now ORDER BY GatewaySendNextAttemptAt LIMIT :limit
                     FOR UPDATE SKIP LOCKED))
RETURNING Id, GatewaySendTryCount AS Attempt, CAST(PayloadVersion AS BIGINT) * 1000000 + GatewaySendTryCount AS Fence,
          COALESCE(OCTET_LENGTH(RawPayloadJson), 0) AS Bytes, GatewaySendAttemptCount AS Counted, GatewaySendFirstFailedAt AS FirstFailedAt,
          GatewaySendCountedAt AS CountedAt, GatewaySendTargetMark AS TargetMark;
-- dialect: sqlserver
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Sending', GatewaySendTryCount = GatewaySendTryCount + 1, GatewaySendLastAttemptAt = :now, GatewaySendNextAttemptAt = :lease_until,
    GatewaySendHeldFor = NULL, GatewaySendHeldAt = NULL,
    GatewaySendHeldUntil = NULL, GatewaySendKeyForm = CASE WHEN GatewaySendLastAttemptAt IS NULL THEN 1 ELSE COALESCE(GatewaySendKeyForm, 0) END
OUTPUT inserted.Id, inserted.GatewaySendTryCount AS Attempt,
       inserted.PayloadVersion * CAST(1000000 AS BIGINT) + inserted.GatewaySendTryCount AS Fence, DATALENGTH(inserted.RawPayloadJson) AS Bytes,
       inserted.GatewaySendAttemptCount AS Counted, inserted.GatewaySendFirstFailedAt AS FirstFailedAt,
       inserted.GatewaySendCountedAt AS CountedAt, inserted.GatewaySendTargetMark AS TargetMark
WHERE Id IN (SELECT TOP (:limit) c.Id FROM TB_TICKET_INTERFACE AS c WITH (UPDLOCK, READPAST, ROWLOCK)
             WHERE c.GatewaySendNextAttemptAt <= :now ORDER BY c.GatewaySendNextAttemptAt)
  AND GatewaySendNextAttemptAt <= :now;

-- name: gateway_claim_held
-- row: channel_claim
-- dialect: sqlite
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Sending', GatewaySendTryCount = GatewaySendTryCount + 1, GatewaySendLastAttemptAt = :now, GatewaySendNextAttemptAt = :lease_until,
    GatewaySendHeldFor = NULL, GatewaySendHeldAt = NULL,
    GatewaySendHeldUntil = NULL, GatewaySendKeyForm = CASE WHEN GatewaySendLastAttemptAt IS NULL THEN 1 ELSE COALESCE(GatewaySendKeyForm, 0) END
WHERE Id IN (SELECT Id FROM TB_TICKET_INTERFACE WHERE GatewaySendHeldFor = :target AND GatewaySendNextAttemptAt IS NOT NULL
                       AND GatewaySendStatus <> 'Sending' ORDER BY CreatedAt LIMIT :limit)
RETURNING Id, GatewaySendTryCount AS Attempt, CAST(PayloadVersion AS BIGINT) * 1000000 + GatewaySendTryCount AS Fence,
          COALESCE(LENGTH(CAST(RawPayloadJson AS BLOB)), 0) AS Bytes, GatewaySendAttemptCount AS Counted, GatewaySendFirstFailedAt AS FirstFailedAt,
          GatewaySendCountedAt AS CountedAt, GatewaySendTargetMark AS TargetMark;
-- dialect: postgres
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Sending', GatewaySendTryCount = GatewaySendTryCount + 1, GatewaySendLastAttemptAt = :now, GatewaySendNextAttemptAt = :lease_until,
    GatewaySendHeldFor = NULL, GatewaySendHeldAt = NULL,
    GatewaySendHeldUntil = NULL, GatewaySendKeyForm = CASE WHEN GatewaySendLastAttemptAt IS NULL THEN 1 ELSE COALESCE(GatewaySendKeyForm, 0) END
WHERE Id = ANY(ARRAY(SELECT Id FROM TB_TICKET_INTERFACE WHERE GatewaySendHeldFor = :target AND GatewaySendNextAttemptAt IS NOT NULL
                       AND GatewaySendStatus <> 'Sending' ORDER BY CreatedAt LIMIT :limit
                     FOR UPDATE SKIP LOCKED))
RETURNING Id, GatewaySendTryCount AS Attempt, CAST(PayloadVersion AS BIGINT) * 1000000 + GatewaySendTryCount AS Fence,
          COALESCE(OCTET_LENGTH(RawPayloadJson), 0) AS Bytes, GatewaySendAttemptCount AS Counted, GatewaySendFirstFailedAt AS FirstFailedAt,
          GatewaySendCountedAt AS CountedAt, GatewaySendTargetMark AS TargetMark;
-- dialect: sqlserver
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Sending', GatewaySendTryCount = GatewaySendTryCount + 1, GatewaySendLastAttemptAt = :now, GatewaySendNextAttemptAt = :lease_until,
    GatewaySendHeldFor = NULL, GatewaySendHeldAt = NULL,
    GatewaySendHeldUntil = NULL, GatewaySendKeyForm = CASE WHEN GatewaySendLastAttemptAt IS NULL THEN 1 ELSE COALESCE(GatewaySendKeyForm, 0) END
OUTPUT inserted.Id, inserted.GatewaySendTryCount AS Attempt,
       inserted.PayloadVersion * CAST(1000000 AS BIGINT) + inserted.GatewaySendTryCount AS Fence, DATALENGTH(inserted.RawPayloadJson) AS Bytes,
       inserted.GatewaySendAttemptCount AS Counted, inserted.GatewaySendFirstFailedAt AS FirstFailedAt,
       inserted.GatewaySendCountedAt AS CountedAt, inserted.GatewaySendTargetMark AS TargetMark
WHERE Id IN (SELECT TOP (:limit) c.Id FROM TB_TICKET_INTERFACE AS c WITH (UPDLOCK, READPAST, ROWLOCK)
             WHERE c.GatewaySendHeldFor = :target AND c.GatewaySendNextAttemptAt IS NOT NULL
               AND c.GatewaySendStatus <> 'Sending' ORDER BY c.CreatedAt)
  AND GatewaySendHeldFor = :target AND GatewaySendNextAttemptAt IS NOT NULL AND GatewaySendStatus <> 'Sending';

-- name: gateway_claim_probe
-- row: channel_claim
-- dialect: sqlite
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Sending', GatewaySendTryCount = GatewaySendTryCount + 1, GatewaySendLastAttemptAt = :now, GatewaySendNextAttemptAt = :lease_until,
    GatewaySendHeldFor = NULL, GatewaySendHeldAt = NULL,
    GatewaySendHeldUntil = NULL, GatewaySendKeyForm = CASE WHEN GatewaySendLastAttemptAt IS NULL THEN 1 ELSE COALESCE(GatewaySendKeyForm, 0) END
WHERE Id IN (SELECT Id FROM TB_TICKET_INTERFACE WHERE GatewaySendHeldFor = :target AND GatewaySendNextAttemptAt IS NOT NULL
                       AND GatewaySendStatus <> 'Sending' ORDER BY GatewaySendHeldAt LIMIT :limit)
RETURNING Id, GatewaySendTryCount AS Attempt, CAST(PayloadVersion AS BIGINT) * 1000000 + GatewaySendTryCount AS Fence,
          COALESCE(LENGTH(CAST(RawPayloadJson AS BLOB)), 0) AS Bytes, GatewaySendAttemptCount AS Counted, GatewaySendFirstFailedAt AS FirstFailedAt,
          GatewaySendCountedAt AS CountedAt, GatewaySendTargetMark AS TargetMark;
-- dialect: postgres
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Sending', GatewaySendTryCount = GatewaySendTryCount + 1, GatewaySendLastAttemptAt = :now, GatewaySendNextAttemptAt = :lease_until,
    GatewaySendHeldFor = NULL, GatewaySendHeldAt = NULL,
    GatewaySendHeldUntil = NULL, GatewaySendKeyForm = CASE WHEN GatewaySendLastAttemptAt IS NULL THEN 1 ELSE COALESCE(GatewaySendKeyForm, 0) END
WHERE Id = ANY(ARRAY(SELECT Id FROM TB_TICKET_INTERFACE WHERE GatewaySendHeldFor = :target AND GatewaySendNextAttemptAt IS NOT NULL
                       AND GatewaySendStatus <> 'Sending' ORDER BY GatewaySendHeldAt LIMIT :limit
                     FOR UPDATE SKIP LOCKED))
RETURNING Id, GatewaySendTryCount AS Attempt, CAST(PayloadVersion AS BIGINT) * 1000000 + GatewaySendTryCount AS Fence,
          COALESCE(OCTET_LENGTH(RawPayloadJson), 0) AS Bytes, GatewaySendAttemptCount AS Counted, GatewaySendFirstFailedAt AS FirstFailedAt,
          GatewaySendCountedAt AS CountedAt, GatewaySendTargetMark AS TargetMark;
-- dialect: sqlserver
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Sending', GatewaySendTryCount = GatewaySendTryCount + 1, GatewaySendLastAttemptAt = :now, GatewaySendNextAttemptAt = :lease_until,
    GatewaySendHeldFor = NULL, GatewaySendHeldAt = NULL,
    GatewaySendHeldUntil = NULL, GatewaySendKeyForm = CASE WHEN GatewaySendLastAttemptAt IS NULL THEN 1 ELSE COALESCE(GatewaySendKeyForm, 0) END
OUTPUT inserted.Id, inserted.GatewaySendTryCount AS Attempt,
       inserted.PayloadVersion * CAST(1000000 AS BIGINT) + inserted.GatewaySendTryCount AS Fence, DATALENGTH(inserted.RawPayloadJson) AS Bytes,
       inserted.GatewaySendAttemptCount AS Counted, inserted.GatewaySendFirstFailedAt AS FirstFailedAt,
       inserted.GatewaySendCountedAt AS CountedAt, inserted.GatewaySendTargetMark AS TargetMark
WHERE Id IN (SELECT TOP (:limit) c.Id FROM TB_TICKET_INTERFACE AS c WITH (UPDLOCK, READPAST, ROWLOCK)
             WHERE c.GatewaySendHeldFor = :target AND c.GatewaySendNextAttemptAt IS NOT NULL
               AND c.GatewaySendStatus <> 'Sending' ORDER BY c.GatewaySendHeldAt)
  AND GatewaySendHeldFor = :target AND GatewaySendNextAttemptAt IS NOT NULL AND GatewaySendStatus <> 'Sending';

-- name: gateway_load
-- row: channel_load
SELECT Id, GatewaySendTryCount AS Attempt, CAST(PayloadVersion AS BIGINT) * 1000000 + GatewaySendTryCount AS Fence, BusinessDocId, RawPayloadJson,
       GatewaySendKeyForm, PayloadVersion
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

-- A ticket whose payload was replaced while the old one was on its way is Pending. It is due once it is processed, and
-- the outcome of the old attempt decides when. GatewaySendHeldUntil works like HeldUntil of the returns.
-- name: gateway_sent
-- row: channel_sent
UPDATE TB_TICKET_INTERFACE
SET GatewaySendAttemptCount = CASE WHEN GatewaySendStatus = 'Sending' THEN GatewaySendAttemptCount + 1 ELSE GatewaySendAttemptCount END,
    GatewaySendSentAt = CASE WHEN GatewaySendStatus = 'Sending' THEN :now ELSE GatewaySendSentAt END,
    GatewaySendNextAttemptAt = CASE WHEN GatewaySendStatus = 'Sending' OR GatewaySendNextAttemptAt IS NULL THEN NULL ELSE :now END,
    GatewaySendStatus = CASE WHEN GatewaySendStatus = 'Sending' THEN 'Sent' ELSE GatewaySendStatus END,
    GatewaySendHeldUntil = NULL, GatewaySendLastError = NULL
WHERE Id IN EACH_INT(:ids)
  AND CASE WHEN CAST(PayloadVersion AS BIGINT) * 1000000 + GatewaySendTryCount = :fence
            AND GatewaySendNextAttemptAt = :lease_until AND GatewaySendStatus = 'Sending' THEN 1
           WHEN GatewaySendStatus = 'Pending' AND GatewaySendHeldUntil = :lease_until THEN 1 ELSE 0 END = 1
RETURNING Id;
-- dialect: sqlserver
UPDATE TB_TICKET_INTERFACE
SET GatewaySendAttemptCount = CASE WHEN GatewaySendStatus = 'Sending' THEN GatewaySendAttemptCount + 1 ELSE GatewaySendAttemptCount END,
    GatewaySendSentAt = CASE WHEN GatewaySendStatus = 'Sending' THEN :now ELSE GatewaySendSentAt END,
    GatewaySendNextAttemptAt = CASE WHEN GatewaySendStatus = 'Sending' OR GatewaySendNextAttemptAt IS NULL THEN NULL ELSE :now END,
    GatewaySendStatus = CASE WHEN GatewaySendStatus = 'Sending' THEN 'Sent' ELSE GatewaySendStatus END,
    GatewaySendHeldUntil = NULL, GatewaySendLastError = NULL
OUTPUT inserted.Id
WHERE Id IN EACH_INT(:ids)
  AND CASE WHEN PayloadVersion * CAST(1000000 AS BIGINT) + GatewaySendTryCount = :fence
            AND GatewaySendNextAttemptAt = :lease_until AND GatewaySendStatus = 'Sending' THEN 1
           WHEN GatewaySendStatus = 'Pending' AND GatewaySendHeldUntil = :lease_until THEN 1 ELSE 0 END = 1;

-- name: gateway_failed
UPDATE TB_TICKET_INTERFACE
SET GatewaySendLastAttemptAt = CASE WHEN GatewaySendStatus = 'Sending' THEN :now ELSE GatewaySendLastAttemptAt END,
    GatewaySendAttemptCount = CASE WHEN GatewaySendStatus = 'Sending' THEN :attempts ELSE GatewaySendAttemptCount END,
    GatewaySendFirstFailedAt = CASE WHEN GatewaySendStatus = 'Sending' THEN :first_failed ELSE GatewaySendFirstFailedAt END,
    GatewaySendCountedAt = CASE WHEN GatewaySendStatus = 'Sending' THEN :counted ELSE GatewaySendCountedAt END,
    GatewaySendTargetMark = CASE WHEN GatewaySendStatus = 'Sending' THEN :mark ELSE GatewaySendTargetMark END,
    GatewaySendHeldFor = CASE WHEN GatewaySendStatus = 'Sending' THEN :held_for ELSE GatewaySendHeldFor END,
    GatewaySendHeldAt = CASE WHEN GatewaySendStatus = 'Sending' THEN :held_at ELSE GatewaySendHeldAt END,
    GatewaySendNextAttemptAt = CASE WHEN GatewaySendStatus = 'Sending' THEN :due WHEN GatewaySendNextAttemptAt IS NULL THEN NULL ELSE :now END,
    GatewaySendLastError = CASE WHEN GatewaySendStatus = 'Sending' THEN :error ELSE GatewaySendLastError END,
    GatewaySendStatus = CASE WHEN GatewaySendStatus = 'Sending' THEN 'Error' ELSE GatewaySendStatus END,
    GatewaySendHeldUntil = NULL
WHERE Id = :id
  AND CASE WHEN CAST(PayloadVersion AS BIGINT) * 1000000 + GatewaySendTryCount = :fence
            AND GatewaySendNextAttemptAt = :lease_until AND GatewaySendStatus = 'Sending' THEN 1
           WHEN GatewaySendStatus = 'Pending' AND GatewaySendHeldUntil = :lease_until THEN 1 ELSE 0 END = 1;

-- name: gateway_deferred
UPDATE TB_TICKET_INTERFACE
SET GatewaySendTryCount = CASE WHEN GatewaySendStatus = 'Sending' THEN GatewaySendTryCount - 1 ELSE GatewaySendTryCount END,
    GatewaySendStatus = CASE WHEN GatewaySendStatus = 'Sending' AND (GatewaySendFirstFailedAt IS NOT NULL OR GatewaySendAttemptCount > 0)
                             THEN 'Error' ELSE 'Pending' END,
    GatewaySendHeldFor = CASE WHEN GatewaySendStatus = 'Sending' THEN :held_for ELSE GatewaySendHeldFor END,
    GatewaySendHeldAt = CASE WHEN GatewaySendStatus = 'Sending' THEN :held_at ELSE GatewaySendHeldAt END,
    GatewaySendNextAttemptAt = CASE WHEN GatewaySendStatus = 'Sending' THEN :due
                                    WHEN GatewaySendNextAttemptAt IS NULL THEN GatewaySendNextAttemptAt ELSE :now END,
    GatewaySendHeldUntil = NULL
WHERE Id = :id
  AND CASE WHEN CAST(PayloadVersion AS BIGINT) * 1000000 + GatewaySendTryCount = :fence
            AND GatewaySendNextAttemptAt = :lease_until AND GatewaySendStatus = 'Sending' THEN 1
           WHEN GatewaySendStatus = 'Pending' AND GatewaySendHeldUntil = :lease_until THEN 1 ELSE 0 END = 1;

-- name: gateway_next_due
-- row: channel_next_due
SELECT MIN(GatewaySendNextAttemptAt) AS DueAt FROM TB_TICKET_INTERFACE WHERE GatewaySendNextAttemptAt IS NOT NULL;

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
            FROM TB_TICKET_INTERFACE INDEXED BY IX_TB_TICKET_INTERFACE_GivenUp
            WHERE GatewaySendStatus = 'Error' AND GatewaySendNextAttemptAt IS NULL
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
            WHERE GatewaySendStatus = 'Error' AND GatewaySendNextAttemptAt IS NULL
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
            WHERE GatewaySendStatus = 'Error' AND GatewaySendNextAttemptAt IS NULL
            ORDER BY GatewaySendLastAttemptAt DESC) AS g) AS n
GROUP BY n.Target
ORDER BY Documents DESC, n.Target;

-- name: gateway_given_up_total
SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE GatewaySendStatus = 'Error' AND GatewaySendNextAttemptAt IS NULL;
-- dialect: sqlite
SELECT COUNT(*) FROM TB_TICKET_INTERFACE INDEXED BY IX_TB_TICKET_INTERFACE_GivenUp
WHERE GatewaySendStatus = 'Error' AND GatewaySendNextAttemptAt IS NULL;

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
       (SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE GatewaySendStatus = 'Error' AND GatewaySendNextAttemptAt IS NULL) AS GivenUp,
       (SELECT MIN(GatewaySendLastAttemptAt) FROM TB_TICKET_INTERFACE WHERE GatewaySendStatus = 'Error' AND GatewaySendNextAttemptAt IS NULL) AS GivenUpSince;

-- name: gateway_list
-- row: channel_item
SELECT Id, BusinessDocId AS Reference, CAST(NULL AS VARCHAR(500)) AS Target, GatewaySendStatus AS Status, GatewaySendAttemptCount AS Attempts, CreatedAt,
       GatewaySendLastAttemptAt AS LastAttemptAt, GatewaySendSentAt AS SentAt, GatewaySendNextAttemptAt AS DueAt, GatewaySendLastError AS LastError,
       GatewaySendTryCount AS Tries, GatewaySendFirstFailedAt AS FirstFailedAt,
       (SELECT t.Target FROM DeliveryTargets AS t WHERE t.Id = c.GatewaySendHeldFor) AS HeldFor
FROM TB_TICKET_INTERFACE AS c
WHERE (c.GatewaySendStatus <> 'Pending' OR c.GatewaySendNextAttemptAt IS NOT NULL)
  AND (CAST(:status AS VARCHAR(20)) IS NULL OR c.GatewaySendStatus = CAST(:status AS VARCHAR(21)))
  AND (CAST(:given_up AS INT) = 0 OR c.GatewaySendNextAttemptAt IS NULL)
  AND (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
  AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until
ORDER BY Id DESC
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT Id, BusinessDocId AS Reference, CAST(NULL AS VARCHAR(500)) AS Target, GatewaySendStatus AS Status, GatewaySendAttemptCount AS Attempts, CreatedAt,
       GatewaySendLastAttemptAt AS LastAttemptAt, GatewaySendSentAt AS SentAt, GatewaySendNextAttemptAt AS DueAt, GatewaySendLastError AS LastError,
       GatewaySendTryCount AS Tries, GatewaySendFirstFailedAt AS FirstFailedAt,
       (SELECT t.Target FROM DeliveryTargets AS t WHERE t.Id = c.GatewaySendHeldFor) AS HeldFor
FROM TB_TICKET_INTERFACE AS c
WHERE (c.GatewaySendStatus <> 'Pending' OR c.GatewaySendNextAttemptAt IS NOT NULL)
  AND (CAST(:status AS VARCHAR(20)) IS NULL OR c.GatewaySendStatus = CAST(:status AS VARCHAR(21)))
  AND (CAST(:given_up AS INT) = 0 OR c.GatewaySendNextAttemptAt IS NULL)
  AND (CAST(:target AS NVARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS NVARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS NVARCHAR(501))) ESCAPE '!')
  AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until
ORDER BY Id DESC
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- name: gateway_total
SELECT COUNT(*) FROM TB_TICKET_INTERFACE AS c
WHERE (c.GatewaySendStatus <> 'Pending' OR c.GatewaySendNextAttemptAt IS NOT NULL)
  AND (CAST(:status AS VARCHAR(20)) IS NULL OR c.GatewaySendStatus = CAST(:status AS VARCHAR(21)))
  AND (CAST(:given_up AS INT) = 0 OR c.GatewaySendNextAttemptAt IS NULL)
  AND (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
  AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until;
-- dialect: sqlserver
SELECT COUNT(*) FROM TB_TICKET_INTERFACE AS c
WHERE (c.GatewaySendStatus <> 'Pending' OR c.GatewaySendNextAttemptAt IS NOT NULL)
  AND (CAST(:status AS VARCHAR(20)) IS NULL OR c.GatewaySendStatus = CAST(:status AS VARCHAR(21)))
  AND (CAST(:given_up AS INT) = 0 OR c.GatewaySendNextAttemptAt IS NULL)
  AND (CAST(:target AS NVARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS NVARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS NVARCHAR(501))) ESCAPE '!')
  AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until;

-- name: gateway_get
-- row: channel_detail
SELECT Id, BusinessDocId AS Reference, CAST(NULL AS VARCHAR(500)) AS Target, GatewaySendStatus AS Status, GatewaySendAttemptCount AS Attempts, CreatedAt,
       GatewaySendLastAttemptAt AS LastAttemptAt, GatewaySendSentAt AS SentAt, GatewaySendNextAttemptAt AS DueAt, GatewaySendLastError AS LastError,
       GatewaySendTryCount AS Tries, GatewaySendFirstFailedAt AS FirstFailedAt,
       (SELECT t.Target FROM DeliveryTargets AS t WHERE t.Id = c.GatewaySendHeldFor) AS HeldFor, RawPayloadJson AS Payload, CAST(NULL AS VARCHAR(36)) AS CorrelationId
FROM TB_TICKET_INTERFACE AS c
WHERE Id = :id;
-- dialect: sqlserver
SELECT Id, BusinessDocId AS Reference, CAST(NULL AS VARCHAR(500)) AS Target, GatewaySendStatus AS Status, GatewaySendAttemptCount AS Attempts, CreatedAt,
       GatewaySendLastAttemptAt AS LastAttemptAt, GatewaySendSentAt AS SentAt, GatewaySendNextAttemptAt AS DueAt, GatewaySendLastError AS LastError,
       GatewaySendTryCount AS Tries, GatewaySendFirstFailedAt AS FirstFailedAt,
       (SELECT t.Target FROM DeliveryTargets AS t WHERE t.Id = c.GatewaySendHeldFor) AS HeldFor, RawPayloadJson AS Payload, CAST(NULL AS VARCHAR(36)) AS CorrelationId
FROM TB_TICKET_INTERFACE AS c
WHERE Id = :id;

-- A person's retry starts a row over. GatewaySendTryCount stays: it counts all tries.
-- name: gateway_retry
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Pending', GatewaySendAttemptCount = 0, GatewaySendFirstFailedAt = NULL, GatewaySendCountedAt = NULL, GatewaySendTargetMark = NULL, GatewaySendHeldFor = NULL,
    GatewaySendHeldAt = NULL, GatewaySendNextAttemptAt = :now
WHERE Id = :id AND GatewaySendStatus = 'Error';

-- name: gateway_retry_total
SELECT COUNT(*) FROM TB_TICKET_INTERFACE AS c
WHERE c.GatewaySendStatus = 'Error'
  AND (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
  AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until;
-- dialect: sqlserver
SELECT COUNT(*) FROM TB_TICKET_INTERFACE AS c
WHERE c.GatewaySendStatus = 'Error'
  AND (CAST(:target AS NVARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS NVARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS NVARCHAR(501))) ESCAPE '!')
  AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until;

-- name: gateway_retry_some
-- row: channel_retried
-- dialect: sqlite
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Pending', GatewaySendAttemptCount = 0, GatewaySendFirstFailedAt = NULL, GatewaySendCountedAt = NULL, GatewaySendTargetMark = NULL, GatewaySendHeldFor = NULL,
    GatewaySendHeldAt = NULL, GatewaySendNextAttemptAt = :now
WHERE Id IN (SELECT c.Id FROM TB_TICKET_INTERFACE AS c
             WHERE c.GatewaySendStatus = 'Error'
  AND (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
  AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until
             LIMIT :limit)
RETURNING Id;
-- dialect: postgres
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Pending', GatewaySendAttemptCount = 0, GatewaySendFirstFailedAt = NULL, GatewaySendCountedAt = NULL, GatewaySendTargetMark = NULL, GatewaySendHeldFor = NULL,
    GatewaySendHeldAt = NULL, GatewaySendNextAttemptAt = :now
WHERE Id = ANY(ARRAY(SELECT c.Id FROM TB_TICKET_INTERFACE AS c
                     WHERE c.GatewaySendStatus = 'Error'
  AND (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
  AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until
                     ORDER BY c.Id LIMIT :limit FOR UPDATE OF c SKIP LOCKED))
RETURNING Id;
-- dialect: sqlserver
UPDATE TB_TICKET_INTERFACE
SET GatewaySendStatus = 'Pending', GatewaySendAttemptCount = 0, GatewaySendFirstFailedAt = NULL, GatewaySendCountedAt = NULL, GatewaySendTargetMark = NULL, GatewaySendHeldFor = NULL,
    GatewaySendHeldAt = NULL, GatewaySendNextAttemptAt = :now
OUTPUT inserted.Id
WHERE Id IN (SELECT TOP (:limit) c.Id FROM TB_TICKET_INTERFACE AS c WITH (UPDLOCK, READPAST, ROWLOCK)
             WHERE c.GatewaySendStatus = 'Error'
  AND (CAST(:target AS NVARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS NVARCHAR(501)) IS NULL OR LOWER(c.GatewaySendLastError) LIKE LOWER(CAST(:error AS NVARCHAR(501))) ESCAPE '!')
  AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) >= :since AND COALESCE(c.GatewaySendLastAttemptAt, c.CreatedAt) < :until
             ORDER BY c.Id)
  AND GatewaySendStatus = 'Error';
