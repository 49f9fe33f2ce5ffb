-- The figures that the server keeps itself. A row belongs to a minute or an hour, a client and a channel. Every process adds
-- what it has counted; what waits is written by one of them.

-- Rows come in the order of their keys, from every process.
-- name: series_add
INSERT INTO SeriesPoints (Grain, PointAt, ClientId, Channel, Accepted, Processed, Delivered, Failed, Acks, AckMs,
                          AckMostMs, Ack100Ms, Ack500Ms, Ack1000Ms, Ack5000Ms, Ack30000Ms, Ack300000Ms)
VALUES (:grain, :at, :client, :channel, :accepted, :processed, :delivered, :failed, :acks, :ack_ms, :ack_most_ms, :ack_100,
        :ack_500, :ack_1000, :ack_5000, :ack_30000, :ack_300000)
ON CONFLICT (Grain, ClientId, PointAt, Channel) DO UPDATE
SET Accepted = SeriesPoints.Accepted + excluded.Accepted, Processed = SeriesPoints.Processed + excluded.Processed,
    Delivered = SeriesPoints.Delivered + excluded.Delivered, Failed = SeriesPoints.Failed + excluded.Failed,
    Acks = SeriesPoints.Acks + excluded.Acks, AckMs = SeriesPoints.AckMs + excluded.AckMs,
    AckMostMs = CASE WHEN excluded.AckMostMs > SeriesPoints.AckMostMs THEN excluded.AckMostMs
                     ELSE SeriesPoints.AckMostMs END,
    Ack100Ms = SeriesPoints.Ack100Ms + excluded.Ack100Ms, Ack500Ms = SeriesPoints.Ack500Ms + excluded.Ack500Ms,
    Ack1000Ms = SeriesPoints.Ack1000Ms + excluded.Ack1000Ms, Ack5000Ms = SeriesPoints.Ack5000Ms + excluded.Ack5000Ms,
    Ack30000Ms = SeriesPoints.Ack30000Ms + excluded.Ack30000Ms,
    Ack300000Ms = SeriesPoints.Ack300000Ms + excluded.Ack300000Ms;
-- dialect: sqlserver
UPDATE SeriesPoints WITH (UPDLOCK, HOLDLOCK)
SET Accepted = Accepted + :accepted, Processed = Processed + :processed, Delivered = Delivered + :delivered,
    Failed = Failed + :failed, Acks = Acks + :acks, AckMs = AckMs + :ack_ms,
    AckMostMs = CASE WHEN :ack_most_ms > AckMostMs THEN :ack_most_ms ELSE AckMostMs END,
    Ack100Ms = Ack100Ms + :ack_100, Ack500Ms = Ack500Ms + :ack_500, Ack1000Ms = Ack1000Ms + :ack_1000,
    Ack5000Ms = Ack5000Ms + :ack_5000, Ack30000Ms = Ack30000Ms + :ack_30000, Ack300000Ms = Ack300000Ms + :ack_300000
WHERE Grain = :grain AND ClientId = CAST(:client AS VARCHAR(37)) AND PointAt = :at
  AND Channel = CAST(:channel AS VARCHAR(51));
IF @@ROWCOUNT = 0
    INSERT INTO SeriesPoints (Grain, PointAt, ClientId, Channel, Accepted, Processed, Delivered, Failed, Acks, AckMs,
                              AckMostMs, Ack100Ms, Ack500Ms, Ack1000Ms, Ack5000Ms, Ack30000Ms, Ack300000Ms)
    VALUES (:grain, :at, :client, :channel, :accepted, :processed, :delivered, :failed, :acks, :ack_ms, :ack_most_ms,
            :ack_100, :ack_500, :ack_1000, :ack_5000, :ack_30000, :ack_300000);
-- many: postgres
INSERT INTO SeriesPoints (Grain, PointAt, ClientId, Channel, Accepted, Processed, Delivered, Failed, Acks, AckMs,
                          AckMostMs, Ack100Ms, Ack500Ms, Ack1000Ms, Ack5000Ms, Ack30000Ms, Ack300000Ms)
SELECT n.grain, n.at, n.client, n.channel, n.accepted, n.processed, n.delivered, n.failed, n.acks, n.ack_ms, n.ack_most_ms,
       n.ack_100, n.ack_500, n.ack_1000, n.ack_5000, n.ack_30000, n.ack_300000
FROM UNNEST(CAST(:grain AS INT[]), CAST(:at AS TIMESTAMPTZ[]), CAST(:client AS VARCHAR[]), CAST(:channel AS VARCHAR[]),
            CAST(:accepted AS BIGINT[]), CAST(:processed AS BIGINT[]), CAST(:delivered AS BIGINT[]),
            CAST(:failed AS BIGINT[]), CAST(:acks AS BIGINT[]), CAST(:ack_ms AS BIGINT[]),
            CAST(:ack_most_ms AS BIGINT[]), CAST(:ack_100 AS BIGINT[]), CAST(:ack_500 AS BIGINT[]),
            CAST(:ack_1000 AS BIGINT[]), CAST(:ack_5000 AS BIGINT[]), CAST(:ack_30000 AS BIGINT[]),
            CAST(:ack_300000 AS BIGINT[]))
     AS n (grain, at, client, channel, accepted, processed, delivered, failed, acks, ack_ms, ack_most_ms, ack_100, ack_500,
           ack_1000, ack_5000, ack_30000, ack_300000)
ON CONFLICT (Grain, ClientId, PointAt, Channel) DO UPDATE
SET Accepted = SeriesPoints.Accepted + excluded.Accepted, Processed = SeriesPoints.Processed + excluded.Processed,
    Delivered = SeriesPoints.Delivered + excluded.Delivered, Failed = SeriesPoints.Failed + excluded.Failed,
    Acks = SeriesPoints.Acks + excluded.Acks, AckMs = SeriesPoints.AckMs + excluded.AckMs,
    AckMostMs = CASE WHEN excluded.AckMostMs > SeriesPoints.AckMostMs THEN excluded.AckMostMs
                     ELSE SeriesPoints.AckMostMs END,
    Ack100Ms = SeriesPoints.Ack100Ms + excluded.Ack100Ms, Ack500Ms = SeriesPoints.Ack500Ms + excluded.Ack500Ms,
    Ack1000Ms = SeriesPoints.Ack1000Ms + excluded.Ack1000Ms, Ack5000Ms = SeriesPoints.Ack5000Ms + excluded.Ack5000Ms,
    Ack30000Ms = SeriesPoints.Ack30000Ms + excluded.Ack30000Ms,
    Ack300000Ms = SeriesPoints.Ack300000Ms + excluded.Ack300000Ms;

-- name: series_gauge
INSERT INTO SeriesPoints (Grain, PointAt, ClientId, Channel, Waiting, OldestSeconds)
VALUES (:grain, :at, :client, :channel, :waiting, :oldest)
ON CONFLICT (Grain, ClientId, PointAt, Channel) DO UPDATE
SET Waiting = excluded.Waiting, OldestSeconds = excluded.OldestSeconds;
-- dialect: sqlserver
UPDATE SeriesPoints WITH (UPDLOCK, HOLDLOCK)
SET Waiting = :waiting, OldestSeconds = :oldest
WHERE Grain = :grain AND ClientId = CAST(:client AS VARCHAR(37)) AND PointAt = :at
  AND Channel = CAST(:channel AS VARCHAR(51));
IF @@ROWCOUNT = 0
    INSERT INTO SeriesPoints (Grain, PointAt, ClientId, Channel, Waiting, OldestSeconds)
    VALUES (:grain, :at, :client, :channel, :waiting, :oldest);
-- many: postgres
INSERT INTO SeriesPoints (Grain, PointAt, ClientId, Channel, Waiting, OldestSeconds)
SELECT n.grain, n.at, n.client, n.channel, n.waiting, n.oldest
FROM UNNEST(CAST(:grain AS INT[]), CAST(:at AS TIMESTAMPTZ[]), CAST(:client AS VARCHAR[]), CAST(:channel AS VARCHAR[]),
            CAST(:waiting AS BIGINT[]), CAST(:oldest AS BIGINT[]))
     AS n (grain, at, client, channel, waiting, oldest)
ON CONFLICT (Grain, ClientId, PointAt, Channel) DO UPDATE
SET Waiting = excluded.Waiting, OldestSeconds = excluded.OldestSeconds;

-- name: mark_add
INSERT INTO SeriesMarks (MarkedAt, Kind, Subject, Instance) VALUES (:at, :kind, :subject, :instance);

-- --- reading ---

-- All channels of a client together, or one.
-- name: series_read
SELECT PointAt, CAST(SUM(Accepted) AS BIGINT) AS Accepted, CAST(SUM(Processed) AS BIGINT) AS Processed,
       CAST(SUM(Delivered) AS BIGINT) AS Delivered, CAST(SUM(Failed) AS BIGINT) AS Failed,
       CAST(SUM(Acks) AS BIGINT) AS Acks, CAST(SUM(AckMs) AS BIGINT) AS AckMs, MAX(AckMostMs) AS AckMostMs,
       CAST(SUM(Ack100Ms) AS BIGINT) AS Ack100Ms, CAST(SUM(Ack500Ms) AS BIGINT) AS Ack500Ms,
       CAST(SUM(Ack1000Ms) AS BIGINT) AS Ack1000Ms, CAST(SUM(Ack5000Ms) AS BIGINT) AS Ack5000Ms,
       CAST(SUM(Ack30000Ms) AS BIGINT) AS Ack30000Ms, CAST(SUM(Ack300000Ms) AS BIGINT) AS Ack300000Ms,
       CAST(SUM(Waiting) AS BIGINT) AS Waiting, MAX(OldestSeconds) AS OldestSeconds
FROM SeriesPoints
WHERE Grain = :grain AND ClientId = CAST(:client AS VARCHAR(37)) AND PointAt >= :from AND PointAt < :to
  AND (CAST(:channel AS VARCHAR(51)) IS NULL OR Channel = CAST(:channel AS VARCHAR(51)))
GROUP BY PointAt
ORDER BY PointAt;

-- name: mark_read
SELECT MarkedAt, Kind, Subject, Instance FROM SeriesMarks
WHERE MarkedAt >= :from AND MarkedAt < :to
ORDER BY MarkedAt DESC, Id DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) MarkedAt, Kind, Subject, Instance FROM SeriesMarks
WHERE MarkedAt >= :from AND MarkedAt < :to
ORDER BY MarkedAt DESC, Id DESC;

-- name: series_client
SELECT Id FROM Clients WHERE ClientIdentifier = CAST(:identifier AS VARCHAR(65));

-- --- upkeep: one process at a time ---

-- name: series_turn_add
INSERT INTO MaintenanceRuns (Name, DueAt) VALUES ('series', :due) ON CONFLICT (Name) DO NOTHING;
-- dialect: sqlserver
INSERT INTO MaintenanceRuns (Name, DueAt)
SELECT 'series', :due
WHERE NOT EXISTS (SELECT 1 FROM MaintenanceRuns AS o WITH (UPDLOCK, HOLDLOCK) WHERE o.Name = 'series');

-- A time beyond :ahead was written under another clock.
-- name: series_turn_take
UPDATE MaintenanceRuns SET DueAt = :due WHERE Name = 'series' AND (DueAt <= :now OR DueAt > :ahead);

-- name: series_rolled
SELECT MAX(PointAt) AS PointAt FROM SeriesPoints WHERE Grain = 3600 AND ClientId = '' AND PointAt <= :now;

-- name: series_oldest
SELECT MIN(PointAt) AS PointAt FROM SeriesPoints WHERE Grain = :grain AND PointAt >= :from;

-- An hour is written anew, as often as one likes: first series_drop_hour, then this. Of the clients of its minutes, those
-- that did most keep a row of their own. Of what waited, the most that was seen.
-- name: series_roll
-- dialect: sqlite
INSERT INTO SeriesPoints (Grain, PointAt, ClientId, Channel, Accepted, Processed, Delivered, Failed, Acks, AckMs,
                          AckMostMs, Ack100Ms, Ack500Ms, Ack1000Ms, Ack5000Ms, Ack30000Ms, Ack300000Ms, Waiting, OldestSeconds)
SELECT 3600, :from, q.ClientId, q.Channel,
       SUM(q.Accepted), SUM(q.Processed), SUM(q.Delivered), SUM(q.Failed), SUM(q.Acks), SUM(q.AckMs), MAX(q.AckMostMs),
       SUM(q.Ack100Ms), SUM(q.Ack500Ms), SUM(q.Ack1000Ms), SUM(q.Ack5000Ms), SUM(q.Ack30000Ms), SUM(q.Ack300000Ms),
       MAX(q.Waiting), MAX(q.OldestSeconds)
FROM (SELECT CASE WHEN p.ClientId IN ('', 'other') OR p.ClientId IN (
                 SELECT m.ClientId FROM SeriesPoints AS m
                 WHERE m.Grain = 60 AND m.PointAt >= :from AND m.PointAt < :to AND m.ClientId NOT IN ('', 'other')
                 GROUP BY m.ClientId
                 ORDER BY SUM(m.Accepted + m.Processed + m.Delivered + m.Failed + m.Acks) DESC, m.ClientId
                 LIMIT :clients)
             THEN p.ClientId ELSE 'other' END AS ClientId,
             p.PointAt, p.Channel, p.Accepted, p.Processed, p.Delivered, p.Failed, p.Acks, p.AckMs, p.AckMostMs, p.Ack100Ms,
             p.Ack500Ms, p.Ack1000Ms, p.Ack5000Ms, p.Ack30000Ms, p.Ack300000Ms, p.Waiting, p.OldestSeconds
      FROM SeriesPoints AS p
      WHERE p.Grain = 60 AND p.PointAt >= :from AND p.PointAt < :to) AS q
GROUP BY q.ClientId, q.Channel;
-- dialect: postgres
INSERT INTO SeriesPoints (Grain, PointAt, ClientId, Channel, Accepted, Processed, Delivered, Failed, Acks, AckMs,
                          AckMostMs, Ack100Ms, Ack500Ms, Ack1000Ms, Ack5000Ms, Ack30000Ms, Ack300000Ms, Waiting, OldestSeconds)
SELECT 3600, CAST(:from AS TIMESTAMPTZ), q.ClientId, q.Channel,
       SUM(q.Accepted), SUM(q.Processed), SUM(q.Delivered), SUM(q.Failed), SUM(q.Acks), SUM(q.AckMs), MAX(q.AckMostMs),
       SUM(q.Ack100Ms), SUM(q.Ack500Ms), SUM(q.Ack1000Ms), SUM(q.Ack5000Ms), SUM(q.Ack30000Ms), SUM(q.Ack300000Ms),
       MAX(q.Waiting), MAX(q.OldestSeconds)
FROM (SELECT CASE WHEN p.ClientId IN ('', 'other') OR p.ClientId IN (
                 SELECT m.ClientId FROM SeriesPoints AS m
                 WHERE m.Grain = 60 AND m.PointAt >= :from AND m.PointAt < :to AND m.ClientId NOT IN ('', 'other')
                 GROUP BY m.ClientId
                 ORDER BY SUM(m.Accepted + m.Processed + m.Delivered + m.Failed + m.Acks) DESC, m.ClientId
                 LIMIT :clients)
             THEN p.ClientId ELSE 'other' END AS ClientId,
             p.PointAt, p.Channel, p.Accepted, p.Processed, p.Delivered, p.Failed, p.Acks, p.AckMs, p.AckMostMs, p.Ack100Ms,
             p.Ack500Ms, p.Ack1000Ms, p.Ack5000Ms, p.Ack30000Ms, p.Ack300000Ms, p.Waiting, p.OldestSeconds
      FROM SeriesPoints AS p
      WHERE p.Grain = 60 AND p.PointAt >= :from AND p.PointAt < :to) AS q
GROUP BY q.ClientId, q.Channel;
-- dialect: sqlserver
INSERT INTO SeriesPoints (Grain, PointAt, ClientId, Channel, Accepted, Processed, Delivered, Failed, Acks, AckMs,
                          AckMostMs, Ack100Ms, Ack500Ms, Ack1000Ms, Ack5000Ms, Ack30000Ms, Ack300000Ms, Waiting, OldestSeconds)
SELECT 3600, CAST(:from AS DATETIME2), q.ClientId, q.Channel,
       SUM(q.Accepted), SUM(q.Processed), SUM(q.Delivered), SUM(q.Failed), SUM(q.Acks), SUM(q.AckMs), MAX(q.AckMostMs),
       SUM(q.Ack100Ms), SUM(q.Ack500Ms), SUM(q.Ack1000Ms), SUM(q.Ack5000Ms), SUM(q.Ack30000Ms), SUM(q.Ack300000Ms),
       MAX(q.Waiting), MAX(q.OldestSeconds)
FROM (SELECT CASE WHEN p.ClientId IN ('', 'other') OR p.ClientId IN (
                 SELECT TOP (:clients) m.ClientId FROM SeriesPoints AS m
                 WHERE m.Grain = 60 AND m.PointAt >= :from AND m.PointAt < :to AND m.ClientId NOT IN ('', 'other')
                 GROUP BY m.ClientId
                 ORDER BY SUM(m.Accepted + m.Processed + m.Delivered + m.Failed + m.Acks) DESC, m.ClientId)
             THEN p.ClientId ELSE 'other' END AS ClientId,
             p.PointAt, p.Channel, p.Accepted, p.Processed, p.Delivered, p.Failed, p.Acks, p.AckMs, p.AckMostMs, p.Ack100Ms,
             p.Ack500Ms, p.Ack1000Ms, p.Ack5000Ms, p.Ack30000Ms, p.Ack300000Ms, p.Waiting, p.OldestSeconds
      FROM SeriesPoints AS p
      WHERE p.Grain = 60 AND p.PointAt >= :from AND p.PointAt < :to) AS q
GROUP BY q.ClientId, q.Channel;

-- name: series_drop_hour
DELETE FROM SeriesPoints WHERE Grain = 3600 AND PointAt = :from;

-- name: series_drop
DELETE FROM SeriesPoints WHERE Grain = :grain AND PointAt < :before;

-- What was written while a clock was far ahead.
-- name: series_drop_ahead
DELETE FROM SeriesPoints WHERE Grain = :grain AND PointAt > :after;

-- name: mark_drop
DELETE FROM SeriesMarks
WHERE Id IN (SELECT o.Id FROM SeriesMarks AS o WHERE o.MarkedAt < :before ORDER BY o.MarkedAt, o.Id LIMIT :limit);
-- dialect: sqlserver
DELETE FROM SeriesMarks
WHERE Id IN (SELECT TOP (:limit) o.Id FROM SeriesMarks AS o WHERE o.MarkedAt < :before ORDER BY o.MarkedAt, o.Id);

-- Ids grow: the newest :most may stay.
-- name: mark_trim
DELETE FROM SeriesMarks
WHERE Id IN (SELECT o.Id FROM SeriesMarks AS o
             WHERE o.Id <= (SELECT MAX(m.Id) FROM SeriesMarks AS m) - :most ORDER BY o.Id LIMIT :limit);
-- dialect: sqlserver
DELETE FROM SeriesMarks
WHERE Id IN (SELECT TOP (:limit) o.Id FROM SeriesMarks AS o
             WHERE o.Id <= (SELECT MAX(m.Id) FROM SeriesMarks AS m) - :most ORDER BY o.Id);

-- --- what waits, by client; a document of nobody has a NULL ---

-- name: series_waiting_tickets
-- row: series_waiting
SELECT ClientId, COUNT(*) AS Documents, MIN(CreatedAt) AS Oldest
FROM TB_TICKET_INTERFACE WHERE NextAttemptAt IS NOT NULL
GROUP BY ClientId;

-- name: series_waiting_gateway
-- row: series_waiting
SELECT ClientId, COUNT(*) AS Documents, MIN(CreatedAt) AS Oldest
FROM TB_TICKET_INTERFACE WHERE GatewaySendNextAttemptAt IS NOT NULL
GROUP BY ClientId;

-- name: series_waiting_returns
-- row: series_waiting
SELECT t.ClientId, COUNT(*) AS Documents, MIN(o.CreatedAt) AS Oldest
FROM TB_TICKET_RETURN_OUTBOX AS o
LEFT JOIN TB_TICKET_INTERFACE AS t ON t.BusinessEntity = o.BusinessEntity AND t.BusinessDocId = o.BusinessDocId
 AND t.PhaseCode = o.PhaseCode
WHERE o.NextAttemptAt IS NOT NULL
GROUP BY t.ClientId;

-- name: series_waiting_acks
-- row: series_waiting
SELECT ClientId, COUNT(*) AS Documents, MIN(CreatedAt) AS Oldest
FROM TB_FUNCTIONAL_ACK_OUTBOX WHERE NextAttemptAt IS NOT NULL
GROUP BY ClientId;

-- name: series_waiting_webhooks
-- row: series_waiting
SELECT s.ClientId, COUNT(*) AS Documents, MIN(d.CreatedAt) AS Oldest
FROM WebhookDeliveries AS d
JOIN WebhookSubscriptions AS s ON s.Id = d.SubscriptionId
WHERE d.NextAttemptAt IS NOT NULL
GROUP BY s.ClientId;

-- name: series_waiting_integrations
-- row: series_waiting
SELECT ClientId, COUNT(*) AS Documents, MIN(CreatedAt) AS Oldest
FROM IntegrationCalls WHERE NextAttemptAt IS NOT NULL
GROUP BY ClientId;

-- name: series_waiting_events
-- row: series_waiting
SELECT client_id AS ClientId, COUNT(*) AS Documents, MIN(created_at) AS Oldest
FROM outbox_events WHERE status = 'PENDING'
GROUP BY client_id;

-- name: series_waiting_imports
-- row: series_waiting
SELECT ClientId, COUNT(*) AS Documents, MIN(CreatedAt) AS Oldest
FROM ImportBatch WHERE Status IN (0, 1)
GROUP BY ClientId;

-- --- the flow: what was accepted, processed and delivered, with the channels that process apart from those that deliver ---

-- name: flow_read
SELECT p.PointAt, CASE WHEN p.Channel IN ('tickets', 'imports', 'counterparties') THEN 1 ELSE 0 END AS IsProcessing,
       CAST(SUM(p.Accepted) AS BIGINT) AS Accepted, CAST(SUM(p.Processed) AS BIGINT) AS Processed,
       CAST(SUM(p.Delivered) AS BIGINT) AS Delivered, CAST(SUM(p.Failed) AS BIGINT) AS Failed,
       CAST(SUM(p.Waiting) AS BIGINT) AS Waiting
FROM SeriesPoints AS p
WHERE p.Grain = :grain AND p.ClientId = '' AND p.PointAt >= :from AND p.PointAt < :to
GROUP BY p.PointAt, CASE WHEN p.Channel IN ('tickets', 'imports', 'counterparties') THEN 1 ELSE 0 END
ORDER BY p.PointAt;
