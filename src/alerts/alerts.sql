-- Alerts: which process evaluates, what the rules find, and the alerts themselves.

-- A process does not wait for another that evaluates, since that one does the same work. :ahead is for a clock that was
-- set back.
-- name: alert_evaluation_begin
-- dialect: sqlite
UPDATE AlertEvaluation SET EvaluatedAt = :now
WHERE Id = 1 AND (EvaluatedAt IS NULL OR EvaluatedAt <= :before OR EvaluatedAt > :ahead);
-- dialect: postgres
UPDATE AlertEvaluation SET EvaluatedAt = :now
WHERE Id IN (SELECT Id FROM AlertEvaluation
             WHERE Id = 1 AND (EvaluatedAt IS NULL OR EvaluatedAt <= :before OR EvaluatedAt > :ahead)
             FOR UPDATE SKIP LOCKED);
-- dialect: sqlserver
UPDATE AlertEvaluation SET EvaluatedAt = :now
WHERE Id IN (SELECT e.Id FROM AlertEvaluation AS e WITH (UPDLOCK, READPAST, ROWLOCK) WHERE e.Id = 1)
  AND (EvaluatedAt IS NULL OR EvaluatedAt <= :before OR EvaluatedAt > :ahead);

-- --- the rules: by subject; no more than :limit ---

-- Since when a batch has made no progress: since the last chunk that was settled, or since its beginning. UpdatedAt
-- alone would not do, because every owner that takes the batch and dies sets it; only an attempt that a person asked
-- for has no other beginning. Of the batches that wait, the first in line counts if no batch is being worked on, nor
-- was for as long. A batch that gave way waits too; when it goes on, its time counts from TurnAt. Of the batches of
-- which OmniFlow takes nothing, the one for which that has lasted longest counts, whether it waits or probes.
-- name: alert_batches_stuck
SELECT s.Id, c.ClientIdentifier, s.Status, s.ProcessedRecords, s.TotalRecords, s.Since
FROM (SELECT b.Id, b.ClientId, b.Status, b.ProcessedRecords, b.TotalRecords,
             COALESCE((SELECT MAX(k.UpdatedAt) FROM ImportChunk AS k
                       WHERE k.BatchId = b.Id AND k.ChunkId >= COALESCE(b.RetryFromChunk, 0) AND k.Status >= 3),
                      CASE WHEN b.Attempt > 1 THEN b.UpdatedAt ELSE COALESCE(b.StartedAt, b.UpdatedAt) END) AS Since
      FROM ImportBatch AS b
      WHERE (b.Status = 1 OR (b.Status = 2 AND b.StartedAt IS NOT NULL AND b.Attempt = 1)) AND b.OutageSince IS NULL
        AND (b.TurnAt IS NULL OR b.TurnAt <= :before)
        AND (b.GaveWayAt IS NULL
             OR (NOT EXISTS (SELECT 1 FROM ImportBatch AS w WHERE w.Status = 1 AND w.GaveWayAt IS NULL)
                 AND NOT EXISTS (SELECT 1 FROM ImportBatch AS w WHERE w.Status = 1 AND w.GaveWayAt > :before)
                 AND NOT EXISTS (SELECT 1 FROM ImportBatch AS w WHERE w.CompletedAt > :before)))
      UNION ALL
      SELECT b.Id, b.ClientId, b.Status, b.ProcessedRecords, b.TotalRecords, b.UpdatedAt AS Since
      FROM ImportBatch AS b
      WHERE b.Status = 0 AND b.OutageSince IS NULL
        AND NOT EXISTS (SELECT 1 FROM ImportBatch AS e
                        WHERE e.Status = 0 AND e.OutageSince IS NULL
                          AND (e.CreatedAt < b.CreatedAt OR (e.CreatedAt = b.CreatedAt AND e.Id < b.Id)))
        AND NOT EXISTS (SELECT 1 FROM ImportBatch AS w WHERE w.Status = 1)
        AND NOT EXISTS (SELECT 1 FROM ImportBatch AS w WHERE w.CompletedAt > :before)
      UNION ALL
      SELECT b.Id, b.ClientId, b.Status, b.ProcessedRecords, b.TotalRecords, b.OutageSince AS Since
      FROM ImportBatch AS b
      WHERE b.Status IN (0, 1) AND b.OutageSince IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM ImportBatch AS e
                        WHERE e.Status IN (0, 1)
                          AND (e.OutageSince < b.OutageSince OR (e.OutageSince = b.OutageSince AND e.Id < b.Id)))) AS s
JOIN Clients AS c ON c.Id = s.ClientId
WHERE s.Since <= :before
ORDER BY s.Id
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) s.Id, c.ClientIdentifier, s.Status, s.ProcessedRecords, s.TotalRecords, s.Since
FROM (SELECT b.Id, b.ClientId, b.Status, b.ProcessedRecords, b.TotalRecords,
             COALESCE((SELECT MAX(k.UpdatedAt) FROM ImportChunk AS k
                       WHERE k.BatchId = b.Id AND k.ChunkId >= COALESCE(b.RetryFromChunk, 0) AND k.Status >= 3),
                      CASE WHEN b.Attempt > 1 THEN b.UpdatedAt ELSE COALESCE(b.StartedAt, b.UpdatedAt) END) AS Since
      FROM ImportBatch AS b
      WHERE (b.Status = 1 OR (b.Status = 2 AND b.StartedAt IS NOT NULL AND b.Attempt = 1)) AND b.OutageSince IS NULL
        AND (b.TurnAt IS NULL OR b.TurnAt <= :before)
        AND (b.GaveWayAt IS NULL
             OR (NOT EXISTS (SELECT 1 FROM ImportBatch AS w WHERE w.Status = 1 AND w.GaveWayAt IS NULL)
                 AND NOT EXISTS (SELECT 1 FROM ImportBatch AS w WHERE w.Status = 1 AND w.GaveWayAt > :before)
                 AND NOT EXISTS (SELECT 1 FROM ImportBatch AS w WHERE w.CompletedAt > :before)))
      UNION ALL
      SELECT b.Id, b.ClientId, b.Status, b.ProcessedRecords, b.TotalRecords, b.UpdatedAt AS Since
      FROM ImportBatch AS b
      WHERE b.Status = 0 AND b.OutageSince IS NULL
        AND NOT EXISTS (SELECT 1 FROM ImportBatch AS e
                        WHERE e.Status = 0 AND e.OutageSince IS NULL
                          AND (e.CreatedAt < b.CreatedAt OR (e.CreatedAt = b.CreatedAt AND e.Id < b.Id)))
        AND NOT EXISTS (SELECT 1 FROM ImportBatch AS w WHERE w.Status = 1)
        AND NOT EXISTS (SELECT 1 FROM ImportBatch AS w WHERE w.CompletedAt > :before)
      UNION ALL
      SELECT b.Id, b.ClientId, b.Status, b.ProcessedRecords, b.TotalRecords, b.OutageSince AS Since
      FROM ImportBatch AS b
      WHERE b.Status IN (0, 1) AND b.OutageSince IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM ImportBatch AS e
                        WHERE e.Status IN (0, 1)
                          AND (e.OutageSince < b.OutageSince OR (e.OutageSince = b.OutageSince AND e.Id < b.Id)))) AS s
JOIN Clients AS c ON c.Id = s.ClientId
WHERE s.Since <= :before
ORDER BY s.Id;

-- Subscriptions that are active and have deliveries that were given up and not replayed, or that the server switched
-- off. Subscriptions that a person switched off (src/webhooks/subscriptions_api.c gives the reason) do not count: that
-- person wanted their deliveries to be given up. Here and below, the UNION lets each part use its own index; with one
-- GROUP BY, SQLite would go through the whole table in the order of the groups while all writers wait.
-- name: alert_webhooks_failing
SELECT s.Id, c.ClientIdentifier, t.Failures, CASE WHEN s.IsActive = :inactive THEN s.DisabledReason END AS Reason
FROM (SELECT u.SubscriptionId, CAST(SUM(u.GivenUp) AS BIGINT) AS Failures
      FROM (SELECT f.SubscriptionId, 1 AS GivenUp FROM WebhookDeliveryFailures AS f
            WHERE f.CreatedAt > :since AND f.ReplayedAt IS NULL AND f.DismissedAt IS NULL
            UNION ALL
            SELECT d.Id, 0 FROM WebhookSubscriptions AS d WHERE d.IsActive = :inactive) AS u
      GROUP BY u.SubscriptionId) AS t
JOIN WebhookSubscriptions AS s ON s.Id = t.SubscriptionId
JOIN Clients AS c ON c.Id = s.ClientId
WHERE (s.IsActive <> :inactive AND t.Failures >= :failures)
   OR (s.IsActive = :inactive AND s.DisabledReason NOT LIKE 'Switched off by %')
ORDER BY s.Id
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) s.Id, c.ClientIdentifier, t.Failures, CASE WHEN s.IsActive = :inactive THEN s.DisabledReason END AS Reason
FROM (SELECT u.SubscriptionId, CAST(SUM(u.GivenUp) AS BIGINT) AS Failures
      FROM (SELECT f.SubscriptionId, 1 AS GivenUp FROM WebhookDeliveryFailures AS f
            WHERE f.CreatedAt > :since AND f.ReplayedAt IS NULL AND f.DismissedAt IS NULL
            UNION ALL
            SELECT d.Id, 0 FROM WebhookSubscriptions AS d WHERE d.IsActive = :inactive) AS u
      GROUP BY u.SubscriptionId) AS t
JOIN WebhookSubscriptions AS s ON s.Id = t.SubscriptionId
JOIN Clients AS c ON c.Id = s.ClientId
WHERE (s.IsActive <> :inactive AND t.Failures >= :failures)
   OR (s.IsActive = :inactive AND s.DisabledReason NOT LIKE 'Switched off by %')
ORDER BY s.Id;

-- Batches that ended lately or are being worked on, by client.
-- name: alert_error_rates
SELECT c.Id, c.ClientIdentifier, t.Failed, t.Processed
FROM (SELECT b.ClientId, CAST(SUM(CAST(b.ErrorCount AS BIGINT)) AS BIGINT) AS Failed,
             CAST(SUM(CAST(b.ProcessedRecords AS BIGINT)) AS BIGINT) AS Processed
      FROM (SELECT ClientId, ErrorCount, ProcessedRecords FROM ImportBatch WHERE CompletedAt > :since AND Status <> 1
            UNION ALL
            SELECT ClientId, ErrorCount, ProcessedRecords FROM ImportBatch WHERE Status = 1) AS b
      GROUP BY b.ClientId) AS t
JOIN Clients AS c ON c.Id = t.ClientId
WHERE t.Processed >= :min_records AND t.Failed * 100 > t.Processed * :percent
ORDER BY c.Id
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) c.Id, c.ClientIdentifier, t.Failed, t.Processed
FROM (SELECT b.ClientId, CAST(SUM(CAST(b.ErrorCount AS BIGINT)) AS BIGINT) AS Failed,
             CAST(SUM(CAST(b.ProcessedRecords AS BIGINT)) AS BIGINT) AS Processed
      FROM (SELECT ClientId, ErrorCount, ProcessedRecords FROM ImportBatch WHERE CompletedAt > :since AND Status <> 1
            UNION ALL
            SELECT ClientId, ErrorCount, ProcessedRecords FROM ImportBatch WHERE Status = 1) AS b
      GROUP BY b.ClientId) AS t
JOIN Clients AS c ON c.Id = t.ClientId
WHERE t.Processed >= :min_records AND t.Failed * 100 > t.Processed * :percent
ORDER BY c.Id;

-- Clients that may call with a secret that is too old, the oldest first.
-- name: alert_client_secrets_old
SELECT Id, ClientIdentifier, COALESCE(SecretChangedAt, CreatedAt) AS Since
FROM Clients
WHERE Status = 0 AND COALESCE(SecretChangedAt, CreatedAt) <= :before
ORDER BY Since, Id
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Id, ClientIdentifier, COALESCE(SecretChangedAt, CreatedAt) AS Since
FROM Clients
WHERE Status = 0 AND COALESCE(SecretChangedAt, CreatedAt) <= :before
ORDER BY Since, Id;

-- Subscriptions with a new secret that nobody fetches.
-- name: alert_secrets_waiting
SELECT s.Id, c.ClientIdentifier, s.NextSecretAt
FROM WebhookSubscriptions AS s
JOIN Clients AS c ON c.Id = s.ClientId
WHERE s.NextSecretAt <= :before AND s.IsActive = :active AND c.Status = 0
ORDER BY s.NextSecretAt, s.Id
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) s.Id, c.ClientIdentifier, s.NextSecretAt
FROM WebhookSubscriptions AS s
JOIN Clients AS c ON c.Id = s.ClientId
WHERE s.NextSecretAt <= :before AND s.IsActive = :active AND c.Status = 0
ORDER BY s.NextSecretAt, s.Id;

-- Events that relays have given up, as the relays count them (src/relay/given_up.sql). A relay that has not said so for a
-- day is configured no more.
-- name: alert_relays_given_up
-- row: channel_given_up
SELECT Target, GivenUp AS Documents, GivenUpSince AS Oldest, GivenUpAt AS Newest, GivenUpError AS LastError
FROM DeliveryTargets
WHERE Channel = 'relay' AND GivenUp > 0 AND UpdatedAt > :heard_after
ORDER BY Target
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Target, GivenUp AS Documents, GivenUpSince AS Oldest, GivenUpAt AS Newest, GivenUpError AS LastError
FROM DeliveryTargets
WHERE Channel = 'relay' AND GivenUp > 0 AND UpdatedAt > :heard_after
ORDER BY Target;

-- --- the alerts ---

-- name: alert_firing
SELECT Id, RuleName, Subject, Severity, Summary, DetailsJson, FiredAt, Reported, AcknowledgedAt, SilencedBy
FROM Alerts
WHERE ResolvedAt IS NULL;

-- name: alert_insert
INSERT INTO Alerts (Id, RuleName, Subject, DedupKey, Severity, Summary, DetailsJson, Status, FiredAt, ResolvedAt, Reported,
                    SilencedBy)
VALUES (:id, :rule_name, :subject, :dedup_key, :severity, :summary, :details_json, :status, :fired_at, :resolved_at,
        :reported, :silenced_by);

-- name: alert_update
UPDATE Alerts SET Summary = :summary, DetailsJson = :details_json, Reported = :reported
WHERE Id = :id AND ResolvedAt IS NULL;

-- name: alert_unsilence
UPDATE Alerts SET SilencedBy = NULL WHERE Id = :id;

-- name: alert_acknowledge
UPDATE Alerts SET AcknowledgedBy = :by, AcknowledgedAt = :now, AcknowledgedNote = :note
WHERE Id = :id AND ResolvedAt IS NULL AND AcknowledgedAt IS NULL;

-- name: alert_unacknowledge
UPDATE Alerts SET AcknowledgedBy = NULL, AcknowledgedAt = NULL, AcknowledgedNote = NULL
WHERE Id = :id AND AcknowledgedAt IS NOT NULL;

-- name: alert_silences
SELECT Id, RuleName, ClientIdentifier, Target, Reason, CreatedBy, CreatedAt, EndsAt
FROM AlertSilences
WHERE EndsAt > :now
ORDER BY EndsAt, Id
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Id, RuleName, ClientIdentifier, Target, Reason, CreatedBy, CreatedAt, EndsAt
FROM AlertSilences
WHERE EndsAt > :now
ORDER BY EndsAt, Id;

-- name: alert_silence_count
SELECT COUNT(*) FROM AlertSilences WHERE EndsAt > :now;

-- name: alert_silence_insert
INSERT INTO AlertSilences (Id, RuleName, ClientIdentifier, Target, Reason, CreatedBy, CreatedAt, EndsAt)
VALUES (:id, :rule, :client, :target, :reason, :by, :now, :ends);

-- name: alert_silence_delete
DELETE FROM AlertSilences WHERE Id = :id;

-- What ended long ago.
-- name: alert_silence_clean
DELETE FROM AlertSilences WHERE EndsAt < :before;

-- name: alert_resolve
UPDATE Alerts SET Status = 'resolved', ResolvedAt = :now WHERE Id = :id AND ResolvedAt IS NULL;

-- name: alert_firing_counts
SELECT RuleName, COUNT(*) AS Firing FROM Alerts WHERE ResolvedAt IS NULL GROUP BY RuleName;

-- name: alert_list
SELECT Id, RuleName, Subject, Severity, Summary, DetailsJson, Status, FiredAt, ResolvedAt, AcknowledgedBy, AcknowledgedAt,
       AcknowledgedNote, SilencedBy
FROM Alerts
WHERE Id IN EACH_UUID(:ids)
ORDER BY CASE WHEN CAST(:oldest AS INT) = 1 THEN FiredAt END, CASE WHEN CAST(:oldest AS INT) = 1 THEN Id END, FiredAt DESC, Id DESC;

-- name: alert_keys
-- row: list_key
SELECT a.Id, a.FiredAt AS CreatedAt
FROM Alerts AS a
WHERE (CAST(:status AS VARCHAR(21)) IS NULL OR a.Status = CAST(:status AS VARCHAR(21)))
  AND (CAST(:rule AS VARCHAR(51)) IS NULL OR a.RuleName = CAST(:rule AS VARCHAR(51)))
  AND a.FiredAt {<}= :after_at AND (a.FiredAt {<} :after_at OR a.Id {<} :after_id)
ORDER BY a.FiredAt {DESC}, a.Id {DESC}
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT a.Id, a.FiredAt AS CreatedAt
FROM Alerts AS a
WHERE (CAST(:status AS VARCHAR(21)) IS NULL OR a.Status = CAST(:status AS VARCHAR(21)))
  AND (CAST(:rule AS VARCHAR(51)) IS NULL OR a.RuleName = CAST(:rule AS VARCHAR(51)))
  AND a.FiredAt {<}= :after_at AND (a.FiredAt {<} :after_at OR a.Id {<} :after_id)
ORDER BY a.FiredAt {DESC}, a.Id {DESC}
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;
