-- Processes that share a database tell each other here how much clients with limits use.

-- Held to the end of the transaction: one process at a time reads what the others have and reserves its own.
-- name: usage_lock
-- dialect: sqlite
SELECT 1 AS Held;
-- dialect: postgres
SELECT 1 AS Held FROM pg_advisory_xact_lock(4927347428462194552) AS l;
-- dialect: sqlserver
SELECT COUNT(*) AS Held FROM ClientUsage WITH (TABLOCKX, HOLDLOCK);

-- Runs before a process writes its rows anew; also removes the rows of processes that are gone.
-- name: usage_clear
DELETE FROM ClientUsage WHERE Replica = :replica OR UpdatedAt < :expired;

-- name: usage_insert
INSERT INTO ClientUsage (ClientId, Replica, Requests, Demand, Uploads, UpdatedAt)
VALUES (:client_id, :replica, :requests, :demand, :uploads, :now);

-- name: usage_elsewhere
SELECT ClientId, CAST(SUM(Requests) AS BIGINT) AS Requests, CAST(SUM(Demand) AS BIGINT) AS Demand,
       CAST(SUM(Uploads) AS BIGINT) AS Uploads
FROM ClientUsage
WHERE Replica <> :replica AND UpdatedAt >= :since
GROUP BY ClientId;
