-- AuditLog: append-only record of sensitive operations, chained by keyed hashes.

-- --- the chain ---

-- Locks the head until the transaction ends and counts on. A head that somebody has set back does not stop the writers.
-- The condition is that of the index: without it the whole log would be read for each entry.
-- name: audit_head_take
UPDATE AuditHead
SET Sequence = CASE WHEN COALESCE((SELECT MAX(Sequence) FROM AuditLog WHERE Sequence IS NOT NULL), 0) > Sequence
                    THEN (SELECT MAX(Sequence) FROM AuditLog WHERE Sequence IS NOT NULL) ELSE Sequence END + 1
RETURNING Sequence, Mac;
-- dialect: sqlserver
UPDATE AuditHead
SET Sequence = CASE WHEN COALESCE((SELECT MAX(Sequence) FROM AuditLog WHERE Sequence IS NOT NULL), 0) > Sequence
                    THEN (SELECT MAX(Sequence) FROM AuditLog WHERE Sequence IS NOT NULL) ELSE Sequence END + 1
OUTPUT inserted.Sequence, inserted.Mac;

-- name: audit_head_set
UPDATE AuditHead SET Sequence = :sequence, Mac = :mac;

-- name: audit_head_make
INSERT INTO AuditHead (Id, Sequence) VALUES (1, 0);

-- name: audit_head
SELECT Sequence, Mac FROM AuditHead;

-- The head, if the log has it.
-- name: audit_head_seen
-- row: audit_head
SELECT h.Sequence, h.Mac FROM AuditHead AS h JOIN AuditLog AS a ON a.Sequence = h.Sequence AND a.Mac = h.Mac;

-- name: audit_insert
INSERT INTO AuditLog (OccurredAt, Actor, Action, Target, ClientId, Ip, CorrelationId, DetailsJson, Outcome, Sequence, Mac)
VALUES (:occurred_at, :actor, :action, :target, :client_id, :ip, :correlation_id, :details, :outcome, :sequence, :mac);

-- name: audit_unsealed
-- row: audit_entry
SELECT Id, OccurredAt, Actor, Action, Target, ClientId, Ip, CorrelationId, DetailsJson, Outcome, Sequence, Mac
FROM AuditLog
WHERE Sequence IS NULL
ORDER BY Id
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Id, OccurredAt, Actor, Action, Target, ClientId, Ip, CorrelationId, DetailsJson, Outcome, Sequence, Mac
FROM AuditLog
WHERE Sequence IS NULL
ORDER BY Id;

-- name: audit_unsealed_count
SELECT COUNT(*) FROM AuditLog WHERE Sequence IS NULL;

-- name: audit_seal
UPDATE AuditLog SET Sequence = :sequence, Mac = :mac WHERE Id = :id;

-- A page of the chain, oldest first.
-- name: audit_walk
-- row: audit_entry
SELECT Id, OccurredAt, Actor, Action, Target, ClientId, Ip, CorrelationId, DetailsJson, Outcome, Sequence, Mac
FROM AuditLog
WHERE Sequence > :after
ORDER BY Sequence
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Id, OccurredAt, Actor, Action, Target, ClientId, Ip, CorrelationId, DetailsJson, Outcome, Sequence, Mac
FROM AuditLog
WHERE Sequence > :after
ORDER BY Sequence;

-- name: audit_last_sequence
SELECT COALESCE(MAX(Sequence), 0) AS Sequence FROM AuditLog;

-- name: audit_numbered
SELECT COUNT(*) FROM AuditLog WHERE Sequence <= :to;

-- name: audit_at
SELECT Mac FROM AuditLog WHERE Sequence = :sequence;

-- Who acknowledged that the database is an older copy of itself, and which head it replaced.
-- name: audit_restored
SELECT Sequence, Target FROM AuditLog
WHERE Action = 'DatabaseRestored' AND OccurredAt >= :since AND Sequence > 0
ORDER BY Sequence DESC
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Sequence, Target FROM AuditLog
WHERE Action = 'DatabaseRestored' AND OccurredAt >= :since AND Sequence > 0
ORDER BY Sequence DESC;

-- name: audit_stub
SELECT FromSequence, ToSequence, FirstAt, LastAt, LastMac, CreatedAt, Mac FROM AuditStubs ORDER BY FromSequence;

-- name: audit_stub_insert
INSERT INTO AuditStubs (FromSequence, ToSequence, FirstAt, LastAt, LastMac, CreatedAt, Mac)
VALUES (:from, :to, :first_at, :last_at, :last_mac, :now, :mac);

-- name: audit_stub_extend
UPDATE AuditStubs SET ToSequence = :to, LastAt = :last_at, LastMac = :last_mac, CreatedAt = :now, Mac = :mac
WHERE FromSequence = :from AND ToSequence = :before;

-- name: audit_delete
DELETE FROM AuditLog WHERE Sequence >= :from AND Sequence <= :to;

-- --- lists ---

-- The newest or the oldest of the entries from :least on and before :before, of those that fit.
-- name: audit_list
-- row: audit_entry
SELECT Id, OccurredAt, Actor, Action, Target, ClientId, Ip, CorrelationId, DetailsJson, Outcome, Sequence, Mac
FROM AuditLog
WHERE Id < :before AND Id >= :least AND OccurredAt >= :from AND OccurredAt < :to
  AND (CAST(:actor AS VARCHAR(201)) IS NULL OR Actor = CAST(:actor AS VARCHAR(201)))
  AND (CAST(:action AS VARCHAR(101)) IS NULL OR Action = CAST(:action AS VARCHAR(101)))
  AND (CAST(:target AS VARCHAR(201)) IS NULL OR Target = CAST(:target AS VARCHAR(201)))
  AND (CAST(:outcome AS VARCHAR(21)) IS NULL OR Outcome = CAST(:outcome AS VARCHAR(21)))
  AND (CAST(:client AS VARCHAR(100)) IS NULL
       OR ClientId IN (SELECT Id FROM Clients WHERE ClientIdentifier = CAST(:client AS VARCHAR(100))))
ORDER BY Id {DESC}
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT Id, OccurredAt, Actor, Action, Target, ClientId, Ip, CorrelationId, DetailsJson, Outcome, Sequence, Mac
FROM AuditLog
WHERE Id < :before AND Id >= :least AND OccurredAt >= :from AND OccurredAt < :to
  AND (CAST(:actor AS NVARCHAR(201)) IS NULL OR Actor = CAST(:actor AS NVARCHAR(201)))
  AND (CAST(:action AS VARCHAR(101)) IS NULL OR Action = CAST(:action AS VARCHAR(101)))
  AND (CAST(:target AS NVARCHAR(201)) IS NULL OR Target = CAST(:target AS NVARCHAR(201)))
  AND (CAST(:outcome AS VARCHAR(21)) IS NULL OR Outcome = CAST(:outcome AS VARCHAR(21)))
  AND (CAST(:client AS VARCHAR(100)) IS NULL
       OR ClientId IN (SELECT Id FROM Clients WHERE ClientIdentifier = CAST(:client AS VARCHAR(100))))
ORDER BY Id {DESC}
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- How many fit, at most :most.
-- name: audit_count
SELECT COUNT(*) FROM (
    SELECT 1 AS One FROM AuditLog
    WHERE Id < :before AND Id >= :least AND OccurredAt >= :from AND OccurredAt < :to
      AND (CAST(:actor AS VARCHAR(201)) IS NULL OR Actor = CAST(:actor AS VARCHAR(201)))
      AND (CAST(:action AS VARCHAR(101)) IS NULL OR Action = CAST(:action AS VARCHAR(101)))
      AND (CAST(:target AS VARCHAR(201)) IS NULL OR Target = CAST(:target AS VARCHAR(201)))
      AND (CAST(:outcome AS VARCHAR(21)) IS NULL OR Outcome = CAST(:outcome AS VARCHAR(21)))
      AND (CAST(:client AS VARCHAR(100)) IS NULL
           OR ClientId IN (SELECT Id FROM Clients WHERE ClientIdentifier = CAST(:client AS VARCHAR(100))))
    ORDER BY Id DESC
    LIMIT :most) AS fitting;
-- dialect: sqlserver
SELECT COUNT(*) FROM (
    SELECT TOP (:most) 1 AS One FROM AuditLog
    WHERE Id < :before AND Id >= :least AND OccurredAt >= :from AND OccurredAt < :to
      AND (CAST(:actor AS NVARCHAR(201)) IS NULL OR Actor = CAST(:actor AS NVARCHAR(201)))
      AND (CAST(:action AS VARCHAR(101)) IS NULL OR Action = CAST(:action AS VARCHAR(101)))
      AND (CAST(:target AS NVARCHAR(201)) IS NULL OR Target = CAST(:target AS NVARCHAR(201)))
      AND (CAST(:outcome AS VARCHAR(21)) IS NULL OR Outcome = CAST(:outcome AS VARCHAR(21)))
      AND (CAST(:client AS VARCHAR(100)) IS NULL
           OR ClientId IN (SELECT Id FROM Clients WHERE ClientIdentifier = CAST(:client AS VARCHAR(100))))
    ORDER BY Id DESC) AS fitting;

-- name: audit_first_id
SELECT COALESCE(MIN(Id), 0) AS Id FROM AuditLog;

-- name: audit_last_id
SELECT COALESCE(MAX(Id), 0) AS Id FROM AuditLog;
