-- AuditLog: append-only record of sensitive operations.

-- name: audit_insert
INSERT INTO AuditLog (OccurredAt, Actor, Action, Target, ClientId, Ip, CorrelationId, DetailsJson)
VALUES (:occurred_at, :actor, :action, :target, :client_id, :ip, :correlation_id, :details);

-- name: audit_list
SELECT Id, OccurredAt, Actor, Action, Target, Ip, CorrelationId, DetailsJson
FROM AuditLog
ORDER BY Id DESC
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT Id, OccurredAt, Actor, Action, Target, Ip, CorrelationId, DetailsJson
FROM AuditLog
ORDER BY Id DESC
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- name: audit_count
SELECT COUNT(*) FROM AuditLog;
