-- Tickets whose processing was given up and that wait for a person. A ticket that can never be valid is not one of them:
-- its sender was told, and no failure of processing stands in FirstFailedAt.

-- name: ticket_given_up
-- row: channel_given_up
-- dialect: sqlite
SELECT CAST(NULL AS VARCHAR(1)) AS Target, COUNT(*) AS Documents, MIN(g.FirstFailedAt) AS Oldest, MAX(g.EndedAt) AS Newest,
       CAST(NULL AS VARCHAR(1)) AS LastError
FROM (SELECT FirstFailedAt, COALESCE(UpdatedAt, FirstFailedAt) AS EndedAt
      FROM TB_TICKET_INTERFACE INDEXED BY IX_TB_TICKET_INTERFACE_NotProcessed
      WHERE Status = 'Error' AND NextAttemptAt IS NULL AND FirstFailedAt IS NOT NULL
      ORDER BY FirstFailedAt DESC
      LIMIT :rows) AS g;
-- dialect: postgres
SELECT CAST(NULL AS VARCHAR(1)) AS Target, COUNT(*) AS Documents, MIN(g.FirstFailedAt) AS Oldest, MAX(g.EndedAt) AS Newest,
       CAST(NULL AS VARCHAR(1)) AS LastError
FROM (SELECT FirstFailedAt, COALESCE(UpdatedAt, FirstFailedAt) AS EndedAt
      FROM TB_TICKET_INTERFACE
      WHERE Status = 'Error' AND NextAttemptAt IS NULL AND FirstFailedAt IS NOT NULL
      ORDER BY FirstFailedAt DESC
      LIMIT :rows) AS g;
-- dialect: sqlserver
SELECT CAST(NULL AS VARCHAR(1)) AS Target, COUNT(*) AS Documents, MIN(g.FirstFailedAt) AS Oldest, MAX(g.EndedAt) AS Newest,
       CAST(NULL AS VARCHAR(1)) AS LastError
FROM (SELECT TOP (:rows) FirstFailedAt, COALESCE(UpdatedAt, FirstFailedAt) AS EndedAt
      FROM TB_TICKET_INTERFACE
      WHERE Status = 'Error' AND NextAttemptAt IS NULL AND FirstFailedAt IS NOT NULL
      ORDER BY FirstFailedAt DESC) AS g;

-- name: ticket_given_up_total
SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE Status = 'Error' AND NextAttemptAt IS NULL AND FirstFailedAt IS NOT NULL;
-- dialect: sqlite
SELECT COUNT(*) FROM TB_TICKET_INTERFACE INDEXED BY IX_TB_TICKET_INTERFACE_NotProcessed
WHERE Status = 'Error' AND NextAttemptAt IS NULL AND FirstFailedAt IS NOT NULL;
