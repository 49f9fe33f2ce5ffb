-- The server's own outbox of events: how they come in, and what the pages of outboxes show. A relay dispatches them,
-- with statements of its own (sql.c).

-- name: event_insert
INSERT INTO outbox_events (id, event_type, payload, status, attempts, created_at, aggregate_type, aggregate_id,
                           correlation_id, trace_id, span_id, client_id, idempotency_key, request_checksum)
VALUES (:id, :event_type, :payload, 'PENDING', 0, :created_at, :aggregate_type, :aggregate_id,
        :correlation_id, :trace_id, :span_id, :client_id, :idempotency_key, :request_checksum);

-- Finds a call by its Idempotency-Key, which stands in its first row.
-- name: event_find_key
SELECT id, request_checksum, correlation_id
FROM outbox_events
WHERE client_id = :client_id AND idempotency_key = CAST(:idempotency_key AS VARCHAR(201));

-- name: event_find
SELECT client_id, event_type, payload, aggregate_type, aggregate_id, correlation_id
FROM outbox_events
WHERE id = :id;

-- --- for the pages of outboxes ---

-- name: event_counts
-- row: channel_counts
SELECT status AS Status, COUNT(*) AS Documents, MIN(created_at) AS Oldest FROM outbox_events GROUP BY status;

-- name: event_list
-- row: channel_item
SELECT id, event_type || COALESCE(' ' || aggregate_type, '') || COALESCE(' ' || aggregate_id, '') AS Reference,
       CAST(NULL AS VARCHAR(500)) AS Target, status AS Status, attempts AS Attempts, created_at AS CreatedAt,
       CAST(NULL AS VARCHAR(30)) AS LastAttemptAt, processed_at AS SentAt, next_attempt_at AS DueAt, last_error AS LastError
FROM outbox_events
WHERE (CAST(:status AS VARCHAR(20)) IS NULL OR status = CAST(:status AS VARCHAR(21)))
ORDER BY created_at DESC, id DESC
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT id, event_type + COALESCE(' ' + aggregate_type, '') + COALESCE(' ' + aggregate_id, '') AS Reference,
       CAST(NULL AS VARCHAR(500)) AS Target, status AS Status, attempts AS Attempts, created_at AS CreatedAt,
       CAST(NULL AS DATETIME2) AS LastAttemptAt, processed_at AS SentAt, next_attempt_at AS DueAt, last_error AS LastError
FROM outbox_events
WHERE (CAST(:status AS VARCHAR(20)) IS NULL OR status = CAST(:status AS VARCHAR(21)))
ORDER BY created_at DESC, id DESC
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- name: event_total
SELECT COUNT(*) FROM outbox_events
WHERE (CAST(:status AS VARCHAR(20)) IS NULL OR status = CAST(:status AS VARCHAR(21)));

-- name: event_get
-- row: channel_detail
SELECT id, event_type || COALESCE(' ' || aggregate_type, '') || COALESCE(' ' || aggregate_id, '') AS Reference,
       CAST(NULL AS VARCHAR(500)) AS Target, status AS Status, attempts AS Attempts, created_at AS CreatedAt,
       CAST(NULL AS VARCHAR(30)) AS LastAttemptAt, processed_at AS SentAt, next_attempt_at AS DueAt, last_error AS LastError, payload AS Payload,
       correlation_id AS CorrelationId
FROM outbox_events
WHERE id = :id;
-- dialect: sqlserver
SELECT id, event_type + COALESCE(' ' + aggregate_type, '') + COALESCE(' ' + aggregate_id, '') AS Reference,
       CAST(NULL AS VARCHAR(500)) AS Target, status AS Status, attempts AS Attempts, created_at AS CreatedAt,
       CAST(NULL AS DATETIME2) AS LastAttemptAt, processed_at AS SentAt, next_attempt_at AS DueAt, last_error AS LastError, payload AS Payload,
       correlation_id AS CorrelationId
FROM outbox_events
WHERE id = :id;

-- A waiting row has no next_attempt_at, or one that is past; so have PENDING rows that others wrote.
-- name: event_retry
UPDATE outbox_events
SET status = 'PENDING', attempts = 0, next_attempt_at = NULL
WHERE id = :id AND status = 'FAILED';

-- name: event_retry_all
UPDATE outbox_events
SET status = 'PENDING', attempts = 0, next_attempt_at = NULL
WHERE status = 'FAILED';
