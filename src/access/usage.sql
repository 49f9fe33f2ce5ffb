-- What the processes that share a database tell each other of clients that are limited.

-- Before the process's rows are written anew; those of processes that are gone go too.
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
