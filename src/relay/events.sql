-- The server's own outbox of events: how they come in, and what the pages of outboxes show. A relay dispatches them,
-- with statements of its own (sql.c).

-- name: event_insert
INSERT INTO outbox_events (id, event_type, payload, status, attempts, created_at, aggregate_type, aggregate_id,
                           correlation_id, trace_id, span_id, client_id, idempotency_key, request_checksum, trace_flags)
VALUES (:id, :event_type, :payload, 'PENDING', 0, :created_at, :aggregate_type, :aggregate_id,
        :correlation_id, :trace_id, :span_id, :client_id, :idempotency_key, :request_checksum, :trace_flags);

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

-- name: event_stuck
-- row: channel_stuck
-- dialect: sqlite, postgres
SELECT (SELECT COUNT(*) FROM outbox_events WHERE status = 'PENDING') AS Waiting,
       (SELECT MIN(created_at) FROM outbox_events WHERE status = 'PENDING') AS Oldest, 0 AS Held,
       (SELECT COUNT(*) FROM outbox_events WHERE status = 'FAILED') AS GivenUp,
       (SELECT MIN(created_at) FROM outbox_events WHERE status = 'FAILED') AS GivenUpSince;
-- dialect: sqlserver
SELECT (SELECT COUNT(*) FROM outbox_events WHERE status = 'PENDING') AS Waiting,
       (SELECT MIN(created_at) FROM outbox_events WHERE status = 'PENDING') AS Oldest, CAST(0 AS INT) AS Held,
       (SELECT COUNT(*) FROM outbox_events WHERE status = 'FAILED') AS GivenUp,
       (SELECT MIN(created_at) FROM outbox_events WHERE status = 'FAILED') AS GivenUpSince;

-- name: event_given_up
-- row: channel_given_up
SELECT CAST(NULL AS VARCHAR(500)) AS Target, COUNT(*) AS Documents, MIN(created_at) AS Oldest, MAX(created_at) AS Newest,
       CAST(NULL AS VARCHAR(500)) AS LastError
FROM outbox_events
WHERE status = 'FAILED'
HAVING COUNT(*) > 0
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) CAST(NULL AS VARCHAR(500)) AS Target, COUNT(*) AS Documents, MIN(created_at) AS Oldest, MAX(created_at) AS Newest,
       CAST(NULL AS VARCHAR(500)) AS LastError
FROM outbox_events
WHERE status = 'FAILED'
HAVING COUNT(*) > 0
ORDER BY Documents;

-- name: event_rows
-- row: channel_item
SELECT id, event_type || COALESCE(' ' || aggregate_type, '') || COALESCE(' ' || aggregate_id, '') AS Reference,
       CAST(NULL AS VARCHAR(500)) AS Target, status AS Status, attempts AS Attempts, created_at AS CreatedAt,
       CAST(NULL AS VARCHAR(30)) AS LastAttemptAt, processed_at AS SentAt, next_attempt_at AS DueAt, last_error AS LastError,
       attempts AS Tries, CAST(NULL AS VARCHAR(30)) AS FirstFailedAt, CAST(NULL AS VARCHAR(500)) AS HeldFor, CAST(NULL AS VARCHAR(30)) AS DismissedAt
FROM outbox_events AS c
WHERE c.id IN EACH_UUID(:ids)
ORDER BY CASE WHEN CAST(:oldest AS INT) = 1 THEN c.created_at END, CASE WHEN CAST(:oldest AS INT) = 1 THEN c.id END,
         c.created_at DESC, c.id DESC;
-- dialect: sqlserver
SELECT id, event_type + COALESCE(' ' + aggregate_type, '') + COALESCE(' ' + aggregate_id, '') AS Reference,
       CAST(NULL AS VARCHAR(500)) AS Target, status AS Status, attempts AS Attempts, created_at AS CreatedAt,
       CAST(NULL AS DATETIME2) AS LastAttemptAt, processed_at AS SentAt, next_attempt_at AS DueAt, last_error AS LastError,
       attempts AS Tries, CAST(NULL AS DATETIME2) AS FirstFailedAt, CAST(NULL AS VARCHAR(500)) AS HeldFor, CAST(NULL AS DATETIME2) AS DismissedAt
FROM outbox_events AS c
WHERE c.id IN EACH_UUID(:ids)
ORDER BY CASE WHEN CAST(:oldest AS INT) = 1 THEN c.created_at END, CASE WHEN CAST(:oldest AS INT) = 1 THEN c.id END,
         c.created_at DESC, c.id DESC;

-- The time of an event, for :since and :until, is that of its writing: its tries have none. Each state has an index with
-- its events in order; a condition on the parameter alone leaves out the states that are not asked for.
-- name: event_keys
-- row: list_key
SELECT k.Id, k.CreatedAt
FROM (
      SELECT p.Id, p.CreatedAt
      FROM (SELECT c.id AS Id, c.created_at AS CreatedAt FROM outbox_events AS c
            WHERE c.status = 'PENDING' AND COALESCE(CAST(:status AS VARCHAR(21)), 'PENDING') = 'PENDING' AND c.created_at {<}= :after_at AND (c.created_at {<} :after_at OR c.id {<} :after_id)
              AND (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
              AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.last_error) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
              AND c.created_at >= :since AND c.created_at < :until
            ORDER BY c.created_at {DESC}, c.id {DESC} LIMIT :window) AS p
      UNION ALL
      SELECT f.Id, f.CreatedAt
      FROM (SELECT c.id AS Id, c.created_at AS CreatedAt FROM outbox_events AS c
            WHERE c.status = 'FAILED' AND COALESCE(CAST(:status AS VARCHAR(21)), 'FAILED') = 'FAILED' AND c.created_at {<}= :after_at AND (c.created_at {<} :after_at OR c.id {<} :after_id)
              AND (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
              AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.last_error) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
              AND c.created_at >= :since AND c.created_at < :until
            ORDER BY c.created_at {DESC}, c.id {DESC} LIMIT :window) AS f
      UNION ALL
      SELECT o.Id, o.CreatedAt
      FROM (SELECT c.id AS Id, c.created_at AS CreatedAt FROM outbox_events AS c
            WHERE c.status IN ('PROCESSED', 'DISMISSED') AND COALESCE(CAST(:status AS VARCHAR(21)), 'PROCESSED') = 'PROCESSED'
              AND (CAST(:status AS VARCHAR(21)) IS NULL OR c.status = 'PROCESSED') AND c.created_at {<}= :after_at AND (c.created_at {<} :after_at OR c.id {<} :after_id)
              AND (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
              AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.last_error) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
              AND c.created_at >= :since AND c.created_at < :until
            ORDER BY c.created_at {DESC}, c.id {DESC} LIMIT :window) AS o) AS k
ORDER BY k.CreatedAt {DESC}, k.Id {DESC}
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT k.Id, k.CreatedAt
FROM (
      SELECT p.Id, p.CreatedAt
      FROM (SELECT TOP (:window) c.id AS Id, c.created_at AS CreatedAt FROM outbox_events AS c
            WHERE c.status = 'PENDING' AND COALESCE(CAST(:status AS VARCHAR(21)), 'PENDING') = 'PENDING' AND c.created_at {<}= :after_at AND (c.created_at {<} :after_at OR c.id {<} :after_id)
              AND (CAST(:target AS NVARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
              AND (CAST(:error AS NVARCHAR(501)) IS NULL OR LOWER(c.last_error) LIKE LOWER(CAST(:error AS NVARCHAR(501))) ESCAPE '!')
              AND c.created_at >= :since AND c.created_at < :until
            ORDER BY c.created_at {DESC}, c.id {DESC}) AS p
      UNION ALL
      SELECT f.Id, f.CreatedAt
      FROM (SELECT TOP (:window) c.id AS Id, c.created_at AS CreatedAt FROM outbox_events AS c
            WHERE c.status = 'FAILED' AND COALESCE(CAST(:status AS VARCHAR(21)), 'FAILED') = 'FAILED' AND c.created_at {<}= :after_at AND (c.created_at {<} :after_at OR c.id {<} :after_id)
              AND (CAST(:target AS NVARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
              AND (CAST(:error AS NVARCHAR(501)) IS NULL OR LOWER(c.last_error) LIKE LOWER(CAST(:error AS NVARCHAR(501))) ESCAPE '!')
              AND c.created_at >= :since AND c.created_at < :until
            ORDER BY c.created_at {DESC}, c.id {DESC}) AS f
      UNION ALL
      SELECT o.Id, o.CreatedAt
      FROM (SELECT TOP (:window) c.id AS Id, c.created_at AS CreatedAt FROM outbox_events AS c
            WHERE c.status IN ('PROCESSED', 'DISMISSED') AND COALESCE(CAST(:status AS VARCHAR(21)), 'PROCESSED') = 'PROCESSED'
              AND (CAST(:status AS VARCHAR(21)) IS NULL OR c.status = 'PROCESSED') AND c.created_at {<}= :after_at AND (c.created_at {<} :after_at OR c.id {<} :after_id)
              AND (CAST(:target AS NVARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
              AND (CAST(:error AS NVARCHAR(501)) IS NULL OR LOWER(c.last_error) LIKE LOWER(CAST(:error AS NVARCHAR(501))) ESCAPE '!')
              AND c.created_at >= :since AND c.created_at < :until
            ORDER BY c.created_at {DESC}, c.id {DESC}) AS o) AS k
ORDER BY k.CreatedAt {DESC}, k.Id {DESC}
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- name: event_get
-- row: channel_detail
SELECT id, event_type || COALESCE(' ' || aggregate_type, '') || COALESCE(' ' || aggregate_id, '') AS Reference,
       CAST(NULL AS VARCHAR(500)) AS Target, status AS Status, attempts AS Attempts, created_at AS CreatedAt,
       CAST(NULL AS VARCHAR(30)) AS LastAttemptAt, processed_at AS SentAt, next_attempt_at AS DueAt, last_error AS LastError,
       attempts AS Tries, CAST(NULL AS VARCHAR(30)) AS FirstFailedAt, CAST(NULL AS VARCHAR(500)) AS HeldFor, CAST(NULL AS VARCHAR(30)) AS DismissedAt, payload AS Payload,
       correlation_id AS CorrelationId, CAST(NULL AS INT) AS SentStatus, CAST(NULL AS BIGINT) AS SentMs
FROM outbox_events
WHERE id = :id;
-- dialect: sqlserver
SELECT id, event_type + COALESCE(' ' + aggregate_type, '') + COALESCE(' ' + aggregate_id, '') AS Reference,
       CAST(NULL AS VARCHAR(500)) AS Target, status AS Status, attempts AS Attempts, created_at AS CreatedAt,
       CAST(NULL AS DATETIME2) AS LastAttemptAt, processed_at AS SentAt, next_attempt_at AS DueAt, last_error AS LastError,
       attempts AS Tries, CAST(NULL AS DATETIME2) AS FirstFailedAt, CAST(NULL AS VARCHAR(500)) AS HeldFor, CAST(NULL AS DATETIME2) AS DismissedAt, payload AS Payload,
       correlation_id AS CorrelationId, CAST(NULL AS INT) AS SentStatus, CAST(NULL AS BIGINT) AS SentMs
FROM outbox_events
WHERE id = :id;

-- A waiting row has no next_attempt_at, or one that is past; so have PENDING rows that others wrote.
-- name: event_retry
UPDATE outbox_events
SET status = 'PENDING', attempts = 0, next_attempt_at = NULL, processed_at = NULL
WHERE id = :id AND status IN ('FAILED', 'DISMISSED');

-- name: event_retry_total
SELECT COUNT(*) FROM outbox_events AS c
WHERE c.status = 'FAILED'
  AND (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.last_error) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
  AND c.created_at >= :since AND c.created_at < :until;
-- dialect: sqlserver
SELECT COUNT(*) FROM outbox_events AS c
WHERE c.status = 'FAILED'
  AND (CAST(:target AS NVARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS NVARCHAR(501)) IS NULL OR LOWER(c.last_error) LIKE LOWER(CAST(:error AS NVARCHAR(501))) ESCAPE '!')
  AND c.created_at >= :since AND c.created_at < :until;

-- name: event_retry_some
-- row: channel_retried
-- dialect: sqlite
UPDATE outbox_events
SET status = 'PENDING', attempts = 0, next_attempt_at = NULL, processed_at = NULL
WHERE id IN (SELECT c.id FROM outbox_events AS c
             WHERE c.status = 'FAILED'
  AND (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.last_error) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
  AND c.created_at >= :since AND c.created_at < :until
             LIMIT :limit)
RETURNING id AS Id;
-- dialect: postgres
UPDATE outbox_events
SET status = 'PENDING', attempts = 0, next_attempt_at = NULL, processed_at = NULL
WHERE id = ANY(ARRAY(SELECT c.id FROM outbox_events AS c
                     WHERE c.status = 'FAILED'
  AND (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.last_error) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
  AND c.created_at >= :since AND c.created_at < :until
                     ORDER BY c.id LIMIT :limit FOR UPDATE OF c SKIP LOCKED))
RETURNING id AS Id;
-- dialect: sqlserver
UPDATE outbox_events
SET status = 'PENDING', attempts = 0, next_attempt_at = NULL, processed_at = NULL
OUTPUT inserted.id AS Id
WHERE id IN (SELECT TOP (:limit) c.id FROM outbox_events AS c WITH (UPDLOCK, READPAST, ROWLOCK)
             WHERE c.status = 'FAILED'
  AND (CAST(:target AS NVARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS NVARCHAR(501)) IS NULL OR LOWER(c.last_error) LIKE LOWER(CAST(:error AS NVARCHAR(501))) ESCAPE '!')
  AND c.created_at >= :since AND c.created_at < :until
             ORDER BY c.id)
  AND status = 'FAILED';

-- What a person wants no more of has a state of its own, which relays do not know: they count what is FAILED.
-- name: event_dismiss
UPDATE outbox_events SET status = 'DISMISSED', processed_at = :now WHERE id = :id AND status = 'FAILED';

-- name: event_dismiss_some
-- row: channel_retried
-- dialect: sqlite
UPDATE outbox_events SET status = 'DISMISSED', processed_at = :now
WHERE id IN (SELECT c.id FROM outbox_events AS c
             WHERE c.status = 'FAILED'
  AND (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.last_error) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
  AND c.created_at >= :since AND c.created_at < :until
             LIMIT :limit)
RETURNING id AS Id;
-- dialect: postgres
UPDATE outbox_events SET status = 'DISMISSED', processed_at = :now
WHERE id = ANY(ARRAY(SELECT c.id FROM outbox_events AS c
                     WHERE c.status = 'FAILED'
  AND (CAST(:target AS VARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS VARCHAR(501)) IS NULL OR LOWER(c.last_error) LIKE LOWER(CAST(:error AS VARCHAR(501))) ESCAPE '!')
  AND c.created_at >= :since AND c.created_at < :until
                     ORDER BY c.id LIMIT :limit FOR UPDATE OF c SKIP LOCKED))
RETURNING id AS Id;
-- dialect: sqlserver
UPDATE outbox_events SET status = 'DISMISSED', processed_at = :now
OUTPUT inserted.id AS Id
WHERE id IN (SELECT TOP (:limit) c.id FROM outbox_events AS c WITH (UPDLOCK, READPAST, ROWLOCK)
             WHERE c.status = 'FAILED'
  AND (CAST(:target AS NVARCHAR(1001)) IS NULL OR CAST(:own AS INT) = 1)
  AND (CAST(:error AS NVARCHAR(501)) IS NULL OR LOWER(c.last_error) LIKE LOWER(CAST(:error AS NVARCHAR(501))) ESCAPE '!')
  AND c.created_at >= :since AND c.created_at < :until
             ORDER BY c.id)
  AND status = 'FAILED';
