-- The outcome of every attempt. A row is identified by its channel's name and its id as text.

-- name: delivery_attempt_insert
INSERT INTO DeliveryAttempts (Channel, RowKey, Attempt, AttemptedAt, Outcome, HttpStatus, DurationMs, Answer, Error,
                              Counted)
VALUES (:channel, :row_key, :attempt, :attempted_at, :outcome, :http_status, :duration_ms, :answer, :error, :counted);
-- many: postgres
INSERT INTO DeliveryAttempts (Channel, RowKey, Attempt, AttemptedAt, Outcome, HttpStatus, DurationMs, Answer, Error,
                              Counted)
SELECT n.channel, n.row_key, n.attempt, n.attempted_at, n.outcome, n.http_status, n.duration_ms, n.answer, n.error, n.counted
FROM UNNEST(CAST(:channel AS VARCHAR[]), CAST(:row_key AS VARCHAR[]), CAST(:attempt AS INT[]),
            CAST(:attempted_at AS TIMESTAMPTZ[]), CAST(:outcome AS VARCHAR[]), CAST(:http_status AS INT[]),
            CAST(:duration_ms AS BIGINT[]), CAST(:answer AS TEXT[]), CAST(:error AS TEXT[]), CAST(:counted AS INT[]))
     AS n (channel, row_key, attempt, attempted_at, outcome, http_status, duration_ms, answer, error, counted);

-- name: delivery_attempt_list
-- dialect: sqlite, postgres
SELECT Attempt, AttemptedAt, Outcome, HttpStatus, DurationMs, Answer, Error, Counted
FROM DeliveryAttempts
WHERE Channel = :channel AND RowKey = :row_key
ORDER BY Id DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Attempt, AttemptedAt, Outcome, HttpStatus, DurationMs, Answer, Error, Counted
FROM DeliveryAttempts
WHERE Channel = CAST(:channel AS VARCHAR(51)) AND RowKey = CAST(:row_key AS VARCHAR(65))
ORDER BY Id DESC;
