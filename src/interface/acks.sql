-- Functional acks as their senders see them; the delivery engine's queries are in channels.sql.

-- The CAST is for SQL Server: see counterparties.sql.

-- name: functional_ack_insert
-- dialect: sqlite, postgres
INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl, Status, CreatedAt, NextAttemptAt)
VALUES (:business_doc_id, :payload, :target_url, 'Pending', :now, :now)
RETURNING Id;
-- dialect: sqlserver
INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl, Status, CreatedAt, NextAttemptAt)
OUTPUT inserted.Id
VALUES (:business_doc_id, :payload, :target_url, 'Pending', :now, :now);

-- name: functional_ack_list
SELECT Id, BusinessDocId, TargetUrl, Status, AttemptCount, CreatedAt, LastAttemptAt, SentAt, NextAttemptAt, LastError
FROM TB_FUNCTIONAL_ACK_OUTBOX
WHERE BusinessDocId = CAST(:business_doc_id AS VARCHAR(101))
ORDER BY Id DESC
LIMIT :limit OFFSET :offset;
-- dialect: sqlserver
SELECT Id, BusinessDocId, TargetUrl, Status, AttemptCount, CreatedAt, LastAttemptAt, SentAt, NextAttemptAt, LastError
FROM TB_FUNCTIONAL_ACK_OUTBOX
WHERE BusinessDocId = CAST(:business_doc_id AS VARCHAR(101))
ORDER BY Id DESC
OFFSET :offset ROWS FETCH NEXT :limit ROWS ONLY;

-- name: functional_ack_count
SELECT COUNT(*) FROM TB_FUNCTIONAL_ACK_OUTBOX WHERE BusinessDocId = CAST(:business_doc_id AS VARCHAR(101));
