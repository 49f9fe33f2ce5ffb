-- Calls to integrations that were kept for later, as a channel of the delivery engine (src/delivery/channel.h documents
-- the queries).

-- template: ../delivery/outbox.sqlt
-- with: name = integration_call
-- with: table = IntegrationCalls
-- with: status_index = INDEXED BY IX_IntegrationCalls_Status_CreatedAt
-- with: key = UUID
-- with: ids = UUID
-- with: mine/sqlite = ((:shards >> (instr('0123456789abcdef', lower(substr(c.Id, 36, 1))) - 1)) & 1) <> 0
-- with: mine/postgres = ((CAST(:shards AS BIGINT) >> (get_byte(uuid_send(c.Id), 15) & 15)) & 1) <> 0
-- with: mine/sqlserver = (CAST(:shards AS BIGINT) / POWER(CAST(2 AS BIGINT), CHARINDEX(RIGHT(LOWER(CAST(c.Id AS CHAR(36))), 1), '0123456789abcdef') - 1)) % 2 <> 0
-- with: given = IntegrationName, Method, Path, HeadersJson, Body, CorrelationId, TraceId, IdempotencyKey, ClientId, TraceParent
-- with: body = Body
-- with: beside/sqlite = + LENGTH(CAST(c.HeadersJson AS BLOB))
-- with: beside/postgres = + OCTET_LENGTH(c.HeadersJson)
-- with: beside/sqlserver = + DATALENGTH(c.HeadersJson)
-- with: reference = CorrelationId
-- with: target = Method || ' ' || IntegrationName || Path
-- with: target/sqlserver = Method + ' ' + IntegrationName + Path
-- with: target_key = IntegrationName
-- with: payload = Body
-- with: correlation = CorrelationId
-- with: aimed = c.IntegrationName = CAST(:target AS VARCHAR(1001))

-- name: integration_call_insert
INSERT INTO IntegrationCalls (Id, ClientId, IntegrationName, Method, Path, HeadersJson, Body, CorrelationId, TraceId,
                              IdempotencyKey, CreatedAt, NextAttemptAt, TraceParent)
VALUES (:id, :client_id, :integration_name, :method, :path, :headers_json, :body, :correlation_id, :trace_id,
        :idempotency_key, :now, :now, :trace_parent);
