-- Processes that share a database tell each other here how much clients with limits use.

-- Held to the end of the transaction, which does nothing else: one process at a time reads what the others have and
-- reserves its own.
-- name: usage_lock
-- dialect: sqlite
SELECT 1 AS Held;
-- dialect: postgres
SELECT 1 AS Held FROM pg_advisory_xact_lock(4927347428462194552) AS l;
-- dialect: sqlserver
SELECT COUNT(*) AS Held FROM ClientUsage WITH (TABLOCKX, HOLDLOCK);

-- The time of these rows is the database's: the clocks of the machines may differ.
-- name: usage_now
-- dialect: sqlite
SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AS Now;
-- dialect: postgres
SELECT clock_timestamp() AS Now;
-- dialect: sqlserver
SELECT SYSUTCDATETIME() AS Now;

-- Runs before a process writes its rows anew; also removes rows that no longer count.
-- name: usage_clear
DELETE FROM ClientUsage WHERE Replica = :replica OR UpdatedAt < :expired;

-- name: usage_insert
INSERT INTO ClientUsage (ClientId, Replica, Requests, Demand, Uploads, UpdatedAt)
VALUES (:client_id, :replica, :requests, :demand, :uploads, :at);

-- Requests of a process that is gone count on; what it had in hand does not.
-- name: usage_elsewhere
SELECT ClientId, CAST(SUM(Requests) AS BIGINT) AS Requests,
       CAST(SUM(CASE WHEN UpdatedAt >= :lately THEN Demand ELSE 0 END) AS BIGINT) AS Demand,
       CAST(SUM(CASE WHEN UpdatedAt >= :lately THEN Uploads ELSE 0 END) AS BIGINT) AS Uploads
FROM ClientUsage
WHERE Replica <> :replica AND UpdatedAt >= :since
GROUP BY ClientId;
