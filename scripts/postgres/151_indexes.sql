-- No query needs this index: lists go by key, and what was not replayed has an index of its own.
DROP INDEX IF EXISTS IX_WebhookDeliveryFailures_CreatedAt;

-- Rows that are written and soon after settled: half of a page stays free, so that the second version is on the page of the
-- first, and the WAL has what changed instead of the whole row. Old pages stay as they are.
ALTER TABLE TB_FUNCTIONAL_ACK_OUTBOX SET (fillfactor = 45);
ALTER TABLE TB_TICKET_RETURN_OUTBOX SET (fillfactor = 45);
ALTER TABLE TB_TICKET_INTERFACE SET (fillfactor = 45);
ALTER TABLE IntegrationCalls SET (fillfactor = 45);
ALTER TABLE AlertDeliveries SET (fillfactor = 45);
ALTER TABLE WebhookDeliveries SET (fillfactor = 45);
