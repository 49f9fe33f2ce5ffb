-- Calls to integrations that were kept for later, as a channel of the delivery engine (src/delivery/channel.h says what each
-- query takes and gives; src/interface/channels.sql why they are written so).

-- name: integration_call_insert
INSERT INTO IntegrationCalls (Id, ClientId, IntegrationName, Method, Path, HeadersJson, Body, CorrelationId, TraceId,
                              IdempotencyKey, CreatedAt, NextAttemptAt)
VALUES (:id, :client_id, :integration_name, :method, :path, :headers_json, :body, :correlation_id, :trace_id,
        :idempotency_key, :now, :now);

-- name: integration_call_claim
-- dialect: sqlite
UPDATE IntegrationCalls
SET Status = 'Sending', AttemptCount = AttemptCount + 1, LastAttemptAt = :now, NextAttemptAt = :lease_until
WHERE Id IN (SELECT Id FROM IntegrationCalls WHERE NextAttemptAt <= :now ORDER BY NextAttemptAt LIMIT :limit)
RETURNING Id, AttemptCount, AttemptCount, IntegrationName, Method, Path, HeadersJson, Body, CorrelationId, TraceId, IdempotencyKey;
-- dialect: postgres
UPDATE IntegrationCalls
SET Status = 'Sending', AttemptCount = AttemptCount + 1, LastAttemptAt = :now, NextAttemptAt = :lease_until
WHERE Id = ANY(ARRAY(SELECT Id FROM IntegrationCalls WHERE NextAttemptAt <= :now ORDER BY NextAttemptAt LIMIT :limit
                     FOR UPDATE SKIP LOCKED))
RETURNING Id, AttemptCount, AttemptCount, IntegrationName, Method, Path, HeadersJson, Body, CorrelationId, TraceId, IdempotencyKey;
-- dialect: sqlserver
UPDATE IntegrationCalls
SET Status = 'Sending', AttemptCount = AttemptCount + 1, LastAttemptAt = :now, NextAttemptAt = :lease_until
OUTPUT inserted.Id, inserted.AttemptCount, inserted.AttemptCount, inserted.IntegrationName, inserted.Method, inserted.Path,
       inserted.HeadersJson, inserted.Body, inserted.CorrelationId, inserted.TraceId, inserted.IdempotencyKey
WHERE Id IN (SELECT TOP (:limit) c.Id FROM IntegrationCalls AS c WITH (UPDLOCK, READPAST, ROWLOCK)
             WHERE c.NextAttemptAt <= :now ORDER BY c.NextAttemptAt)
  AND NextAttemptAt <= :now;

-- name: integration_call_claim_newest
-- dialect: sqlite
UPDATE IntegrationCalls
SET Status = 'Sending', AttemptCount = AttemptCount + 1, LastAttemptAt = :now, NextAttemptAt = :lease_until
WHERE Id IN (SELECT Id FROM IntegrationCalls WHERE NextAttemptAt <= :now ORDER BY NextAttemptAt DESC LIMIT :limit)
RETURNING Id, AttemptCount, AttemptCount, IntegrationName, Method, Path, HeadersJson, Body, CorrelationId, TraceId, IdempotencyKey;
-- dialect: postgres
UPDATE IntegrationCalls
SET Status = 'Sending', AttemptCount = AttemptCount + 1, LastAttemptAt = :now, NextAttemptAt = :lease_until
WHERE Id = ANY(ARRAY(SELECT Id FROM IntegrationCalls WHERE NextAttemptAt <= :now ORDER BY NextAttemptAt DESC LIMIT :limit
                     FOR UPDATE SKIP LOCKED))
RETURNING Id, AttemptCount, AttemptCount, IntegrationName, Method, Path, HeadersJson, Body, CorrelationId, TraceId, IdempotencyKey;
-- dialect: sqlserver
UPDATE IntegrationCalls
SET Status = 'Sending', AttemptCount = AttemptCount + 1, LastAttemptAt = :now, NextAttemptAt = :lease_until
OUTPUT inserted.Id, inserted.AttemptCount, inserted.AttemptCount, inserted.IntegrationName, inserted.Method, inserted.Path,
       inserted.HeadersJson, inserted.Body, inserted.CorrelationId, inserted.TraceId, inserted.IdempotencyKey
WHERE Id IN (SELECT TOP (:limit) c.Id FROM IntegrationCalls AS c WITH (UPDLOCK, READPAST, ROWLOCK)
             WHERE c.NextAttemptAt <= :now ORDER BY c.NextAttemptAt DESC)
  AND NextAttemptAt <= :now;

-- name: integration_call_sent
UPDATE IntegrationCalls
SET Status = 'Sent', SentAt = :now, NextAttemptAt = NULL, LastError = NULL
WHERE Id IN EACH_UUID(:ids)
  AND CASE WHEN AttemptCount = :fence AND NextAttemptAt = :lease_until AND Status = 'Sending' THEN 1 ELSE 0 END = 1
RETURNING Id;
-- dialect: sqlserver
UPDATE IntegrationCalls
SET Status = 'Sent', SentAt = :now, NextAttemptAt = NULL, LastError = NULL
OUTPUT inserted.Id
WHERE Id IN EACH_UUID(:ids)
  AND CASE WHEN AttemptCount = :fence AND NextAttemptAt = :lease_until AND Status = 'Sending' THEN 1 ELSE 0 END = 1;

-- name: integration_call_failed
UPDATE IntegrationCalls
SET Status = 'Error', LastAttemptAt = :now, NextAttemptAt = :due, LastError = :error
WHERE Id = :id
  AND CASE WHEN AttemptCount = :fence AND NextAttemptAt = :lease_until AND Status = 'Sending' THEN 1 ELSE 0 END = 1;

-- name: integration_call_deferred
UPDATE IntegrationCalls
SET Status = CASE WHEN AttemptCount > 1 THEN 'Error' ELSE 'Pending' END, AttemptCount = AttemptCount - 1, NextAttemptAt = :due
WHERE Id = :id
  AND CASE WHEN AttemptCount = :fence AND NextAttemptAt = :lease_until AND Status = 'Sending' THEN 1 ELSE 0 END = 1;

-- name: integration_call_next_due
SELECT MIN(NextAttemptAt) FROM IntegrationCalls WHERE NextAttemptAt IS NOT NULL;

-- name: integration_call_waiting
SELECT COUNT(*), MIN(CreatedAt) FROM IntegrationCalls WHERE NextAttemptAt IS NOT NULL;

-- name: integration_call_counts
SELECT Status, COUNT(*), MIN(CreatedAt) FROM IntegrationCalls GROUP BY Status;

-- name: integration_call_list
SELECT Id, CorrelationId, Method || ' ' || IntegrationName || Path, Status, AttemptCount, CreatedAt, LastAttemptAt, SentAt,
       NextAttemptAt, LastError
FROM IntegrationCalls
WHERE (CAST(:status AS VARCHAR(20)) IS NULL OR Status = CAST(:status AS VARCHAR(21)))
ORDER BY CreatedAt DESC, Id DESC
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT Id, CorrelationId, Method + ' ' + IntegrationName + Path, Status, AttemptCount, CreatedAt, LastAttemptAt, SentAt,
       NextAttemptAt, LastError
FROM IntegrationCalls
WHERE (CAST(:status AS VARCHAR(20)) IS NULL OR Status = CAST(:status AS VARCHAR(21)))
ORDER BY CreatedAt DESC, Id DESC
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- name: integration_call_total
SELECT COUNT(*) FROM IntegrationCalls
WHERE (CAST(:status AS VARCHAR(20)) IS NULL OR Status = CAST(:status AS VARCHAR(21)));

-- name: integration_call_get
SELECT Id, CorrelationId, Method || ' ' || IntegrationName || Path, Status, AttemptCount, CreatedAt, LastAttemptAt, SentAt,
       NextAttemptAt, LastError, Body, CorrelationId
FROM IntegrationCalls
WHERE Id = :id;
-- dialect: sqlserver
SELECT Id, CorrelationId, Method + ' ' + IntegrationName + Path, Status, AttemptCount, CreatedAt, LastAttemptAt, SentAt,
       NextAttemptAt, LastError, Body, CorrelationId
FROM IntegrationCalls
WHERE Id = :id;

-- name: integration_call_retry
UPDATE IntegrationCalls
SET Status = 'Pending', AttemptCount = 0, NextAttemptAt = :now
WHERE Id = :id AND Status = 'Error';

-- name: integration_call_retry_all
UPDATE IntegrationCalls
SET Status = 'Pending', AttemptCount = 0, NextAttemptAt = :now
WHERE Status = 'Error';
