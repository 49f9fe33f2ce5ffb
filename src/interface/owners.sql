-- The owner of a document, and giving the document to another client.

-- The row is locked until the commit: a second call that gives it away waits.
-- name: ticket_owner
-- row: owner
-- dialect: sqlite
SELECT t.BusinessEntity, t.BusinessDocId, t.ClientId, c.ClientIdentifier
FROM TB_TICKET_INTERFACE AS t LEFT JOIN Clients AS c ON c.Id = t.ClientId
WHERE t.Id = :id;
-- dialect: postgres
SELECT t.BusinessEntity, t.BusinessDocId, t.ClientId, c.ClientIdentifier
FROM TB_TICKET_INTERFACE AS t LEFT JOIN Clients AS c ON c.Id = t.ClientId
WHERE t.Id = :id
FOR UPDATE OF t;
-- dialect: sqlserver
SELECT t.BusinessEntity, t.BusinessDocId, t.ClientId, c.ClientIdentifier
FROM TB_TICKET_INTERFACE AS t WITH (UPDLOCK, ROWLOCK) LEFT JOIN Clients AS c ON c.Id = t.ClientId
WHERE t.Id = :id;

-- name: counterparty_owner
-- row: owner
-- dialect: sqlite
SELECT p.BusinessEntity, p.BusinessDocId, p.ClientId, c.ClientIdentifier
FROM TB_COUNTERPARTIES AS p LEFT JOIN Clients AS c ON c.Id = p.ClientId
WHERE p.Id = :id;
-- dialect: postgres
SELECT p.BusinessEntity, p.BusinessDocId, p.ClientId, c.ClientIdentifier
FROM TB_COUNTERPARTIES AS p LEFT JOIN Clients AS c ON c.Id = p.ClientId
WHERE p.Id = :id
FOR UPDATE OF p;
-- dialect: sqlserver
SELECT p.BusinessEntity, p.BusinessDocId, p.ClientId, c.ClientIdentifier
FROM TB_COUNTERPARTIES AS p WITH (UPDLOCK, ROWLOCK) LEFT JOIN Clients AS c ON c.Id = p.ClientId
WHERE p.Id = :id;

-- name: ticket_give
UPDATE TB_TICKET_INTERFACE SET ClientId = :client WHERE Id = :id;

-- name: counterparty_give
UPDATE TB_COUNTERPARTIES SET ClientId = :client WHERE Id = :id;

-- An ack belongs to the client of its document, and knows only the document's id. If the previous client has another
-- document under that id (another phase of the ticket), it keeps the acks. `nobody` is 1 if the document had no client
-- before.
-- name: functional_acks_give
UPDATE TB_FUNCTIONAL_ACK_OUTBOX
SET ClientId = :client
WHERE BusinessDocId = CAST(:doc AS VARCHAR(101))
  AND (ClientId = :before OR (CAST(:nobody AS INT) = 1 AND ClientId IS NULL))
  AND NOT EXISTS (SELECT 1 FROM TB_TICKET_INTERFACE AS t
                  WHERE t.BusinessEntity = CAST(:entity AS VARCHAR(101)) AND t.BusinessDocId = CAST(:doc AS VARCHAR(101))
                    AND (t.ClientId = :before OR (CAST(:nobody AS INT) = 1 AND t.ClientId IS NULL)))
  AND NOT EXISTS (SELECT 1 FROM TB_COUNTERPARTIES AS p
                  WHERE p.BusinessDocId = CAST(:doc AS VARCHAR(101))
                    AND (p.ClientId = :before OR (CAST(:nobody AS INT) = 1 AND p.ClientId IS NULL)));
