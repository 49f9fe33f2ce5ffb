-- What the processes on one database tell each other about clients with limits.

-- Before the process writes its rows again; removes those of processes that are gone, too.
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
