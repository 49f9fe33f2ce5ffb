-- The payloads of documents, for an answer; one of more than :room bytes is NULL, and is not fetched.

-- name: shown_ticket
-- dialect: sqlite
SELECT CASE WHEN LENGTH(CAST(RawPayloadJson AS BLOB)) <= :room THEN RawPayloadJson END,
       CASE WHEN LENGTH(CAST(CallbackPayloadJson AS BLOB)) <= :room THEN CallbackPayloadJson END
FROM TB_TICKET_INTERFACE
WHERE Id = :id;
-- dialect: postgres
SELECT CASE WHEN OCTET_LENGTH(RawPayloadJson) <= :room THEN RawPayloadJson END,
       CASE WHEN OCTET_LENGTH(CallbackPayloadJson) <= :room THEN CallbackPayloadJson END
FROM TB_TICKET_INTERFACE
WHERE Id = :id;
-- dialect: sqlserver
SELECT CASE WHEN DATALENGTH(RawPayloadJson) <= :room THEN RawPayloadJson END,
       CASE WHEN DATALENGTH(CallbackPayloadJson) <= :room THEN CallbackPayloadJson END
FROM TB_TICKET_INTERFACE
WHERE Id = :id;

-- name: shown_counterparty
-- dialect: sqlite
SELECT CASE WHEN LENGTH(CAST(RawPayload AS BLOB)) <= :room THEN RawPayload END, NULL
FROM TB_COUNTERPARTIES
WHERE Id = :id;
-- dialect: postgres
SELECT CASE WHEN OCTET_LENGTH(RawPayload) <= :room THEN RawPayload END, NULL
FROM TB_COUNTERPARTIES
WHERE Id = :id;
-- dialect: sqlserver
SELECT CASE WHEN DATALENGTH(RawPayload) <= :room THEN RawPayload END, CAST(NULL AS NVARCHAR(1))
FROM TB_COUNTERPARTIES
WHERE Id = :id;
