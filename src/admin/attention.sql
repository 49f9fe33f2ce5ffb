-- What needs a person (attention.c). Every query is bounded, and goes by an index or by a small table.

-- Alerts that fire, that nobody looks after and that no silence is about.
-- name: attention_alerts
SELECT Id, RuleName, Subject, Severity, Summary, DetailsJson, FiredAt
FROM Alerts
WHERE ResolvedAt IS NULL AND AcknowledgedAt IS NULL AND SilencedBy IS NULL
ORDER BY FiredAt, Id
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Id, RuleName, Subject, Severity, Summary, DetailsJson, FiredAt
FROM Alerts
WHERE ResolvedAt IS NULL AND AcknowledgedAt IS NULL AND SilencedBy IS NULL
ORDER BY FiredAt, Id;

-- Targets that are away or paused, and relays that have given something up.
-- name: attention_targets
SELECT Channel, Target, DownSince, PausedAt, PausedBy, LastError, GivenUp, GivenUpSince, GivenUpError
FROM DeliveryTargets
WHERE DownSince IS NOT NULL OR PausedAt IS NOT NULL OR (Channel = 'relay' AND GivenUp > 0)
ORDER BY Id
LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Channel, Target, DownSince, PausedAt, PausedBy, LastError, GivenUp, GivenUpSince, GivenUpError
FROM DeliveryTargets
WHERE DownSince IS NOT NULL OR PausedAt IS NOT NULL OR (Channel = 'relay' AND GivenUp > 0)
ORDER BY Id;

-- What waited in each of the last minutes, the newest last.
-- name: attention_waiting
SELECT Channel, Waiting, OldestSeconds, PointAt
FROM SeriesPoints
WHERE Grain = 60 AND ClientId = '' AND PointAt >= :since AND Waiting IS NOT NULL
ORDER BY PointAt;

-- Tickets whose processing was given up.
-- name: attention_tickets
-- dialect: sqlite
SELECT COUNT(*) AS Documents, MIN(g.FirstFailedAt) AS Since
FROM (SELECT FirstFailedAt FROM TB_TICKET_INTERFACE INDEXED BY IX_TB_TICKET_INTERFACE_ProcessingAwaitsPerson
      WHERE Status = 'Error' AND NextAttemptAt IS NULL AND FirstFailedAt IS NOT NULL AND DismissedAt IS NULL
      ORDER BY FirstFailedAt LIMIT :limit) AS g;
-- dialect: postgres
SELECT COUNT(*) AS Documents, MIN(g.FirstFailedAt) AS Since
FROM (SELECT FirstFailedAt FROM TB_TICKET_INTERFACE
      WHERE Status = 'Error' AND NextAttemptAt IS NULL AND FirstFailedAt IS NOT NULL AND DismissedAt IS NULL
      ORDER BY FirstFailedAt LIMIT :limit) AS g;
-- dialect: sqlserver
SELECT COUNT(*) AS Documents, MIN(g.FirstFailedAt) AS Since
FROM (SELECT TOP (:limit) FirstFailedAt FROM TB_TICKET_INTERFACE
      WHERE Status = 'Error' AND NextAttemptAt IS NULL AND FirstFailedAt IS NOT NULL AND DismissedAt IS NULL
      ORDER BY FirstFailedAt) AS g;
