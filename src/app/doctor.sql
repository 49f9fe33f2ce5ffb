-- What `dataflow doctor` asks a database.

-- name: doctor_database
-- dialect: sqlite
SELECT sqlite_version() AS Version, strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AS Now, '' AS DbUser, 1 AS MayWrite, 1 AS MayCreate;
-- dialect: postgres
SELECT current_setting('server_version') AS Version, clock_timestamp() AS Now, CAST(current_user AS text) AS DbUser,
       CASE WHEN current_setting('transaction_read_only') = 'on' THEN 0 ELSE 1 END AS MayWrite,
       CASE WHEN has_schema_privilege(current_schema(), 'CREATE') THEN 1 ELSE 0 END AS MayCreate;
-- dialect: sqlserver
SELECT CAST(SERVERPROPERTY('ProductVersion') AS NVARCHAR(128)) AS Version, SYSUTCDATETIME() AS Now, USER_NAME() AS DbUser,
       CASE WHEN DATABASEPROPERTYEX(DB_NAME(), 'Updateability') = N'READ_WRITE' THEN 1 ELSE 0 END AS MayWrite,
       COALESCE(HAS_PERMS_BY_NAME(DB_NAME(), N'DATABASE', N'CREATE TABLE'), 0) AS MayCreate;

-- name: doctor_rights
-- dialect: sqlite
SELECT 1 AS MaySelect, 1 AS MayInsert, 1 AS MayUpdate, 1 AS MayDelete WHERE :table <> '';
-- dialect: postgres
SELECT CASE WHEN has_table_privilege(to_regclass(:table), 'SELECT') THEN 1 ELSE 0 END AS MaySelect,
       CASE WHEN has_table_privilege(to_regclass(:table), 'INSERT') THEN 1 ELSE 0 END AS MayInsert,
       CASE WHEN has_table_privilege(to_regclass(:table), 'UPDATE') THEN 1 ELSE 0 END AS MayUpdate,
       CASE WHEN has_table_privilege(to_regclass(:table), 'DELETE') THEN 1 ELSE 0 END AS MayDelete;
-- dialect: sqlserver
SELECT COALESCE(HAS_PERMS_BY_NAME(:table, N'OBJECT', N'SELECT'), 0) AS MaySelect,
       COALESCE(HAS_PERMS_BY_NAME(:table, N'OBJECT', N'INSERT'), 0) AS MayInsert,
       COALESCE(HAS_PERMS_BY_NAME(:table, N'OBJECT', N'UPDATE'), 0) AS MayUpdate,
       COALESCE(HAS_PERMS_BY_NAME(:table, N'OBJECT', N'DELETE'), 0) AS MayDelete;

-- Clients to which the upgrade gave interface-all, and which still have it.
-- name: doctor_widened
SELECT DISTINCT c.ClientIdentifier
FROM AuditLog AS a
JOIN Clients AS c ON c.Id = a.ClientId
WHERE a.Action = 'ClientScopesWidened' AND c.Scopes LIKE '%interface-all%'
ORDER BY c.ClientIdentifier;

-- Whether space of removed rows goes back to the file system: only a new SQLite file, or one that was written anew, does so.
-- Servers use it again by themselves.
-- name: doctor_space
-- dialect: sqlite
SELECT v.auto_vacuum AS GivesBack FROM pragma_auto_vacuum AS v;
-- dialect: postgres, sqlserver
SELECT 2 AS GivesBack;

-- Whether a backup was made since then, and whether the database is older than that.
-- name: doctor_backup
SELECT (SELECT COUNT(*) FROM AuditLog WHERE OccurredAt >= :since AND Action = 'BackupMade' AND Outcome = 'ok') AS Made,
       CASE WHEN EXISTS (SELECT 1 FROM AuditLog WHERE OccurredAt < :since) THEN 1 ELSE 0 END AS Older;

-- The newest entry of the audit log and the newest documents: after a restore, what came later is not there.
-- name: doctor_newest
SELECT (SELECT MAX(OccurredAt) FROM AuditLog) AS LastEntry, (SELECT MAX(CreatedAt) FROM ImportBatch) AS LastBatch,
       (SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE NextAttemptAt IS NOT NULL) AS Tickets,
       (SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE GatewaySendNextAttemptAt IS NOT NULL)
           + (SELECT COUNT(*) FROM TB_FUNCTIONAL_ACK_OUTBOX WHERE NextAttemptAt IS NOT NULL)
           + (SELECT COUNT(*) FROM TB_TICKET_RETURN_OUTBOX WHERE NextAttemptAt IS NOT NULL)
           + (SELECT COUNT(*) FROM IntegrationCalls WHERE NextAttemptAt IS NOT NULL)
           + (SELECT COUNT(*) FROM WebhookDeliveries WHERE NextAttemptAt IS NOT NULL) AS Deliveries,
       (SELECT COUNT(*) FROM Erasures) AS Erasures;

-- Documents that wait and are due at no time: nobody would ever take them.
-- name: doctor_forgotten
SELECT (SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE Status IN ('Awaiting', 'Processing') AND NextAttemptAt IS NULL)
           + (SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE GatewaySendStatus IN ('Pending', 'Sending') AND GatewaySendNextAttemptAt IS NULL)
           + (SELECT COUNT(*) FROM TB_FUNCTIONAL_ACK_OUTBOX WHERE Status IN ('Pending', 'Sending') AND NextAttemptAt IS NULL)
           + (SELECT COUNT(*) FROM TB_TICKET_RETURN_OUTBOX WHERE Status IN ('Pending', 'Sending') AND NextAttemptAt IS NULL)
           + (SELECT COUNT(*) FROM IntegrationCalls WHERE Status IN ('Pending', 'Sending') AND NextAttemptAt IS NULL)
           + (SELECT COUNT(*) FROM WebhookDeliveries WHERE Status IN ('Pending', 'Sending') AND NextAttemptAt IS NULL) AS Forgotten,
       (SELECT COUNT(*) FROM ImportBatch WHERE Status IN (0, 1, 2) AND UploadPath IS NULL AND RemovingAt IS NULL) AS Fileless;
