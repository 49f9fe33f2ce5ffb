-- Functional acks as their senders see them; the delivery engine's queries are in channels.sql.

-- The CAST is for SQL Server: see counterparties.sql.

-- name: functional_ack_insert
-- dialect: sqlite, postgres
INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl, Status, CreatedAt, NextAttemptAt, ClientId,
                                      TraceParent)
VALUES (:business_doc_id, :payload, :target_url, 'Pending', :now, :now, :client, :trace)
RETURNING Id;
-- dialect: sqlserver
INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl, Status, CreatedAt, NextAttemptAt, ClientId,
                                      TraceParent)
OUTPUT inserted.Id
VALUES (:business_doc_id, :payload, :target_url, 'Pending', :now, :now, :client, :trace);

-- The owners of the documents that an ack may be about. The key of a ticket is entity and document, that of a
-- counterparty the document alone.
-- name: functional_ack_documents
SELECT ClientId FROM TB_TICKET_INTERFACE
WHERE BusinessEntity = CAST(:entity AS VARCHAR(101)) AND BusinessDocId = CAST(:doc AS VARCHAR(101))
UNION ALL
SELECT ClientId FROM TB_COUNTERPARTIES WHERE BusinessDocId = CAST(:doc AS VARCHAR(101));

-- template: acks.sqlt
-- with: name = functional_ack

-- template: acks.sqlt
-- with: name = own_functional_ack
-- with: whose = AND ClientId = :client
