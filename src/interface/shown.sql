-- The payloads of documents, for an answer. A payload of more than :room bytes is NULL and not fetched.

-- name: shown_ticket
-- row: shown
-- dialect: sqlite
SELECT CASE WHEN LENGTH(CAST(RawPayloadJson AS BLOB)) <= :room THEN RawPayloadJson END AS Raw,
       CASE WHEN LENGTH(CAST(CallbackPayloadJson AS BLOB)) <= :room THEN CallbackPayloadJson END AS Callback
FROM TB_TICKET_INTERFACE
WHERE Id = :id;
-- dialect: postgres
SELECT CASE WHEN OCTET_LENGTH(RawPayloadJson) <= :room THEN RawPayloadJson END AS Raw,
       CASE WHEN OCTET_LENGTH(CallbackPayloadJson) <= :room THEN CallbackPayloadJson END AS Callback
FROM TB_TICKET_INTERFACE
WHERE Id = :id;
-- dialect: sqlserver
SELECT CAST(CASE WHEN DATALENGTH(RawPayloadJson) <= :room THEN RawPayloadJson END AS NVARCHAR(MAX)) AS Raw,
       CAST(CASE WHEN DATALENGTH(CallbackPayloadJson) <= :room THEN CallbackPayloadJson END AS NVARCHAR(MAX)) AS Callback
FROM TB_TICKET_INTERFACE
WHERE Id = :id;

-- name: shown_counterparty
-- row: shown
-- dialect: sqlite
SELECT CASE WHEN LENGTH(CAST(RawPayload AS BLOB)) <= :room THEN RawPayload END AS Raw, NULL AS Callback
FROM TB_COUNTERPARTIES
WHERE Id = :id;
-- dialect: postgres
SELECT CASE WHEN OCTET_LENGTH(RawPayload) <= :room THEN RawPayload END AS Raw, NULL AS Callback
FROM TB_COUNTERPARTIES
WHERE Id = :id;
-- dialect: sqlserver
SELECT CAST(CASE WHEN DATALENGTH(RawPayload) <= :room THEN RawPayload END AS NVARCHAR(MAX)) AS Raw, CAST(NULL AS NVARCHAR(1)) AS Callback
FROM TB_COUNTERPARTIES
WHERE Id = :id;
