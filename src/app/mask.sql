-- Older rows brought up to date: items, callbacks, and free text (dataflow mask).

-- Items of batches that are over.
-- name: mask_items
SELECT i.Id, i.BatchId, i.Sequence, i.Status, i.PayloadJson, i.OriginalJson, i.ChunkId, b.CompletedAt
FROM ImportItem AS i
JOIN ImportBatch AS b ON b.Id = i.BatchId
WHERE i.Id > :after AND i.IsMasked = :unmasked AND b.Status IN (3, 4, 5, 6)
ORDER BY i.Id LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) i.Id, i.BatchId, i.Sequence, i.Status, i.PayloadJson, i.OriginalJson, i.ChunkId, b.CompletedAt
FROM ImportItem AS i
JOIN ImportBatch AS b ON b.Id = i.BatchId
WHERE i.Id > :after AND i.IsMasked = :unmasked AND b.Status IN (3, 4, 5, 6)
ORDER BY i.Id;

-- A retry may have been asked for meanwhile.
-- name: mask_item
UPDATE ImportItem SET PayloadJson = :payload, PayloadHash = :hash, OriginalJson = NULL, IsMasked = :masked
WHERE Id = :id AND IsMasked = :unmasked
  AND EXISTS (SELECT 1 FROM ImportBatch AS b WHERE b.Id = ImportItem.BatchId AND b.Status IN (3, 4, 5, 6));

-- name: mask_keep
INSERT INTO ImportKept (BatchId, Sequence, KeyId, Sealed, CreatedAt) VALUES (:batch, :sequence, :key, :sealed, :now);

-- Comes first: until the end of the transaction no retry of the batch begins. A batch in work has no KeptUntil, since
-- what is kept must not go before it is over.
-- name: mask_keep_until
UPDATE ImportBatch SET KeptUntil = COALESCE(KeptUntil, :until) WHERE Id = :batch AND Status IN (3, 4, 5, 6);

-- name: mask_callbacks
SELECT Id, CallbackPayloadJson FROM TB_TICKET_INTERFACE
WHERE Id > :after AND CallbackPayloadJson IS NOT NULL AND CallbackHash IS NULL
ORDER BY Id LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Id, CallbackPayloadJson FROM TB_TICKET_INTERFACE
WHERE Id > :after AND CallbackPayloadJson IS NOT NULL AND CallbackHash IS NULL
ORDER BY Id;

-- name: mask_callback
UPDATE TB_TICKET_INTERFACE SET CallbackPayloadJson = :payload, CallbackHash = :hash
WHERE Id = :id AND CallbackHash IS NULL AND CallbackPayloadJson = :old;

-- --- free text ---

-- template: mask_text.sqlt
-- with: name = mask_item_error
-- with: table = ImportItem
-- with: key = Id
-- with: column = ErrorMessage

-- template: mask_text.sqlt
-- with: name = mask_batch_error
-- with: table = ImportBatch
-- with: key = Id
-- with: column = LastError

-- template: mask_text.sqlt
-- with: name = mask_batch_summary
-- with: table = ImportBatch
-- with: key = Id
-- with: column = ErrorSummary

-- template: mask_text.sqlt
-- with: name = mask_batch_metadata
-- with: table = ImportBatch
-- with: key = Id
-- with: column = MetadataJson

-- template: mask_text.sqlt
-- with: name = mask_batch_columns
-- with: table = ImportBatch
-- with: key = Id
-- with: column = ColumnsJson

-- template: mask_text.sqlt
-- with: name = mask_batch_requested
-- with: table = ImportBatch
-- with: key = Id
-- with: column = RequestedBy

-- Only of batches that are over: until then the name is the file's.
-- name: mask_batch_file_read
-- row: free_text
SELECT Id AS RowKey, FileName AS Body FROM ImportBatch
WHERE Id > :after AND FileName IS NOT NULL AND Status IN (3, 4, 5, 6) ORDER BY Id LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Id AS RowKey, FileName AS Body FROM ImportBatch
WHERE Id > :after AND FileName IS NOT NULL AND Status IN (3, 4, 5, 6) ORDER BY Id;

-- name: mask_batch_file_write
UPDATE ImportBatch SET FileName = :text WHERE Id = :key AND FileName = :old AND Status IN (3, 4, 5, 6);

-- template: mask_text.sqlt
-- with: name = mask_chunk_error
-- with: table = ImportChunk
-- with: key = Id
-- with: column = ErrorMessage

-- template: mask_text.sqlt
-- with: name = mask_chunk_ack
-- with: table = ImportChunk
-- with: key = Id
-- with: column = AckJson

-- template: mask_text.sqlt
-- with: name = mask_ticket_error
-- with: table = TB_TICKET_INTERFACE
-- with: key = Id
-- with: column = LastError

-- template: mask_text.sqlt
-- with: name = mask_ticket_return
-- with: table = TB_TICKET_INTERFACE
-- with: key = Id
-- with: column = ReturnLastError

-- template: mask_text.sqlt
-- with: name = mask_ticket_gateway
-- with: table = TB_TICKET_INTERFACE
-- with: key = Id
-- with: column = GatewaySendLastError

-- template: mask_text.sqlt
-- with: name = mask_ticket_callback
-- with: table = TB_TICKET_INTERFACE
-- with: key = Id
-- with: column = CallbackMessage

-- As by the template, for a VARCHAR.
-- name: mask_ticket_code_read
-- row: free_text
SELECT Id AS RowKey, CallbackCode AS Body FROM TB_TICKET_INTERFACE
WHERE Id > :after AND CallbackCode IS NOT NULL ORDER BY Id LIMIT :limit;
-- dialect: sqlserver
SELECT TOP (:limit) Id AS RowKey, CallbackCode AS Body FROM TB_TICKET_INTERFACE
WHERE Id > :after AND CallbackCode IS NOT NULL ORDER BY Id;

-- name: mask_ticket_code_write
UPDATE TB_TICKET_INTERFACE SET CallbackCode = :text WHERE Id = :key AND CallbackCode = CAST(:old AS VARCHAR(51));

-- template: mask_text.sqlt
-- with: name = mask_counterparty
-- with: table = TB_COUNTERPARTIES
-- with: key = Id
-- with: column = StatusMessage

-- template: mask_text.sqlt
-- with: name = mask_ack_outbox
-- with: table = TB_FUNCTIONAL_ACK_OUTBOX
-- with: key = Id
-- with: column = LastError

-- template: mask_text.sqlt
-- with: name = mask_return_outbox
-- with: table = TB_TICKET_RETURN_OUTBOX
-- with: key = Id
-- with: column = LastError

-- template: mask_text.sqlt
-- with: name = mask_call_error
-- with: table = IntegrationCalls
-- with: key = Id
-- with: column = LastError

-- template: mask_text.sqlt
-- with: name = mask_alert_delivery
-- with: table = AlertDeliveries
-- with: key = Id
-- with: column = LastError

-- template: mask_text.sqlt
-- with: name = mask_webhook_delivery
-- with: table = WebhookDeliveries
-- with: key = Id
-- with: column = LastError

-- template: mask_text.sqlt
-- with: name = mask_webhook_failure
-- with: table = WebhookDeliveryFailures
-- with: key = Id
-- with: column = LastError

-- template: mask_text.sqlt
-- with: name = mask_attempt_answer
-- with: table = DeliveryAttempts
-- with: key = Id
-- with: column = Answer

-- template: mask_text.sqlt
-- with: name = mask_attempt_error
-- with: table = DeliveryAttempts
-- with: key = Id
-- with: column = Error

-- template: mask_text.sqlt
-- with: name = mask_target_error
-- with: table = DeliveryTargets
-- with: key = Id
-- with: column = LastError

-- template: mask_text.sqlt
-- with: name = mask_target_given_up
-- with: table = DeliveryTargets
-- with: key = Id
-- with: column = GivenUpError

-- template: mask_text.sqlt
-- with: name = mask_event_error
-- with: table = outbox_events
-- with: key = id
-- with: column = last_error

-- template: mask_text.sqlt
-- with: name = mask_alert_summary
-- with: table = Alerts
-- with: key = Id
-- with: column = Summary

-- template: mask_text.sqlt
-- with: name = mask_alert_details
-- with: table = Alerts
-- with: key = Id
-- with: column = DetailsJson
