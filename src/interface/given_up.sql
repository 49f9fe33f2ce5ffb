-- Tickets whose processing was given up and that wait for a person. A ticket that can never be valid is not one of them:
-- its sender was told, and no failure of processing stands in FirstFailedAt.

-- name: ticket_given_up
-- row: channel_given_up
-- dialect: sqlite
SELECT CAST(NULL AS VARCHAR(1)) AS Target, COUNT(*) AS Documents, MIN(g.FirstFailedAt) AS Oldest, MAX(g.EndedAt) AS Newest,
       CAST(NULL AS VARCHAR(1)) AS LastError
FROM (SELECT FirstFailedAt, COALESCE(UpdatedAt, FirstFailedAt) AS EndedAt
      FROM TB_TICKET_INTERFACE INDEXED BY IX_TB_TICKET_INTERFACE_ProcessingAwaitsPerson
      WHERE Status = 'Error' AND NextAttemptAt IS NULL AND FirstFailedAt IS NOT NULL AND DismissedAt IS NULL
      ORDER BY FirstFailedAt DESC
      LIMIT :rows) AS g;
-- dialect: postgres
SELECT CAST(NULL AS VARCHAR(1)) AS Target, COUNT(*) AS Documents, MIN(g.FirstFailedAt) AS Oldest, MAX(g.EndedAt) AS Newest,
       CAST(NULL AS VARCHAR(1)) AS LastError
FROM (SELECT FirstFailedAt, COALESCE(UpdatedAt, FirstFailedAt) AS EndedAt
      FROM TB_TICKET_INTERFACE
      WHERE Status = 'Error' AND NextAttemptAt IS NULL AND FirstFailedAt IS NOT NULL AND DismissedAt IS NULL
      ORDER BY FirstFailedAt DESC
      LIMIT :rows) AS g;
-- dialect: sqlserver
SELECT CAST(NULL AS VARCHAR(1)) AS Target, COUNT(*) AS Documents, MIN(g.FirstFailedAt) AS Oldest, MAX(g.EndedAt) AS Newest,
       CAST(NULL AS VARCHAR(1)) AS LastError
FROM (SELECT TOP (:rows) FirstFailedAt, COALESCE(UpdatedAt, FirstFailedAt) AS EndedAt
      FROM TB_TICKET_INTERFACE
      WHERE Status = 'Error' AND NextAttemptAt IS NULL AND FirstFailedAt IS NOT NULL AND DismissedAt IS NULL
      ORDER BY FirstFailedAt DESC) AS g;

-- name: ticket_given_up_total
SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE Status = 'Error' AND NextAttemptAt IS NULL AND FirstFailedAt IS NOT NULL AND DismissedAt IS NULL;
-- dialect: sqlite
SELECT COUNT(*) FROM TB_TICKET_INTERFACE INDEXED BY IX_TB_TICKET_INTERFACE_ProcessingAwaitsPerson
WHERE Status = 'Error' AND NextAttemptAt IS NULL AND FirstFailedAt IS NOT NULL AND DismissedAt IS NULL;

-- A person wants no more of it.
-- name: ticket_dismiss
UPDATE TB_TICKET_INTERFACE SET DismissedAt = :now
WHERE Id = :id AND Status = 'Error' AND NextAttemptAt IS NULL AND FirstFailedAt IS NOT NULL AND DismissedAt IS NULL;

-- name: ticket_dismissed
SELECT DismissedAt FROM TB_TICKET_INTERFACE WHERE Id = :id;
